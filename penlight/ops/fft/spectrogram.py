"""stft and istft: frames of a signal, their transforms, and the sum of frames that makes a signal again (overlap_add)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.fft.fft import emit_irfft, rfft
from penlight.ops.registry import Op, Sample, on_complex

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.complex_values import ComplexValue
    from penlight.ops.emitter import Emitter

overlap_add = Op(
    "overlap_add", "x: tensor, window: tensor?, hop: int",
    doc="Frames [..., frames, n], weighed by the window, summed into a line at places hop apart.",
)  # fmt: skip


def _window(g: Emitter, window: Value | None, win_length: Dim | None, n_fft: int) -> Value | None:
    """The window with zeros around it up to n_fft; None: all ones."""
    import numpy as np

    from penlight.ir.types import TensorType

    length = n_fft if win_length is None else win_length
    if not isinstance(length, int):
        g.fail("with a window of symbolic length")
    left = (n_fft - length) // 2
    if window is None:
        if length == n_fft:
            return None
        ones = np.zeros(n_fft, np.float32)
        ones[left : left + length] = 1
        return g.constant(ones)
    window = g.cast(window, "f32")
    if length == n_fft:
        return window
    if window.constant is not None:
        return g.constant(np.pad(window.constant, (left, n_fft - length - left)))
    before, after = (g.constant(np.zeros(n, np.float32)) for n in (left, n_fft - length - left))
    parts = [p for p in (before, window, after) if p.shape != (0,)]
    made: Value = g.emit("cat", *parts, type=TensorType("f32", (n_fft,)), dim=0)
    return made


def _padded(g: Emitter, x: Any, amount: int, mode: str) -> Any:
    """A signal [..., t] with `amount` more elements at both ends. Only those are computed: the signal is long."""
    import numpy as np

    from penlight.ir.dims import combine
    from penlight.ir.types import TensorType
    from penlight.ops.complex_values import ComplexValue

    if isinstance(x, ComplexValue):
        return ComplexValue(*(_padded(g, part, amount, mode) for part in x.parts))
    if amount == 0:
        return x
    last, size = x.rank - 1, x.shape[-1]

    def piece(start: Dim, count: int, order: np.ndarray) -> Value:
        """`count` elements from `start` on, in another order."""
        cut = g.emit(
            "slice", x, type=TensorType("f32", (*x.shape[:-1], count)), dim=last, start=start,
            end=combine("+", start, count), step=1,
        )  # fmt: skip
        made: Value = g.emit(
            "index_select", cut, g.constant(order.astype(np.int64)),
            type=TensorType("f32", (*x.shape[:-1], amount)), dim=last,
        )  # fmt: skip
        return made

    forwards, backwards, nothing = np.arange(amount), np.arange(amount)[::-1], np.zeros(amount)
    if mode == "reflect":
        left = piece(1, amount, backwards)
        right = piece(combine("-", size, amount + 1), amount, backwards)
    elif mode == "circular":
        left, right = piece(combine("-", size, amount), amount, forwards), piece(0, amount, forwards)
    elif mode == "replicate":
        left, right = piece(0, 1, nothing), piece(combine("-", size, 1), 1, nothing)
    elif mode == "constant":
        from penlight.ops.complex_values import zeros

        left = right = zeros(g, (*x.shape[:-1], amount))
    else:
        g.fail(f"with pad_mode {mode!r}")
    whole = TensorType("f32", (*x.shape[:-1], combine("+", size, 2 * amount)))
    made: Value = g.emit("cat", left, x, right, type=whole, dim=last)
    return made


def _stft(
    g: Emitter, x: Any, n_fft: int, hop: int | None, win_length: int | None, window: Any, normalized: bool,
    onesided: bool | None,
) -> Any:  # fmt: skip
    """[..., t] -> [..., frequency, frame]"""
    from penlight.ir.dims import combine
    from penlight.ir.types import TensorType
    from penlight.ops.complex_values import ComplexValue

    if not isinstance(n_fft, int):
        g.fail("with a symbolic n_fft")
    if isinstance(window, ComplexValue):
        g.fail("with a complex window")
    hop = n_fft // 4 if hop is None else hop
    frames = combine("+", combine("//", combine("-", x.shape[-1], n_fft), hop), 1)
    weights = _window(g, window, win_length, n_fft)
    is_complex = isinstance(x, ComplexValue)
    half = not is_complex if onesided is None else onesided
    common = {"dim": x.rank - 1, "n": n_fft, "norm": int(normalized), "hop": hop}
    if half:
        type = TensorType("f32", (*x.shape[:-1], frames, n_fft // 2 + 1))
        parts = g.emit("rfft", g.cast(x, "f32"), weights, types=(type, type), **common)
    else:
        type = TensorType("f32", (*x.shape[:-1], frames, n_fft))
        re, im = x.parts if is_complex else (g.cast(x, "f32"), None)
        parts = g.emit("fft", re, im, weights, types=(type, type), **common)
    order = (*range(x.rank - 1), x.rank, x.rank - 1)
    return ComplexValue(*(g.permute(part, order) for part in parts))


def _as_real(g: Emitter, z: ComplexValue) -> Value:
    from penlight.ir.types import TensorType

    parts = [g.reshape(part, (*part.shape, 1)) for part in z.parts]
    made: Value = g.emit("cat", *parts, type=TensorType("f32", (*z.shape, 2)), dim=z.rank)
    return made


def _stft_old(
    g: Emitter, x: Any, n_fft: int, hop: Any, win_length: Any, window: Any, normalized: bool, onesided: Any,
    return_complex: bool | None, align_to_window: Any = None,
) -> Any:  # fmt: skip
    if align_to_window:
        g.fail("with align_to_window")
    made = _stft(g, x, n_fft, hop, win_length, window, normalized, onesided)
    return made if return_complex else _as_real(g, made)


def _stft_center(
    g: Emitter, x: Any, n_fft: int, hop: Any, win_length: Any, window: Any, center: bool, pad_mode: str, normalized: bool,
    onesided: Any, return_complex: bool | None, align_to_window: Any = None,
) -> Any:  # fmt: skip
    if align_to_window:
        g.fail("with align_to_window")
    x = _padded(g, x, n_fft // 2, pad_mode) if center else x
    made = _stft(g, x, n_fft, hop, win_length, window, normalized, onesided)
    return made if return_complex else _as_real(g, made)


for _register in (on_complex, rfft.from_aten):  # without return_complex nothing about the call is complex
    _register("stft")(_stft_old)
    _register("stft.center")(_stft_center)


@on_complex("istft")
def _(
    g: Emitter, x: ComplexValue, n_fft: int, hop: int | None, win_length: int | None, window: Any, center: bool,
    normalized: bool, onesided: bool | None, length: Dim | None, return_complex: bool,
) -> Any:  # fmt: skip
    from penlight.ir.dims import combine
    from penlight.ir.types import TensorType
    from penlight.ops.complex_values import ComplexValue
    from penlight.ops.fft.fft import emit_fft

    if isinstance(window, ComplexValue):
        g.fail("with a complex window")
    hop = n_fft // 4 if hop is None else hop
    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    turned = ComplexValue(*(g.permute(part, order) for part in x.parts))
    norm, at = 1 if normalized else 2, x.rank - 1
    half = onesided if onesided is not None else x.shape[-2] != n_fft
    if return_complex:
        if half:
            g.fail("with a complex result of a one-sided transform")
        signals = list(emit_fft(g, turned, at, n_fft, True, norm).parts)
    elif half:
        signals = [emit_irfft(g, turned, at, n_fft, norm)]
    else:
        signals = [emit_fft(g, turned, at, n_fft, True, norm).real]
    frames = turned.shape[-2]
    size = combine("+", combine("*", combine("-", frames, 1), hop), n_fft)
    weights = _window(g, window, win_length, n_fft)
    start = n_fft // 2 if center else 0
    if length is not None:
        end = combine("+", start, length)
    else:
        end = combine("-", size, start) if center else size

    def cut(v: Value) -> Value:
        kept: Any = combine("-", end, start)
        if isinstance(end, int) and isinstance(size, int) and end > size:
            g.fail("with a length beyond the last frame")
        made: Value = g.emit(
            "slice", v, type=TensorType("f32", (*v.shape[:-1], kept)), dim=v.rank - 1, start=start, end=end, step=1
        )
        return made

    def summed(v: Value, w: Value | None) -> Value:
        made: Value = g.emit("overlap_add", v, w, type=TensorType("f32", (*v.shape[:-2], size)), hop=hop)
        return cut(made)

    one = g.constant(1.0)
    squares = g.emit("mul", weights, weights, type=TensorType("f32", (n_fft,))) if weights is not None else one
    spread = g.emit("expand", squares, type=TensorType("f32", (frames, n_fft)), shape=(frames, n_fft))
    envelope = summed(spread, None)
    made = []
    for signal in signals:
        y = summed(signal, weights)
        made.append(g.emit("div", y, envelope, type=TensorType("f32", y.shape)))
    return ComplexValue(*made) if return_complex else made[0]


@overlap_add.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3000, generator=rand)
    window = torch.hann_window(400)

    def there_and_back(x: Any) -> Any:
        z = torch.stft(x, 400, 100, window=window, return_complex=True)
        return z.abs(), torch.istft(z, 400, 100, window=window, length=x.shape[-1])

    def two_sides(x: Any) -> Any:
        z = torch.stft(
            x, 64, 20, 51, torch.hann_window(51), False, normalized=True, onesided=False, return_complex=True
        )
        return z, torch.istft(z, 64, 20, 64, torch.ones(64) / 4, center=False, normalized=True, onesided=False)

    yield Sample(there_and_back, (x,), "stft, istft")
    yield Sample(two_sides, (x[0, :300],), "two sides, short window")
    free = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)
    yield Sample(
        lambda x: torch.stft(x, 400, 160, window=window, return_complex=True).abs(), (x,), "dynamic", dynamic=free
    )
    ones = torch.ones(64)
    z = torch.stft(x, 64, 16, window=ones, return_complex=True)
    frames = ({2: torch.export.Dim("n", min=5, max=999)},)
    yield Sample(lambda z: torch.istft(z, 64, 16, window=ones), (z,), "dynamic frames", dynamic=frames)
