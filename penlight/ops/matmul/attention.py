"""attention: softmax(q k^T * scale + mask) v as one operator, over blocks of queries and keys: the matrix of scores
never exists as a whole. Leading dims are batch (heads and so on) and broadcast."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ops.matmul.matmul import takes_bytes
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

attention = Op(
    "attention",
    "q: tensor, k: tensor, v: tensor, mask: tensor?, scale: float, causal: bool",
    layout="turned",
    tolerance=2e-5,
    dtypes=("f32", "q8"),
    mixed=("mask",),
    quantized="kernels",
    takes_bytes=lambda node, inputs, result: (
        takes_bytes(node, inputs[:2], result) and takes_bytes(node, inputs[1:3], result)
    ),
    work=lambda x, y: prod(y[:-1]) * x[1][-2] * (x[0][-1] + y[-1]),
    doc="q [..., L, E], k [..., S, E], v [..., S, Ev]; mask is added to the scores [..., L, S]; a query that may look "
    "at no key gives 0.",
)


def _additive(g: Emitter, mask: Value) -> Value:
    """A mask that is added: for a truth value, 0 or -inf."""
    import numpy as np

    from penlight.ir.types import TensorType

    if mask.dtype != "bool":
        return g.cast(mask, "f32")
    if mask.constant is not None:
        return g.constant(np.where(mask.constant, np.float32(0), np.float32("-inf")))
    zero, hidden = g.constant(0.0), g.constant(float("-inf"))
    return g.emit("where", mask, zero, hidden, type=TensorType("f32", mask.shape))


@attention.from_aten("scaled_dot_product_attention")
def _(
    g: Emitter,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    gqa: bool,
) -> Value:
    return emit_attention(g, q, k, v, mask, dropout, causal, scale, gqa, g.out)


@attention.from_aten("_scaled_dot_product_flash_attention_for_cpu")
def _(
    g: Emitter, q: Value, k: Value, v: Value, dropout: float, causal: bool, mask: Value | None, scale: float | None
) -> Any:
    return emit_attention(g, q, k, v, mask, dropout, causal, scale, False, g.out[0]), None  # logsumexp: for gradients


def emit_attention(
    g: Emitter, q: Value, k: Value, v: Value, mask: Value | None, dropout: float, causal: bool, scale: float | None,
    gqa: bool, out: TensorType,
) -> Value:  # fmt: skip
    from penlight.ir.types import TensorType

    if dropout:
        g.fail(f"with dropout {dropout}: call model.eval() before export")
    for x in (q, k, v):
        if x.dtype not in ("f32", "f16", "bf16"):
            g.fail(f"of a {x.dtype} tensor: f32, f16 and bf16 are supported")
    q, k, v = (g.cast(x, "f32") for x in (q, k, v))
    if scale is None:
        if not isinstance(q.shape[-1], int):
            g.fail("with a head size that is not known at export: give `scale`")
        scale = 1.0 / float(q.shape[-1]) ** 0.5 if q.shape[-1] else 1.0
    mask = None if mask is None else _additive(g, mask)
    if gqa and q.shape[-3] != k.shape[-3]:
        # Query heads of one group share a key: a dim of their own, along which k and v are broadcast.
        heads, groups = q.shape[-3], k.shape[-3]
        if not isinstance(heads, int) or not isinstance(groups, int) or v.shape[-3] != groups:
            g.fail("with grouped heads whose number is not known at export, or different for key and value")
        size = heads // groups
        q = g.reshape(q, (*q.shape[:-3], groups, size, *q.shape[-2:]))
        k, v = (g.reshape(x, (*x.shape[:-2], 1, *x.shape[-2:])) for x in (k, v))
        if mask is not None and mask.rank >= 3:
            split = (groups, size) if mask.shape[-3] == heads else (1, 1)
            mask = g.reshape(mask, (*mask.shape[:-3], *split, *mask.shape[-2:]))
        type = TensorType("f32", (*out.shape[:-3], groups, size, *out.shape[-2:]))
        y = g.emit("attention", q, k, v, mask, type=type, scale=float(scale), causal=causal)
        return g.cast(g.reshape(y, out.shape), out.dtype)
    type = TensorType("f32", out.shape)
    return g.cast(g.emit("attention", q, k, v, mask, type=type, scale=float(scale), causal=causal), out.dtype)


@attention.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Sample:
        def run(q: Any, k: Any, v: Any, *m: Any) -> Any:
            return F.scaled_dot_product_attention(q, k, v, m[0] if m else None, **options)

        return Sample(run, (q, k, v) if mask is None else (q, k, v, mask), name)

    yield case("vit", r(1, 3, 197, 64), r(1, 3, 197, 64), r(1, 3, 197, 64))
    yield case("odd", r(2, 3, 29, 19), r(2, 3, 37, 19), r(2, 3, 37, 21))
    yield case("several blocks of keys", r(1, 2, 65, 16), r(1, 2, 700, 16), r(1, 2, 700, 40))
    yield case("causal", r(2, 2, 133, 32), r(2, 2, 133, 32), r(2, 2, 133, 32), is_causal=True)
    yield case("causal, many keys", r(1, 1, 300, 8), r(1, 1, 600, 8), r(1, 1, 600, 8), is_causal=True)
    yield case("causal, few keys", r(1, 1, 70, 8), r(1, 1, 33, 8), r(1, 1, 33, 8), is_causal=True)
    yield case("float mask", r(2, 3, 17, 8), r(2, 3, 23, 8), r(2, 3, 23, 8), r(17, 23))
    yield case("mask per head", r(2, 3, 17, 8), r(2, 3, 23, 8), r(2, 3, 23, 8), r(1, 3, 17, 23))
    yield case(
        "mask of keys", r(2, 3, 17, 8), r(2, 3, 23, 8), r(2, 3, 23, 8), torch.arange(23).expand(2, 1, 1, 23) < 20
    )
    yield case("mask of queries", r(2, 3, 17, 8), r(2, 3, 23, 8), r(2, 3, 23, 8), r(17, 1))
    hidden = torch.ones(17, 23, dtype=torch.bool)
    hidden[3] = False
    hidden[5, 2:] = False
    yield case("a query that sees nothing", r(2, 3, 17, 8), r(2, 3, 23, 8), r(2, 3, 23, 8), hidden)
    yield case("scale", r(2, 17, 8), r(2, 23, 8), r(2, 23, 8), scale=0.3)
    yield case("large scores", r(2, 17, 8) * 30, r(2, 23, 8) * 30, r(2, 23, 8))
    yield case("rank 3", r(3, 17, 8), r(3, 9, 8), r(3, 9, 8))
    yield case("one query", r(2, 4, 1, 64), r(2, 4, 77, 64), r(2, 4, 77, 64))
    yield case("one query, odd", r(3, 2, 1, 19), r(3, 2, 37, 19), r(3, 2, 37, 70))
    yield case("one query, many keys", r(1, 3, 1, 7), r(1, 3, 700, 7), r(1, 3, 700, 5), r(1, 3, 1, 700))
    yield case("one query, causal", r(2, 2, 1, 16), r(2, 2, 9, 16), r(2, 2, 9, 33), is_causal=True)
    yield case(
        "one query that sees nothing", r(2, 1, 8), r(2, 23, 8), r(2, 23, 8), torch.zeros(1, 23, dtype=torch.bool)
    )
    yield case("one query, other strides", r(2, 8, 1).mT, r(2, 8, 23).mT, r(23, 2, 6).transpose(0, 1))
    yield case("one query, grouped heads", r(2, 6, 1, 8), r(2, 2, 300, 8), r(2, 2, 300, 8), enable_gqa=True)
    yield case(
        "one query, views",
        r(2, 5, 3, 48)[:, 4:, 0].unsqueeze(1),
        r(2, 300, 96)[:, None, :, 7:55],
        r(2, 300, 61)[:, None, :, 9:60],
    )
    yield case("one key", r(1, 2, 5, 8), r(1, 2, 1, 8), r(1, 2, 1, 8))
    yield case("no batch", r(0, 2, 5, 8), r(0, 2, 4, 8), r(0, 2, 4, 8))
    yield case("grouped heads", r(2, 6, 9, 8), r(2, 2, 11, 8), r(2, 2, 11, 8), enable_gqa=True)
    yield case("grouped heads, mask", r(2, 6, 9, 8), r(2, 2, 11, 8), r(2, 2, 11, 8), r(2, 6, 9, 11), enable_gqa=True)

    def heads(x: Any) -> Any:
        q, k, v = x.view(2, 19, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 19, 64)

    yield Sample(heads, (r(2, 19, 192),), "views of one projection")
    module = torch.nn.MultiheadAttention(24, 3, batch_first=True).eval()
    yield Sample(lambda x: module(x, x, x, need_weights=False)[0], (r(2, 11, 24),), "MultiheadAttention")
    yield Sample(lambda x: module(x, x, x)[1], (r(2, 11, 24),), "MultiheadAttention, weights")
    free = ({0: torch.export.Dim("n"), 2: torch.export.Dim("l", min=2, max=999)},) * 3
    yield Sample(
        F.scaled_dot_product_attention, (r(2, 3, 29, 16), r(2, 3, 29, 16), r(2, 3, 29, 16)), "dynamic", dynamic=free
    )
