"""A TorchScript module without example inputs → a compiled model.

Planned code needs shapes: they come from inputs that the module carries (bundled, traced) or that its first operators allow to be
guessed (guess.py), and every size is left free that the module's code does not fix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penlight.compat.lite import OPERATORS
from penlight.errors import CaptureError

if TYPE_CHECKING:
    import torch

    from penlight.capture.lite.program import LiteProgram
    from penlight.compat.bundled import Bundles
    from penlight.model import Model


def builder(
    script: torch.jit.ScriptModule, methods: Sequence[str], backend: str, operators: Sequence[str]
) -> Callable[[Mapping[str, Any], Bundles], Model]:
    """A function that compiles the module, given more metadata and bundled inputs."""

    def build(metadata: Mapping[str, Any], bundles: Bundles) -> Model:
        described = {"backend": backend, OPERATORS: operators, **metadata}
        return compile_script(script, methods, described, bundles)

    return build


def compile_script(
    script: torch.jit.ScriptModule, methods: Sequence[str], metadata: Mapping[str, Any], bundles: Bundles
) -> Model:
    """Planned, where `forward` is all there is and it can be; else as code that is interpreted."""
    from penlight.capture import capture
    from penlight.capture.script import script_of
    from penlight.compat.bundled import to_program
    from penlight.file.writer import to_array
    from penlight.ir.graph import Program
    from penlight.lower import lower
    from penlight.model import Model
    from penlight.passes.pipeline import optimize

    program = None
    args = example_inputs(script, bundles)
    if list(methods) == ["forward"] and args is not None:
        try:
            program = capture(script, args, dynamic_shapes="auto")
        except CaptureError:  # control flow on data, quantized tensors …: the interpreter has no need of a plan
            program = None
    if program is not None:
        optimize(program)
        lower(program)
    else:
        program = Program({}, script=script_of(script, list(methods)))
    program.metadata.update(metadata)
    program.bundles = to_program(bundles)
    return Model(to_array(program))


def compile_program(program: LiteProgram, metadata: Mapping[str, Any]) -> Model:
    """The bytecode of a .ptl file, interpreted. Needs no torch."""
    from penlight.capture.lite.registers import to_script
    from penlight.file.writer import to_array
    from penlight.ir.graph import Program
    from penlight.model import Model

    return Model(to_array(Program({}, dict(metadata), script=to_script(program))))


def example_inputs(script: torch.jit.ScriptModule, bundles: Bundles) -> tuple[Any, ...] | None:
    """Inputs to plan `forward` with: guessed ones first, whose batch is not 1; then bundled ones; then those of a trace."""
    import torch

    from penlight.compat.guess import guess_inputs
    from penlight.compat.rewrite import clone

    if not script._c._has_method("forward"):
        return None
    frozen = torch._C._freeze_module(clone(script)._c, [], True, False)  # type: ignore[attr-defined]
    guess = guess_inputs(frozen, run=script.forward)
    if guess is not None:
        return guess.args
    if bundles.calls.get("forward"):
        return bundles.calls["forward"][0].args
    try:
        from penlight.capture.torchscript import own_inputs

        return own_inputs(script)
    except CaptureError:
        return None
