"""What TorchScript computes besides tensors, in Python: arithmetic on sizes, lists, dicts, strings.

torch's own implementations of these (`aten::mul.int`, `aten::len.t`, …) turn symbolic sizes into plain numbers; these keep
them. Each entry serves every overload of its name that gets no tensor. dtypes, layouts and memory formats are the integers
that TorchScript uses for them, until an operator takes them (`torch_argument`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
          torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
          torch.bfloat16]  # fmt: skip
MEMORY_FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d]
LAYOUTS = [torch.strided, torch.sparse_coo]


def dtype_code(tensor: torch.Tensor) -> int:
    return DTYPES.index(tensor.dtype)


def torch_argument(value: Any, real_type: str) -> Any:
    """A TorchScript integer as the dtype, layout or memory format that an operator's schema asks for."""
    if isinstance(value, int) and not isinstance(value, bool):
        for name, table in (("ScalarType", DTYPES), ("MemoryFormat", MEMORY_FORMATS), ("Layout", LAYOUTS)):
            if name in real_type and value < len(table):
                return table[value]
    return value


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float, torch.SymInt, torch.SymFloat))


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return [*a, *b] if isinstance(a, list) else a + (b if alpha == 1 else b * alpha)


def _add_in_place(a: Any, b: Any, alpha: Any = 1) -> Any:
    if isinstance(a, list):
        a.extend(b)
        return a
    return _add(a, b, alpha)


def _divide(a: Any, b: Any, rounding: str | None = None) -> Any:
    if rounding is None:
        return a / b
    return a // b if rounding == "floor" else _truncate(a / b)


def _truncate(x: Any) -> Any:
    return x if isinstance(x, (int, torch.SymInt)) else math.trunc(x)


def _to_bool(x: Any) -> Any:
    return x if isinstance(x, torch.SymBool) else x != 0 if is_number(x) else bool(x)


def _slice(x: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return x[slice(start, end, step)]


def _get(d: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return d.get(key, default)


def _set_item(container: Any, key: Any, value: Any) -> Any:
    container[key] = value
    return container


def _mutated(method: str) -> Callable[..., Any]:
    """A list or dict method that changes its object; TorchScript's returns the object where Python's returns None."""

    def call(container: Any, *args: Any) -> Any:
        result = getattr(container, method)(*args)
        return container if result is None else result

    return call


def _pop_first(d: dict[Any, Any]) -> Any:
    key = next(iter(d), None)  # Python's takes the last one
    return key, d.pop(key)


def _sorted(x: list[Any], reverse: bool = False) -> list[Any]:
    return sorted(x, reverse=reverse)


def _sort(x: list[Any], reverse: bool = False) -> None:
    x.sort(reverse=reverse)


def _all(xs: list[Any]) -> Any:
    return all(xs)


def _round(x: Any, digits: int | None = None) -> Any:
    return float(round(x)) if digits is None else round(x, digits)


def _minmax(choose: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        xs = args[0] if len(args) == 1 else args
        result = xs[0]
        for x in xs[1:]:
            either = any(isinstance(v, (torch.SymInt, torch.SymFloat)) for v in (x, result))
            result = symbolic(result, x) if either else choose(result, x)
        return result

    return call


PLAIN: dict[str, Callable[..., Any]] = {
    "add": _add, "add_": _add_in_place, "sub": lambda a, b, alpha=1: a - b * alpha, "rsub": lambda a, b, alpha=1: b - a * alpha,
    "mul": operator.mul, "mul_": operator.imul, "div": _divide, "true_divide": _divide, "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "fmod": math.fmod, "pow": operator.pow, "neg": operator.neg,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor, "__not__": operator.not_,
    "__lshift__": operator.lshift, "__rshift__": operator.rshift, "__is__": operator.is_, "__isnot__": operator.is_not,
    "abs": abs, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": _round, "sqrt": math.sqrt, "exp": math.exp,
    "log": math.log, "log2": math.log2, "log10": math.log10, "sin": math.sin, "cos": math.cos, "tanh": math.tanh,
    "isinf": math.isinf, "isnan": math.isnan, "isfinite": math.isfinite, "gcd": math.gcd,
    "Int": _truncate, "Float": torch.sym_float, "Bool": _to_bool, "Scalar": lambda x: x, "ScalarImplicit": lambda x: x,
    "IntImplicit": lambda x: x, "FloatImplicit": lambda x: x, "item": lambda x: x, "to": lambda x, *_: x,
    "detach": lambda x: x, "min": _minmax(min, torch.sym_min), "max": _minmax(max, torch.sym_max),
    "len": len, "__getitem__": operator.getitem, "__contains__": lambda c, x: x in c, "slice": _slice, "list": list,
    "append": _mutated("append"), "extend": _mutated("extend"), "insert": _mutated("insert"), "pop": _mutated("pop"),
    "popitem": _pop_first, "clear": _mutated("clear"), "remove": _mutated("remove"), "reverse": _mutated("reverse"),
    "sort": _sort, "sorted": _sorted, "copy": lambda x: x.copy(), "index": lambda x, v: x.index(v), "count": lambda x, v: x.count(v),
    "sum": sum, "all": _all, "any": any, "_set_item": _set_item, "Delete": operator.delitem, "keys": lambda d: list(d.keys()),
    "values": lambda d: list(d.values()), "items": lambda d: list(d.items()), "get": _get, "setdefault": lambda d, k, v: d.setdefault(k, v),
    "update": _mutated("update"), "dict": dict, "str": str, "ord": ord, "chr": chr, "hex": hex, "percentFormat": lambda f, a: f % a,
    "format": lambda f, *a: f.format(*a), "warn": lambda *_: None, "device": torch.device, "is_scripting": lambda: True,
    "is_autocast_enabled": lambda *_: False, "is_autocast_cpu_enabled": lambda *_: False,
}  # fmt: skip
for _method in ("split", "rsplit", "join", "strip", "lstrip", "rstrip", "lower", "upper", "startswith", "endswith", "replace",
                "find", "rfind", "title", "capitalize", "isdigit", "isalpha", "isalnum", "isupper", "islower", "zfill",
                "splitlines", "partition"):  # fmt: skip
    PLAIN.setdefault(_method, lambda s, *args, _m=_method: getattr(s, _m)(*args))

AS_TEXT = ("str", "format", "percentFormat", "hex", "chr")  # give text that tells their arguments

# Facts about a tensor that are no tensors.
ABOUT_TENSORS: dict[str, Callable[..., Any]] = {
    "size": lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim],
    "sym_size": lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim],
    "stride": lambda x, dim=None: list(x.stride()) if dim is None else x.stride(dim),
    "dim": lambda x: x.dim(), "numel": lambda x: x.numel(), "len": lambda x: x.shape[0],
    "is_floating_point": lambda x: x.is_floating_point(), "is_complex": lambda x: x.is_complex(),
    "is_contiguous": lambda x, *_: True, "is_cuda": lambda x: False, "storage_offset": lambda x: x.storage_offset(),
    "get_device": lambda x: -1, "__is__": operator.is_, "__isnot__": operator.is_not, "is_grad_enabled": lambda: True,
    "Bool": lambda x: x.item() != 0 if x.dtype is not torch.bool else x.item(),
    "Int": lambda x: _truncate(x.item()), "Float": lambda x: torch.sym_float(x.item()), "item": lambda x: x.item(),
    "IntImplicit": lambda x: x.item(), "FloatImplicit": lambda x: x.item(), "ScalarImplicit": lambda x: x.item(),
}  # fmt: skip
