"""The compiler's idea of views against torch's own strides."""

import itertools

import pytest
import torch

from penlight.ir.dims import combine, symbol
from penlight.ir.graph import Node
from penlight.passes.strides import fresh_strides, lies_nhwc, lies_plain, merges, view_strides


def memory(layout: str, *sizes: int) -> torch.Tensor:
    return torch.zeros(sizes).contiguous(
        memory_format=torch.channels_last if layout == "nhwc" else torch.contiguous_format
    )


def check(node: Node, x: torch.Tensor, y: torch.Tensor) -> None:
    got = view_strides(node, tuple(x.shape), x.stride(), tuple(y.shape))
    assert [g for g, n in zip(got, y.shape, strict=True) if n > 1] == [
        s for s, n in zip(y.stride(), y.shape, strict=True) if n > 1
    ]


@pytest.mark.parametrize("layout", ["plain", "nhwc"])
def test_fresh(layout: str) -> None:
    for sizes in [(2, 3, 4, 5), (1, 8, 7, 7)]:
        assert fresh_strides(sizes, layout) == tuple(memory(layout, *sizes).stride())


@pytest.mark.parametrize("layout", ["plain", "nhwc"])
def test_views(layout: str) -> None:
    x = memory(layout, 2, 8, 6, 4)
    for dims in itertools.permutations(range(4)):
        check(Node("permute", [], {"dims": dims}), x, x.permute(dims))
    check(Node("slice", [], {"dim": 1, "start": 2, "end": 8, "step": 3}), x, x[:, 2:8:3])
    check(Node("slice", [], {"dim": -1, "start": 0, "end": 2, "step": 1}), x, x[..., :2])
    check(Node("select", [], {"dim": 2, "index": 1}), x, x[:, :, 1])
    check(Node("expand", [], {"shape": (3, 2, 8, 6, 4)}), x, x.expand(3, 2, 8, 6, 4))
    check(Node("expand", [], {"shape": (2, 8, 6, 4)}), x[:, :1], x[:, :1].expand(2, 8, 6, 4))
    check(Node("diagonal", [], {"offset": 1, "dim1": 1, "dim2": 3}), x, x.diagonal(1, 1, 3))
    check(Node("unfold", [], {"dim": 2, "size": 3, "step": 2}), x, x.unfold(2, 3, 2))


@pytest.mark.parametrize("layout", ["plain", "nhwc"])
def test_reshapes(layout: str) -> None:
    x = memory(layout, 2, 8, 6, 4)
    for source in (x, x.permute(0, 2, 3, 1), x[:, 2:6], x[:, :, :, 1:], x[:1]):
        for shape in [(-1,), (2, -1), (16, -1), (2, 8, -1), (-1, 4), (2, 4, 2, -1), (1, 2, 1, -1, 1), (-1, 8)]:
            if source.numel() % abs(torch.Size(shape).numel()):
                continue
            y = source.reshape(shape)
            copied = y.data_ptr() != source.data_ptr()
            check(Node("reshape", [], {"shape": shape}), source, y.contiguous() if copied else y)


def test_what_lies_how() -> None:
    for layout, sizes in itertools.product(
        ("plain", "nhwc"), [(2, 3, 4, 5), (2, 1, 4, 5), (2, 8, 1, 1), (2, 8, 1, 5), (2, 8, 5, 1)]
    ):
        x = memory(layout, *sizes)
        assert lies_plain(sizes, tuple(x.stride())) == x.is_contiguous()
        if x.is_contiguous(memory_format=torch.channels_last):
            assert lies_nhwc(sizes, tuple(x.stride()))
    wide = memory("nhwc", 2, 16, 4, 5)
    assert lies_nhwc((2, 8, 4, 5), tuple(wide[:, 4:12].stride()))
    assert not lies_nhwc((2, 16, 4, 3), tuple(wide[..., 1:4].stride()))
    assert not lies_nhwc((2, 3, 4, 5), tuple(memory("plain", 2, 3, 4, 5).stride()))
    volume = torch.empty(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)
    assert lies_nhwc((2, 3, 4, 5, 6), tuple(volume.stride()))
    assert lies_nhwc((2, 2, 3, 5, 6), tuple(volume[:, 1:, :3].stride()))
    assert not lies_nhwc((2, 3, 4, 3, 6), tuple(volume[:, :, :, 1:4].stride()))


def test_merged_dims() -> None:
    n, h = symbol("n"), symbol("h")
    assert merges((2, 3, 4, 5), (6, 20))
    assert merges((2, 1, 3, 1), (2, 3))
    assert merges((2, 3), (1, 2, 1, 3))
    assert merges((n, 4, h, 2), (n, 4, combine("*", 2, h)))
    assert not merges((6, 20), (2, 3, 20))
    assert not merges((4, 6), (6, 4))
    assert not merges((n, h), (h, n))
