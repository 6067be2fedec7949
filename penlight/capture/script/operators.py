"""Operators of TorchScript called by name, in Python: those on tensors by torch, those on numbers and text by the VM (vm_values.py), what is
left by plain_values.py: containers, which stay what they are, and sizes, which stay symbolic."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import torch

from penlight.capture.script import vm_values
from penlight.capture.script.plain_values import ABOUT_TENSORS, AS_TEXT, PLAIN, is_number, torch_argument
from penlight.capture.script.quantized import Quantized, call_quantized, is_about_quantized
from penlight.capture.trust import check_count, check_operator
from penlight.errors import CaptureError
from penlight.ir.containers import parts

_MOST_BITS, _MOST_PARTS = 1 << 10, 1 << 24
_GIVE_NUMBERS = {"Int", "Float", "Bool", "Scalar", "IntImplicit", "FloatImplicit", "ScalarImplicit", "item"}
# Of sizes and numbers that are exact in f32 they give such.
_KEEP_EXACT = {
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "neg", "abs", "floor", "ceil", "trunc", "round", "to", "detach", "min", "max", "eq",
    "ne", "lt", "le", "gt", "ge",
}  # fmt: skip
# Look at all that is in a container, shared parts each time.
_LOOK_INSIDE = {
    *AS_TEXT, "__contains__", "count", "eq", "ge", "gt", "index", "le", "lt", "max", "min", "ne", "remove", "sort", "sorted",
}  # fmt: skip
_FORMATS = {
    "format": re.compile(r"(?<!\{)(?:\{\{)*\{[^}{]"),
    "percentFormat": re.compile(r"(?<!%)(?:%%)*%[^A-Za-z%]"),
}


class OpenText:
    """Stands for text that contains a size which the plan leaves open. Code may make such text, but not read or return it."""

    def __bool__(self) -> bool:
        raise CaptureError("a text tells a size, which a plan leaves open")


def plain_result(full_name: str, args: list[Any]) -> tuple[bool, Any]:
    """Whether an operator ("aten::add.int") is no tensor operator for these arguments, and its result then."""
    name = full_name.partition("::")[2].partition(".")[0]
    has_tensor = any(map(holds_tensor, args))
    if name in AS_TEXT and any(map(holds_symbol, args)):
        return True, OpenText()  # most often the message of a check that holds: nobody reads it
    if any(isinstance(a, OpenText) for a in args):
        raise CaptureError("a text tells a size, which a plan leaves open")
    if has_tensor and name in PLAIN and isinstance(args[0], (list, tuple, dict, str)):
        return True, _plain(full_name, name, args)  # containers stay Python objects whatever is in them
    if has_tensor and name in ABOUT_TENSORS and (name not in ("__is__", "__isnot__") or len(args) == 2):
        return True, ABOUT_TENSORS[name](*args)
    if not has_tensor and name in PLAIN:
        return True, _plain(full_name, name, args)
    if not has_tensor and name in ABOUT_TENSORS and not args:
        return True, ABOUT_TENSORS[name]()
    return False, None


def _plain(full_name: str, name: str, args: list[Any]) -> Any:
    """As TorchScript would, whose numbers have 64 bits: a few lines of code make others of Python, and texts and lists, without end."""
    sizes = [len(a) for a in args if isinstance(a, (str, list, tuple))]
    numbers = [a for a in args if type(a) is int]
    large = False
    if name in ("pow", "__lshift__") and len(numbers) > 1:
        bits = numbers[0].bit_length() if name == "pow" else 1
        large = bits * numbers[1] > _MOST_BITS
    elif name in ("mul", "mul_", "zfill") and sizes:
        large = max(numbers, default=0) * max(sizes[0], 1) > _MOST_PARTS
    elif name in ("replace", "join") and len(sizes) > 1:
        items = args[1] if name == "join" else ()
        large = max(sizes[0], 1) * max(sizes[-1], 1) + sum(map(len, items)) > _MOST_PARTS
    elif name in _FORMATS and isinstance(args[0], str):
        large = _FORMATS[name].search(args[0]) is not None  # widths, which TorchScript has not
    if not large and vm_values.takes(full_name, args):
        return vm_values.call(full_name, args)
    if vm_values.is_of_tensors(full_name) and name not in _GIVE_NUMBERS and args and is_number(args[0]):
        return _of_sizes(full_name, name, args)
    if name == "pow" and full_name != "aten::pow.int_to_int":  # also of two integers
        args = [torch.sym_float(a) for a in args]
    if isinstance(args[0] if args else None, dict) and any(
        isinstance(a, tuple) or (isinstance(a, float) and a != a) for a in args[1:2]
    ):
        raise CaptureError(f"aten::{name} with a tuple or NaN as a key is not planned")
    if name in _LOOK_INSIDE and parts(args) > _MOST_PARTS:
        raise CaptureError(f"aten::{name} of more than {_MOST_PARTS} parts, as often as they are in each other")
    result = None if large else PLAIN[name](*args)
    if type(result) is int and not -(1 << 63) <= result < 1 << 63:
        large = True
    if large or (isinstance(result, (str, list, tuple)) and len(result) > _MOST_PARTS):
        raise CaptureError(f"aten::{name} gives a number of more than 64 bits, or more than {_MOST_PARTS} parts")
    return result


def _of_sizes(full_name: str, name: str, args: list[Any]) -> Any:
    """A trace's arithmetic with sizes, which are tensors there: fractions are f32, and a change in place is seen wherever the tensor is."""
    if name.endswith("_") and not name.startswith("__"):
        raise CaptureError(f"{full_name} changes a size, which is not planned")
    if not any(map(holds_symbol, args)):
        return vm_values.call_on_sizes(full_name, args)
    fraction = any(isinstance(a, (float, torch.SymFloat)) for a in args)
    by = [a for a in args[1:2] if is_number(a)] if name in ("div", "true_divide", "floor_divide") else []
    inverse = [1.0 / d if type(d) in (int, float) and d else math.nan for d in by]
    exact = name in _KEEP_EXACT and vm_values.is_exact([*args, *inverse])
    to_integer = (
        name == "to" and isinstance(args[0], torch.SymFloat) and any(type(a) is int and a < 5 for a in args[1:3])
    )
    if to_integer or ((fraction or name in ("div", "true_divide")) and not exact):
        raise CaptureError(f"{full_name} of a size that is left open: a trace computes it with 24 bits")
    return PLAIN[name](*args)


