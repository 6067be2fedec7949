"""`penlight inspect`: what is in a .pen file. Reads it without the compiled runtime; only the arena size needs that.
TorchScript and .ptl files are shown by inspect_lite.py."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from penlight.file.contents import Expression, Fields, Method, PenFile, Port, TensorDatum, value_text
from penlight.tools.options import Shape, ShapeType
from penlight.tools.screen import heading, in_bytes, screen, table

WEIGHTS_SHOWN = 10
IMAGE_SIZE = 224  # assumed for a free height or width, where the metadata does not say more


@click.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--graph", is_flag=True, help="Print the code too: every kernel call with its arguments and source line.")
@click.option("--verify", is_flag=True, help="Compare the content with its hash; reads the whole file.")
@click.option(
    "--shape", "shapes", type=ShapeType(), multiple=True, metavar="[NAME=]DIMS",
    help="Input shape to tell the arena size for, where sizes are free.",
)  # fmt: skip
def inspect_command(file: Path, as_json: bool, graph: bool, verify: bool, shapes: tuple[Shape, ...]) -> None:
    """Show what is in FILE, a .pen, .ptl or TorchScript (.pt) model: inputs, outputs, operators, kernels, weights, memory, metadata."""
    from penlight.errors import CaptureError
    from penlight.file.reader import read
    from penlight.file_kinds import WORDS, file_kind

    kind = file_kind(file)
    if kind in ("exported", "pickle"):
        raise CaptureError(f"{file}: expected TorchScript, .ptl or .pen, got {WORDS[kind]}")
    if kind in ("zip", "flatbuffer", "torchscript"):
        _inspect_lite(file, kind, as_json, graph, verify)
        return
    pen = read(file)
    if verify and not pen.verify_hash():
        raise click.ClickException(
            f"{file}: the content is not what its hash describes: it was changed or damaged after it was written"
        )
    facts = describe(pen, file, shapes)
    if as_json:
        if graph:
            facts["graph"] = str(pen)
        click.echo(json.dumps(facts, indent=2))
        return
    _show(pen, facts, verify)
    if graph:
        screen().print(str(pen))


def _inspect_lite(file: Path, kind: str, as_json: bool, graph: bool, verify: bool) -> None:
    from penlight.tools import inspect_lite

    if verify:
        raise click.UsageError("--verify is for .pen files: others carry no hash")
    program = inspect_lite.read_program(file, kind)
    facts = inspect_lite.describe_lite(program, file, kind)
    if as_json:
        click.echo(json.dumps({**facts, "graph": inspect_lite.listing(program)} if graph else facts, indent=2))
        return
    inspect_lite.show_lite(facts)
    if graph:
        screen().print(inspect_lite.listing(program))


def describe(pen: PenFile, file: Path, shapes: Sequence[Shape] = ()) -> dict[str, Any]:
    """All that `inspect` tells, as JSON."""
    return {
        "file": str(file), "bytes": pen.size, "table_bytes": pen.tables_size, "weight_bytes": pen.weight_bytes,
        "weight_dtypes": pen.weight_dtypes, "format": pen.version, "sha256": pen.hash, "metadata": pen.metadata,
        "methods": {method.name: _describe_method(method) for method in pen.methods},
        "operators": dict(pen.operators.most_common()), "kernels": _kernels(pen),
        "weights": [
            {"name": c.name, "dtype": c.stored, "shape": list(c.shape), "layout": c.layout, "bytes": c.size}
            for c in sorted(pen.weights, key=lambda c: -c.size)
        ],
        "memory": {method.name: _arena(file, method, pen.metadata, shapes) for method in pen.methods},
        "interpreted": interpreted(pen), "bundled_inputs": dict(Counter(bundle.method for bundle in pen.bundles)),
    }  # fmt: skip


def interpreted(pen: PenFile) -> dict[str, Any]:
    """Methods of VM code, the operators it calls, and the state that it keeps."""
    if not pen.functions:
        return {}
    from penlight.lint.program import on_cpu

    methods = {}
    for function in pen.functions:
        if function.method:
            given = ", ".join(f"{p.get('type')} {p.get('name')}" for p in function.schema.get("arguments", ())[1:])
            schema = f"{function.method}({given}) -> {function.schema.get('returns')}"
            methods[function.method] = {"schema": schema, "instructions": len(function.code)}
    operators = pen.script_operators
    return {
        "methods": methods, "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        "unsupported": [name for name in operators if not on_cpu(name)], "state": dict(_state(pen.module)),
    }  # fmt: skip


def _state(value: Fields | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Attributes that are no tensors, modules or flags of training: what the model's code may read or change."""
    for name, item in value.items.items() if value is not None else ():
        if isinstance(item, Fields) and not item.is_tuple:
            yield from _state(item, f"{prefix}{name}.")
        elif name != "training" and item is not None and not isinstance(item, TensorDatum):
            text = value_text(item)
            yield prefix + name, text if len(text) <= 80 else text[:79] + "…"


