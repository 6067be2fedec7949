import pytest
import torch

from penlight.passes import dead_code, fuse_residual, merge_views, move_views, remove_identity
from tests.passes.reference import assert_same_numbers, canonical, rewritten

LINEAR = 'linear({}, @w, none, none, act="", act_args=[])'


def graph(*lines: str, shape: str = "n, 9, 8", returns: str = "%t") -> str:
    body = "".join(f"\n      {line}" for line in lines)
    return f"\n    graph g(%y: f32[{shape}], %other: f32[n, 9, 4]) {{\n      @w: f32[4, 8]{body}\n      return {returns}\n    }}"


ATTENTION = [
    "%p: f32[9, n, 8] = permute(%y, dims=[1, 0, 2])",
    "%r: f32[9 * n, 8] = reshape(%p, shape=[9 * n, 8])",
    f"%l: f32[9 * n, 4] = {LINEAR.format('%r')}",
    "%s: f32[9, n, 4] = reshape(%l, shape=[9, n, 4])",
    "%t: f32[n, 9, 4] = permute(%s, dims=[1, 0, 2])",
]


def all_of(g):  # type: ignore[no-untyped-def]
    changes = 0
    for each in (move_views, dead_code, merge_views, remove_identity, dead_code, fuse_residual):
        changes += each.run(g)
    return changes


def test_rows_there_and_back() -> None:
    after = graph(f"%linear_3: f32[n, 9, 4] = {LINEAR.format('%y')}", returns="%linear_3")
    assert rewritten(all_of, graph(*ATTENTION)) == canonical(after)
    assert_same_numbers(all_of, graph(*ATTENTION), [torch.randn(3, 9, 8), torch.randn(3, 9, 4)], 1e-6)


def test_then_a_residual_fuses() -> None:
    text = graph(*ATTENTION, "%z: f32[n, 9, 4] = add(%t, %other)", returns="%z")
    after = assert_same_numbers(all_of, text, [torch.randn(3, 9, 8), torch.randn(3, 9, 4)], 1e-6)
    assert [n.op for n in after.nodes] == ["linear"]


def test_heads_are_merged_in_the_order_of_the_result() -> None:
    lines = [
        "%p: f32[9, n, 2, 4] = permute(%y, dims=[2, 0, 1, 3])",
        "%r: f32[9 * n, 8] = reshape(%p, shape=[9 * n, 8])",
        *ATTENTION[2:],
    ]
    after = assert_same_numbers(
        all_of, graph(*lines, shape="n, 2, 9, 4"), [torch.randn(3, 2, 9, 4), torch.randn(3, 9, 4)], 1e-6
    )
    assert [repr(n.attrs.get("dims")) for n in after.nodes if n.op == "permute"] == ["(0, 2, 1, 3)"]
    assert [n.op for n in after.nodes] == ["permute", "reshape", "linear"]


def test_a_permute_joins_the_views_after_the_linear() -> None:
    lines = [
        ATTENTION[0],
        f"%l: f32[9, n, 4] = {LINEAR.format('%p')}",
        "%s: f32[9, n, 2, 2] = reshape(%l, shape=[9, n, 2, 2])",
        "%t: f32[n, 2, 9, 2] = permute(%s, dims=[1, 2, 0, 3])",
    ]
    after = assert_same_numbers(all_of, graph(*lines), [torch.randn(3, 9, 8), torch.randn(3, 9, 4)], 1e-6)
    assert repr(after.nodes[0]).endswith("linear(%y, @w, none, none)")
    assert [n.op for n in after.nodes] == ["linear", "reshape", "permute"]
    assert move_views.run(after) == 0


STAYS = {
    "nothing before": graph(f"%l: f32[n, 9, 4] = {LINEAR.format('%y')}", "%t: f32[9, n, 4] = permute(%l, dims=[1, 0, 2])"),
    "nothing after": graph(ATTENTION[0], f"%t: f32[9, n, 4] = {LINEAR.format('%p')}"),
    "the last dim moves": graph(*ATTENTION[:3], "%s: f32[9, n, 4] = reshape(%l, shape=[9, n, 4])", "%t: f32[n, 4, 9] = permute(%s, dims=[1, 2, 0])"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["nothing before", "nothing after"])
def test_what_stays(name: str) -> None:
    assert rewritten(move_views.run, STAYS[name]) == canonical(STAYS[name])


def test_views_that_touch_the_last_dim_are_not_moved_up() -> None:
    after = assert_same_numbers(all_of, STAYS["the last dim moves"], [torch.randn(3, 9, 8), torch.randn(3, 9, 4)], 1e-6)
    assert [n.op for n in after.nodes] == ["linear", "permute"]
