"""A TorchScript module or .ptl file without example inputs → a compiled model.

What is interpreted needs no shapes. Plans do: they are made for inputs that the model carries (bundled), or that its first operators
allow to be guessed (guess.py). Only where a guess leaves no doubt, and no size had to be fixed, is the model one plan and nothing
else; else plans stand in interpreted code (guarded.py), which is taken where an input does not fit them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penlight.compat.lite import OPERATORS
from penlight.errors import CaptureError

Say = Callable[[str], None]

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from penlight.capture.lite.program import LiteProgram
    from penlight.compat.bundled import Bundles
    from penlight.ir.graph import Program
    from penlight.ir.script import Bundle, Script
    from penlight.model import Model


def builder(
    script: torch.jit.ScriptModule, methods: Sequence[str], backend: str, operators: Sequence[str]
) -> Callable[[Mapping[str, Any], Bundles], Model]:
    """A function that compiles the module, given more metadata and bundled inputs."""

    def build(metadata: Mapping[str, Any], bundles: Bundles) -> Model:
        described = {"backend": backend, OPERATORS: operators, **metadata}
        return compile_script(script, methods, described, bundles)

    return build


def compile_file(
    path: str | Path,
    methods: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    progress: Say = lambda text: None,
    winograd_budget: float = 0.5,
) -> Model:
    """A TorchScript or .ptl file without example inputs. `methods`: besides forward, which to keep; of a .ptl all, if none is named."""
    from penlight.capture.file_kinds import file_kind

    if file_kind(path) != "torchscript":
        from penlight.capture.lite.read import read

        progress("reading the file")
        return compile_program(read(path), metadata or {}, methods, progress, winograd_budget)
    import torch

    from penlight.capture.quiet import quiet
    from penlight.compat.bundled import bundles_of

    progress("loading the module")
    with quiet():
        module = torch.jit.load(str(path), map_location="cpu")
    module.eval()
    bundles = bundles_of(module)
    own = ["forward"] if module._c._has_method("forward") else []
    kept = list(dict.fromkeys([*own, *methods, *bundles.calls]))
    return compile_script(module, kept, metadata or {}, bundles, progress, winograd_budget)


def compile_script(
    module: torch.jit.ScriptModule,
    methods: Sequence[str],
    metadata: Mapping[str, Any],
    bundles: Bundles,
    progress: Say = lambda text: None,
    winograd_budget: float = 0.5,
) -> Model:
    """A ScriptModule in eval mode."""
    from penlight.capture.script.guess import guess_inputs
    from penlight.capture.script.torchscript import script_of
    from penlight.compat.bundled import to_program
    from penlight.compat.rewrite import folded

    progress("lowering the module to code")
    script = script_of(folded(module), list(methods))
    trial = copy.deepcopy(module) if "forward" in methods else None  # which may change its state
    guess = guess_inputs(script, run=trial.forward) if trial is not None else None
    program = None
    if guess is not None and guess.certain and list(methods) == ["forward"]:
        progress(f"planning it for inputs like {', '.join(str(list(a.shape)) for a in guess.args)}")
        program = _whole(module, guess.args)
        if program is not None and not guess.fits(program.methods["forward"]):
            program = None
    if program is None:
        calls = bundles.calls.get("forward")
        program = _interpreted(script, guess.args if guess else calls[0].args if calls else None, progress)
    return _finish(program, metadata, to_program(bundles), progress, winograd_budget)


def _whole(module: torch.jit.ScriptModule, args: tuple[Any, ...]) -> Program | None:
    """forward as one plan; None where that is not possible."""
    import torch.fx.traceback

    from penlight.capture.export import nn_module as modules
    from penlight.capture.torchscript import mirror_of

    try:
        mirror = mirror_of(module)
        with torch.fx.traceback.preserve_node_meta():  # keeps the annotations with source lines
            return modules.capture_shapes(mirror, args, {}, "auto", mirror._penlight[1].decided)
    except CaptureError:  # control flow on data, quantized tensors, state …
        return None


def compile_program(
    program: LiteProgram,
    metadata: Mapping[str, Any],
    methods: Sequence[str] = (),
    progress: Say = lambda text: None,
    winograd_budget: float = 0.5,
) -> Model:
    """The bytecode of a .ptl file. Needs no torch; with it, code is planned where inputs can be guessed."""
    from penlight.capture.script.plan import capture_lite

    kept = list(dict.fromkeys([*(m for m in ("forward",) if m in program.methods), *methods])) if methods else None
    captured = capture_lite(program, None, None, None, kept, progress)
    bundles = _carried(program)
    if captured.script is not None and _has_torch():
        from penlight.capture.script.guess import guess_inputs

        guess = guess_inputs(captured.script)
        example = next((_as_torch(b.args) for b in bundles if b.method == "forward"), None)
        captured = _interpreted(captured.script, guess.args if guess else example, progress)
    return _finish(captured, metadata, bundles, progress, winograd_budget)


def _carried(program: LiteProgram) -> list[Bundle]:
    """The inputs that a .ptl carries, by running the methods that give them. What they should give is not in such a file."""
    if "get_all_bundled_inputs" not in program.methods:
        return []
    from penlight.capture.bundles import plain
    from penlight.capture.lite.registers import to_script
    from penlight.errors import RunError
    from penlight.file.writer import to_array
    from penlight.ir.graph import Program
    from penlight.ir.script import Bundle
    from penlight.model import Model

    try:
        model = Model(to_array(Program({}, {}, to_script(program))))
        inputs = {"forward": model.run_method("get_all_bundled_inputs")}
        info: dict[str, Any] = {}
        if "get_bundled_inputs_functions_and_info" in program.methods:
            info = model.run_method("get_bundled_inputs_functions_and_info")
            inputs = {name: model.run_method(told["get_inputs_function_name"][0]) for name, told in info.items()}
    except (
        CaptureError,
        RunError,
    ):  # inflated by an operator that is not there: the methods stay, to say so when called
        return []
    made = []
    for name, calls in inputs.items():
        told = info.get(name, {}).get("info", [])
        made += [
            Bundle(name, plain(tuple(args)), info=told[i] if i < len(told) else "") for i, args in enumerate(calls)
        ]
    return made


def _as_torch(args: tuple[Any, ...]) -> tuple[Any, ...]:
    from penlight.compat.lite import as_torch

    return tuple(as_torch(a) for a in args)


def _interpreted(script: Script, args: tuple[Any, ...] | None, progress: Say) -> Program:
    """Code that takes anything, with plans in it for inputs like these."""
    from penlight.ir.graph import Program

    program = Program({}, {}, script)
    if args is not None:
        from penlight.capture.script.plan_parts import plan_runs
        from penlight.capture.script.plan_whole import plan_whole

        try:
            program.methods.update(plan_whole(script, args))
        except CaptureError as e:
            progress(f"planning parts of it: {str(e).splitlines()[0]}")
            program.methods.update(plan_runs(script, "forward", args, progress))
    return program


def _finish(
    program: Program, metadata: Mapping[str, Any], bundles: list[Any], progress: Say, winograd_budget: float
) -> Model:
    from penlight.file.writer import to_array
    from penlight.lower import lower
    from penlight.model import Model
    from penlight.passes.pipeline import optimize

    program.metadata.update(metadata)
    program.bundles = bundles
    progress("optimizing its graphs, choosing kernels, packing weights")
    optimize(program)
    lower(program, winograd_budget)
    return Model(to_array(program))


def _has_torch() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("torch") is not None
    except ValueError:  # kept out on purpose: sys.modules["torch"] = None
        return False
