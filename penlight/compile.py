"""Compiles a model to the image of a file. penlight.optimize, `penlight optimize` and optimize_for_mobile all call compile_model.

    source → what it carries (bundled inputs, extra files) → capture → what is missing → passes → kernels and packed weights → bytes

What was guessed, planned or interpreted, and why, is said while it happens and stored in the file's metadata.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penlight.budget import reading
from penlight.errors import (
    ArgumentError,
    CaptureError,
    InputError,
    InterpretedWarning,
    PenlightError,
    UnsupportedCall,
    UnsupportedError,
)
from penlight.file.told import check_given
from penlight.file_kinds import file_kind
from penlight.ir.containers import settled
from penlight.ops.devices import BACKENDS, VARIANT
from penlight.paths import check_path

if TYPE_CHECKING:
    from penlight.ir.graph import Graph, Program
    from penlight.ir.script import Bundle

Say = Callable[[str], None]


def compile_model(
    source: Any,
    example_inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    backend: str | Sequence[str] = "cpu",
    fallback: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    methods: Sequence[str] | None = None,
    bundled_inputs: Mapping[str, Sequence[tuple[Any, ...]]] | None = None,
    winograd_budget: float = 0.5,
    plan: bool = True,
    allow_missing: bool = False,
    strict: bool = False,
    rewrite: Callable[[Program], None] | None = None,
    weights: str | None = None,
    trust: bool = False,
    read_budget: float = 1.0,
    progress: Say | None = None,
) -> Program:
    """The compiled model, ready for `file.writer.to_array`. The arguments are those of penlight.optimize; `rewrite` changes the program when
    all is fused that can be, before devices are thought of."""
    from penlight.bundles import check_run
    from penlight.capture import capture
    from penlight.lower import lower
    from penlight.passes.pipeline import FINISH, FUSE, STAGES, optimize

    backends = _backends(backend, fallback)  # first: a wrong name is told at once
    methods = None if methods is None else named("methods", methods)
    _check_bundled(bundled_inputs)
    settled((example_inputs, kwargs, bundled_inputs))
    if weights is not None:
        from penlight.quant.weight_only import check_kind, store_weights

        check_kind(weights)
        rewrite = partial(store_weights, kind=weights)
        winograd_budget = 0.0  # weights were to be small
    if metadata is not None:
        check_given(metadata)
    say = progress or (lambda text: None)
    say("reading the model")
    with reading(read_budget):
        opened = open_source(source, trust)
        carried = carried_files(source, opened)
        bundles = carried_bundles(opened, say)
        say("capturing the model")
        with _blamed(opened):
            program = capture(
                opened, example_inputs, kwargs=kwargs, dynamic_shapes=dynamic_shapes, methods=methods, bundles=bundles, plan=plan, say=say, run=check_run,
            )  # fmt: skip
    _check_operators(program, allow_missing, say)
    _check_interpreted(program, strict, given=example_inputs is not None or bool(kwargs))
    program.bundles = [*bundles, *_bundles_given(opened, bundled_inputs or {}, say)]
    described = {"name": _name(source), "backend": ",".join(backends), **carried, **(metadata or {})}
    program.metadata.update(described)
    with _blamed(opened):
        if rewrite is not None:
            say(f"fusing its graph of {_count(program)} operators")
            optimize(program, stages=FUSE)
            rewrite(program)
        others = [(BACKENDS[name], _copy(program)) for name in backends[1:]]
        for device, variant in [(BACKENDS[backends[0]], program), *others]:
            say(f"optimizing its graph of {_count(variant)} operators for {device.name}")
            optimize(variant, device=device, stages=STAGES if rewrite is None else FINISH)
            say(f"choosing kernels for {_count(variant)} operators and packing weights")
            lower(variant, winograd_budget, device, fallback=fallback is not None, halves=weights == "f16")
        for _, variant in others:
            _add_variant(program, variant)
    say("writing the file image")
    return program


@contextmanager
def _blamed(opened: Any) -> Iterator[None]:
    """An exported program whose sizes are not what torch would find makes any step fail in any way: then it says which are not."""
    try:
        yield
    except PenlightError:
        raise
    except Exception as e:
        if not hasattr(opened, "graph_signature"):
            raise
        from penlight.capture.export.contradiction import contradiction

        why = contradiction(opened)
        if not why:
            raise
        raise CaptureError(f"this exported program contradicts itself: {why}") from e


def named(option: str, given: Any) -> list[str]:
    """What an option gives that takes a name, or several."""
    try:
        names = [given] if isinstance(given, str) else list(given)
    except TypeError:
        raise InputError(f"{option}: expected a list of names, got {type(given).__name__}") from None
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{option}: expected a list of names, got a {type(name).__name__} in it")
    return names


def _check_bundled(inputs: Any) -> None:
    """That they are calls by method; what is in a call shows when it is stored."""
    given = {} if inputs is None else inputs
    if not isinstance(given, Mapping):
        raise InputError(
            f'bundled_inputs: expected lists of calls by method, {{"forward": [(x,)]}}, got {type(given).__name__}'
        )
    for name, calls in given.items():
        if not isinstance(name, str) or not isinstance(calls, (list, tuple)):
            got = f"{type(name).__name__}: {type(calls).__name__}"
            raise InputError(f'bundled_inputs: expected lists of calls by method, {{"forward": [(x,)]}}, got {{{got}}}')


def _backends(backend: str | Sequence[str], fallback: str | None) -> list[str]:
    """The CPU first: its methods have the plain names, which run anywhere."""
    names = list(dict.fromkeys(name.lower() for name in named("backend", backend)))
    if not names or any(n not in BACKENDS for n in names):
        raise ArgumentError(f"backend: expected one of {', '.join(BACKENDS)}, or a tuple of them, got {backend!r}")
    if fallback not in (None, "cpu"):
        raise ArgumentError(f"fallback: expected 'cpu' or None, got {fallback!r}")
    return sorted(names, key=lambda name: name != "cpu")


def _as_text(graph: Graph) -> tuple[str, list[str]]:
    from penlight.ir.text import print_graph

    return print_graph(graph), [node.kernel for node in graph.walk()]


def _copy(program: Program) -> Program:
    """Graphs of its own, the same weights."""
    return replace(program, methods={name: replace(m, graph=m.graph.copy()) for name, m in program.methods.items()})


def _add_variant(program: Program, variant: Program) -> None:
    """The methods as compiled for another device, where they differ."""
    for name, method in variant.methods.items():
        if _as_text(method.graph) != _as_text(program.methods[name].graph):
            program.methods[f"{VARIANT}{name}"] = method


def open_source(source: Any, trust: bool = False) -> Any:
    """Opens a path or bytes for capture, by what is in them; anything else is returned as it is. `trust`: see capture/trust.py."""
    if not isinstance(source, (str, os.PathLike, bytes)):
        return source
    if not isinstance(source, bytes):
        check_path(source)
    if not isinstance(source, bytes) and not Path(source).exists():
        raise FileNotFoundError(f"no such file: {source}")
    from penlight.capture import open_file

    return open_file(source, file_kind(source), trust)


def carried_bundles(opened: Any, say: Say) -> list[Bundle]:
    """The bundled inputs that come with a model."""
    from penlight.bundles import bundles_of_file, bundles_of_module, with_torch_results
    from penlight.capture.lite.program import LiteProgram
    from penlight.capture.source import SourceProgram

    if isinstance(opened, LiteProgram):
        return bundles_of_file(opened)
    if isinstance(opened, SourceProgram):
        return bundles_of_file(opened, partial(with_torch_results, opened, say=say))
    return bundles_of_module(opened) if hasattr(opened, "get_all_bundled_inputs") else []


def carried_files(source: Any, opened: Any) -> dict[str, Any]:
    """The extra files that a model's file carries, as an entry of the metadata. They are those of the file that was opened: another one may
    be at its path by now."""
    from penlight.capture.lite.program import LiteProgram
    from penlight.capture.lite.read import extra_files
    from penlight.capture.source import SourceProgram
    from penlight.file.metadata import EXTRA_FILES, stored_files

    found: dict[str, bytes] = {}
    if isinstance(opened, LiteProgram):
        found = opened.extra_files
    elif isinstance(source, (str, os.PathLike, bytes)):
        found = opened.archive.extra_files() if isinstance(opened, SourceProgram) else extra_files(source)
    return {EXTRA_FILES: stored_files(found)} if found else {}


def _bundles_given(opened: Any, inputs: Mapping[str, Sequence[tuple[Any, ...]]], say: Say) -> list[Bundle]:
    from penlight.bundles import with_results, with_torch_results
    from penlight.capture.source import SourceProgram

    if isinstance(opened, SourceProgram):
        return with_torch_results(opened, with_results(None, inputs), say)
    return with_results(opened if callable(opened) else None, inputs)


def _name(source: Any) -> str:
    if isinstance(source, (str, os.PathLike)):
        return Path(source).stem
    return str(getattr(source, "original_name", "")) or ("" if isinstance(source, bytes) else type(source).__name__)


def _count(program: Program) -> int:
    return sum(len(method.graph.nodes) for method in program.methods.values())


def _check_operators(program: Program, allow_missing: bool, say: Say) -> None:
    """Reports all operators of interpreted code that the VM lacks, with their source lines, before anything is written."""
    if program.script is None:
        return
    from penlight.ops.refused import refusal
    from penlight.ops.vm_operators import operators

    missing: dict[str, UnsupportedCall] = {}
    for function in program.script.functions.values():
        for i, action in enumerate(function.code):
            if action.op == "op" and action.target not in operators():
                call = missing.setdefault(action.target, UnsupportedCall(action.target))
                call.calls.add(f"{function.name} {i}")
                if action.source and action.source not in call.sources:
                    call.sources.append(action.source)
                why = refusal(action.target.partition(".")[0])
                call.reason, call.instead = (why.reason, why.instead) if why is not None else ("", "")
    if missing and not allow_missing:
        raise UnsupportedError(list(missing.values()))
    if missing:
        say(f"these operators are not there, a run that meets one will fail: {', '.join(missing)}")


def _check_interpreted(program: Program, strict: bool, given: bool) -> None:
    """Warns where a model is interpreted, and so slower than its caller may think; with `strict` that is an error."""
    parts = program.unplanned
    if parts:
        program.metadata["unplanned"] = [
            {"function": p.function, "operators": p.operators, "source": p.source, "why": p.why.splitlines()[0]}
            for p in parts
        ]
    reason = program.metadata.get("interpreted", "")
    if strict and (reason or parts):
        lines = [reason, *(f"{p.operators} operators at {p.source}: {p.why.splitlines()[0]}" for p in parts)]
        raise CaptureError(
            "strict=True, and not all of the model can be planned:\n  " + "\n  ".join(filter(None, lines))
        )
    if reason and given:
        warnings.warn(
            InterpretedWarning(f"the model is interpreted, with {len(program.methods)} parts planned: {reason}"),
            stacklevel=4,
        )
