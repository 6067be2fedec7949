"""TorchScript modules and .ptl files → Programs: register code, and example inputs to plan it for.

Both go one way: the code is lowered, frozen, and planned for the inputs at hand: those that were given, or come with the model, or
can be guessed from its first operators. Without torch, or without any inputs, a .ptl file is interpreted as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penlight.capture.lite.program import LiteProgram
from penlight.capture.lite.registers import to_script
from penlight.capture.script.fold_batch_norm import fold_batch_norm
from penlight.capture.script.freeze import freeze
from penlight.capture.source import SourceProgram
from penlight.errors import CaptureError
from penlight.ir.graph import Program
from penlight.ir.script import OPERATORS, Bundle, Script

if TYPE_CHECKING:
    import torch

    from penlight.capture.script.plan import Examples

Say = Callable[[str], None]


def capture_torchscript(
    module: torch.jit.ScriptModule,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    methods: Sequence[str] | None,
    bundles: Sequence[Bundle],
    plan: bool,
    say: Say,
) -> Program:
    """Keeps forward, the methods named, and those that have bundled inputs."""
    import copy

    from penlight.capture.script.torchscript import script_of, traced_inputs

    script = script_of(module, _kept(module._c._method_names(), methods, bundles))
    carried = _first_bundle(bundles) or _traced(traced_inputs(module))

    def original(*given: Any) -> Any:
        return copy.deepcopy(module).eval().forward(*copy.deepcopy(given))  # it may change its state and its inputs

    return _capture(script, _given(args, kwargs) or carried, dynamic_shapes, plan, say, original)


def capture_program(
    program: LiteProgram | SourceProgram,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    methods: Sequence[str] | None,
    bundles: Sequence[Bundle],
    plan: bool,
    say: Say,
) -> Program:
    """A file that was read without torch. A .pt keeps what capture_torchscript keeps; a .ptl all, unless methods are named."""
    unknown = set(methods or ()) - set(program.methods)
    if unknown:
        raise CaptureError(f"the file has no method {', '.join(sorted(unknown))}; it has {', '.join(program.methods)}")
    kept = _kept(program.methods, methods, bundles)
    if isinstance(program, SourceProgram):
        script = program.script(kept)
    else:
        counts = None
        if _has_torch():
            from penlight.capture.script.torchscript import schema_counts as counts  # type: ignore[assignment]
        script = to_script(program, None if methods is None else kept, counts)
    return _capture(script, _given(args, kwargs) or _first_bundle(bundles), dynamic_shapes, plan, say)


def _kept(known: Sequence[str], methods: Sequence[str] | None, bundles: Sequence[Bundle]) -> list[str]:
    """forward, if there is one, the methods named, and those that have bundled inputs."""
    own = ["forward"] if "forward" in known else []
    return list(dict.fromkeys([*own, *(methods or ()), *(b.method for b in bundles)]))


def _capture(
    script: Script,
    examples: Examples | None,
    dynamic_shapes: Any,
    plan: bool,
    say: Say,
    original: Callable[..., Any] | None = None,
) -> Program:
    freeze(script)
    operators = sorted(script.operators)
    fold_batch_norm(script)
    forward = script.method("forward")
    if examples is None and plan and forward is not None and _has_torch():
        from penlight.capture.script.guess import guess_inputs
        from penlight.capture.script.plan import Examples

        guessed = guess_inputs(script, forward)
        examples = Examples(guessed, {}, "guessed") if guessed is not None else None
    if examples is None or not plan:
        program = Program({}, {}, script)
        if forward is not None and plan:
            why = "it came without example inputs, and none could be guessed"
            program.metadata["interpreted"] = why if _has_torch() else "torch is not installed"
            say(f"interpreting the model: {program.metadata['interpreted']}")
    else:
        from penlight.capture.script.plan import plan_script

        if examples.origin != "given":
            say(f"planning it for inputs like {examples} ({examples.origin})")
        program = plan_script(script, examples, dynamic_shapes, say, original)
        if examples.origin != "given":
            program.metadata["planned_for"] = f"{examples} ({examples.origin})"
    program.metadata[OPERATORS] = operators
    return program


def _given(args: Any, kwargs: Mapping[str, Any] | None) -> Examples | None:
    if args is None and not kwargs:
        return None
    if not _has_torch():
        raise CaptureError(
            "planning for example inputs needs torch, which is not installed; without any, the file is interpreted"
        )
    from penlight.capture.script.plan import Examples

    return Examples(() if args is None else args, kwargs or {})


def _first_bundle(bundles: Sequence[Any]) -> Examples | None:
    found = next((b for b in bundles if b.method == "forward"), None)
    if found is None or not _has_torch():
        return None
    from penlight.capture.script.machine import torch_value
    from penlight.capture.script.plan import Examples

    return Examples(torch_value(found.args), {}, "bundled")


def _traced(args: tuple[Any, ...] | None) -> Examples | None:
    from penlight.capture.script.plan import Examples

    return Examples(args, {}, "traced") if args is not None else None


def _has_torch() -> bool:
    try:
        return find_spec("torch") is not None
    except ValueError:  # kept out on purpose: sys.modules["torch"] = None
        return False
