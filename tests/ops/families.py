"""How each structured operator is drawn: a function for each family, in plain torch, and which operators it is for. Those on
images are in image_families.py."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tests.ops.draw import BOOL, F32, F64, I32, I64, NUMBERS, U8, Draw, family

aten: Any = torch.ops.aten


@family("matmul linear", special=True)
def products(d: Draw) -> Any:
    m, k, n = d.sizes(3, 20000, empty=0.02)
    dtype = d.choice((F32, F32, F32, F64, I64))
    batch = [d.randint(1, 3) for _ in range(d.randint(0, 3))]
    kind = d.name("matmul vector linear addmm baddbmm broadcast addmv")
    if kind == "linear":
        return d.after(F.linear(d.tensor(*batch, m, k), d.weight(n, k), d.optional(d.weight(n))))
    if kind == "addmm":
        shape = d.choice(((m, n), (n,), (1, n), (m, 1), ()))
        scales = {"beta": d.choice((1, 1, 0.5)), "alpha": d.choice((1, 2))}
        return d.after(torch.addmm(d.tensor(*shape), d.tensor(m, k), d.weight(k, n), **scales))
    if kind == "baddbmm":
        return d.after(torch.baddbmm(d.tensor(3, m, n), d.tensor(3, m, k), d.tensor(3, k, n)))
    if kind == "addmv":
        return torch.addmv(d.tensor(m), d.tensor(m, k), d.tensor(k))
    if kind == "vector":
        a, b = (d.tensor(*s, dtype=dtype) for s in d.choice((((k,), (k, n)), ((*batch, m, k), (k,)), ((k,), (k,)))))
        return torch.matmul(a, b)
    a, b = [*batch, m, k], [*batch, k, n]
    if kind == "broadcast":
        for i in range(len(batch)):
            d.choice((a, b))[i] = 1
        b = b[d.randint(0, len(batch)) :]
    w = d.weight(*b, dtype=dtype) if dtype == F32 else d.tensor(*b, dtype=dtype)
    return d.after(torch.matmul(d.tensor(*a, dtype=dtype), w))


@family("attention")
def attention(d: Draw) -> Any:
    batch = [d.randint(1, 3) for _ in range(d.randint(1, 2))]
    m, n, e, v = d.size(), d.size(), d.size(), d.size()
    mask, causal = None, d.chance(0.3)
    if not causal and d.chance(0.6):
        shape = [*(d.choice((1, b)) for b in batch), d.choice((1, m)), n][d.randint(0, len(batch)) :]
        mask = d.tensor(*shape) if d.chance(0.5) else d.values(d.numbers(shape, BOOL) | (torch.arange(n) == 0))
    q, k, w = d.tensor(*batch, m, e), d.tensor(*batch, n, e), d.tensor(*batch, n, v)
    return d.after(F.scaled_dot_product_attention(q, k, w, mask, 0.0, causal, scale=d.optional(0.5)))


@family("layer_norm rms_norm group_norm batch_norm")
def norms(d: Draw) -> Any:
    shape = [d.randint(1, 3), *d.sizes(d.randint(1, 3), 2000)]
    x, kind = d.tensor(*shape), d.name("layer rms group instance batch")
    if kind in ("layer", "rms"):
        inner = shape[-d.randint(1, len(shape)) :]
        w, b = d.optional(d.weight(*inner)), d.optional(d.weight(*inner))
        return d.after(F.layer_norm(x, inner, w, b, 1e-2) if kind == "layer" else F.rms_norm(x, inner, w, 1e-2))
    c = shape[1]
    w, b = d.optional(d.weight(c)), d.optional(d.weight(c))
    if kind == "group" and math.prod(shape) > c:
        return d.after(torch.group_norm(x, d.choice([g for g in range(1, c + 1) if c % g == 0]), w, b, 1e-2))
    if kind == "instance" and x.dim() > 2 and math.prod(shape[2:]) > 1:
        return d.after(F.instance_norm(x, None, None, w, b, eps=1e-2))
    return d.after(F.batch_norm(x, d.weight(c), d.values(d.numbers((c,)).abs() + 0.25), w, b, eps=1e-2))


@family("sum mean amax amin prod nansum argmax argmin norm var_mean", special=True)
def reductions(d: Draw) -> Any:
    x = d.tensor(*d.sizes(d.randint(1, 5), empty=0.02), dtype=d.choice(NUMBERS))
    dims, dim, keep = d.dims(x), d.dim(x), d.chance(0.5)
    some, real = d.optional(dims, 0.8), d.tensor(*x.shape)
    p = d.choice((0, 1, 2, 2, 3, 0.5, math.inf, -math.inf))
    return d.one_of(
        lambda: d.after(torch.sum(x, dims, keep)),
        lambda: d.after(torch.mean(x if x.dtype == F64 else real, dims, keep)),
        lambda: d.after(d.choice((torch.amax, torch.amin))(x, dims, keep)),
        lambda: torch.prod(x if x.dtype != F64 else real, dim, keep),
        lambda: torch.nansum(real, dims, keep),
        lambda: d.choice((torch.argmax, torch.argmin))(d.values(d.distinct(x.shape)), d.optional(dim, 0.8), keep),
        lambda: d.choice((torch.max, torch.min))(d.values(d.distinct(x.shape, d.choice((F32, I64)))), dim, keep),
        lambda: torch.linalg.vector_norm(real, p, some, keep),
        lambda: torch.var_mean(d.plain(*x.shape), some, correction=0, keepdim=keep),
        lambda: torch.std(d.plain(*x.shape), some, correction=0, keepdim=keep),
        lambda: d.choice((torch.any, torch.all))(d.tensor(*x.shape, dtype=BOOL), dim, keep),
        lambda: torch.count_nonzero(x, dims),
        lambda: d.choice((torch.sum, torch.amax))(x),
    )


@family("softmax log_softmax scan scan_extreme", special=True)
def along_a_dim(d: Draw) -> Any:
    x = d.tensor(*d.sizes(d.randint(1, 4)))
    dim, kind = d.dim(x), d.name("softmax log_softmax cumsum cumprod logcumsumexp cummax")
    if kind == "cummax":
        return list(d.choice((torch.cummax, torch.cummin))(x, dim))
    if kind in ("cumsum", "cumprod"):
        x = d.tensor(*x.shape, dtype=d.choice((F32, I64)), low=-3, high=3)
        x = x[tuple(slice(0, 17) for _ in x.shape)] if kind == "cumprod" else x
    return d.after(getattr(torch, kind)(x, dim))


@family("cat slice select expand permute reshape flip repeat triangle diagonal unfold copy", special=True)
def shapes(d: Draw) -> Any:
    x = d.tensor(*d.sizes(d.randint(1, 5), empty=0.02), dtype=d.choice((*NUMBERS, BOOL)))
    y: Any = x
    for _ in range(d.randint(1, 3)):
        y = _rearranged(d, y)
        if y.numel() > 20000 or y.dim() > 6:
            break
    return d.after(y) if y is not x else y.clone()


def _rearranged(d: Draw, x: torch.Tensor) -> torch.Tensor:
    if not x.dim() or not x.numel():
        return x.reshape(*x.shape, 1)
    dim, n, rank, size = d.dim(x), d.randrange(x.dim()), x.dim(), x.shape
    other, start = d.tensor(*size, dtype=x.dtype), d.randrange(size[n])
    a, b = d.sample(range(rank), 2) if rank > 1 else (0, 0)
    found: torch.Tensor = d.one_of(
        lambda: d.choice((torch.cat, torch.stack))(d.choice(([x, other], [other, x], [x, other, x])), dim),
        lambda: x[(slice(None),) * n + (slice(start, d.randint(start + 1, size[n]), d.randint(1, 3)),)],
        lambda: x.unsqueeze(n).expand(*size[:n], d.randint(1, 3), *size[n:]),
        lambda: x.permute(d.sample(range(rank), rank)),
        lambda: x.flip(d.dims(x)),
        lambda: x.repeat(*(d.choice((1, 1, 2, 3)) for _ in range(rank + d.randint(0, 1)))),
        lambda: x.reshape(d.choice(([-1], [1, -1], [size[0], -1], [-1, size[-1]], [*size[:n], 1, *size[n:]]))),
        lambda: x.flatten(n),
        lambda: d.choice((torch.tril, torch.triu))(x if rank > 1 else x.unsqueeze(0), d.randint(-3, 3)),
        lambda: torch.diagonal(x, d.randint(1 - size[a], size[b] - 1), a, b) if rank > 1 else x.unsqueeze(0),
        lambda: x.unfold(n, d.randint(1, size[n]), d.randint(1, 3)),
        lambda: d.choice(x.chunk(d.randint(1, 3), dim)),
        lambda: x.transpose(dim, d.dim(x)),
        lambda: x.select(dim, d.randrange(-size[dim], size[dim])),
        lambda: x.repeat_interleave(d.randint(1, 3), dim),
        lambda: x.roll(d.randint(-3, 3), n),
    )
    return found


@family("as_strided as_strided_scatter bitcast", special=True)
def memory(d: Draw) -> Any:
    shape = d.sizes(d.randint(2, 3), 600)
    n = d.randrange(len(shape))
    x, plain, start = d.tensor(*shape), d.tape.input(d.numbers(shape)), d.randrange(shape[n])
    end, step, offset = d.randint(start + 1, shape[n]), d.randint(1, 2), d.randint(1 - shape[0], shape[1] - 1)
    size, strides, first = d.sizes(2, 60), [d.randint(0, 2), d.randint(0, 3)], d.randint(0, 3)
    if first + sum((s - 1) * t for s, t in zip(size, strides, strict=True)) >= plain.numel():
        size, first = [1, 1], 0
    before, after, diagonal = shape[:n], shape[n + 1 :], torch.empty(shape).diagonal(offset).shape
    return d.one_of(
        lambda: d.after(plain.as_strided(size, strides, first)),
        lambda: torch.slice_scatter(x, d.tensor(*before, -(-(end - start) // step), *after), n, start, end, step),
        lambda: torch.select_scatter(x, d.tensor(*before, *after), n, start),
        lambda: torch.diagonal_scatter(x, d.tensor(*diagonal), offset),
        lambda: torch.diag_embed(x, d.randint(-2, 2), *d.choice(((-2, -1), (0, 1), (-1, 0)))),
        lambda: d.plain(*shape).contiguous().view(I32),
    )


@family("embedding embedding_bag gather index index_select scatter index_put masked_scatter", special=True)
def indexing(d: Draw) -> Any:
    shape = d.sizes(d.randint(1, 4), 1500)
    n, dtype = d.randrange(len(shape)), d.choice((F32, F32, I64, F64, U8, BOOL))
    x, some = d.tensor(*shape, dtype=dtype), [d.randint(1, s) for s in shape]
    table, flat = d.tensor(shape[0], d.size()), d.indices(d.sizes(2, 60), x.numel(), negative=True)
    return d.one_of(
        lambda: d.after(F.embedding(d.indices(d.sizes(d.randint(0, 2), 60), shape[0]), table)),
        lambda: _bags(d, table),
        lambda: d.after(torch.gather(x, n, d.indices([*some[:n], d.size(), *some[n + 1 :]], shape[n]))),
        lambda: d.after(_indexed(d, x)),
        lambda: d.after(torch.index_select(x, n, d.indices((d.size(),), shape[n], d.choice((I64, I32))))),
        lambda: torch.take(x, flat),
        lambda: torch.masked_scatter(x, d.tensor(*shape, dtype=BOOL), d.tensor(x.numel(), dtype=dtype)),
        lambda: _scattered(d, d.plain(*shape, dtype=F32 if dtype in (BOOL, F64) else dtype), n, some),
        lambda: _scattered(d, d.plain(*shape, dtype=F32 if dtype in (BOOL, F64) else dtype), n, some),
        lambda: _rows_put(d, d.plain(*shape, dtype=F32 if dtype in (BOOL, F64) else dtype), n),
    )


def _bags(d: Draw, table: torch.Tensor) -> Any:
    count, mode = d.size(), d.name("sum mean max")
    offsets = torch.tensor([0, *sorted(d.randint(0, count) for _ in range(d.randint(0, 3)))])
    weights = d.tensor(count) if mode == "sum" and d.chance(0.5) else None
    return F.embedding_bag(
        d.indices((count,), len(table)), table, d.values(offsets), mode=mode, per_sample_weights=weights
    )


def _indexed(d: Draw, x: torch.Tensor) -> Any:
    places: list[Any] = [slice(None)] * x.dim()
    where = d.sizes(d.randint(1, 2), 30)
    for i in d.sample(range(x.dim()), d.randint(1, min(3, x.dim()))):
        sizes = [w if d.chance(0.7) else 1 for w in where][d.randrange(len(where)) :]
        places[i] = d.indices(sizes, x.shape[i], negative=True)
    return x[tuple(places)]


def _scattered(d: Draw, x: torch.Tensor, n: int, some: list[int]) -> Any:
    reduce = d.choice(("", "sum", "amax", "amin", "prod", "mean"))
    index = [*some[:n], d.size() if reduce else x.shape[n], *some[n + 1 :]]
    src = d.plain(*(s + d.randint(0, 2) for s in index), dtype=x.dtype, low=0, high=3)
    if reduce:
        return torch.scatter_reduce(x, n, d.indices(index, x.shape[n]), src, reduce, include_self=d.chance(0.7))
    return torch.scatter(x, n, d.values(torch.rand(index, generator=d.generator).argsort(n)), src)


def _rows_put(d: Draw, x: torch.Tensor, n: int) -> Any:
    rows = d.values(torch.randperm(x.shape[n], generator=d.generator)[: d.randint(1, x.shape[n])])
    src = d.plain(*x.shape[:n], len(rows), *x.shape[n + 1 :], dtype=x.dtype)
    if d.chance(0.5):
        return aten.index_put(x, [*[None] * n, rows], src, d.chance(0.4))
    return d.choice((torch.index_add, torch.index_copy))(x, n, rows, src)


@family("nonzero masked_select unique_consecutive lexsort repeat_places bin_sum item nms")
def sized_by_data(d: Draw) -> Any:
    shape, dtype = d.sizes(d.randint(1, 3), 400), d.choice((F32, I64, I32))
    x, mask = d.tensor(*shape, dtype=dtype, low=-2, high=2), d.tensor(*shape, dtype=BOOL)
    n, both = d.randrange(len(shape)), {"return_inverse": True, "return_counts": True}
    corner = torch.rand(d.size(), 2, generator=d.generator) * 9
    boxes = torch.cat([corner, corner + torch.rand(corner.shape, generator=d.generator) * 9], 1)
    scores, bins = d.values(d.distinct(boxes.shape[:1])), d.indices((d.size(),), 9)
    return d.one_of(
        lambda: torch.nonzero(d.choice((x, mask))),
        lambda: torch.masked_select(x, mask),
        lambda: x[mask],
        lambda: torch.unique(x, **both),
        lambda: torch.unique(x, dim=n, **both),
        lambda: torch.unique_consecutive(x, dim=d.optional(n), **both),
        lambda: torch.repeat_interleave(x, d.indices((shape[n],), 4), n),
        lambda: torch.bincount(bins, d.optional(d.tensor(*bins.shape)), d.randint(0, 12)),
        lambda: torch.ops.torchvision.nms(d.values(boxes), scores, d.choice((0.1, 0.3, 0.6))),
    )


@family("sort topk kth mode searchsorted")
def sorting(d: Draw) -> Any:
    dtype = d.choice((F32, I64, I32))
    x = d.values(d.distinct(d.sizes(d.randint(1, 4)), dtype))
    n, keep, ties = d.dim(x), d.chance(0.5), d.tensor(*x.shape, dtype=dtype, low=-2, high=2)
    row = d.values(d.numbers((*d.choice((x.shape[:-1], ())), d.size()), dtype).sort(-1).values)
    k = d.randint(1, x.shape[n])
    return d.one_of(
        lambda: torch.sort(ties, stable=True, dim=n, descending=d.chance(0.5)),
        lambda: torch.topk(x, k, n, d.chance(0.5)),
        lambda: torch.kthvalue(x, k, n, keep),
        lambda: torch.median(x, n, keep),
        lambda: torch.mode(ties, n, keep).values,
        lambda: torch.searchsorted(row, ties, right=d.chance(0.5), out_int32=d.chance(0.3)),
    )


@family("lstm gru rnn")
def recurrent(d: Draw) -> Any:
    kind, size, hidden = d.name("LSTM GRU RNN"), d.size(17), d.size(20)
    layers, two, batched = d.randint(1, 2), d.chance(0.4), d.chance(0.8)
    more: dict[str, Any] = {"nonlinearity": d.choice(("tanh", "relu"))} if kind == "RNN" else {}
    if kind == "LSTM" and hidden > 1 and d.chance(0.3):
        more["proj_size"] = d.randint(1, hidden - 1)
    more |= {"bias": d.chance(0.7), "batch_first": d.chance(0.5), "bidirectional": two}
    with torch.random.fork_rng(), torch.utils._python_dispatch._disable_current_modes():
        torch.manual_seed(d.randrange(1 << 30))
        module = getattr(torch.nn, kind)(size, hidden, layers, **more).eval()
    x = d.tensor(d.randint(1, 9), *([d.randint(1, 4)] if batched else []), size)
    batch = (x.shape[0 if module.batch_first else 1],) if batched else ()
    state = [d.tensor(layers * (1 + two), *batch, s) for s in (more.get("proj_size", hidden), hidden)]
    given = () if d.chance(0.4) else ((tuple(state),) if kind == "LSTM" else (state[0],))
    return module(x, *given)


@family("fft rfft irfft overlap_add")
def transforms(d: Draw) -> Any:
    shape, norm, length = d.sizes(d.randint(1, 3), 600), d.name("backward ortho forward"), d.optional(d.size(), 0.3)
    n, real, pair = d.randrange(len(shape)), d.tensor(*shape), d.tensor(*shape, dtype=torch.complex64)
    either = real if d.chance(0.2) else pair
    size = d.choice((1, 2, 4, 8, 12))
    hop, window, signal = (
        max(1, size // d.randint(2, 4)),
        d.values(d.numbers((size,), low=1) + 2),
        d.tensor(2, size + d.size()),
    )
    frames = lambda center: torch.stft(signal, size, hop, size, window, center=center, return_complex=True)  # noqa: E731
    return d.one_of(
        lambda: d.choice((torch.fft.fft, torch.fft.ifft, torch.fft.irfft))(either, length, n, norm),
        lambda: torch.fft.rfft(real, length, n, norm),
        lambda: torch.fft.fftn(either, dim=d.dims(either), norm=norm),
        lambda: frames(d.chance(0.5) and signal.shape[1] > size),
        lambda: torch.istft(frames(False), size, hop, size, window, center=False),
    )


@family("lu lu_solve permutation cholesky triangular_solve ldl ldl_solve geqrf reflect eigh svd eig matrix_exp")
def linear_algebra(d: Draw) -> Any:
    """Well-conditioned matrices; what is open in a decomposition (signs, order) is not compared."""
    n, m, k = d.size(12), d.size(12), d.size(7)
    batch = [d.randint(1, 3) for _ in range(d.randint(0, 2))]
    square = d.numbers((*batch, n, n)) / 4 + 3 * torch.eye(n) * torch.linspace(1, 2, n)
    even = d.values((square + square.mT) / 2 + (n / 4) * torch.eye(n))
    tall = d.values(d.numbers((*batch, m, n)) + 3 * torch.eye(m, n))
    a, b, linalg = d.values(square), d.tensor(*batch, n, k), torch.linalg

    def rebuilt(w: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> Any:
        return [w, (u * w.unsqueeze(-2)) @ v]

    return d.one_of(
        lambda: linalg.lu(a),
        lambda: linalg.solve(a, b),
        lambda: linalg.inv(a),
        lambda: linalg.det(a),
        lambda: linalg.cholesky(even, upper=d.chance(0.5)),
        lambda: torch.cholesky_solve(b, linalg.cholesky(even)),
        lambda: linalg.solve_triangular(a, b, upper=d.chance(0.5), unitriangular=d.chance(0.3)),
        lambda: linalg.ldl_solve(*linalg.ldl_factor(even), b),
        lambda: torch.matrix_exp(a * 0.25),
        lambda: rebuilt((e := linalg.eigh(even, d.choice("LU"))).eigenvalues, e.eigenvectors, e.eigenvectors.mT),
        lambda: rebuilt((f := linalg.svd(tall, False)).S, f.U, f.Vh),
        lambda: linalg.eigvals(a).abs().prod(-1),
        lambda: [(f := linalg.qr(tall)).Q @ f.R, f.R.abs()],
        lambda: torch.ormqr(*torch.geqrf(a), b, True, d.chance(0.5)),
    )


# Operators that no family draws, and why.
NOT_DRAWN = {
    "full": "no inputs, and a constant where its size is known; its samples have other sizes",
    "arange": "as full",
    "random_uniform": "torch draws other numbers: tests/ops/test_random.py",
    "random_normal": "as random_uniform",
    "random_integers": "as random_uniform",
    "random_permutation": "as random_uniform",
    "random_poisson": "as random_uniform",
    "quantize": "what integers stand for is in types: tests/ops/test_integer_products.py, tests/capture/test_quantized_ways.py",
    "dequantize": "as quantize",
    "lookup": "as quantize: tests/ops/test_quantized_elementwise.py",
    "quantize_dynamic": "as quantize: tests/ops/test_dynamic_products.py",
    "dequantize_dynamic": "as quantize_dynamic",
    "columns_dynamic": "as quantize_dynamic",
    "lstm_dynamic": "what rounds its state is drawn from no schema: test_dynamic_recurrent.py",
    "gru_dynamic": "as lstm_dynamic",
    "rnn_dynamic": "as lstm_dynamic",
}
