"""`penlight inspect` for TorchScript and .ptl files: methods, operators, versions, weights, state, and the code as it will be interpreted.

All of them are read here, without torch, which would run code of a file while it loads it.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from penlight.capture.lite.program import Argument, Function, LiteProgram
from penlight.capture.source import SourceProgram
from penlight.errors import CaptureError
from penlight.ir.script import ScriptFunction
from penlight.ir.script_text import script_text, value_text
from penlight.ir.values import ScriptObject, ScriptTensor
from penlight.lint.program import on_cpu, register_code, tensors, tensors_of
from penlight.tools.screen import heading, in_bytes, screen, table

WEIGHTS_SHOWN = 10
_MOST_STATE = 10_000  # attributes
_BITS = {
    "u4x2": 4,
    "bool": 8,
    "u8": 8,
    "i8": 8,
    "i16": 16,
    "f16": 16,
    "bf16": 16,
    "i32": 32,
    "f32": 32,
    "c64": 64,
    "i64": 64,
    "f64": 64,
    "c128": 128,
}


def read_program(file: Path, kind: str) -> LiteProgram | SourceProgram:
    from penlight.capture.lite.read import read

    return read(file) if kind != "torchscript" else SourceProgram(file)


def describe_lite(program: LiteProgram | SourceProgram, file: Path, kind: str) -> dict[str, Any]:
    """All that `inspect` tells of it, as JSON."""
    told = _of_source(program) if isinstance(program, SourceProgram) else _of_bytecode(program)
    weights: list[dict[str, Any]] = [
        {
            "name": name,
            "dtype": t.dtype,
            "shape": list(t.shape),
            "quantized": t.quantizer is not None,
            "bytes": _bytes(t),
        }
        for name, t in told.pop("tensors")
    ]
    weights.sort(key=lambda w: -w["bytes"])
    operators = told.pop("operators")
    module = told.pop("module")
    return {
        "file": str(file), "bytes": file.stat().st_size, "container": "torchscript" if kind == "torchscript" else kind,
        **told, "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        "unsupported": sorted(name for name in operators if not on_cpu(name)),
        "weights": weights, "weight_bytes": sum(w["bytes"] for w in weights), "state": dict(state(module)),
    }  # fmt: skip


def _of_bytecode(program: LiteProgram) -> dict[str, Any]:
    operators = Counter(
        f.operators[step.x].full_name
        for f in program.functions.values() for step in f.instructions
        if step.op in ("OP", "OPN") and 0 <= step.x < len(f.operators)
    )  # fmt: skip
    own = {name: _function(program, name) for name in program.methods}
    return {
        "bytecode_version": program.bytecode_version, "operator_version": program.operator_version,
        "methods": {name: _describe_method(f) for name, f in own.items() if f is not None},
        "functions": len(program.functions), "instructions": sum(len(f.instructions) for f in program.functions.values()),
        "operators": operators, "tensors": list(tensors(program)), "module": program.module,
        "extra_files": {name: len(content) for name, content in program.extra_files.items()},
    }  # fmt: skip


def _of_source(program: SourceProgram) -> dict[str, Any]:
    """TorchScript has no bytecode; what is counted is the code as it will be interpreted."""
    module, constants = program.state()
    script = program.script()
    methods = {f.method: _describe_script_method(f) for f in script.functions.values() if f.method is not None}
    named = [(f"constant {i}", value) for i, value in enumerate(constants)]
    return {
        "bytecode_version": None, "operator_version": program.version, "methods": {m: methods[m] for m in program.methods if m in methods},
        "functions": len(script.functions), "instructions": sum(len(f.code) for f in script.functions.values()),
        "operators": script.operators, "tensors": list(tensors_of(module, named)), "module": module,
        "extra_files": {name: len(content) for name, content in program.archive.extra_files().items()},
    }  # fmt: skip


def _describe_script_method(function: ScriptFunction) -> dict[str, Any]:
    parameters = function.parameters[1:]
    first = len(parameters) - len(function.defaults)
    given = [
        {**p, **({"default": value_text(function.defaults[i - first])} if i >= first else {})}
        for i, p in enumerate(parameters)
    ]
    texts = [f"{p['type']} {p['name']}" + (f"={p['default']}" if "default" in p else "") for p in given]
    return {
        "schema": f"{function.method}({', '.join(texts)}) -> {function.returns}", "instructions": len(function.code),
        "arguments": given, "returns": [function.returns],
    }  # fmt: skip


def _function(program: LiteProgram, method: str) -> Function | None:
    return program.functions.get(f"{program.module.type_name}.{method}")


def _describe_method(function: Function) -> dict[str, Any]:
    def argument(a: Argument) -> dict[str, Any]:
        return {"name": a.name, "type": a.type, **({"default": value_text(a.default)} if a.has_default else {})}

    return {
        "schema": schema(function), "instructions": len(function.instructions),
        "arguments": [argument(a) for a in (function.arguments or [])[1:]] if function.arguments is not None else None,
        "returns": [r.type for r in function.returns] if function.returns is not None else None,
    }  # fmt: skip


def schema(function: Function) -> str:
    """forward(Tensor x, int n=2) -> Tensor"""
    if function.arguments is None:
        return f"{function.method}(…), of a version without schemas"
    parts = [
        f"{a.type} {a.name}" + (f"={value_text(a.default)}" if a.has_default else "") for a in function.arguments[1:]
    ]
    returns = ", ".join(r.type for r in function.returns or ())
    return f"{function.method}({', '.join(parts)}) -> {returns or 'Any'}"


def _bytes(tensor: ScriptTensor) -> int:
    return (math.prod(tensor.shape) * _BITS.get(tensor.dtype, 32) + 7) // 8


def state(value: ScriptObject, prefix: str = "", depth: int = 0, seen: set[int] | None = None) -> list[tuple[str, str]]:
    """Attributes that are no tensors, modules or flags of training: what the model's code may read or change."""
    found: list[tuple[str, str]] = []
    seen = set() if seen is None else seen
    if id(value) in seen:  # shared, and told of where it was met first
        return found
    seen.add(id(value))
    for name, item in value.attributes.items() if depth < 100 else ():
        if isinstance(item, ScriptObject):
            found += state(item, f"{prefix}{name}.", depth + 1, seen)
        elif name != "training" and item is not None and not isinstance(item, ScriptTensor):
            found.append((prefix + name, _item_text(item)))
        if len(found) > _MOST_STATE:
            break
    return found