def _describe_method(method: Method) -> dict[str, Any]:
    def port(p: Port) -> dict[str, Any]:
        limits = {"limits": [list(pair) for pair in p.limits]} if p.limits else {}
        return {"name": p.name, "dtype": p.dtype, "shape": list(p.shape), **limits}

    return {
        "inputs": [port(p) for p in method.inputs], "outputs": [port(p) for p in named_outputs(method)],
        "states": [{"name": s.name, "dtype": s.initial.dtype, "shape": list(s.initial.shape)} for s in method.states],
        "regions": len(method.regions), "nodes": len(method.nodes),
    }  # fmt: skip


def named_outputs(method: Method) -> list[Port]:
    """Outputs under the names that they have in the containers around them, where those give any."""
    from penlight.ir.containers import leaf_names

    try:
        names = leaf_names(method.output_spec)
    except (ValueError, TypeError, KeyError, AttributeError):  # a file may hold any JSON
        names = []
    if len(names) != len(method.outputs):
        return list(method.outputs)
    return [replace(port, name=name or port.name) for port, name in zip(method.outputs, names, strict=True)]


def _kernels(pen: PenFile) -> dict[str, int]:
    """Every key that the file needs, with its number of calls; 0 for those that run only inside others."""
    calls = Counter(node.key for node in pen.nodes)
    return {key: calls[key] for key in sorted(pen.keys, key=lambda k: (-calls[k], k))}


def _arena(file: Path, method: Method, metadata: dict[str, Any], given: Sequence[Shape]) -> dict[str, Any]:
    """Bytes of intermediate values at some input shapes, the instruction set, or why that is not known."""
    shapes = example_shapes(method, metadata, given)
    told = {port.name: list(shape) for port, shape in zip(method.inputs, shapes, strict=True)}
    try:
        import numpy as np

        import penlight
        from penlight.ir.containers import unflatten
        from penlight.ir.types import numpy_dtype

        model = penlight.load(file, threads=1)
        # One element, seen at every place: the plan needs shapes, not data.
        leaves = [
            np.broadcast_to(np.zeros((), numpy_dtype(p.dtype)), s) for p, s in zip(method.inputs, shapes, strict=True)
        ]
        spec = method.input_spec
        args = [unflatten(part, leaves) for part in spec["args"]]
        model.prepare(*args, method=method.name, **{k: unflatten(part, leaves) for k, part in spec["kwargs"].items()})
        return {"arena_bytes": model.arena_bytes(method.name), "shapes": told, "isa": model.isa}
    except ImportError:
        return {"arena_bytes": None, "reason": "the compiled runtime is not there"}
    except (penlight.PenlightError, ValueError) as e:  # ValueError: numpy has no array of such shapes
        return {"arena_bytes": None, "shapes": told, "reason": str(e)}


def example_shapes(method: Method, metadata: dict[str, Any], given: Sequence[Shape]) -> list[tuple[int, ...]]:
    """A shape for each input: as given, else with free dims at a usual size: batch 1, images as the metadata prepares
    them. The limits of the file are kept."""
    from penlight.preprocess import Preprocessing, PreprocessingError

    by_name = {s.name: s.dims for s in given if s.name}
    unnamed = [s.dims for s in given if not s.name]
    names = [p.name for p in method.inputs]
    if unknown := [n for n in by_name if n not in names]:
        raise click.UsageError(
            f"--shape: no input {unknown[0]!r}; {method.name} takes {', '.join(map(str, method.inputs))}"
        )
    by_name.update(zip((n for n in names if n not in by_name), unnamed, strict=False))
    try:
        size = Preprocessing.from_metadata(metadata.get("preprocessing") or {}).size or (IMAGE_SIZE, IMAGE_SIZE)
    except (PreprocessingError, TypeError):
        size = (IMAGE_SIZE, IMAGE_SIZE)
    shapes = []
    for port in method.inputs:
        dims = []
        for d, (dim, (least, most)) in enumerate(zip(port.shape, port.limits, strict=True)):
            usual = 1 if d == 0 else size[d - 2] if len(port.shape) == 4 and d >= 2 else IMAGE_SIZE
            fitting = max(least, usual if most is None else min(usual, most))
            dims.append(fitting if isinstance(dim, Expression) else dim)
        shapes.append(by_name.get(port.name, tuple(dims)))
    return shapes


