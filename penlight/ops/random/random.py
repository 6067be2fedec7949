"""The random family. Numbers come from a counter (philox.h): the session's seed, the run, the node's `stream` and the place
of the element, so that they repeat after `seed` for any number of threads. They are not those that torch draws.

Nodes are not pure: they are neither merged, folded nor removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

uniform = Op(
    "random_uniform", "shape: int[], low: float, high: float, open: bool = False, stream: int", pure=False,
    doc="From low up to but not including high; open: from (0, 1], for logarithms.",
)  # fmt: skip
normal = Op(
    "random_normal",
    "shape: int[], mean: float, std: float, stream: int",
    pure=False,
    doc="Normally distributed numbers.",
)
integers = Op(
    "random_integers", "shape: int[], low: int, high: int, whole: bool = False, stream: int", pure=False, dtypes=("i64",),
    doc="Whole numbers from low up to but not including high; whole: all that 64 bits hold.",
)  # fmt: skip
permutation = Op(
    "random_permutation", "n: int, stream: int", pure=False, dtypes=("i64",), doc="0 … n - 1 in random order."
)
poisson = Op("random_poisson", "rate: tensor, stream: int", pure=False, doc="Counts with these means.")
_OPS = (uniform, normal, integers, permutation, poisson)


def _stream(g: Emitter) -> int:
    names = {op.name for op in _OPS}
    return sum(node.op in names for node in g.graph.walk())


def _type(g: Emitter, dtype: str, like: TensorType | None = None) -> Any:
    from penlight.ir.types import TensorType

    return TensorType(dtype, (like or g.out).shape)


def _uniform(g: Emitter, low: Any = 0.0, high: Any = 1.0, open: bool = False) -> Value:
    """f32 numbers of the call's shape."""
    made: Value = g.emit(
        "random_uniform", type=_type(g, "f32"), shape=g.out.shape, low=float(low), high=float(high), open=open,
        stream=_stream(g),
    )  # fmt: skip
    return made


def _normal(g: Emitter, mean: Any = 0.0, std: Any = 1.0) -> Value:
    made: Value = g.emit(
        "random_normal", type=_type(g, "f32"), shape=g.out.shape, mean=float(mean), std=float(std), stream=_stream(g)
    )
    return made


def _integers(g: Emitter, low: Any, high: Any) -> Value:
    y = g.emit("random_integers", type=_type(g, "i64"), shape=g.out.shape, low=low, high=high, stream=_stream(g))
    return g.cast(y, g.out.dtype)


def _unary(g: Emitter, op: str, x: Value, **attrs: Any) -> Value:
    made: Value = g.emit(op, x, type=x.tensor, **attrs)
    return made


def _binary(g: Emitter, op: str, x: Value, number: float) -> Value:
    made: Value = g.emit(op, x, g.constant(float(number), "f32"), type=x.tensor)
    return made


@uniform.from_aten("rand", "rand.generator", "rand_like", "rand_like.generator")
def _(g: Emitter, *_: Any) -> Value:
    return g.cast(_uniform(g), g.out.dtype)


@uniform.from_aten("uniform")
def _(g: Emitter, x: Value, low: float, high: float, generator: Any) -> Value:
    return g.cast(_uniform(g, low, high), g.out.dtype)


@normal.from_aten("randn", "randn.generator", "randn_like", "randn_like.generator")
def _(g: Emitter, *_: Any) -> Value:
    return g.cast(_normal(g), g.out.dtype)


@normal.from_aten("normal_functional")
def _(g: Emitter, x: Value, mean: float, std: float, generator: Any) -> Value:
    return g.cast(_normal(g, mean, std), g.out.dtype)


@normal.from_aten("normal.float_float")
def _(g: Emitter, mean: float, std: float, *_: Any) -> Value:
    return g.cast(_normal(g, mean, std), g.out.dtype)


@normal.from_aten("prims::normal")
def _(g: Emitter, shape: Any, mean: float, std: float, *_: Any) -> Value:
    return g.cast(_normal(g, mean, std), g.out.dtype)


def _scaled(g: Emitter, mean: Any, std: Any) -> Value:
    """Each element has a mean and a deviation of its own."""
    y = _normal(g)
    y = g.emit("mul", y, g.as_tensor(std, "f32"), type=y.tensor)
    return g.cast(g.emit("add", y, g.as_tensor(mean, "f32"), type=y.tensor), g.out.dtype)


