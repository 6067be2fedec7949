"""The verifier finds each way to break a graph, and says in words which node, what was expected and what was found."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from penlight.ir import Block, Graph, Method, Node, Program, TensorType, Value, VerifyError, parse_graph, symbol
from penlight.ir.verify import verify

GOOD = """
graph forward(%x: f32[n, 3, 8], %flag: bool[]) {
  @c: f32[3, 1] = [1.0, 2.0, 3.0]
  %a: f32[n, 3, 8] = clamp(%x, lo=0.0, hi=6.0)  # model.py:3
  %b: f32[n, 3, 8] = add(%a, @c)
  %m: f32[n, 8] = mean(%b, dims=[1], keepdim=false)
  %d: f32[n, 6, 8] = cat(%a, %b, dim=1)
  %i: f32[n, 8] = if(%flag) () {
    %e: f32[n, 8] = neg(%m)
    return %e
  } () {
    return %m
  }
  return %d, %i
}
"""


def good() -> Graph:
    return parse_graph(GOOD)


def test_good_graphs_pass() -> None:
    verify(good())
    verify(Program({"forward": Method(good())}))


def _attr(name: str, value: object) -> Callable[[Graph], None]:
    return lambda g: g.nodes[0].attrs.__setitem__(name, value)  # type: ignore[arg-type]


def _swap(g: Graph) -> None:
    g.nodes[0], g.nodes[1] = g.nodes[1], g.nodes[0]


def _set(get: Callable[[Graph], object], name: str, value: object) -> Callable[[Graph], None]:
    return lambda g: setattr(get(g), name, value)


def _loop(g: Graph) -> None:
    """A loop whose body forgets what it carries."""
    i, acc = Value("i", TensorType("i64", ())), Value("acc", g.inputs[0].type)
    body = Block([i, acc], [], [g.inputs[1]])
    g.append(g.node("loop", [g.inputs[1], g.inputs[1], g.inputs[0]], {}, [g.inputs[0].type], blocks=[body]))


BREAKAGES: list[tuple[str, Callable[[Graph], object], str]] = [
    ("use before definition", _swap, "%a is used here, but it is not defined before"),
    ("name taken", _set(lambda g: g.nodes[1].output, "name", "a"), "the name %a is taken already"),
    ("empty name", _set(lambda g: g.nodes[3].output, "name", ""), "empty name"),
    ("unknown operator", _set(lambda g: g.nodes[0], "op", "clmp"), "no operator 'clmp' is declared"),
    ("too few inputs", lambda g: g.append(Node("add", [], {}, [])), "expected 2 inputs"),
    ("too many inputs", lambda g: (g.nodes[0].inputs.append(g.inputs[0]), g.inputs[0].users.append(g.nodes[0])), "expected 1 inputs"),
    ("needed input left out", lambda g: g.nodes[1].set_input(1, None), "input 1 (b) is left out, but not optional"),
    ("attribute missing", lambda g: g.nodes[0].attrs.pop("hi"), "attribute 'hi' is missing"),
    ("attribute unknown", _attr("high", 1.0), "clamp has no attribute 'high'; it has lo, hi"),
    ("attribute of another kind", _attr("hi", "6"), "attribute hi: expected float, got '6'"),
    ("an int for a float", _attr("hi", 6), "attribute hi: expected float, got 6"),
    ("a list for int[]", lambda g: g.nodes[2].attrs.__setitem__("dims", [1]), "attribute dims: expected int[], got [1]"),
    ("a bool for an int", lambda g: g.nodes[3].attrs.__setitem__("dim", True), "attribute dim: expected int, got True"),
    ("free symbol in an attribute", lambda g: g.nodes[3].attrs.__setitem__("dim", symbol("k")), "symbol 'k' in attribute dim=k is not bound"),
    ("free symbol in a type", _set(lambda g: g.nodes[0].output, "type", TensorType("f32", (symbol("k"),))), "symbol 'k' in type f32[k]"),
    ("reserved symbol", _set(lambda g: g.inputs[0], "type", TensorType("f32", (symbol("none"),))), "named 'none'"),
    ("unknown dtype", _set(lambda g: g.nodes[0].output, "type", TensorType("f33", ())), "unknown dtype 'f33'"),
    ("negative dim", _set(lambda g: g.nodes[0].output, "type", TensorType("f32", (-1,))), "at least 0, got -1"),
    ("no type", _set(lambda g: g.nodes[0].output, "type", None), "gives tensors, its type is None"),
    ("outputs missing", lambda g: g.nodes[3].outputs.clear(), "cat has 1 outputs, got 0"),
    ("wrong producer", _set(lambda g: g.nodes[1].output, "producer", None), "%b: expected producer"),
    ("user forgotten", lambda g: g.nodes[0].output.users.pop(), "the users it knows are not those it has"),
    ("user too many", lambda g: g.inputs[0].users.append(g.nodes[3]), "the users it knows are not those it has"),
    ("node twice", lambda g: g.nodes.append(g.nodes[0]), "in the graph twice"),
    ("unknown layout", _set(lambda g: g.nodes[0].output, "layout", "nchw"), "unknown layout 'nchw'; known: plain, nhwc, strided"),
    ("nhwc of rank 2", _set(lambda g: g.nodes[2].output, "layout", "nhwc"), "layout nhwc needs rank 3 to 5"),
    ("strided, not a view", _set(lambda g: g.nodes[1].output, "layout", "strided"), "strided is for results of view operators"),
    ("strided input", _set(lambda g: g.inputs[0], "layout", "strided"), "strided is for results of view operators"),
    ("constant unlisted", lambda g: g.constants.clear(), "@c is not among the graph's constants"),
    ("constant's key", lambda g: g.constants.__setitem__("k", g.constants.pop("c")), "expected the value's name to be its key"),
    ("constant's dtype", _set(lambda g: g.constants["c"], "constant", np.ones((3, 1))), "needs float32 data, got float64"),
    ("constant's shape", _set(lambda g: g.constants["c"], "constant", np.ones(3, np.float32)), "needs data of that shape, got [3]"),
    ("constant's order", lambda g: setattr(g.add_constant(np.ones((2, 3))), "constant", np.ones((3, 2)).T), "C-contiguous"),
    ("constant's layout", _set(lambda g: g.constants["c"], "layout", "strided"), "'strided' is not a layout for a constant"),
    ("blocks on an operator", lambda g: g.nodes[0].blocks.append(Block()), "clamp takes no blocks, got 1"),
    ("one branch", lambda g: g.nodes[4].blocks.pop(), "if has one input and two blocks, got 1 and 1"),
    ("branches give different things", lambda g: g.nodes[4].blocks[1].outputs.clear(), "if's outputs and its block's outputs must agree"),
    ("attributes on if", lambda g: g.nodes[4].attrs.__setitem__("a", 1), "if takes no attributes, got a"),
    ("inner value used outside", lambda g: g.outputs.append(g.nodes[4].blocks[0].nodes[0].output), "%e is used here"),
    ("loop's carried values", _loop, "loop's outputs and its block's must agree"),
]  # fmt: skip


@pytest.mark.parametrize(("breakage", "words"), [b[1:] for b in BREAKAGES], ids=[b[0] for b in BREAKAGES])
def test_broken_graphs_are_found(breakage: Callable[[Graph], object], words: str) -> None:
    graph = good()
    breakage(graph)
    with pytest.raises(VerifyError, match=re.escape(words)):
        verify(graph)


def test_the_message_names_node_and_source() -> None:
    graph = good()
    graph.nodes[0].attrs["hi"] = "6"
    with pytest.raises(
        VerifyError, match=re.escape("graph 'forward', node 0, %a = clamp(%x) (model.py:3): attribute hi")
    ):
        verify(graph)


def test_an_inner_block_may_hide_outer_names_but_not_use_what_it_hides() -> None:
    text = "graph g(%x: f32[2]) {\n  %r: f32[2] = region(%x) (%x: f32[2]) {\n    %y: f32[2] = neg(%x)\n    return %y\n  }\n  return %r\n}"
    graph = parse_graph(text)
    verify(graph)
    graph.nodes[0].blocks[0].nodes[0].set_input(0, graph.inputs[0])
    with pytest.raises(VerifyError, match="another value of that name hides it"):
        verify(graph)


def test_fused_activations_are_checked() -> None:
    text = """
    graph g(%x: f32[2, 4]) {
      @w: f32[3, 4] = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]
      %y: f32[2, 3] = linear(%x, @w, none, none, act="clamp", act_args=[0.0, 6.0])
      return %y
    }"""
    graph = parse_graph(text)
    verify(graph)
    graph.nodes[0].attrs["act_args"] = (0.0,)
    with pytest.raises(VerifyError, match=re.escape("clamp takes (lo, hi), got (0.0,)")):
        verify(graph)
    graph.nodes[0].attrs["act"] = "add"
    with pytest.raises(VerifyError, match="not a unary operator with float attributes only"):
        verify(graph)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("graph g(%x: f32[2]) {\n  return %x\n}", "expected the result of a node"),
        ("graph g(%x: f32[2]) {\n  %y: f32[2] = neg(%x)\n  return %y, %y\n}", "got one twice"),
        (
            "graph g(%x: f32[2, 3, 4]) {\n  %y: f32[2, 3, 4] nhwc = neg(%x)\n  return %y\n}",
            "expected layout plain, got nhwc",
        ),
        (
            "graph g(%x: f32[2, 3]) {\n  %y: f32[3, 2] = permute(%x, dims=[1, 0])\n  return %y\n}",
            "got a view made by permute",
        ),
    ],
)
def test_laid_out_graphs_own_their_outputs(text: str, words: str) -> None:
    graph = parse_graph(text)
    verify(graph)
    with pytest.raises(VerifyError, match=words):
        verify(graph, laid_out=True)


DATA = """
graph forward(%x: bool[n, 3], %k: i64[]) {
  %a: i64[u0, 2] = nonzero(%x)
  %b: i64[] = item(%k, symbol="u1")
  %c: i64[u0 * 2] = reshape(%a, shape=[u0 * 2])
  %d: i64[u1 + u0] = arange(start=0, end=u1 + u0, step=1, dtype="i64")
  return %c, %d
}
"""


def test_nodes_define_sizes_that_data_decide() -> None:
    verify(parse_graph(DATA))
    for node in (0, 1):
        late = parse_graph(DATA)
        late.nodes.append(late.nodes.pop(node))  # after its symbol is used
        with pytest.raises(
            VerifyError, match=f"'u{node}'.*not bound by the dims of the graph's inputs|not defined before"
        ):
            verify(late)
