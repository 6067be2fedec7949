"""An aten call as a converter gets it: every argument of the schema, in order, defaults filled in, torch's own types gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from penlight.capture.export.tensors import computed, dtype_name

# Where a tensor lies and how it is laid out is decided after capture.
_PLACEMENT = (torch.device, torch.layout, torch.memory_format)
_PLACEMENT_NAMES = ("device", "layout", "memory_format", "pin_memory")


def aten_name(op: OpOverload) -> str:
    """ "conv2d", "add.Tensor": the registry's name of an overload. Outside of aten with the namespace: "prims::mul"."""
    namespace, _, name = op._schema.name.partition("::")
    full = name if op._overloadname == "default" else f"{name}.{op._overloadname}"
    return full if namespace == "aten" else f"{namespace}::{full}"


def arguments(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], translate: Callable[[Any], Any]
) -> list[Any]:
    """All arguments of a call, each passed through `translate` (which knows nodes); dtypes as names, placement as None."""
    values = []
    schema: Any = op._schema
    for i, declared in enumerate(schema.arguments):
        if i < len(args) and not declared.kwarg_only:
            value = args[i]
        else:
            value = kwargs.get(declared.name, declared.default_value if declared.has_default_value() else None)
        value = _argument(value, declared.name, translate)
        if declared.N is not None and isinstance(value, list) and len(value) == 1:
            value = value * declared.N  # "int[2] stride" given as [2]
        values.append(value)
    return values


def _argument(value: Any, name: str, translate: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.dtype):
        return "c64" if value == torch.complex64 else computed(dtype_name(value))
    if isinstance(value, _PLACEMENT) or name in _PLACEMENT_NAMES:
        return None
    if isinstance(value, (list, tuple)):
        return [_argument(v, name, translate) for v in value]
    return translate(value)
