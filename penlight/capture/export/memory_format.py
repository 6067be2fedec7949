"""Which rank-4 results torch would give with their channels innermost (channels-last), for inputs that lie plainly and for inputs that
are channels-last themselves: torch's own shape functions say so, run over the exported graph at the example's sizes.

Penlight lays values out as it likes; this is only so that results come back with the strides that torch's have.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from penlight.capture.export.recurrence import free_steps
from penlight.capture.quiet import quiet

FORMATS = (torch.contiguous_format, torch.channels_last)  # of the inputs


def channels_last_results(ep: ExportedProgram) -> list[list[int]]:
    """For each of FORMATS, which user outputs are channels-last. Empty: none is, or torch cannot say."""
    placeholders = [n for n in ep.graph.nodes if n.op == "placeholder"]
    results: Any = next(n for n in ep.graph.nodes if n.op == "output").args[0]
    user = set(ep.graph_signature.user_inputs)
    images = [n.meta["val"] for n in placeholders if n.name in user and _is_image(n.meta.get("val"))]
    at_capture: list[Any] = [getattr(n, "meta", {}).get("val") for n in results]
    if not images or not any(map(_is_image, at_capture)):
        return []
    wanted = [i for i, s in enumerate(ep.graph_signature.output_specs) if s.kind == OutputKind.USER_OUTPUT]
    found = []
    for memory_format in FORMATS:
        values = at_capture
        if memory_format != torch.contiguous_format or not all(x.is_contiguous() for x in images):
            sizes = [_sizes(n.meta.get("val")) for n in placeholders]
            if any(s is None for size in sizes for s in size):
                return []  # they come from data
            with FakeTensorMode(), quiet(), torch.no_grad(), free_steps():
                given = [
                    _fake(size, n.meta.get("val"), memory_format if n.name in user else None)
                    for n, size in zip(placeholders, sizes, strict=True)
                ]
                try:
                    values = torch.fx.Interpreter(ep.graph_module).run(*given)
                except (RuntimeError, ValueError, TypeError):
                    return []  # torch refuses these strides, or cannot tell without data
        found.append([k for k, i in enumerate(wanted) if _is_image(values[i]) and is_channels_last(values[i])])
    return found if any(found) else []


def is_channels_last(x: torch.Tensor) -> bool:
    """And not row-major at the same time, as with one channel."""
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _is_image(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 4


def _sizes(value: Any) -> list[Any]:
    """Sizes and strides at capture, or the number that it was; None where it comes from data."""
    numbers = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
    return [s.node.hint if isinstance(s, torch.SymInt) else s for s in numbers if s is not None]


def _fake(sizes: list[Any], value: Any, memory_format: torch.memory_format | None) -> Any:
    if not isinstance(value, torch.Tensor):
        return sizes[0] if sizes else None
    shape, strides = sizes[: value.dim()], sizes[value.dim() :]
    if memory_format is not None and value.dim() == 4:
        return torch.empty(shape, dtype=value.dtype, memory_format=memory_format)
    return torch.empty_strided(shape, strides, dtype=value.dtype)
