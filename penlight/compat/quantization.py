"""torch.quantization.fuse_modules on a model in training mode, as the torch of 2020 took it; today's says "Fusion only for eval!"."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from penlight.capture.export.nn_module import evaluating

__all__ = ["fuse_modules"]

_original = torch.ao.quantization.fuse_modules


def fuse_modules(model: torch.nn.Module, *args: Any, **options: Any) -> Any:
    """torch's own, in eval mode; afterwards the modules that are left are in the mode they were in."""
    if any(m.training for m in model.modules()):
        warnings.warn(
            "fuse_modules: this model is in training mode; it is fused as in eval mode, which quantization after training"
            " needs. Call model.eval() first; for training with quantization, torch.ao.quantization.fuse_modules_qat",
            stacklevel=2,
        )
    with evaluating(model):
        return _original(model, *args, **options)
