import itertools
import math
import random

import pytest
import torch

from penlight.ir import Graph, TensorType, print_graph, symbol
from penlight.ir.dims import combine
from penlight.passes import merge_views
from tests.passes.reference import assert_same_numbers, canonical, rewritten, run_graph


def graph(shape: str, *lines: str, returns: str = "%z") -> str:
    body = "".join(f"\n      {line}" for line in lines)
    return f"\n    graph g(%x: f32[{shape}]) {{{body}\n      return {returns}\n    }}"


def reshape(name: str, source: str, shape: str) -> str:
    return f"%{name}: f32[{shape}] = reshape(%{source}, shape=[{shape}])"


CHAINS = {
    "permutes": (
        graph("2, 3, 4", "%a: f32[2, 4, 3] = permute(%x, dims=[0, 2, 1])", "%z: f32[4, 2, 3] = permute(%a, dims=[1, 0, 2])"),
        graph("2, 3, 4", "%permute_1: f32[4, 2, 3] = permute(%x, dims=[2, 0, 1])", returns="%permute_1"),
    ),
    "permutes that cancel": (
        graph("2, 3, 4", "%a: f32[4, 2, 3] = permute(%x, dims=[2, 0, 1])", "%z: f32[2, 3, 4] = permute(%a, dims=[1, 2, 0])"),
        graph("2, 3, 4", returns="%x"),
    ),
    "reshapes": (
        graph("2, n, 4", reshape("a", "x", "2 * n, 4"), reshape("z", "a", "n, 8")),
        graph("2, n, 4", reshape("reshape_1", "x", "n, 8"), returns="%reshape_1"),
    ),
    "heads of attention": (
        graph("9, n, 48", reshape("a", "x", "9, n * 12, 4"), "%b: f32[n * 12, 9, 4] = permute(%a, dims=[1, 0, 2])", reshape("z", "b", "n, 12, 9, 4")),
        graph("9, n, 48", reshape("reshape_1", "x", "9, n, 12, 4"), "%permute_2: f32[n, 12, 9, 4] = permute(%reshape_1, dims=[1, 2, 0, 3])", returns="%permute_2"),
    ),
    "a permute of dims of size 1": (
        graph("1, 4, n", "%z: f32[4, 1, n] = permute(%x, dims=[1, 0, 2])"),
        graph("1, 4, n", reshape("reshape_1", "x", "4, 1, n"), returns="%reshape_1"),
    ),
    "new dims of size 1": (
        graph("4, n", "%a: f32[n, 4] = permute(%x, dims=[1, 0])", reshape("b", "a", "n, 1, 4"), reshape("z", "b", "1, n, 1, 4")),
        graph("4, n", reshape("reshape_1", "x", "1, 1, 4, n"), "%permute_2: f32[1, n, 1, 4] = permute(%reshape_1, dims=[0, 3, 1, 2])", returns="%permute_2"),
    ),
    "cut and rejoined": (
        graph("8, 6", reshape("a", "x", "8, 2, 3"), "%b: f32[2, 3, 8] = permute(%a, dims=[1, 2, 0])", reshape("z", "b", "6, 8")),
        graph("8, 6", "%permute_1: f32[6, 8] = permute(%x, dims=[1, 0])", returns="%permute_1"),
    ),
}  # fmt: skip
STAYS = {
    "channel shuffle": graph("1, 6, n", reshape("a", "x", "1, 2, 3, n"), "%b: f32[1, 3, 2, n] = permute(%a, dims=[0, 2, 1, 3])", reshape("z", "b", "1, 6, n")),
    "uneven": graph("4, 6", reshape("a", "x", "3, 8"), "%b: f32[8, 3] = permute(%a, dims=[1, 0])", reshape("z", "b", "4, 6")),
    "of nothing": graph("0, 6", "%a: f32[6, 0] = permute(%x, dims=[1, 0])", reshape("z", "a", "0, 4")),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    before, after = CHAINS[name]
    assert rewritten(merge_views.run, before) == canonical(after)
    assert rewritten(merge_views.run, after) == canonical(after)
    x = torch.randn([{"n": 5, "h": 3}.get(d) or int(d) for d in before.split("[")[1].split("]")[0].split(", ")])
    assert_same_numbers(merge_views.run, before, [x], 0.0)


def test_channel_shuffle_keeps_its_three_steps() -> None:
    text = STAYS["channel shuffle"]
    once = rewritten(merge_views.run, text)
    assert [line.split("= ")[1].split("(")[0] for line in once.split("\n")[1:-3]] == ["reshape", "permute", "reshape"]
    assert rewritten(merge_views.run, once) == once


@pytest.mark.parametrize("name", ["uneven", "of nothing"])
def test_what_stays(name: str) -> None:
    assert rewritten(merge_views.run, STAYS[name]) == canonical(STAYS[name])


def test_a_reshape_with_other_users_begins_a_new_chain() -> None:
    text = """
    graph g(%x: f32[2, 3]) {
      %p: f32[3, 2] = permute(%x, dims=[1, 0])
      %a: f32[6] = reshape(%p, shape=[6])
      %b: f32[6, 1] = reshape(%a, shape=[6, 1])
      %c: f32[6] = relu(%a)
      return %b, %c
    }"""
    assert rewritten(merge_views.run, text) == canonical(text)


def test_any_chain_gives_the_same_numbers() -> None:
    rng = random.Random(0)
    sizes = [2, 3, 1, 4]
    shortened = 0
    for _ in range(300):
        g = Graph()
        n = symbol("n")
        value = g.add_input("x", TensorType("f32", (n, *rng.sample(sizes, 3))))
        for _ in range(rng.randint(1, 6)):
            shape = value.shape
            if rng.random() < 0.5:
                dims = tuple(rng.sample(range(len(shape)), len(shape)))
                node = g.node("permute", [value], {"dims": dims}, TensorType("f32", tuple(shape[d] for d in dims)))
            else:
                new = _regrouped(rng, shape)
                node = g.node("reshape", [value], {"shape": new}, TensorType("f32", new))
            value = g.append(node).output
        g.outputs = [value]
        x = torch.arange(5 * math.prod(d for d in g.inputs[0].shape if isinstance(d, int)), dtype=torch.float32)
        x = x.reshape([5 if d is n else d for d in g.inputs[0].shape])
        before, count = run_graph(g, [x])[0], len(g.nodes)
        merge_views.run(g)
        assert torch.equal(run_graph(g, [x])[0], before), print_graph(g)
        assert len(g.nodes) <= min(count, 3)
        shortened += len(g.nodes) < count
        assert merge_views.run(g) == 0, print_graph(g)
    assert shortened > 150


def _regrouped(rng: random.Random, shape: tuple) -> tuple:
    """Another shape for the same elements: some neighbours merged, 4 cut in two, some dims of size 1 added or left out."""
    cut = list(itertools.chain.from_iterable([(2, 2) if d == 4 and rng.random() < 0.5 else (d,) for d in shape]))
    new: list = []
    for d in cut:
        if d == 1 and rng.random() < 0.5:
            continue
        if new and rng.random() < 0.3:
            new[-1] = combine("*", new[-1], d)
        else:
            new.append(d)
        if rng.random() < 0.2:
            new.append(1)
    return tuple(new)
