"""How values lie in memory, as far as the compiler can tell: strides of fresh values and of views, and what they are.

Symbolic dims count as SAMPLE: only the order of strides and whether dims can be merged matter here, the runtime derives
the real ones at bind. Not a pass; layout.py reasons with it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from penlight.ir.dims import Dim, Expr, evaluate
from penlight.ir.graph import AttrItem, Node

Strides: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = tuple[int, ...]

SAMPLE = 224  # large and even: h // 2 // 2 … stays above 1, as in real use


def size_of(dim: AttrItem) -> int:
    if isinstance(dim, Expr):
        try:
            return max(1, evaluate(dim, defaultdict(lambda: SAMPLE)))
        except ZeroDivisionError:
            return SAMPLE
    assert isinstance(dim, int)
    return dim


def sizes_of(shape: tuple[Dim, ...]) -> Sizes:
    return tuple(map(size_of, shape))


def fresh_strides(sizes: Sizes, layout: str) -> Strides:
    """Of memory allocated for a value in layout plain or nhwc."""
    order = [0, *range(2, len(sizes)), 1] if layout == "nhwc" else list(range(len(sizes)))
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(1, sizes[d])
    return tuple(strides)


def turned_strides(sizes: Sizes) -> Strides:
    """Of memory in which the third dim from the last lies inside the second (Lay::output_turned)."""
    swapped = fresh_strides((*sizes[:-3], sizes[-2], sizes[-3], sizes[-1]), "plain")
    return (*swapped[:-3], swapped[-2], swapped[-3], swapped[-1])


def lies_plain(sizes: Sizes, strides: Strides) -> bool:
    dense = fresh_strides(sizes, "plain")
    return all(n <= 1 or s == d for n, s, d in zip(sizes, strides, dense, strict=True))


def lies_nhwc(sizes: Sizes, strides: Strides) -> bool:
    """Channels side by side, pixels dense over a pitch, any step between images: what channels operators need."""
    if sizes[1] > 1 and strides[1] != 1:
        return False
    expected = 0  # of the next dim outwards; none yet
    for n, step in zip(reversed(sizes[2:]), reversed(strides[2:]), strict=True):
        if n <= 1:
            continue
        if step != expected if expected else step < sizes[1]:
            return False
        expected = step * n
    return True


def is_copied(node: Node, sizes: Sizes, strides: Strides, out: Sizes) -> bool:
    """Whether a reshape has to move elements."""
    return node.op == "reshape" and _reshaped(sizes, strides, out) is None


def view_strides(node: Node, sizes: Sizes, strides: Strides, out: Sizes) -> Strides:
    """Of a view operator's result, given sizes and strides of its input; plain where it has to copy."""
    rank = len(sizes)
    match node.op:
        case "permute":
            dims = node.attrs["dims"]
            assert isinstance(dims, tuple)
            return tuple(strides[size_of(d) % rank] for d in dims)
        case "slice":
            dim = size_of(node.attrs["dim"]) % rank  # type: ignore[arg-type]
            return tuple(s * size_of(node.attrs["step"]) if d == dim else s for d, s in enumerate(strides))  # type: ignore[arg-type]
        case "select":
            dim = size_of(node.attrs["dim"]) % rank  # type: ignore[arg-type]
            return strides[:dim] + strides[dim + 1 :]
        case "expand":
            added = len(out) - rank
            kept = (s if n == m else 0 for n, m, s in zip(sizes, out[added:], strides, strict=True))
            return (0,) * added + tuple(kept)
        case "diagonal":
            row, column = (size_of(node.attrs[d]) % rank for d in ("dim1", "dim2"))  # type: ignore[arg-type]
            rest = tuple(s for d, s in enumerate(strides) if d not in (row, column))
            return (*rest, strides[row] + strides[column])
        case "unfold":
            dim, step = (size_of(node.attrs[d]) for d in ("dim", "step"))  # type: ignore[arg-type]
            return (*(s * step if d == dim else s for d, s in enumerate(strides)), strides[dim])
        case "as_strided":
            steps = node.attrs["stride"]
            assert isinstance(steps, tuple)
            return tuple(map(size_of, steps))
        case "reshape":
            return _reshaped(sizes, strides, out) or fresh_strides(out, "plain")
    return fresh_strides(out, "plain")


def merges(shape: tuple[Dim, ...], out: tuple[Dim, ...]) -> bool:
    """Whether each dim of `out` is the product of neighbouring dims of `shape`: then a copy may write `out` in any layout."""
    rest = list(shape)
    for dim in out:
        product: tuple[int, list[str]] = (1, [])
        while rest and product != _factors(dim):
            n, names = _factors(rest.pop(0))
            product = (product[0] * n, sorted(product[1] + names))
        if product != _factors(dim):
            return False
    return all(dim == 1 for dim in rest)


def _factors(dim: Dim) -> tuple[int, list[str]]:
    """A number, and the names of everything else that a dim is the product of."""
    if not isinstance(dim, Expr):
        return dim, []
    if dim.op != "*":
        return 1, [str(dim)]
    (n, names), (m, others) = (_factors(a) for a in dim.args)  # type: ignore[arg-type]
    return n * m, sorted(names + others)


def _reshaped(sizes: Sizes, strides: Strides, out: Sizes) -> Strides | None:
    """Strides that show the same memory as `out`, or None. Dims that lie as one are split anew; other borders stay."""
    chunks: list[tuple[int, int]] = []  # (elements, innermost stride), outer first
    for n, s in zip(sizes, strides, strict=True):
        if n == 1:
            continue
        if chunks and chunks[-1][1] == n * s:
            chunks[-1] = (chunks[-1][0] * n, s)
        else:
            chunks.append((n, s))
    result: list[int] = []
    left, step = 1, 1
    for n in reversed(out):
        if n == 1:
            result.append(step)
            continue
        if left == 1:
            if not chunks:
                return None
            left, step = chunks.pop()
        if n == 0 or left % n:
            return None
        result.append(step)
        left, step = left // n, step * n
    return tuple(reversed(result)) if left == 1 and not chunks else None
