"""full and arange: tensors of numbers that no input gives. What has a static and small size becomes a constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import Expr
from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

SMALL = 1024  # elements: above, a node that fills memory is better than a constant in the file


def _fold_full(*, shape: tuple[int, ...], value: float, dtype: str) -> np.ndarray:
    import numpy as np

    from penlight.ir.types import numpy_dtype

    return np.full(shape, np.array(value).astype(numpy_dtype(dtype)))


def _fold_arange(*, start: int, end: int, step: int, dtype: str) -> np.ndarray:
    import numpy as np

    from penlight.ir.types import numpy_dtype

    return np.arange(start, end, step).astype(numpy_dtype(dtype))


full = Op(
    "full",
    "shape: int[], value: float, dtype: str",
    layout="plain",
    tolerance=0.0,
    key_by="size",
    fold=_fold_full,
    doc="A tensor with the same number everywhere.",
)
arange = Op(
    "arange",
    "start: int, end: int, step: int, dtype: str",
    layout="plain",
    tolerance=0.0,
    fold=_fold_arange,
    doc="start, start + step, … up to but not including end.",
)


def _full(g: Emitter, value: Any) -> Value:
    import numpy as np

    from penlight.ir.dims import product
    from penlight.ir.graph import Value
    from penlight.ir.types import numpy_dtype

    out = g.out
    elements = product(out.shape)
    if isinstance(value, (Value, Expr)):  # a number known at run time
        scalar = g.as_tensor(value, out.dtype)
        return g.emit("expand", scalar, shape=out.shape) if out.shape else scalar
    if not out.shape:
        return g.constant(value, out.dtype)
    if isinstance(elements, int) and elements <= SMALL and out.dtype != "bf16":
        return g.constant(np.full(out.shape, value, numpy_dtype(out.dtype)))
    return g.emit("full", shape=out.shape, value=float(value), dtype=out.dtype)


@full.from_aten("full")
def _(g: Emitter, size: Sequence[Any], value: Any, *_: Any) -> Value:
    return _full(g, value)


@full.from_aten("full_like", "fill.Scalar", "fill.Tensor")
def _(g: Emitter, x: Value, value: Any, *_: Any) -> Value:
    return _full(g, value)


@full.from_aten("new_full")
def _(g: Emitter, x: Value, size: Sequence[Any], value: Any, *_: Any) -> Value:
    return _full(g, value)


@full.from_aten("scalar_tensor")
def _(g: Emitter, value: Any, *_: Any) -> Value:
    return _full(g, value)


@full.from_aten(
    "zeros",
    "zeros_like",
    "new_zeros",
    "zero",
    "empty.memory_format",
    "empty_like",
    "new_empty",
    "empty_permuted",
    "empty_strided",
    "new_empty_strided",
)
def _(g: Emitter, *_: Any) -> Value:
    return _full(g, 0)


@full.from_aten("ones", "ones_like", "new_ones")
def _(g: Emitter, *_: Any) -> Value:
    return _full(g, 1)


def _arange(g: Emitter, start: Any, end: Any, step: Any) -> Value:
    import numpy as np

    from penlight.ir.types import TensorType, numpy_dtype

    out = g.out
    (size,) = out.shape
    if isinstance(size, int) and not any(isinstance(v, Expr) for v in (start, step)):
        if numpy_dtype(out.dtype).kind in "iu" and out.dtype != "bf16":  # torch counts in the result's dtype
            start, step = int(start), int(step)
        values = np.float64(start) + np.arange(size, dtype="float64") * np.float64(step)
        if all(isinstance(v, int) for v in (start, step)):
            values = np.arange(size, dtype="int64") * step + start
        return g.constant(values.astype(numpy_dtype(out.dtype)), out.dtype)
    if not all(isinstance(v, (int, Expr)) for v in (start, end, step)):
        g.fail("arange of floats whose size is symbolic")
    dtype = out.dtype if out.dtype in ("f32", "i32", "i64") else "i64"
    y = g.emit("arange", type=TensorType(dtype, out.shape), start=start, end=end, step=step, dtype=dtype)
    return g.cast(y, out.dtype)


@arange.from_aten("arange")
def _(g: Emitter, end: Any, *_: Any) -> Value:
    return _arange(g, 0, end, 1)


@arange.from_aten("arange.start")
def _(g: Emitter, start: Any, end: Any, *_: Any) -> Value:
    return _arange(g, start, end, 1)


@arange.from_aten("arange.start_step")
def _(g: Emitter, start: Any, end: Any, step: Any, *_: Any) -> Value:
    return _arange(g, start, end, step)


@full.from_aten("logspace")
def _(g: Emitter, start: Any, end: Any, steps: Any, base: float, *_: Any) -> Value:
    """As torch computes it: exponents in the result's precision (or f32), from both ends."""
    import numpy as np

    from penlight.ir.types import numpy_dtype

    if not all(isinstance(v, (int, float)) for v in (start, end, steps)):
        g.fail("logspace with symbolic sizes")
    if g.out.dtype == "bf16":
        g.fail("logspace of bf16")
    dtype = numpy_dtype(g.out.dtype)
    if dtype.kind in "iu":
        start, end = int(start), int(end)
    precise = np.float64 if g.out.dtype == "f64" else np.float32
    at = np.arange(steps)
    step = precise((end - start) / max(steps - 1, 1))
    exponents = np.where(at < steps // 2, precise(start) + step * at, precise(end) - step * (steps - 1 - at))
    if steps == 1:
        exponents = np.full(1, precise(start))
    with np.errstate(all="ignore"):
        return g.constant(np.power(np.float64(base), exponents.astype(precise).astype(np.float64)).astype(dtype))


@composite("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def _linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, **_: Any) -> Any:
    """Between numbers that are tensors; in f32, from both ends."""
    import torch

    if dtype is not None and not dtype.is_floating_point:  # torch rounds the ends first
        start, end = (v.to(torch.int64) if isinstance(v, torch.Tensor) else int(v) for v in (start, end))
    at = torch.arange(steps, dtype=torch.float32)
    if steps < 2:
        line = at * 0 + start
    else:
        step = torch.as_tensor((end - start) / (steps - 1), dtype=torch.float32)
        line = torch.where(at < steps // 2, start + step * at, end - step * (steps - 1 - at))
    return line.to(dtype or torch.get_default_dtype())


@composite("logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def _(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, **_: Any) -> Any:
    import torch

    if dtype is not None and not dtype.is_floating_point:
        start, end = (v.to(torch.int64) if isinstance(v, torch.Tensor) else int(v) for v in (start, end))
    return torch.pow(base, _linspace(start, end, steps)).to(dtype or torch.get_default_dtype())


def _dynamic() -> Any:
    import torch

    return ({0: torch.export.Dim("n", min=3, max=64), 1: torch.export.Dim("m", min=2, max=99)},)


@full.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 7)
    yield Sample(
        lambda x: [
            x + torch.full((3, 7), 2.5),
            torch.zeros_like(x) + x,
            x * torch.ones(7),
            x.new_full((2, 3), 7).long(),
            torch.zeros(40, 50) + x[0, 0],
        ],
        (x,),
        "static",
    )
    yield Sample(
        lambda x: [
            torch.full((x.shape[0], 5), -1.5),
            torch.ones_like(x, dtype=torch.int64),
            torch.zeros(x.shape[1], dtype=torch.bool),
            x.new_zeros(2, x.shape[1]),
            torch.full_like(x, 3, dtype=torch.float16),
        ],
        (x,),
        "dynamic",
        dynamic=_dynamic(),
    )


@arange.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 7)
    yield Sample(
        lambda x: [
            x + torch.arange(7),
            torch.arange(3, 9, 2) + x[0, 0],
            torch.arange(0.5, 3, 0.5) * x[0, 0],
            x + torch.arange(7, 0, -1),
        ],
        (x,),
        "static",
    )
    yield Sample(
        lambda x: [
            torch.arange(x.shape[1]) + x,
            torch.arange(1, x.shape[0]),
            torch.arange(x.shape[1], dtype=torch.float32) * x,
            torch.arange(x.shape[0], 0, -2),
        ],
        (x,),
        "dynamic",
        dynamic=_dynamic(),
    )
