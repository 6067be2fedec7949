"""TorchScript → Script: a module in eval mode, frozen by torch, as register code (script_graph.py).

Frozen code has fewer branches: what depends on `training` or on other attributes that never change is decided.
"""

from __future__ import annotations

from typing import Any

import torch

from penlight.capture.quiet import quiet
from penlight.capture.script.torchscript_graph import script_of_graphs
from penlight.errors import CaptureError
from penlight.ir.script import Script


def script_of(module: torch.jit.ScriptModule, methods: list[str] | None = None) -> Script:
    """The register code of a ScriptModule in eval mode: `forward`, or these methods."""
    wanted = methods if methods is not None else default_methods(module)
    missing = [m for m in wanted if not module._c._has_method(m)]
    if missing:
        raise CaptureError(f"the TorchScript module has no method {', '.join(missing)}")
    with quiet(), _evaluating(module):
        return script_of_graphs(_frozen(module, wanted), wanted)


def default_methods(module: torch.jit.ScriptModule) -> list[str]:
    """forward, and what is exported beside it."""
    names = [n for n in module._c._method_names() if not (n.startswith("__") and n.endswith("__"))]
    return names or ["forward"]


class _evaluating:
    """The module in eval mode, and afterwards as it was."""

    def __init__(self, module: torch.jit.ScriptModule) -> None:
        self.training = [m for m in module.modules() if getattr(m, "training", False)]
        self.module = module

    def __enter__(self) -> None:
        self.module.eval()

    def __exit__(self, *_: Any) -> None:
        for m in self.training:
            m.training = True


def _frozen(module: torch.jit.ScriptModule, methods: list[str]) -> torch.jit.ScriptModule:
    """Frozen where torch can: some modules have nothing that it could start from (no forward), or attributes it cannot keep."""
    try:
        return torch.jit.freeze(module, preserved_attrs=[m for m in methods if m != "forward"], optimize_numerics=False)
    except (RuntimeError, AttributeError, ValueError):
        return module


def schema_counts(name: str) -> tuple[int | None, int | None]:
    """How many arguments and results an operator has, from torch's schemas; None where it has no such operator."""
    base, _, overload = name.partition(".")
    try:
        schema = torch._C._get_schema(base, overload)
    except RuntimeError:
        return None, None
    return (None if "..." in str(schema) else len(schema.arguments)), len(schema.returns)
