"""nn.Module → Program, through torch.export: example inputs and dynamic shapes as people pass them, errors in words."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from penlight.capture.export.detection import exportable_detectors
from penlight.capture.export.exported_program import capture_exported
from penlight.capture.export.recurrence import free_steps
from penlight.capture.export.size_decisions import UndecidedError
from penlight.capture.export.state import NOT_CONVERTED
from penlight.capture.quiet import quiet
from penlight.errors import CaptureError, ExampleError
from penlight.ir.dims import Dim as Size
from penlight.ir.dims import evaluate, symbols_of
from penlight.ir.graph import Method, Program


def capture_module(
    module: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    say: Callable[[str], None] = lambda text: None,
) -> Program:
    """Captures `module(*args, **kwargs)` in eval mode. `dynamic_shapes`: as torch.export takes it, or "auto"."""
    args, keywords = prepare_inputs(args, kwargs or {})
    with evaluating(module):
        return capture_shapes(module, args, keywords, dynamic_shapes, {}, say)


def capture_shapes(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    decided: Mapping[Any, str],
    say: Callable[[str], None] = lambda text: None,
) -> Program:
    """Exports and converts. With "auto", a batch of 1 is free too if the model also takes 2: torch by itself fixes sizes of 1."""
    if dynamic_shapes != "auto":
        names = dim_names(module, args, kwargs, dynamic_shapes)
        return capture_exported(export(module, args, kwargs, dynamic_shapes), names, decided)
    program = _capture_batch(module, args, kwargs, decided) or _capture_auto(module, args, kwargs, decided)
    inputs = program.methods["forward"].graph.inputs
    fixed = [
        f"{v.name}: {', '.join(f'dim {i} = {d}' for i, d in enumerate(v.shape) if isinstance(d, int))}" for v in inputs
    ]
    if any("=" in text for text in fixed):
        say(f"sizes that the model's code fixes: {'; '.join(text for text in fixed if '=' in text)}")
    return program


def _capture_auto(module: nn.Module, args: Any, kwargs: Any, decided: Mapping[Any, str]) -> Program:
    """Exports with every size free; then again without those that the model's code turns out to fix, until none is left."""
    fixed: set[tuple[int, int]] = set()
    while True:
        ep = export(module, args, kwargs, auto_shapes(module, args, kwargs, fixed))
        try:
            program = capture_exported(ep, None, decided)
            _raise_least(module, ep, program.methods["forward"], args, kwargs)
            return program
        except UndecidedError as e:
            placed = places(ep, e.symbols)
            if placed <= fixed:
                raise
            fixed |= placed


