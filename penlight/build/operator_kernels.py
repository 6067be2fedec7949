"""What a library needs for models that are known by the torch operators they call, and by nothing else (an operator list of PyTorch's):
names in, a Selection out, with the VM's operators of these names and every kernel that may compute one of them.

Planned code does not say which kernels come of an operator: its converter is a Python function. So its code is read for the names of
nodes that it can emit, it and all that it calls; passes make others of some of them (MADE_OF). For what torch takes apart before any
converter sees it, the kernels count that the VM's operator of that name uses. All this in every dtype: who has the model file gets
less by giving that.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penlight.build.model_selection import selection_of_calls
from penlight.build.reach import all_keys
from penlight.build.selection import Selection
from penlight.ops import registry
from penlight.ops.emitter import Emitter
from penlight.ops.registry import Op
from penlight.ops.vm_operators import operators

# Nodes that passes and lowering make, and of which: any one of the sets is enough.
MADE_OF: dict[str, list[set[str]]] = {
    "attention": [{"matmul", "softmax"}],
    "linear": [{"matmul"}],
    "pack": [{"conv2d"}, {"conv3d"}, {"linear"}, {"matmul"}],
    "expand_depthwise": [{"conv2d"}],
    "silu": [{"mul", "sigmoid"}],
    "hardsigmoid": [{"clamp", "add", "mul"}, {"clamp", "add", "div"}],
    "hardswish": [{"clamp", "add", "mul"}, {"clamp", "add", "div"}, {"hardsigmoid", "mul"}],
    "gelu": [{"erf", "mul", "add"}],
    "gelu_tanh": [{"tanh", "mul", "add"}],
    "mish": [{"tanh", "softplus", "mul"}],
    "max_pool2d": [{"max_pool_indices"}],
    "max_pool3d": [{"max_pool_indices"}],
    "adaptive_max_pool2d": [{"adaptive_max_pool_indices"}],
    "adaptive_max_pool3d": [{"adaptive_max_pool_indices"}],
    "amax": [{"adaptive_max_pool_indices"}],
    **{name: [{"batch_norm"}] for name in ("add", "mul", "sub", "neg", "rsqrt")},
}
ALWAYS = {"copy", "permute", "reshape", "cast"}  # what lays values as others need them


def selection_of_operators(names: Iterable[str]) -> Selection:
    """For models that call these: torch's names, with overloads. Those that neither the VM nor a converter knows add nothing."""
    wanted = set(names)
    interpreted = selection_of_calls(wanted)
    found = planned_nodes(wanted, {key.partition(".")[0] for key in interpreted.keys or ()})
    planned = frozenset(key for key in all_keys() if key.partition(".")[0] in found)
    return interpreted | Selection(planned, frozenset(), vm=False)


def planned_nodes(names: Iterable[str], others: Iterable[str] = ()) -> set[str]:
    """The nodes that planned code may have where models call these operators, or where it has those others."""
    found = {*others, *ALWAYS, *(op for name in names for op in nodes_of(name))}
    while more := {new for new, sources in MADE_OF.items() if new not in found and any(s <= found for s in sources)}:
        found |= more
    return found


def is_known(name: str) -> bool:
    """Whether models that call it can run here at all."""
    return name in operators() or bool(_converters(name))


def nodes_of(name: str) -> set[str]:
    """The nodes that planned code may have for a call of this operator."""
    # which would name them all; and what happens to quantized tensors, which these operators do not make
    seen = {id(table) for table in (registry.OPS, *_tables(), Emitter._with_quant)}
    return {op for converter in _converters(name) for op in _named_by(converter, seen)}


def _tables() -> tuple[dict[str, Callable[..., Any]], ...]:
    registry.load_all()
    return registry.ATEN, registry.COMPOSITES, registry.COMPLEX


def _converters(name: str) -> list[Callable[..., Any]]:
    """In-place forms are captured as what they compute; a composite's are those of the torch functions and methods that it calls."""
    short = name.removeprefix("aten::")
    base, dot, overload = short.partition(".")
    forms = {short, base.removesuffix("_") + dot + overload}
    found = [table[form] for form in sorted(forms) for table in _tables() if form in table]
    called = {
        n for fn in found if fn in registry.COMPOSITES.values() for code in _codes(fn.__code__) for n in code.co_names
    }
    return found + [fn for n, fn in registry.ATEN.items() if n.partition(".")[0] in called]


def _named_by(thing: Any, seen: set[int]) -> Iterator[str]:
    """Operators that a function may emit: names in its constants, Ops and functions that it refers to, and those of Emitter."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    parts: Iterable[Any] = ()
    if isinstance(thing, str) and thing in registry.OPS:
        yield thing
    elif isinstance(thing, Op):
        yield thing.name
    elif isinstance(thing, (list, tuple, set, frozenset)):
        parts = thing
    elif isinstance(thing, dict):
        parts = thing.values()
    elif isinstance(thing, types.FunctionType) and thing.__module__.startswith("penlight."):
        codes = list(_codes(thing.__code__))
        names = {name for code in codes for name in code.co_names}
        parts = [
            *(constant for code in codes for constant in code.co_consts),
            *(thing.__globals__.get(name) for name in names),
            *(getattr(Emitter, name, None) for name in names),
            *(cell.cell_contents for cell in thing.__closure__ or ()),
        ]
    for part in parts:
        yield from _named_by(part, seen)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