@normal.from_aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def _(g: Emitter, mean: Any, std: Any, generator: Any) -> Value:
    return _scaled(g, mean, std)


@normal.from_aten("log_normal")
def _(g: Emitter, x: Value, mean: float, std: float, generator: Any) -> Value:
    return g.cast(_unary(g, "exp", _normal(g, mean, std)), g.out.dtype)


@uniform.from_aten("exponential")
def _(g: Emitter, x: Value, rate: float, generator: Any) -> Value:
    return g.cast(_binary(g, "mul", _unary(g, "log", _uniform(g, open=True)), -1 / rate), g.out.dtype)


@uniform.from_aten("cauchy")
def _(g: Emitter, x: Value, median: float, sigma: float, generator: Any) -> Value:
    import math

    y = _unary(g, "tan", _uniform(g, -math.pi / 2, math.pi / 2))
    return g.cast(_binary(g, "add", _binary(g, "mul", y, sigma), median), g.out.dtype)


@uniform.from_aten("geometric")
def _(g: Emitter, x: Value, p: float, generator: Any) -> Value:
    """How many tries until the first success: at least 1."""
    import math

    if p >= 1:
        return g.cast(_binary(g, "maximum", _uniform(g), 1), g.out.dtype)
    y = _binary(g, "mul", _unary(g, "log", _uniform(g, open=True)), 1 / math.log1p(-p))
    return g.cast(_binary(g, "maximum", _unary(g, "ceil", y), 1), g.out.dtype)


@integers.from_aten("randint", "randint.generator")
def _(g: Emitter, high: Any, *_: Any) -> Value:
    return _integers(g, 0, high)


@integers.from_aten("randint.low", "randint.low_generator")
def _(g: Emitter, low: Any, high: Any, *_: Any) -> Value:
    return _integers(g, low, high)


@integers.from_aten("randint_like", "randint_like.generator")
def _(g: Emitter, x: Value, high: Any, *_: Any) -> Value:
    return _integers(g, 0, high)


@integers.from_aten("randint_like.low_dtype", "randint_like.low_generator_dtype")
def _(g: Emitter, x: Value, low: Any, high: Any, *_: Any) -> Value:
    return _integers(g, low, high)


# The last number that `random_` draws for a dtype: all whole numbers up to it are exact.
_LAST = {"f32": 2**24, "f16": 2**11, "bf16": 2**8, "f64": 2**53, "i64": 2**63 - 1, "i32": 2**31 - 1, "i16": 2**15 - 1,
         "i8": 127, "u8": 255, "bool": 1}  # fmt: skip


@integers.from_aten("random")
def _(g: Emitter, x: Value, generator: Any) -> Value:
    last = _LAST[g.out.dtype]
    return _integers(g, 0, last if g.out.dtype == "i64" else last + 1)


@integers.from_aten("random.to")
def _(g: Emitter, x: Value, to: int, generator: Any) -> Value:
    return _integers(g, 0, to)


@integers.from_aten("random.from")
def _(g: Emitter, x: Value, low: int, to: int | None, generator: Any) -> Value:
    return _integers(g, low, min(_LAST[g.out.dtype], 2**63 - 2) + 1 if to is None else to)


@permutation.from_aten("randperm", "randperm.generator")
def _(g: Emitter, n: Any, *_: Any) -> Value:
    return g.cast(g.emit("random_permutation", type=_type(g, "i64"), n=n, stream=_stream(g)), g.out.dtype)


@poisson.from_aten("poisson")
def _(g: Emitter, rate: Value, generator: Any) -> Value:
    return g.cast(g.emit("random_poisson", g.cast(rate, "f32"), type=_type(g, "f32"), stream=_stream(g)), g.out.dtype)


@composite("bernoulli")
def _(x: Any, *, generator: Any = None) -> Any:
    import torch

    return (torch.rand(x.shape) < x).to(x.dtype)