def _capture_batch(module: nn.Module, args: Any, kwargs: Any, decided: Mapping[Any, str]) -> Program | None:
    """The same with two of everything that comes as a batch of one; None where nothing does, or the model does not allow it."""

    def doubled(x: Any) -> Any:
        return torch.cat([x, x]) if _is_single(x) else x

    if not any(map(_is_single, pytree.tree_leaves((args, kwargs)))):
        return None
    try:
        _run(module, pytree.tree_map(doubled, args), pytree.tree_map(doubled, kwargs))
    except Exception:  # the model's own, whatever it is: its code wants a batch of one
        return None
    program = _capture_auto(module, pytree.tree_map(doubled, args), pytree.tree_map(doubled, kwargs), decided)
    method = program.methods["forward"]
    single = [_is_single(x) for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    for value, was in zip(method.graph.inputs, single, strict=False):
        batch = value.shape[0] if was else None
        if isinstance(batch, int):
            return None
        if batch is not None and batch.op == "sym":
            if method.symbols[str(batch)].min > 1:
                return None
            method.symbols[str(batch)].hint = 1
    return program


def _run(module: nn.Module, args: Any, kwargs: Any) -> Any:
    """On copies of its buffers, which it may write into; with the same random numbers each time."""
    with torch.no_grad(), quiet(), torch.random.fork_rng([]):
        torch.manual_seed(0)
        return torch.func.functional_call(module, {n: b.clone() for n, b in module.named_buffers()}, args, kwargs)


def _same(a: Any, b: Any) -> bool:
    """Whether two runs gave the same, but for rounding."""
    pairs = itertools.zip_longest(pytree.tree_leaves(a), pytree.tree_leaves(b))
    return all(
        isinstance(y, torch.Tensor)
        and (x.shape, x.dtype) == (y.shape, y.dtype)
        and torch.allclose(x, y, 1e-3, 1e-3, equal_nan=True)
        if isinstance(x, torch.Tensor)
        else x == y
        for x, y in pairs
    )


def _raise_least(module: nn.Module, ep: ExportedProgram, method: Method, args: Any, kwargs: Any) -> None:
    """Takes sizes 0 and 1 out of the ranges where the module gives other results for them than what was captured (`if n > 1`), or
    results of another shape (squeeze, chunk). torch does not check that: it takes every free size for 2 or more."""
    given, spec = pytree.tree_flatten((args, kwargs))
    results = [method.graph.outputs[i] for i in _tensors(method.output_spec)]
    hints = {name: r.hint for name, r in method.symbols.items() if r.hint is not None}
    graph = functools.cache(lambda: ep.module(check_guards=False))
    for name, known in method.symbols.items():
        for size in (1, 0):
            env = {**hints, name: size}
            if len(hints) < len(method.symbols) or known.min > size:
                continue
            try:
                shapes = iter([_at(v.shape, env) for v in method.graph.inputs])
                planned = [_at(v.shape, env) for v in results]
            except ZeroDivisionError:  # of a size by a size
                known.min = size + 1
                continue
            small = [_cut(x, next(shapes)) if isinstance(x, torch.Tensor) else x for x in given]
            try:
                made = _run(module, *pytree.tree_unflatten(small, spec))
            except Exception:  # the model's own: it does not take this size
                continue
            tensors = [list(x.shape) for x in pytree.tree_leaves(made) if isinstance(x, torch.Tensor)]
            other = any(_differ(x, y) for x, y in itertools.zip_longest(tensors, planned))
            if other or not _same(made, _run(graph(), *pytree.tree_unflatten(small, spec))):
                known.min = size + 1


def _at(shape: Sequence[Size], env: Mapping[str, int]) -> list[int | None]:
    """Sizes that follow from data are None."""
    return [evaluate(d, env) if symbols_of(d) <= env.keys() else None for d in shape]


def _differ(shape: list[int] | None, planned: list[int | None] | None) -> bool:
    if shape is None or planned is None or len(shape) != len(planned):
        return True
    return any(p not in (size, None) for size, p in zip(shape, planned, strict=True))


def _tensors(spec: Any) -> Iterator[int]:
    """The numbers of the tensors in an output spec, in order."""
    if isinstance(spec, int):
        yield spec
        return
    ((kind, inside),) = spec.items()
    if kind == "complex":
        yield inside[0]
    elif kind in ("tuple", "list", "dict", "ordered_dict", "dict_items", "namedtuple"):
        inside = inside[1] if kind == "namedtuple" else dict(inside) if kind == "dict_items" else inside
        for part in inside.values() if isinstance(inside, dict) else inside:
            yield from _tensors(part)


def _cut(x: torch.Tensor, shape: list[int | None]) -> torch.Tensor:
    for dim, size in enumerate(shape):
        x = x.narrow(dim, 0, size or 0)
    return x


def _is_single(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dim() > 1 and x.shape[0] == 1


def places(ep: ExportedProgram, symbols: frozenset[str]) -> set[tuple[int, int]]:
    """(flat input, dim) of the sizes that depend on these symbols of torch's."""
    user = [n for n in ep.graph.nodes if n.op == "placeholder" and n.name in ep.graph_signature.user_inputs]
    found: set[tuple[int, int]] = set()
    for index, node in enumerate(user):
        val = node.meta.get("val")
        for i, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and symbols & {str(s) for s in size.node.expr.free_symbols}:
                found.add((index, i))
    return found


def prepare_inputs(args: Any, kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A lone tensor is one argument; numpy arrays become tensors. A tensor that is passed twice is copied: torch.export
    would take both for one input, and compile in that they are equal."""
    if isinstance(args, (torch.Tensor, np.ndarray, Mapping)):
        args = (args,)
    seen: set[int] = set()

    def distinct(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(x))
        if isinstance(x, torch.Tensor):
            if id(x) in seen:
                return x.clone()
            seen.add(id(x))
        return x

    return pytree.tree_map(distinct, tuple(args)), pytree.tree_map(distinct, dict(kwargs))


def auto_shapes(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], fixed: set[tuple[int, int]]
) -> dict[str, Any]:
    """Every dim larger than 1 of every input may vary, unless torch finds it fixed, or it is in `fixed`: (tensor, dim)."""
    count = itertools.count()

    def leaf(x: Any) -> Any:
        index = next(count)
        if not isinstance(x, torch.Tensor):
            return None
        return {i: Dim.AUTO for i, size in enumerate(x.shape) if size > 1 and (index, i) not in fixed}

    bound = _bound(module, args, kwargs)
    ordered = [*(n for n in bound if n not in kwargs), *kwargs]  # the order in which torch flattens them
    return {name: pytree.tree_map(leaf, bound[name]) for name in ordered if name in bound}


def _bound(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        return inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise ExampleError(f"the example inputs do not fit {type(module).__name__}.forward: {e}") from None


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module and all below it in eval mode; afterwards each as it was."""
    training = [m for m in module.modules() if getattr(m, "training", False)]  # frozen ones have no such attribute
    try:
        try:
            module.eval()
        except NotImplementedError:  # what torch.export and prepare_pt2e gave: its mode is part of its graph
            training = []
        yield
    finally:
        for m in training:
            m.training = True


def export(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    """torch.export with its failures explained. Without gradients: else each `no_grad` block is a graph of its own."""
    _bound(module, args, kwargs)
    try:
        with quiet(), torch.no_grad(), free_steps(), exportable_detectors():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except CaptureError:
        raise
    except Exception as e:
        if any("ObserverBase" in (c.__name__ for c in type(m).__mro__) for m in module.modules()):  # torch's, torchao's
            raise CaptureError(NOT_CONVERTED) from e
        notes = "".join(f"\n  {n}" for n in getattr(e, "__notes__", []))
        explanation, kind = explain(e)
        raise kind(f"{explanation}\n\ntorch.export says: {type(e).__name__}: {_shortened(str(e))}{notes}") from e


_EXPLANATIONS = (
    (
        ("GuardOnDataDependent", "data-dependent", "Dynamic control flow is not supported"),
        "The model's Python code depends on the values of a tensor (an `if`, a loop or a size computed from data), so there is no"
        " one graph to capture. Compute both sides and choose with torch.where, take that part out of the model, or pass"
        " torch.jit.script(model): what cannot be planned of that is interpreted.",
        CaptureError,
    ),
    (
        ("ConstraintViolation", "Constraints violated", "violates the constraint", "marked as dynamic but"),
        "dynamic_shapes lets a dim vary that the model's code fixes, or relates to another one. Use Dim.AUTO for it, or"
        ' dynamic_shapes="auto": then torch keeps static what has to be.',
        CaptureError,
    ),
    (
        ("mismatch between the structure of `inputs` and `dynamic_shapes`", "top-level keys must be the arg names"),
        "dynamic_shapes must have the structure of the example inputs: a dict by argument name, or a tuple with one entry per"
        " argument; each tensor {dim: Dim} or None.",
        ExampleError,
    ),
    (
        ("Unsupported input type", "unsupported type", "register_dataclass", "Expected all inputs"),
        "The inputs hold something that is neither a tensor, a number, a string nor a container of these. Dataclasses need"
        " torch.export.register_dataclass(TheClass) first.",
        ExampleError,
    ),
)


def explain(error: Exception) -> tuple[str, type[CaptureError]]:
    """What a failure of torch.export means for the model's author, and whether the example inputs may be to blame."""
    text = f"{type(error).__name__}: {error}"
    for marks, explanation, kind in _EXPLANATIONS:
        if any(m in text for m in marks):
            return explanation, kind
    return (
        "The model could not be traced. Does it run on these example inputs? Then its code does something torch.export lacks.",
        ExampleError,
    )


# Advice for those who work on torch itself.
_CHATTER = ("For more", "For extended", "For C++", "If you suspect", "consider using data-dependent", "The error above occurred",
            "Caused by: (")  # fmt: skip


def _shortened(text: str, limit: int = 2000) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_CHATTER)]
    kept = "\n".join(lines)
    return kept if len(kept) <= limit else kept[:limit] + " …"


def dim_names(module: nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any) -> dict[tuple[int, int], str]:
    """(flat input, dim) -> the name of the Dim that the user put there."""
    if dynamic_shapes is None or hasattr(dynamic_shapes, "dynamic_shapes"):  # torch's ShapesCollection: nothing to read
        return {}
    bound = _bound(module, args, kwargs)
    specs = dynamic_shapes if isinstance(dynamic_shapes, Mapping) else dict(zip(bound, dynamic_shapes, strict=False))
    names: dict[tuple[int, int], str] = {}
    index = 0
    for argument in [*(n for n in bound if n not in kwargs), *kwargs]:  # the order in which torch flattens them
        index = _collect_names(bound.get(argument), specs.get(argument), index, names, argument)
    return names


def _collect_names(value: Any, spec: Any, index: int, names: dict[tuple[int, int], str], where: str) -> int:
    """Walks a value and its spec side by side; returns the number of the next leaf."""
    if isinstance(value, torch.Tensor):
        dims = spec.items() if isinstance(spec, Mapping) else enumerate(spec if isinstance(spec, (list, tuple)) else ())
        for i, dim in dims:
            if isinstance(i, int) and not -value.dim() <= i < value.dim():
                raise CaptureError(f"dynamic_shapes tells of dim {i} of input {where!r}, which has {value.dim()} dims")
            name = getattr(getattr(dim, "root", dim), "__name__", "")  # of 2*half: half
            if isinstance(i, int) and name.isidentifier() and not isinstance(dim, type(Dim.AUTO)):
                names[(index, i)] = name
        return index + 1
    children: list[Any] | None = None
    if isinstance(value, Mapping):
        children = [(v, spec.get(k) if isinstance(spec, Mapping) else None) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = list(spec) if isinstance(spec, (list, tuple)) else []
        children = [(v, parts[i] if i < len(parts) else None) for i, v in enumerate(value)]
    if children is None:
        return index + len(pytree.tree_leaves(value))
    for child, child_spec in children:
        index = _collect_names(child, child_spec, index, names, where)
    return index
