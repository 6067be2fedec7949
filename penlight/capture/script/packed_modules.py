"""nn.Modules with packed quantized weights → TorchScript: torch.export does not take them, torch.jit does.

These are what torch.ao.quantization.convert and convert_fx give. Scripted where torch can, since code then stays code; else traced,
which fixes what the Python code decided for the example inputs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from penlight.capture.export.nn_module import evaluating, prepare_inputs
from penlight.capture.quiet import quiet
from penlight.errors import ExampleError

_CALLS = re.compile(
    r"torch\.quantize_per_tensor\(|torch\.ops\.quantized\.|\.dequantize\(\)"
)  # in the code of a GraphModule


def is_packed(module: nn.Module) -> bool:
    """Whether a module, or one in it, computes with quantized tensors, of which torch.export knows nothing."""
    for each in module.modules():
        if isinstance(each, torch.jit.ScriptModule):
            return False
        if re.match(r"torch\.ao\.nn\.(intrinsic\.)?quantized\.", type(each).__module__):
            return True
        if any(isinstance(v, torch.ScriptObject) or _is_quantized(v) for v in vars(each).values()):
            return True
        if any(map(_is_quantized, (*each._buffers.values(), *each._parameters.values()))):
            return True
        if isinstance(each, torch.fx.GraphModule) and _CALLS.search(each.code):
            return True
    return False


def _is_quantized(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_quantized


def as_script(
    module: nn.Module, args: Any, kwargs: Mapping[str, Any] | None, say: Callable[[str], None]
) -> torch.jit.ScriptModule:
    """The module in eval mode, scripted, or traced with these arguments."""
    inputs, keywords = prepare_inputs(() if args is None else args, kwargs or {})
    with evaluating(module), quiet(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit says that it is deprecated
        try:
            return torch.jit.script(module)  # type: ignore[no-any-return]
        except Exception as scripting:  # anything: torch.jit reports code that it does not take in many ways
            say(
                f"{type(module).__name__} cannot be scripted: it is traced, with what its code decides for these inputs"
            )
            try:
                given: dict[str, Any] = {"example_kwarg_inputs": keywords} if keywords else {}
                return torch.jit.trace(module, inputs, check_trace=False, strict=False, **given)  # type: ignore[no-any-return]
            except Exception as tracing:
                raise ExampleError(
                    f"{type(module).__name__} has packed quantized weights, which torch.export does not take, and torch.jit can neither"
                    f" script nor trace it. Does it run on these example inputs?\n  scripting: {_first_line(scripting)}\n  tracing:"
                    f" {_first_line(tracing)}"
                ) from tracing


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