@composite("bernoulli.p", "bernoulli.Tensor")
def _(x: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    import torch

    return (torch.rand(x.shape) < p).to(x.dtype)


@composite("native_dropout")
def _(x: Any, p: float, train: bool | None = None) -> Any:
    import torch

    if train is False or p == 0:
        return x.clone(), torch.ones(x.shape, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros(x.shape, dtype=torch.bool)
    kept = torch.rand(x.shape) >= p
    return kept * x * (1 / (1 - p)), kept


@composite("rrelu")
def _(x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    import torch

    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)
    return torch.where(x <= 0, x * (torch.rand(x.shape) * (upper - lower) + lower), x)


@composite("rrelu_with_noise_functional")
def _(
    x: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    import torch

    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise
    slope = torch.where(x <= 0, torch.rand(x.shape) * (upper - lower) + lower, torch.ones_like(x))
    return x * slope, slope


@composite("multinomial")
def _(weights: Any, count: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """With replacement: where a point falls on the weights laid end to end. Without: each waits for a time that is the
    shorter the more weight it has, and the first ones to come are drawn."""
    import torch

    if replacement:
        ends = weights.cumsum(-1)
        points = torch.rand((*weights.shape[:-1], count)) * ends[..., -1:]
        return torch.searchsorted(ends, points, right=True).clamp(max=weights.shape[-1] - 1)
    waits = torch.ops.aten.exponential(weights).clamp(min=1e-30)
    return torch.topk(weights / waits, count).indices


# Samples are what cannot depend on chance; how the numbers are distributed is tested in tests/ops/test_random.py.
@uniform.samples
def _() -> Iterator[Sample]:
    import torch

    def bounds(x: Any) -> list[Any]:
        drawn = [torch.rand_like(x), x.clone().uniform_(-2, 3), torch.rand(7, 300)]
        return [
            v
            for y, (a, b) in zip(drawn, [(0, 1), (-2, 3), (0, 1)], strict=True)
            for v in ((y >= a).all(), (y < b).all())
        ]

    def others(x: Any) -> list[Any]:
        tries = x.clone().geometric_(0.3)
        return [(x.clone().exponential_(2) >= 0).all(), (tries >= 1).all(), (tries == tries.round()).all(),
                (x.clone().cauchy_() * 0).sum(), torch.bernoulli(x * 0 + 1), torch.dropout(x, 1.0, True)]  # fmt: skip

    x = torch.randn(3, 1111)
    yield Sample(bounds, (x,), "bounds")
    yield Sample(others, (x,), "others")
    yield Sample(lambda x: torch.rand_like(x).uniform_(2, 2), (x[:0],), "none")
    yield Sample(
        lambda x: torch.rand(x.shape[0], 5) < 1, (x[:, :9],), "dynamic", dynamic=({0: torch.export.Dim("n", max=99)},)
    )


@normal.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 257)

    def certain(x: Any) -> list[Any]:
        return [torch.normal(x, 0.0), torch.normal(2.0, torch.zeros_like(x)), x.clone().normal_(1.5, 0),
                (torch.randn_like(x).abs() < 7).all(), (x.clone().log_normal_() > 0).all()]  # fmt: skip

    yield Sample(certain, (x,), "certain")


@integers.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 257)

    def certain(x: Any) -> list[Any]:
        small, large = torch.randint_like(x, -3, 4), torch.randint(-(2**60), 2**60, (5, 77))
        return [torch.randint(5, 6, (3, 4)), small.aminmax(), (large >= -(2**60)).all(), (large < 2**60).all(),
                x.clone().random_(1), (torch.empty(99, dtype=torch.int64).random_() >= 0).all()]  # fmt: skip

    yield Sample(certain, (x,), "certain")


@permutation.samples
def _() -> Iterator[Sample]:
    import torch

    yield Sample(lambda x: [torch.randperm(n).sort().values + x for n in (1, 2, 999)], (torch.tensor(3),), "sorted")


@poisson.samples
def _() -> Iterator[Sample]:
    import torch

    def certain(rate: Any) -> list[Any]:
        y = torch.poisson(rate)
        return [
            torch.poisson(rate * 0),
            (y >= 0).all(),
            (y == y.round()).all(),
            ((y - rate).abs() <= 9 * rate.sqrt() + 20).all(),
        ]

    yield Sample(certain, (torch.linspace(0, 300, 999).reshape(3, 333),), "certain")