def _item_text(item: Any) -> str:
    """A value on part of a line. Parts of it may be shared so often that all of it would never end."""
    if isinstance(item, (list, tuple, dict)):
        inside = [*item.values(), *item] if isinstance(item, dict) else item
        if len(inside) > 40 or any(isinstance(v, (list, tuple, dict, ScriptTensor, ScriptObject)) for v in inside):
            simple = f"{type(item).__name__} of {len(item)}"
            held = isinstance(item, (list, tuple)) and not any(
                isinstance(w, (ScriptTensor, ScriptObject))
                for v in inside[:8]
                for w in (v if isinstance(v, (list, tuple)) else [v])
            )
            return value_text(item, 80) if held and len(inside) <= 40 else simple
    text = repr(item)
    return text if len(text) <= 80 else text[:79] + "…"


def show_lite(facts: dict[str, Any]) -> None:
    out = screen()
    kinds = {"torchscript": "TorchScript", "zip": "PyTorch Mobile (zip)", "flatbuffer": "PyTorch Mobile (flatbuffer)"}
    version = "" if facts["container"] == "torchscript" else f", bytecode version {facts['bytecode_version']}"
    out.print(
        heading(
            facts["file"],
            f"{in_bytes(facts['bytes'])}, {kinds[facts['container']]}{version}, operators of version {facts['operator_version']}, "
            f"weights {in_bytes(facts['weight_bytes'])}",
        )
    )
    for method in facts["methods"].values():
        out.print(f"  {method['schema']}   {method['instructions']} instructions")
    for name, value in list(facts["state"].items())[:WEIGHTS_SHOWN]:
        out.print(f"  {name} = {value}")
    if len(facts["state"]) > WEIGHTS_SHOWN:
        out.print(f"  … and {len(facts['state']) - WEIGHTS_SHOWN} more attributes")
    for name, size in facts["extra_files"].items():
        out.print(f"  extra file {name}: {in_bytes(size)}")
    out.print()
    operators = table(f"Operators: {len(facts['operators'])}", "operator", "calls", "", right=("calls",))
    for name, count in facts["operators"].items():
        operators.add_row(name, str(count), "not supported" if name in facts["unsupported"] else "")
    out.print(operators)
    if facts["weights"]:
        out.print()
        rest = f"; the {WEIGHTS_SHOWN} largest" if len(facts["weights"]) > WEIGHTS_SHOWN else ""
        title = f"Weights: {len(facts['weights'])}, {in_bytes(facts['weight_bytes'])}{rest}"
        weights = table(title, "weight", "dtype", "shape", "size", "share", right=("size", "share"))
        for w in facts["weights"][:WEIGHTS_SHOWN]:
            share = f"{w['bytes'] / max(facts['weight_bytes'], 1):.1%}"
            weights.add_row(
                w["name"],
                w["dtype"] + (" quantized" if w["quantized"] else ""),
                str(w["shape"]),
                in_bytes(w["bytes"]),
                share,
            )
        out.print(weights)


def listing(program: LiteProgram | SourceProgram) -> str:
    """The code of all functions: as registers, which is how it is interpreted; where that cannot be had, as it stands in the file."""
    if isinstance(program, SourceProgram):
        return script_text(program.script())
    try:
        return script_text(register_code(program))
    except CaptureError as e:
        return "\n\n".join([f"# {e}", *(_stack_listing(f) for f in program.functions.values())])


def _stack_listing(function: Function) -> str:
    lines = [f"{schema(function)} {{"]
    for at, step in enumerate(function.instructions):
        meaning = ""
        if step.op in ("OP", "OPN") and 0 <= step.x < len(function.operators):
            meaning = function.operators[step.x].full_name
        elif step.op == "LOADC" and 0 <= step.x < len(function.constants):
            meaning = value_text(function.constants[step.x])
        elif step.op in ("JF", "JMP", "LOOP"):
            meaning = f"to {at + step.x}"
        source = (
            f"   # {function.sources[at]}"
            if function.sources and at < len(function.sources) and function.sources[at]
            else ""
        )
        lines.append(f"  {at:4}  {step.op} {step.x} {step.n}  {meaning}{source}".rstrip())
    return "\n".join([*lines, "}"])
