"""TorchScript modules, .pt and .ptl files → Programs: register code, planned for example inputs.

The inputs are those that were given, or come with the model, or can be guessed from its first operators. Without torch, or without
any inputs, the code is interpreted as it is.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penlight.capture.lite.program import LiteProgram
from penlight.capture.lite.registers import to_script
from penlight.capture.script.clean_file import clean
from penlight.capture.script.fold_batch_norm import fold_batch_norm
from penlight.capture.script.freeze import freeze
from penlight.capture.script.levels import use_all_levels, use_engine_levels
from penlight.capture.source import SourceProgram
from penlight.capture.trust import untrusted
from penlight.errors import CaptureError, UntrustedError
from penlight.ir.graph import Program
from penlight.ir.script import OPERATORS, Bundle, Script

if TYPE_CHECKING:
    import torch

    from penlight.capture.script.plan import Examples

Say = Callable[[str], None]


def torch_module(program: SourceProgram, must: bool = False) -> torch.jit.ScriptModule | None:
    """A .pt file as torch opens it; None where torch is not installed, or lacks a class or an operator that the file names, or would do more
    than compute and the file is not trusted. `must`: that is an error then, which says what it would do."""
    file = torch_file(program, must)
    return None if file is None else _loaded(file)


def torch_file(program: SourceProgram, must: bool = False) -> bytes | None:
    """What of a .pt file torch may open."""
    if not _has_torch():
        return None
    if program.trust:
        return program.archive.rewritten()
    try:
        return clean(program)
    except UntrustedError:
        if must:
            raise
    except CaptureError as e:
        if must:
            raise untrusted(f"torch gets a file only where Penlight can read it, and here it cannot: {e}") from None
    return None


def _loaded(data: bytes) -> torch.jit.ScriptModule | None:
    if not _has_torch():
        return None
    import torch

    from penlight.capture.quiet import quiet

    try:
        with quiet():
            return torch.jit.load(io.BytesIO(data), map_location="cpu")  # type: ignore[no-any-return]
    except RuntimeError:
        return None


def capture_script(
    source: torch.jit.ScriptModule | LiteProgram | SourceProgram,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    methods: Sequence[str] | None,
    bundles: Sequence[Bundle],
    plan: bool,
    say: Say,
    run: Callable[[Script, tuple[Any, ...]], None] | None = None,
) -> Program:
    """Keeps forward, the methods named, and those that have bundled inputs; of a .ptl file all, unless methods are named."""
    examples = _given(args, kwargs) or _first_bundle(bundles)
    if not isinstance(source, (LiteProgram, SourceProgram)):
        from penlight.capture.script.torchscript import script_of, traced_inputs

        script = script_of(source, _kept(source._c._method_names(), methods, bundles))
        use_engine_levels(script)
        examples = examples or _traced(traced_inputs(source))
        return _capture(
            script, examples, dynamic_shapes, plan, say, lambda *given: copy.deepcopy(source).eval().forward(*given)
        )
    unknown = set(methods or ()) - set(source.methods)
    if unknown:
        raise CaptureError(f"the file has no method {', '.join(sorted(unknown))}; it has {', '.join(source.methods)}")
    kept = _kept(source.methods, methods, bundles)
    if isinstance(source, SourceProgram):
        script = source.script(kept)
        use_all_levels(script)
        # Of a file that may be anybody's: torch would not come to the end of code that has none.
        original = None if run is None else lambda *given: run(script, given)
        return _capture(script, examples, dynamic_shapes, plan, say, original)
    counts = None
    if _has_torch():
        from penlight.capture.script.torchscript import schema_counts as counts  # type: ignore[assignment]
    script = to_script(source, None if methods is None else kept, counts)
    use_all_levels(script)
    return _capture(script, examples, dynamic_shapes, plan, say, None)


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
    original: Callable[..., Any] | None,
) -> Program:
    """`original`: forward, as something else runs it that observes nothing."""
    freeze(script)
    operators = sorted(script.operators)
    fold_batch_norm(script)
    forward = script.method("forward")
    if examples is None and plan and forward is not None and _has_torch():
        from penlight.capture.script.guess import guess_inputs
        from penlight.capture.script.plan import Examples

        seen = guess_inputs(script, forward)
        examples = Examples(seen.inputs, {}, "guessed", seen) if seen is not None else None
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
