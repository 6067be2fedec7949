"""fft, rfft, irfft: transforms along one dim, complex to complex, real to the half that says all, and back.

A call of torch's over several dims is one node for each. `norm`: 0 as it comes, 1 divided by the root of n, 2 by n. The
length n may differ from the input's, which is then cut or ends in zeros. `hop`: the last dim is a signal, from which frames
of n elements are taken that far apart; `window` weighs each line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, on_complex

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.complex_values import ComplexValue
    from penlight.ops.emitter import Emitter

fft = Op(
    "fft", "re: tensor, im: tensor?, window: tensor?, dim: int, n: int, inverse: bool = False, norm: int = 0, hop: int = 0",
    outputs=2, tolerance=2e-6, doc="Discrete Fourier transform of complex lines.",
)  # fmt: skip
rfft = Op(
    "rfft", "x: tensor, window: tensor?, dim: int, n: int, norm: int = 0, hop: int = 0",
    outputs=2, tolerance=2e-6, doc="Discrete Fourier transform of real lines: its first n // 2 + 1 elements.",
)  # fmt: skip
irfft = Op(
    "irfft", "re: tensor, im: tensor?, dim: int, n: int, norm: int = 0",
    tolerance=2e-6, doc="Real lines from the first half of their transform.",
)  # fmt: skip

NORMS = {"backward": (0, 2), "ortho": (1, 1), "forward": (2, 0)}  # there, back


def norm_of(g: Emitter, norm: str | None, inverse: bool) -> int:
    if (norm or "backward") not in NORMS:
        g.fail(f"with norm {norm!r}")
    return NORMS[norm or "backward"][int(inverse)]


def _resized(shape: Sequence[Dim], dim: int, n: Dim) -> Any:
    from penlight.ir.types import TensorType

    return TensorType("f32", (*shape[:dim], n, *shape[dim + 1 :]))


def _half(n: Dim) -> Dim:
    from penlight.ir.dims import combine

    return combine("+", combine("//", n, 2), 1)


def _real(g: Emitter, x: Value) -> Value:
    """A real input as f32; torch makes floats of integers."""
    if x.dtype == "f64":
        g.fail("of a f64 tensor: only f32 is supported")
    return g.cast(x, "f32")


def emit_fft(g: Emitter, x: Any, dim: int, n: Dim, inverse: bool, norm: int) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    re, im = x.parts if isinstance(x, ComplexValue) else (_real(g, x), None)
    type = _resized(re.shape, dim, n)
    made = g.emit("fft", re, im, None, types=(type, type), dim=dim, n=n, inverse=inverse, norm=norm)
    return ComplexValue(*made)


def emit_rfft(g: Emitter, x: Value, dim: int, n: Dim, norm: int) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    type = _resized(x.shape, dim, _half(n))
    return ComplexValue(*g.emit("rfft", _real(g, x), None, types=(type, type), dim=dim, n=n, norm=norm))


def emit_irfft(g: Emitter, x: Any, dim: int, n: Dim, norm: int) -> Value:
    from penlight.ops.complex_values import ComplexValue

    re, im = x.parts if isinstance(x, ComplexValue) else (_real(g, x), None)
    made: Value = g.emit("irfft", re, im, type=_resized(re.shape, dim, n), dim=dim, n=n, norm=norm)
    return made


def _conjugate(g: Emitter, x: Any) -> Any:
    from penlight.ops.complex.arithmetic import conjugate

    return conjugate(g, x)


def _dims(x: Any, sizes: Sequence[Dim] | None, dims: Sequence[int] | None) -> list[tuple[int, Dim]]:
    """(dim, length) of a transform over several dims, as torch reads its arguments."""
    if dims is None:
        count = x.rank if sizes is None else len(sizes)
        dims = range(x.rank - count, x.rank)
    dims = [d % x.rank for d in dims]
    lengths = [x.shape[d] for d in dims] if sizes is None else list(sizes)
    return [(d, x.shape[d] if isinstance(n, int) and n == -1 else n) for d, n in zip(dims, lengths, strict=True)]


def _full_length(x: Any, sizes: Sequence[Dim] | None, dims: Sequence[int] | None) -> list[tuple[int, Dim]]:
    """The same for a result of real numbers, of which the last dim has the first half."""
    from penlight.ir.dims import combine

    made = _dims(x, sizes, dims)
    dim, n = made[-1]
    if sizes is None or (isinstance(sizes[-1], int) and sizes[-1] == -1):
        n = combine("*", combine("-", x.shape[dim], 1), 2)
    return [*made[:-1], (dim, n)]


def _over(g: Emitter, x: Any, where: Sequence[tuple[int, Dim]], inverse: bool, norm: str | None) -> Any:
    from penlight.ops.complex_values import pair

    for dim, n in reversed(where):
        x = emit_fft(g, x, dim, n, inverse, norm_of(g, norm, inverse))
    return pair(g, x)


def _complex_transform(*names: str, inverse: bool) -> None:
    def one(g: Emitter, x: Any, n: Dim | None, dim: int, norm: str | None) -> Any:
        return _over(g, x, _dims(x, None if n is None else [n], [dim]), inverse, norm)

    def several(g: Emitter, x: Any, sizes: Any, dims: Any, norm: str | None) -> Any:
        return _over(g, x, _dims(x, sizes, dims), inverse, norm)

    on_complex(names[0])(one)
    on_complex(*names[1:])(several)


_complex_transform("fft_fft", "fft_fft2", "fft_fftn", inverse=False)
_complex_transform("fft_ifft", "fft_ifft2", "fft_ifftn", inverse=True)


def _from_real(g: Emitter, x: Any, where: Sequence[tuple[int, Dim]], norm: str | None, inverse: bool) -> Any:
    """rfft, and ihfft, which is the conjugate of it with the other norm."""
    dim, n = where[-1]
    y: Any = emit_rfft(g, x, dim, n, norm_of(g, norm, inverse))
    y = _conjugate(g, y) if inverse else y
    return _over(g, y, where[:-1], inverse, norm)


def _to_real(g: Emitter, x: Any, where: Sequence[tuple[int, Dim]], norm: str | None, inverse: bool) -> Any:
    """irfft, and hfft, which is that of the conjugate with the other norm."""
    if len(where) > 1:
        x = _over(g, x, where[:-1], inverse, norm)
    dim, n = where[-1]
    return emit_irfft(g, x if inverse else _conjugate(g, x), dim, n, norm_of(g, norm, inverse))


def _real_transform(*names: str, to_real: bool, inverse: bool) -> None:
    work, places = (_to_real, _full_length) if to_real else (_from_real, _dims)

    def one(g: Emitter, x: Any, n: Dim | None, dim: int, norm: str | None) -> Any:
        return work(g, x, places(x, None if n is None else [n], [dim]), norm, inverse)

    def several(g: Emitter, x: Any, sizes: Any, dims: Any, norm: str | None) -> Any:
        return work(g, x, places(x, sizes, dims), norm, inverse)

    on_complex(names[0])(one)
    on_complex(*names[1:])(several)
    if to_real:  # of real numbers, nothing about the call is complex
        irfft.from_aten(names[0])(one)
        irfft.from_aten(*names[1:])(several)


_real_transform("fft_rfft", "fft_rfft2", "fft_rfftn", to_real=False, inverse=False)
_real_transform("fft_irfft", "fft_irfft2", "fft_irfftn", to_real=True, inverse=True)
_real_transform("fft_hfft", "fft_hfft2", "fft_hfftn", to_real=True, inverse=False)
_real_transform("fft_ihfft", "fft_ihfft2", "fft_ihfftn", to_real=False, inverse=True)


# What these calls are made of in a graph that torch has taken apart. Its norm: 0 none, 1 by the root of n, 2 by n.
@on_complex("_fft_c2c")
def _(g: Emitter, x: Any, dims: Sequence[int], norm: int, forward: bool) -> Any:
    for dim in dims:
        x = emit_fft(g, x, dim % x.rank, x.shape[dim % x.rank], not forward, norm)
    return x


@on_complex("_fft_r2c")
def _(g: Emitter, x: Any, dims: Sequence[int], norm: int, onesided: bool) -> Any:
    last = dims[-1] % x.rank
    n = x.shape[last]
    y = emit_rfft(g, x, last, n, norm) if onesided else emit_fft(g, x, last, n, False, norm)
    for dim in dims[:-1]:
        y = emit_fft(g, y, dim % x.rank, x.shape[dim % x.rank], False, norm)
    return y


@on_complex("_fft_c2r")
def _(g: Emitter, x: Any, dims: Sequence[int], norm: int, last_size: Dim) -> Any:
    for dim in dims[:-1]:
        x = emit_fft(g, x, dim % x.rank, x.shape[dim % x.rank], True, norm)
    return emit_irfft(g, x, dims[-1] % x.rank, last_size, norm)


@fft.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def c(*shape: int) -> Any:
        return torch.complex(torch.randn(*shape, generator=rand), torch.randn(*shape, generator=rand))

    lengths = (1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 37, 60, 77, 128)
    yield Sample(lambda *xs: [torch.fft.fft(x) for x in xs], tuple(c(3, n) for n in lengths), "lengths")
    yield Sample(lambda x: torch.fft.ifft(x, norm="ortho"), (c(33, 400),), "several groups")
    yield Sample(lambda x: torch.fft.fft(x, dim=1), (c(2, 101, 19),), "large prime, inner dim")
    yield Sample(
        lambda x: torch.fft.fft2(x.transpose(0, 2), s=(9, 40), norm="forward"), (c(12, 20, 3),), "2d, cut and padded"
    )
    yield Sample(lambda x: torch.fft.fft(x), (torch.randn(2, 30, generator=rand),), "real input")
    free = ({0: torch.export.Dim("n", min=1, max=99), 1: torch.export.Dim("m", min=2, max=999)},)
    yield Sample(lambda x: torch.fft.ifft(torch.fft.fft(x)), (c(3, 24),), "dynamic", dynamic=free)


@rfft.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    lengths = (1, 2, 3, 4, 5, 6, 9, 16, 17, 34, 74, 100, 201)
    xs = tuple(torch.randn(5, n, generator=rand) for n in lengths)
    yield Sample(lambda *xs: [torch.fft.rfft(x) for x in xs], xs, "lengths")
    yield Sample(lambda x: torch.fft.rfftn(x, norm="ortho"), (torch.randn(5, 18, 24, generator=rand),), "3d")
    yield Sample(lambda x: torch.fft.rfft(x, n=48, dim=0), (torch.randn(50, 35, generator=rand),), "first dim, cut")
    yield Sample(lambda x: torch.fft.ihfft(x, n=48), (torch.randn(3, 35, generator=rand),), "ihfft, padded")
    special = torch.randn(3, 16, generator=rand)
    special[0, 3], special[1, 4] = float("nan"), float("inf")
    yield Sample(lambda x: torch.fft.rfft(x).abs().isfinite(), (special,), "nan, inf stay in their lines")


@irfft.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def c(*shape: int) -> Any:
        return torch.complex(torch.randn(*shape, generator=rand), torch.randn(*shape, generator=rand))

    lengths = (1, 2, 3, 4, 5, 6, 9, 16, 17, 34, 74, 100, 201)
    xs = tuple(c(5, n // 2 + 1) for n in lengths)
    yield Sample(lambda *xs: [torch.fft.irfft(x, n=n) for x, n in zip(xs, lengths, strict=True)], xs, "lengths")
    yield Sample(lambda x: torch.fft.irfft2(x, norm="ortho"), (c(3, 20, 13),), "2d")
    yield Sample(lambda x: torch.fft.hfft(x, n=30, dim=1), (c(3, 9, 20),), "hfft, padded")
    yield Sample(lambda x: torch.fft.irfft(x, dim=0), (torch.randn(9, 35, generator=rand),), "real input")
