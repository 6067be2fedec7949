"""Padding with zeros before a convolution or an average moves into that operator's own padding.

    %p: f32[1, 3, 9, 9] = pad(%x, padding=[0, 1, 0, 1], value=0.0, mode="constant")
    %y: f32[1, 8, 4, 4] = conv2d(%p, @w, none, none, stride=[2, 2], padding=[0, 0, 0, 0], …)
    ->
    %y: f32[1, 8, 4, 4] = conv2d(%x, @w, none, none, stride=[2, 2], padding=[0, 0, 1, 1], …)

pad lists (left, right, top, bottom), operators (top, left, bottom, right). Averages must count the padding (they do from
here on, where nothing was padded before) and must not round their size up, which depends on what is padding. Maxima
stay: their own padding is -inf.
"""

from __future__ import annotations

from penlight.ir.dims import combine
from penlight.ir.graph import AttrItem, Graph, Node
from penlight.ir.rewrite import blocks, made_by


def run(graph: Graph) -> int:
    folded = 0
    for block in blocks(graph):
        for node in block.nodes:
            if (
                node.op not in ("conv2d", "conv3d", "avg_pool2d", "avg_pool3d")
                or (pad := made_by(node.inputs[0], "pad")) is None
            ):
                continue
            amounts = _spatial(pad)
            padding = node.attrs["padding"]
            assert isinstance(padding, tuple)
            if amounts is None or (node.op.startswith("avg_pool") and not _exact(node, padding, amounts)):
                continue
            node.attrs["padding"] = tuple(combine("+", a, b) for a, b in zip(padding, amounts, strict=True))  # type: ignore[arg-type]
            if node.op.startswith("avg_pool"):
                node.attrs["count_include_pad"] = True
            node.set_input(0, pad.inputs[0])
            folded += 1
    return folded


def _spatial(pad: Node) -> tuple[int, ...] | None:
    """(top, left, bottom, right), (front, top, left, back, bottom, right) of rank 5, where it pads spatial dims only, with
    zeros, and crops nothing."""
    amounts, spatial = pad.attrs["padding"], pad.output.rank - 2
    if (
        not isinstance(amounts, tuple)
        or spatial not in (2, 3)
        or pad.attrs["mode"] != "constant"
        or pad.attrs["value"] != 0.0
        or any(amounts[2 * spatial :])
    ):
        return None
    if any(not isinstance(a, int) or a < 0 for a in amounts[: 2 * spatial]):
        return None
    known = (*amounts, *(0,) * 2 * spatial)[: 2 * spatial]  # innermost dim first
    return (*known[-2::-2], *known[::-2])  # type: ignore[arg-type]


def _exact(pool: Node, padding: tuple[AttrItem, ...], amounts: tuple[int, ...]) -> bool:
    kernel = pool.attrs["kernel"]
    assert isinstance(kernel, tuple)
    if pool.attrs["ceil_mode"] or (any(padding) and not pool.attrs["count_include_pad"]):
        return False
    total = [p + a for p, a in zip(padding, amounts, strict=True) if isinstance(p, int)]
    # no window may lie in the padding alone: the operator's contract, as torch's
    return len(total) == len(padding) and all(
        2 * t <= k for t, k in zip(total, (*kernel, *kernel), strict=True) if isinstance(k, int)
    )
