"""TorchScript → Script: a module in eval mode as register code (torchscript_graph.py), and what it carries with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from penlight.capture.export.nn_module import evaluating
from penlight.capture.quiet import quiet
from penlight.capture.script.torchscript_graph import script_of_graphs
from penlight.errors import CaptureError
from penlight.ir.script import Script

_SCALARS = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
            "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
            "Bool": torch.bool}  # fmt: skip


def script_of(module: torch.jit.ScriptModule, methods: Sequence[str] | None = None) -> Script:
    """The register code of a ScriptModule in eval mode: these methods, or forward and what is exported beside it."""
    wanted = list(methods) if methods is not None else default_methods(module)
    missing = [m for m in wanted if not module._c._has_method(m)]
    if missing:
        raise CaptureError(f"the TorchScript module has no method {', '.join(missing)}")
    with quiet(), evaluating(module):
        return script_of_graphs(module, wanted)


def default_methods(module: torch.jit.ScriptModule) -> list[str]:
    """forward, and what is exported beside it."""
    names = [n for n in module._c._method_names() if not (n.startswith("__") and n.endswith("__"))]
    return names or ["forward"]


def traced_inputs(module: torch.jit.ScriptModule) -> tuple[Any, ...] | None:
    """Tensors of the shapes that forward was traced with; None where it was not."""
    if not module._c._has_method("forward"):
        return None
    made = []
    for value in list(module.graph.inputs())[1:]:
        kind: Any = value.type()
        sizes = kind.sizes() if kind.kind() == "TensorType" else None
        if sizes is None or kind.scalarType() not in _SCALARS:
            return None
        made.append(torch.zeros(sizes, dtype=_SCALARS[kind.scalarType()]))
    return tuple(made) or None


def schema_counts(name: str) -> tuple[int | None, int | None]:
    """How many arguments and results an operator has, from torch's schemas; None where it has no such operator."""
    base, _, overload = name.partition(".")
    try:
        schema = torch._C._get_schema(base, overload)
    except RuntimeError:
        return None, None
    return (None if "..." in str(schema) else len(schema.arguments)), len(schema.returns)
