"""What a program of PyTorch Mobile holds, and what of it runs here: its tensors, its register code, operators of the interpreter and of
plans. For lint and inspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penlight.capture.lite.program import LiteProgram
from penlight.capture.lite.registers import TRANSLATED, to_script
from penlight.ir.script import Const, Script
from penlight.ir.values import ScriptObject, ScriptTensor


@lru_cache(maxsize=1)
def _vm_names() -> frozenset[str]:
    try:
        from penlight import _runtime

        return frozenset(_runtime.operator_names())  # type: ignore[attr-defined]
    except ImportError:  # not built; the sources say the same
        from penlight.ops.vm_operators import operators

        return frozenset(operators())


def on_cpu(name: str) -> bool:
    """Whether the interpreter has an operator."""
    return name in _vm_names() or name in TRANSLATED


def can_be_planned(name: str) -> bool:
    """Whether capture turns an operator into kernels: it runs then where a plan takes it in."""
    from penlight.ops import registry

    namespace, _, rest = name.partition("::")
    if namespace != "aten":
        return False
    registry.load_all()
    short, dot, overload = rest.partition(".")
    plain = short.removesuffix("_") + dot + overload
    return any(n in table for n in (rest, plain) for table in (registry.ATEN, registry.COMPOSITES))


def kernel_keys() -> frozenset[str]:
    try:
        from penlight import _runtime

        return frozenset(_runtime.kernel_keys())
    except ImportError:
        return frozenset()


def register_code(program: LiteProgram) -> Script:
    """The program as it is interpreted. Without torch's schemas, operators that Penlight lacks may be an error."""
    try:
        from penlight.capture.script.torchscript import schema_counts
    except ImportError:
        return to_script(program)
    return to_script(program, None, schema_counts)


@dataclass
class Code:
    """What a method calls: operators, each with the line of the source that it came from ("": not known), and the constants in it."""

    method: str
    calls: list[tuple[str, str]]
    constants: list[Any]


def code_of(program: LiteProgram) -> list[Code]:
    made = []
    for f in program.functions.values():
        lines = f.sources or []
        calls = [
            (f.operators[step.x].full_name, lines[at] if at < len(lines) else "")
            for at, step in enumerate(f.instructions)
            if step.op in ("OP", "OPN") and 0 <= step.x < len(f.operators)
        ]
        made.append(Code(f.method, calls, f.constants))
    return made


def code_of_script(script: Script) -> list[Code]:
    made = []
    for f in script.functions.values():
        if f.method is not None:
            used = dict.fromkeys(x.index for a in f.code for x in a.args if isinstance(x, Const))
            calls = [(a.target, a.source) for a in f.code if a.op == "op"]
            made.append(Code(f.method, calls, [script.constants[i] for i in used]))
    return made


def tensors(program: LiteProgram) -> Iterator[tuple[str, ScriptTensor]]:
    """Every tensor in the module's state and in the constants of its code, once, with a name."""
    constants = [
        (f"{function.method}: constant {i}", constant)
        for function in program.functions.values()
        for i, constant in enumerate(function.constants)
    ]
    return tensors_of(program.module, constants)


def tensors_of(module: ScriptObject, constants: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, ScriptTensor]]:
    """Every tensor in these values, once, with a name."""
    seen: set[int] = set()

    def walk(value: Any, name: str, depth: int) -> Iterator[tuple[str, ScriptTensor]]:
        if isinstance(value, (ScriptTensor, ScriptObject, list, tuple, dict)):
            if id(value) in seen or depth > 200:
                return
            seen.add(id(value))
        if isinstance(value, ScriptTensor):
            yield value.name or name, value
        elif isinstance(value, ScriptObject):
            for key, item in value.attributes.items():
                yield from walk(item, f"{name}.{key}" if name else key, depth + 1)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                yield from walk(item, f"{name}.{i}" if name else str(i), depth + 1)
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from walk(item, f"{name}.{key}" if name else str(key), depth + 1)

    yield from walk(module, "", 0)
    for name, constant in constants:
        yield from walk(constant, name, 0)
