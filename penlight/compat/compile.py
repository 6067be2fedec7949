"""A TorchScript module without example inputs → a compiled model.

Planned code needs shapes: they come from inputs that the module carries (bundled, traced) or that its first operators allow to be
guessed (guess.py), and every size is left free that the module's code does not fix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

import penlight
from penlight.compat.bundled import Bundles, to_metadata
from penlight.compat.guess import guess_inputs
from penlight.compat.lite import OPERATORS
from penlight.compat.rewrite import clone
from penlight.errors import CaptureError

if TYPE_CHECKING:
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
    args = example_inputs(script, bundles)
    if args is None:
        raise CaptureError(
            "the module does not say what its inputs look like: bundle inputs with it "
            "(torch.utils.bundled_inputs.augment_model_with_bundled_inputs), or compile it with "
            "penlight.optimize(module, example_inputs)"
        )
    return penlight.optimize(script, args, dynamic_shapes="auto", metadata={**metadata, **to_metadata(bundles)})


def example_inputs(script: torch.jit.ScriptModule, bundles: Bundles) -> tuple[Any, ...] | None:
    """Inputs to plan `forward` with: guessed ones first, whose batch is not 1; then bundled ones; then those of a trace."""
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
