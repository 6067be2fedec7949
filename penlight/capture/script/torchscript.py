"""TorchScript in memory → Script. torch writes the module as a .pt file, and that is read like any other (capture/source): one reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from penlight.capture.quiet import quiet
from penlight.capture.source import SourceProgram
from penlight.errors import CaptureError
from penlight.ir.script import Script

_SCALARS = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
            "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
            "Bool": torch.bool}  # fmt: skip


def script_of(module: torch.jit.ScriptModule, methods: Sequence[str] | None = None) -> Script:
    """The register code of a ScriptModule in eval mode: these methods, or forward and what is exported beside it."""
    try:
        with quiet():
            written = module.save_to_buffer()
    except RuntimeError as e:
        raise CaptureError(f"torch cannot save this TorchScript module: {str(e).splitlines()[0]}") from e
    return SourceProgram(written).script(methods)


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
    except (RuntimeError, TypeError, UnicodeError):  # TypeError: a name that is no UTF-8
        return None, None
    return (None if "..." in str(schema) else len(schema.arguments)), len(schema.returns)
