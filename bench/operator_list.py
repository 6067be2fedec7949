"""What `./dev bench --operators` measures: every operator at sizes that matter (64 kB and more), as torch calls it.

A line is a name, the call, and its tensors as texts: "256x1024" floats, "i" integers below the given bound ("64x64i100"), "b"
bools, "+" positive floats, "c" channels-last memory. `copies`: the operator moves memory and computes next to nothing, so that a
plain copy of its bytes is its limit too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F


@dataclass
class Case:
    name: str
    call: Callable[..., Any]
    shapes: tuple[str, ...]
    copies: bool = False
    weights: tuple[int, ...] = ()  # positions of tensors that are constants of the model
    inputs: tuple[torch.Tensor, ...] = field(default=(), repr=False)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        return tuple(_tensor(text, generator) for text in self.shapes)


def _tensor(text: str, generator: torch.Generator) -> torch.Tensor:
    match = re.fullmatch(r"([\dx]+)(?:(i)(\d+)|([b+c]))?", text)
    if not match:
        raise ValueError(f"{text!r} is no shape like 256x1024, 64i100, 8x8b, 64+ or 1x8x9x9c")
    shape = tuple(map(int, match[1].split("x")))
    if match[2]:
        return torch.randint(0, int(match[3]), shape, generator=generator)
    x = torch.randn(shape, generator=generator)
    if match[4] == "b":
        return x > 0
    if match[4] == "c":
        return x.contiguous(memory_format=torch.channels_last)
    return x.abs() + 0.1 if match[4] == "+" else x


BIG = "256x1024"  # 1 MB
UNARY = """abs ceil floor round trunc neg sign sqrt+ rsqrt+ reciprocal+ exp exp2 expm1 log+ log2+ log10+ log1p+ sin cos tan tanh sinh cosh
asin acos atan asinh acosh+ atanh erf erfc erfinv sigmoid lgamma+ digamma+ frac square isnan isinf isfinite signbit sgn logical_not
deg2rad nan_to_num relu i0"""
ACTIVATIONS = """silu gelu mish softplus hardswish hardsigmoid elu selu celu leaky_relu relu6 hardtanh softsign tanhshrink logsigmoid softshrink
hardshrink"""
BINARY = """add sub mul div+ maximum minimum fmax fmin atan2 hypot copysign pow+ remainder+ fmod+ floor_divide+ eq lt ge logaddexp xlogy+ logical_and
nextafter"""


def cases() -> Iterator[Case]:
    for name in UNARY.split():
        yield Case(name.rstrip("+"), getattr(torch, name.rstrip("+")), (BIG + "+" * name.endswith("+"),))
    for name in ACTIVATIONS.split():
        yield Case(name, getattr(F, name), (BIG,))
    for name in BINARY.split():
        yield Case(name.rstrip("+"), getattr(torch, name.rstrip("+")), (BIG + "+" * name.endswith("+"),) * 2)
    yield from _elementwise()
    yield from _reductions()
    yield from _sorting()
    yield from _shapes()
    yield from _indexing()
    yield from _products()
    yield from _convolutions()
    yield from _pools()
    yield from _images()
    yield from _norms()
    yield from _sequences()


def _elementwise() -> Iterator[Case]:
    yield Case("add, broadcast row", torch.add, (BIG, "1024"))
    yield Case("mul, broadcast column", torch.mul, (BIG, "256x1"))
    yield Case("add, permuted", lambda a, b: a.permute(2, 0, 1) + b, ("64x64x64", "64x64x64"))
    yield Case("add integers", torch.add, ("256x512i1000", "256x512i1000"))
    yield Case("bitwise_and", torch.bitwise_and, ("256x512i1000", "256x512i1000"))
    yield Case("maximum integers", torch.maximum, ("256x512i1000", "256x512i1000"))
    yield Case("lt integers", torch.lt, ("256x512i1000", "256x512i1000"))
    yield Case("shift integers", torch.bitwise_left_shift, ("256x512i1000", "256x512i9"))
    yield Case("not bool", torch.bitwise_not, ("1024x1024b",))
    yield Case("and bool", torch.bitwise_and, ("1024x1024b", "1024x1024b"))
    yield Case("bytes to float", lambda x: x.view(torch.uint8).to(torch.float32), (BIG + "b",))
    yield Case("to bool", lambda x: x.to(torch.bool), (BIG,))
    yield Case("to bf16", lambda x: x.to(torch.bfloat16), (BIG,))
    yield Case("floor_divide integers", lambda a, b: a // (b + 1), ("256x512i1000", "256x512i9"))
    yield Case("where", torch.where, (BIG + "b", BIG, BIG))
    yield Case("clamp", lambda x: x.clamp(-1, 1), (BIG,))
    yield Case("clamp tensors", torch.clamp, (BIG, BIG, BIG))
    yield Case("masked_fill", lambda x, m: x.masked_fill(m, -1.0), (BIG, BIG + "b"))
    yield Case("lerp", lambda a, b: torch.lerp(a, b, 0.3), (BIG, BIG))
    yield Case("addcmul", torch.addcmul, (BIG, BIG, BIG))
    yield Case("addcdiv", torch.addcdiv, (BIG, BIG, BIG + "+"))
    yield Case("pow scalar", lambda x: x**3, (BIG,))
    yield Case("pow half", lambda x: x**0.5, (BIG + "+",))
    yield Case("to int", lambda x: x.to(torch.int64), (BIG,))
    yield Case("to float", lambda x: x.to(torch.float32), ("256x512i1000",))
    yield Case("to half", lambda x: x.to(torch.float16), (BIG,))
    yield Case("bool to float", lambda x: x.to(torch.float32), (BIG + "b",))
    yield Case("prelu", F.prelu, ("1x64x64x64", "64+"))
    yield Case("glu", lambda x: F.glu(x, -1), (BIG,))


def _reductions() -> Iterator[Case]:
    for name in ("sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "std"):
        op = getattr(torch, name)
        for dim in (0, 1, 2):
            yield Case(f"{name} dim {dim}", lambda x, op=op, dim=dim: op(x, dim=dim), ("64x64x128",))
    for name in ("sum", "mean", "amax", "var", "argmax"):
        op = getattr(torch, name)
        yield Case(f"{name} all", lambda x, op=op: op(x), (BIG,))
    for name in (
        "argmax",
        "argmin",
        "max",
        "min",
        "cumsum",
        "cumprod",
        "cummax",
        "logcumsumexp",
        "softmax",
        "log_softmax",
    ):
        op = getattr(torch, name)
        for dim in (0, -1):
            yield Case(f"{name} dim {dim}", lambda x, op=op, dim=dim: op(x, dim=dim), (BIG,))
    yield Case("sum channels-last", lambda x: x.mean((2, 3)), ("1x256x32x32c",))
    yield Case("sum integers", lambda x: x.sum(-1), ("256x512i1000",))
    yield Case("any", lambda x: x.any(-1), (BIG + "b",))
    yield Case("all", lambda x: x.all(0), (BIG + "b",))
    yield Case("count_nonzero", lambda x: torch.count_nonzero(x, dim=1), (BIG,))
    yield Case("norm 2", lambda x: torch.linalg.vector_norm(x, dim=-1), (BIG,))
    yield Case("norm 1", lambda x: torch.linalg.vector_norm(x, 1, dim=-1), (BIG,))
    yield Case("norm inf", lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1), (BIG,))
    yield Case("var_mean", lambda x: torch.var_mean(x, dim=-1), (BIG,))
    yield Case("nansum", lambda x: torch.nansum(x, dim=-1), (BIG,))


def _sorting() -> Iterator[Case]:
    yield Case("sort rows", lambda x: torch.sort(x, -1), (BIG,))
    yield Case("sort columns", lambda x: torch.sort(x, 0), (BIG,))
    yield Case("sort stable integers", lambda x: torch.sort(x, dim=-1, stable=True), ("256x512i1000",))
    yield Case("argsort long", lambda x: torch.argsort(x), ("262144",))
    yield Case("topk 5", lambda x: torch.topk(x, 5), (BIG,))
    yield Case("topk 100", lambda x: torch.topk(x, 100), ("64x8400",))
    yield Case("kthvalue", lambda x: torch.kthvalue(x, 77), (BIG,))
    yield Case("median", lambda x: torch.median(x, -1), (BIG,))
    yield Case("searchsorted", torch.searchsorted, ("1024", BIG))
    yield Case("bucketize", lambda x, b: torch.bucketize(x, b), (BIG, "64"))
    yield Case("histc", lambda x: torch.histc(x, 100), (BIG,))


def _shapes() -> Iterator[Case]:
    def copied(name: str, call: Callable[..., Any], *shapes: str) -> Case:
        return Case(name, call, shapes, copies=True)

    yield copied("clone", lambda x: x.clone(), BIG)
    yield copied("permute", lambda x: x.permute(0, 2, 1).contiguous(), "4x256x512")
    yield copied("nchw to nhwc", lambda x: x.permute(0, 2, 3, 1).contiguous(), "4x64x32x32")
    yield copied(
        "window partition", lambda x: x.view(4, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).contiguous(), "4x56x56x96"
    )
    yield copied("transpose bytes", lambda x: x.t().contiguous(), "1024x1024b")
    yield copied("transpose integers", lambda x: x.t().contiguous(), "512x512i9")
    yield copied("slice", lambda x: x[:, 5:1000].contiguous(), "512x1024")
    yield copied("slice steps", lambda x: x[:, ::2].contiguous(), "512x1024")
    yield copied("cat rows", lambda a, b: torch.cat([a, b]), BIG, BIG)
    yield copied("cat last", lambda a, b: torch.cat([a, b], -1), BIG, BIG)
    yield copied("stack last", lambda a, b: torch.stack([a, b], -1), BIG, BIG)
    yield copied("split", lambda x: [t.clone() for t in x.split(256, -1)], BIG)
    yield copied("flip last", lambda x: x.flip(-1), BIG)
    yield copied("flip bytes", lambda x: x.flip(-1), "1024x1024b")
    yield copied("flip first", lambda x: x.flip(0), BIG)
    yield copied("roll", lambda x: x.roll((3, 5), (0, 1)), BIG)
    yield copied("repeat", lambda x: x.repeat(2, 3), "256x256")
    yield copied("repeat_interleave", lambda x: x.repeat_interleave(3, -1), "256x256")
    yield copied("expand", lambda x: x.expand(256, 1024).contiguous(), "256x1")
    yield copied("pad constant", lambda x: F.pad(x, (1, 1, 1, 1)), "4x64x32x32")
    yield copied("pad reflect", lambda x: F.pad(x, (1, 2, 3, 4), mode="reflect"), "4x64x32x32")
    yield copied("pad replicate", lambda x: F.pad(x, (1, 2, 3, 4), mode="replicate"), "4x64x32x32")
    yield copied("pad circular", lambda x: F.pad(x, (1, 2, 3, 4), mode="circular"), "4x64x32x32")
    yield copied("tril", torch.tril, "512x512")
    yield copied("triu", lambda x: torch.triu(x, 1), "512x512")
    yield copied("diagonal", lambda x: x.diagonal(0, 1, 2).contiguous(), "512x64x64")
    yield copied("unfold view", lambda x: x.unfold(-1, 400, 160).contiguous(), "4x64000")
    yield copied("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), "1x256x32x32")
    yield copied("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), "1x64x64x64")
    yield copied("channel_shuffle", lambda x: F.channel_shuffle(x, 4), "1x256x32x32")
    yield Case("im2col", lambda x: F.unfold(x, 3, padding=1), ("1x32x64x64",))
    yield Case("col2im", lambda x: F.fold(x, (64, 64), 3, padding=1), ("1x288x4096",))
    yield Case("one_hot", lambda x: F.one_hot(x, 100), ("4096i100",))
    yield Case("arange add", lambda x: x + torch.arange(1024), (BIG,))


def _indexing() -> Iterator[Case]:
    yield Case("index_select rows", lambda x, i: x.index_select(0, i), ("4096x256", "1024i4096"), copies=True)
    yield Case("index_select last", lambda x, i: x.index_select(1, i), ("256x4096", "1024i4096"))
    yield Case("embedding", lambda i, w: F.embedding(i, w), ("8x128i5000", "5000x256"))
    yield Case("embedding_bag", lambda i, w: F.embedding_bag(i, w), ("128x32i5000", "5000x64"))
    yield Case("gather last", lambda x, i: x.gather(-1, i), (BIG, "256x1024i1024"))
    yield Case("gather first", lambda x, i: x.gather(0, i), (BIG, "256x1024i256"))
    yield Case("index two", lambda x, i, j: x[i, j], (BIG, "65536i256", "65536i1024"))
    yield Case("index middle", lambda x, i: x[:, i], ("64x256x64", "256i256"))
    yield Case("scatter", lambda x, i, s: x.scatter(1, i, s), (BIG, "256x1024i1024", BIG))
    yield Case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), (BIG, "256x1024i1024", BIG))
    yield Case("scatter_add first", lambda x, i, s: x.scatter_add(0, i, s), (BIG, "256x1024i256", BIG))
    yield Case("scatter_reduce amax", lambda x, i, s: x.scatter_reduce(1, i, s, "amax"), (BIG, "256x1024i1024", BIG))
    yield Case("index_put", lambda x, i, s: x.index_put((i,), s), (BIG, "200i256", "200x1024"))
    yield Case("index_add", lambda x, i, s: x.index_add(0, i, s), (BIG, "200i256", "200x1024"))
    yield Case("index_copy", lambda x, i, s: x.index_copy(0, i, s), (BIG, "200i256", "200x1024"))
    yield Case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), (BIG, BIG + "b", BIG))
    yield Case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), (BIG, "256x64i1024"))
    yield Case("nonzero", lambda x: torch.nonzero(x), (BIG + "b",))
    yield Case("masked_select", torch.masked_select, (BIG, BIG + "b"))
    yield Case("unique", torch.unique, ("65536i1000",))


def _products() -> Iterator[Case]:
    yield Case("linear", F.linear, ("64x512", "512x512"), weights=(1,))
    yield Case("linear bias", F.linear, ("64x512", "512x512", "512"), weights=(1, 2))
    yield Case("matmul", torch.matmul, ("256x256", "256x256"))
    yield Case("matmul transposed", lambda a, b: a @ b.t(), ("256x256", "256x256"))
    yield Case("matvec", torch.mv, ("1024x1024", "1024"))
    yield Case("bmm", torch.bmm, ("12x128x64", "12x64x128"))
    yield Case("baddbmm", torch.baddbmm, ("12x128x128", "12x128x64", "12x64x128"))
    yield Case("einsum", lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), ("2x4x128x64", "2x4x128x64"))
    yield Case("einsum outer", lambda a, b: torch.einsum("bi,bj->bij", a, b), ("64x64", "64x64"))
    yield Case("matmul integers", torch.matmul, ("128x128i10", "128x128i10"))
    yield Case("attention", F.scaled_dot_product_attention, ("1x8x196x64",) * 3)
    yield Case("attention causal", lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), ("1x8x196x64",) * 3)
    yield Case(
        "attention masked",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        (*("1x8x196x64",) * 3, "1x1x196x196"),
    )
    yield Case("cdist", torch.cdist, ("256x64", "256x64"))


def _convolutions() -> Iterator[Case]:
    yield Case("conv1d", lambda x, w: F.conv1d(x, w, padding=1), ("1x64x1024", "64x64x3"), weights=(1,))
    yield Case("conv1d wide", lambda x, w: F.conv1d(x, w, stride=5), ("1x1x16000", "256x1x10"), weights=(1,))
    yield Case("conv2d", lambda x, w: F.conv2d(x, w, padding=1), ("1x64x56x56", "64x64x3x3"), weights=(1,))
    yield Case(
        "conv2d depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=64), ("1x64x56x56", "64x1x3x3"), weights=(1,)
    )
    yield Case("conv2d run-time weights", lambda x, w: F.conv2d(x, w, padding=1), ("1x64x28x28", "64x64x3x3"))
    yield Case("conv3d", lambda x, w: F.conv3d(x, w, padding=1), ("1x32x8x28x28", "32x32x3x3x3"), weights=(1,))
    yield Case(
        "conv3d stem",
        lambda x, w: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 3, 3)),
        ("1x3x8x112x112", "64x3x3x7x7"),
        weights=(1,),
    )
    yield Case("conv3d 1x1x1", lambda x, w: F.conv3d(x, w, stride=2), ("1x64x8x28x28", "128x64x1x1x1"), weights=(1,))
    for k, s, p in ((2, 2, 0), (3, 2, 1), (4, 2, 1), (3, 1, 1)):
        for c in (32, 128):
            yield Case(
                f"conv_transpose2d {k}x{k}/{s} {c}",
                lambda x, w, s=s, p=p: F.conv_transpose2d(x, w, stride=s, padding=p),
                (f"1x{c}x28x28", f"{c}x{c}x{k}x{k}"),
                weights=(1,),
            )
    yield Case(
        "conv_transpose1d",
        lambda x, w: F.conv_transpose1d(x, w, stride=4, padding=2),
        ("1x64x512", "64x32x8"),
        weights=(1,),
    )
    yield Case(
        "conv_transpose3d",
        lambda x, w: F.conv_transpose3d(x, w, stride=2),
        ("1x32x8x14x14", "32x32x2x2x2"),
        weights=(1,),
    )


def _pools() -> Iterator[Case]:
    for layout in ("", "c"):
        where = "channels-last" if layout else "plain"
        yield Case(f"max_pool2d {where}", lambda x: F.max_pool2d(x, 3, 2, 1), ("1x64x112x112" + layout,))
        yield Case(
            f"max_pool2d indices {where}", lambda x: F.max_pool2d(x, 2, return_indices=True), ("1x64x56x56" + layout,)
        )
        yield Case(f"avg_pool2d {where}", lambda x: F.avg_pool2d(x, 2), ("1x64x112x112" + layout,))
        yield Case(f"adaptive_avg_pool2d {where}", lambda x: F.adaptive_avg_pool2d(x, 7), ("1x256x28x28" + layout,))
        yield Case(f"adaptive_max_pool2d {where}", lambda x: F.adaptive_max_pool2d(x, 5), ("1x256x28x28" + layout,))
    yield Case("max_pool1d", lambda x: F.max_pool1d(x, 3, 2), ("4x64x1024",))
    yield Case("max_pool3d", lambda x: F.max_pool3d(x, 3, 2, 1), ("1x32x16x56x56",))
    yield Case("avg_pool3d", lambda x: F.avg_pool3d(x, 2), ("1x32x16x56x56",))
    yield Case("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, 1), ("1x256x4x14x14",))
    yield Case("lp_pool2d", lambda x: F.lp_pool2d(x, 2.0, 3), ("1x64x56x56",))
    yield Case("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), ("1x64x56x56",))


def _images() -> Iterator[Case]:
    for layout in ("", "c"):
        where = "channels-last" if layout else "plain"
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            yield Case(
                f"interpolate {mode} {where}",
                lambda x, mode=mode: F.interpolate(x, scale_factor=2.0, mode=mode),
                ("1x64x28x28" + layout,),
            )
        yield Case(
            f"interpolate corners {where}",
            lambda x: F.interpolate(x, (60, 50), mode="bilinear", align_corners=True),
            ("1x64x28x28" + layout,),
        )
    yield Case(
        "interpolate antialias",
        lambda x: F.interpolate(x, (100, 100), mode="bilinear", antialias=True),
        ("1x3x224x224",),
    )
    yield Case("interpolate linear", lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"), ("1x64x1024",))
    yield Case(
        "interpolate trilinear", lambda x: F.interpolate(x, scale_factor=2.0, mode="trilinear"), ("1x16x8x28x28",)
    )
    yield Case(
        "grid_sample bilinear", lambda x, g: F.grid_sample(x, g, align_corners=False), ("1x64x56x56", "1x56x56x2")
    )
    yield Case(
        "grid_sample nearest",
        lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False),
        ("1x64x56x56", "1x56x56x2"),
    )
    yield Case(
        "grid_sample border",
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
        ("1x64x56x56", "1x56x56x2"),
    )


def _norms() -> Iterator[Case]:
    yield Case("layer_norm", lambda x, w, b: F.layer_norm(x, (768,), w, b), ("196x768", "768", "768"))
    yield Case("rms_norm", lambda x, w: F.rms_norm(x, (768,), w), ("196x768", "768"))
    for layout in ("", "c"):
        where = "channels-last" if layout else "plain"
        yield Case(f"group_norm {where}", lambda x, w, b: F.group_norm(x, 8, w, b), ("1x64x56x56" + layout, "64", "64"))
        yield Case(f"instance_norm {where}", lambda x: F.instance_norm(x), ("1x64x56x56" + layout,))
        yield Case(
            f"batch_norm {where}",
            lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
            ("1x64x56x56" + layout, "64", "64+", "64", "64"),
            weights=(1, 2, 3, 4),
        )
    yield Case("local_response_norm", lambda x: F.local_response_norm(x, 5), ("1x64x56x56",))
    yield Case("normalize", lambda x: F.normalize(x, dim=1), ("1x64x56x56",))
    yield Case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b), (BIG, BIG))


def _sequences() -> Iterator[Case]:
    for kind in ("LSTM", "GRU", "RNN"):
        for hidden in (64, 256):
            torch.manual_seed(0)
            layer = getattr(torch.nn, kind)(64, hidden, batch_first=True).eval()
            yield Case(f"{kind} {hidden}", layer, ("1x100x64",))
    torch.manual_seed(0)
    yield Case("LSTM bidirectional", torch.nn.LSTM(64, 128, num_layers=2, bidirectional=True).eval(), ("50x4x64",))
    yield Case("rfft", lambda x: torch.view_as_real(torch.fft.rfft(x)), ("256x1024",))
    yield Case("fft 400", lambda x: torch.view_as_real(torch.fft.rfft(x)), ("256x400",))
    yield Case("irfft", lambda x: torch.fft.irfft(torch.view_as_complex(x)), ("256x513x2",))
    yield Case("stft", lambda x, w: torch.stft(x, 400, 160, window=w, return_complex=True).abs(), ("1x64000", "400"))
    yield Case("rand", lambda x: x + torch.rand(256, 1024), (BIG,))
    yield Case("randn", lambda x: x + torch.randn(256, 1024), (BIG,))
    yield Case("bernoulli", lambda x: torch.bernoulli(x.clamp(0, 1)), (BIG,))