def call_torch(name: str, overload: str, args: list[Any]) -> Any:
    """A tensor operator ("aten::add", "Tensor"), its arguments in the order of the schema."""
    if name == "aten::_convolution":
        return _convolution(*args)
    if name in PACKED:
        return PACKED[name](*args)
    if is_about_quantized(name, args):
        return call_quantized(name, overload, args, call_torch)
    check_operator(name)
    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    op = getattr(packet, overload or "default", None) if packet is not None else None
    if op is None:
        raise CaptureError(f"{name}{'.' if overload else ''}{overload} of TorchScript is not captured yet")
    if holds_symbol(args) and not any("Tensor" in str(r.type) for r in op._schema.returns):
        raise CaptureError(f"{name} of a size that is left open: torch would take it for the size of the example")
    positional, named = [], {}
    for declared, value in zip(op._schema.arguments, args, strict=False):
        value = torch_argument(value, str(declared.real_type))
        if is_number(value) and "Tensor" in str(declared.type):
            dtype = torch.float32 if isinstance(value, (float, torch.SymFloat)) else torch.int64
            value = torch.full((), value, dtype=dtype)
        if declared.kwarg_only:
            named[declared.name] = value
        else:
            positional.append(value)
    check_count(name, positional)
    return op(*positional, **named)


def holds_tensor(x: Any) -> bool:
    return _holds(x, (torch.Tensor, Quantized), set())


def holds_symbol(x: Any) -> bool:
    return _holds(x, (torch.SymInt, torch.SymFloat, torch.SymBool), set())


def _holds(x: Any, kinds: tuple[type, ...], seen: set[int]) -> bool:
    """`seen`: containers that hold none, as a few lists can be in each other a billion times."""
    if not isinstance(x, (list, tuple, dict)):
        return isinstance(x, kinds)
    if id(x) in seen:
        return False
    seen.add(id(x))
    return any(_holds(v, kinds, seen) for v in (x.values() if isinstance(x, dict) else x))


def _convolution(
    x: Any,
    w: Any,
    b: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Any:
    """A trace records this internal form; the public ones are what the rest of capture knows."""
    if transposed:
        return torch.ops.aten.convolution.default(x, w, b, stride, padding, dilation, True, output_padding, groups)
    convolution = {3: torch.ops.aten.conv1d, 4: torch.ops.aten.conv2d, 5: torch.ops.aten.conv3d}[w.dim()]
    return convolution.default(x, w, b, stride, padding, dilation, groups)


# ---- operators on packed weights: what optimize_for_mobile makes; `packed` has plain weights as attributes (lite/packed.py) ----
def _clamped(y: Any, packed: Any) -> Any:
    low, high = packed("output_min"), packed("output_max")
    return y if low is None and high is None else torch.ops.aten.clamp.default(y, low, high)


def _packed_linear(x: Any, packed: Any) -> Any:
    return _clamped(torch.ops.aten.linear.default(x, packed("weight"), packed("bias")), packed)


def _packed_conv(x: Any, packed: Any) -> Any:
    stride, padding, dilation = packed("stride"), packed("padding"), packed("dilation")
    if packed("transposed"):
        op = torch.ops.aten.conv_transpose2d.input
        y = op(
            x, packed("weight"), packed("bias"), stride, padding, packed("output_padding"), packed("groups"), dilation
        )
    else:
        y = torch.ops.aten.conv2d.default(
            x, packed("weight"), packed("bias"), stride, padding, dilation, packed("groups")
        )
    return _clamped(y, packed)


PACKED: dict[str, Callable[..., Any]] = {
    "prepacked::linear_clamp_run": _packed_linear,
    "prepacked::conv2d_clamp_run": _packed_conv,
    "prepacked::conv2d_transpose_clamp_run": _packed_conv,
    "vulkan_prepack::run_linear_context": _packed_linear,
    "vulkan_prepack::linear_run": _packed_linear,
    "vulkan_prepack::run_conv2d_context": _packed_conv,
    "vulkan_prepack::run_tconv2d_context": _packed_conv,
    "vulkan_prepack::conv2d_clamp_run": _packed_conv,
    "metal_prepack::conv2d_run": _packed_conv,
    "metal_prepack::linear_run": _packed_linear,
    "metal::copy_to_host": lambda x: x,
}