def _show(pen: PenFile, facts: dict[str, Any], verified: bool) -> None:
    out = screen()
    parts = [
        in_bytes(pen.size),
        f"weights {in_bytes(pen.weight_bytes)}{weight_kinds(pen)}",
        f"format {pen.version}",
        f"sha256 {pen.hash[:16]}…",
    ]
    out.print(heading(facts["file"], f"{', '.join(parts)}{' (verified)' if verified else ''}"))
    for key, value in pen.metadata.items():
        if key != "unplanned":  # told with the code
            out.print(f"  {key}: {_short(value)}")
    for name, count in facts["bundled_inputs"].items():
        out.print(f"  bundled inputs of {name}: {count}")
    code = facts["interpreted"]
    for told in code.get("methods", {}).values():
        out.print()
        out.print(heading(told["schema"], f"interpreted, {_plural(told['instructions'], 'instruction')}"))
    unplanned = pen.metadata.get("unplanned", [])
    if unplanned:
        out.print(f"  {_plural(len(unplanned), 'part')} interpreted that should have been planned:")
    for part in unplanned:
        out.print(f"    {_plural(part['operators'], 'operator')}: {part['why']}  ({part['source']})")
    for name, value in code.get("state", {}).items():
        out.print(f"  {name} = {value}")
    for method in pen.methods:
        out.print()
        out.print(
            heading(
                method.name, f"{_plural(len(method.nodes), 'kernel call')} in {_plural(len(method.regions), 'region')}"
            )
        )
        for port in method.inputs:
            out.print(f"  in   {port}{_limits(port)}")
        for port in named_outputs(method):
            out.print(f"  out  {port}")
        for state in method.states:
            out.print(f"  keeps  {state}")
        out.print(f"  arena  {_memory(facts['memory'][method.name])}")
    if code:
        out.print()
        called = table("Interpreted operators", "operator", "calls", "", right=("calls",))
        for op, count in code["operators"].items():
            called.add_row(op, str(count), "not supported" if op in code["unsupported"] else "")
        out.print(called)
    if facts["operators"] or not code:
        out.print()
        out.print(_planned_operators(facts))
    if not pen.constants:
        return
    out.print()
    title = f"Weights: {len(pen.weights)}, {in_bytes(pen.weight_bytes)}"
    title += f"; the {WEIGHTS_SHOWN} largest" if len(pen.weights) > WEIGHTS_SHOWN else ""
    weights = table(title, "weight", "dtype", "shape", "layout", "size", "share", right=("size", "share"))
    for w in facts["weights"][:WEIGHTS_SHOWN]:
        share = f"{w['bytes'] / max(pen.weight_bytes, 1):.1%}"
        weights.add_row(w["name"], w["dtype"], str(w["shape"]), w["layout"], in_bytes(w["bytes"]), share)
    out.print(weights)


def weight_kinds(pen: PenFile) -> str:
    """ " (i8 3.4 MB, f32 20 kB)", where not all weights are f32."""
    kinds = pen.weight_dtypes
    return (
        f" ({', '.join(f'{dtype} {in_bytes(size)}' for dtype, size in kinds.items())})" if set(kinds) - {"f32"} else ""
    )


def _planned_operators(facts: dict[str, Any]) -> Any:
    operators = table("Operators", "operator", "calls", "kernels", right=("calls",))
    for op, count in facts["operators"].items():
        of_it = {key: calls for key, calls in facts["kernels"].items() if calls and key.partition(".")[0] == op}
        kernels = [f"{key} ×{calls}" if calls != count else key for key, calls in of_it.items()]
        operators.add_row(op, str(count), ", ".join(kernels))
    inside = [key for key, calls in facts["kernels"].items() if not calls]
    if inside:
        operators.add_row("(fused into these)", "", ", ".join(inside))
    return operators


def _memory(memory: dict[str, Any]) -> str:
    if memory["arena_bytes"] is None:
        shapes = ", ".join(f"{n}={d}" for n, d in memory.get("shapes", {}).items())
        return f"unknown{f' at {shapes}' if shapes else ''}: {memory['reason']}{'; try --shape' if shapes else ''}"
    shapes = ", ".join(f"{name}={dims}" for name, dims in memory["shapes"].items())
    return f"{in_bytes(memory['arena_bytes'])} at {shapes}, with {memory['isa']} kernels"


def _limits(port: Port) -> str:
    texts = []
    for dim, (least, most) in zip(port.shape, port.limits, strict=True):
        if isinstance(dim, Expression):
            texts.append(f"{dim} ≥ {least}" if most is None else f"{dim} {least} … {most}")
    return f"   ({', '.join(texts)})" if texts else ""


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _short(value: Any, limit: int = 100) -> str:
    if isinstance(value, list) and len(value) > 4 and all(isinstance(v, str) for v in value):
        return f"{len(value)}: {', '.join(value[:4])}, …"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit * 2 else text[: limit * 2] + " …"
