"""The text form prints and parses back: by hand-written graphs, by generated ones, and errors say line and column."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penlight.ir import (
    Block,
    DictType,
    Graph,
    ListType,
    Method,
    ParseError,
    Program,
    ScalarType,
    SymbolRange,
    TensorType,
    TupleType,
    Value,
    parse_graph,
    parse_program,
    print_graph,
    print_program,
    symbol,
)
from penlight.ir.dims import OPERATORS, combine
from penlight.ir.types import DTYPES, numpy_dtype

CANONICAL = """\
graph forward(%x: f32[n, 3, (n // 2) + 1], %mask: bool[2]) {
  @block.0.weight: f32[8, 3, 3]
  @"strange name, really": i64[3] = [1, -2, 3]
  @eps: f32[] = [1e-05]
  @odd: f64[2, 2] = [inf, -inf, nan, -0.0]
  @yes: bool[2] = [true, false]
  @packed: f32[4, 4] panel16
  %v1: f32[n, 3, (n // 2) + 1] nhwc = clamp(%x, lo=0.0, hi=inf)  # model.py:12, in forward: x = relu6(x)  # six
  %a: f32[2], %b: i64[] = topk(%v1, none, @eps, k=5, sizes=[n, 2, max(n, 3)], empty=[], name="a\\"b#", flag=true, none=none)
  %m: list<tensor_like> = f()
  return %v1, @eps
}
"""
CANONICAL = CANONICAL.replace("list<tensor_like>", "list<tuple<int, dict<str, f32[2]>>>")


def test_canonical_text_is_a_fixed_point() -> None:
    assert print_graph(parse_graph(CANONICAL)) == CANONICAL


def test_parsed_parts() -> None:
    graph = parse_graph(CANONICAL)
    clamp, topk, other = graph.nodes
    assert clamp.source == "model.py:12, in forward: x = relu6(x)  # six"
    assert clamp.attrs == {"lo": 0.0, "hi": math.inf}
    assert clamp.output.layout == "nhwc"
    assert clamp.output.producer is clamp
    assert topk.inputs == [clamp.output, None, graph.constants["eps"]]
    n = symbol("n")
    assert topk.attrs == {
        "k": 5, "sizes": (n, 2, combine("max", n, 3)), "empty": (), "name": 'a"b#', "flag": True, "none": None,
    }  # fmt: skip
    assert clamp.output.users == [topk]
    assert other.output.type == ListType(
        TupleType((ScalarType("int"), DictType(ScalarType("str"), TensorType("f32", (2,)))))
    )
    odd = graph.constants["odd"].constant
    assert odd is not None
    assert odd.dtype == np.float64
    assert odd.shape == (2, 2)
    assert math.copysign(1, odd[1, 1]) == -1
    assert graph.outputs == [clamp.output, graph.constants["eps"]]


def test_large_constants_take_data_from_the_caller_or_are_zero() -> None:
    text = "graph g() {\n  @w: f32[20]\n  return @w\n}\n"
    data = np.arange(20, dtype=np.float32)
    assert (parse_graph(text).constants["w"].constant == 0).all()
    assert parse_graph(text, {"w": data}).constants["w"].constant is data


def test_fresh_names_do_not_meet_parsed_ones() -> None:
    graph = parse_graph("graph g(%x_7: f32[]) {\n  %v41: f32[] = neg(%x_7)\n  return %v41\n}")
    assert graph.fresh_name() == "v42"


NESTED = """\
graph main(%c: bool[], %x: f32[2], %n: int) {
  %r: f32[2] = region(%x) (%x: f32[2]) {  # whole
    %y: f32[2] = relu(%x) using relu.f32
    return %y
  }
  %y: f32[2] = if(%c) () {
    %a: f32[2] = neg(%r)
    return %a
  } () {
    return %r
  }
  %z: f32[2] = loop(%n, %c, %y) (%i: int, %acc: f32[2]) {
    %next: f32[2] = exp(%acc)
    return %c, %next
  }
  print_it(%z)
  return
}
"""


def test_nested_blocks() -> None:
    graph = parse_graph(NESTED)
    assert print_graph(graph) == NESTED
    region, branch, loop, effect = graph.nodes
    assert region.source == "whole"
    assert region.blocks[0].nodes[0].kernel == "relu.f32"
    assert region.blocks[0].nodes[0].inputs == region.blocks[0].inputs != region.inputs
    assert [len(n.blocks) for n in graph.nodes] == [1, 2, 1, 0]
    assert branch.blocks[1].outputs == region.outputs
    assert loop.blocks[0].inputs[0].type == ScalarType("int")
    assert effect.outputs == []
    assert graph.outputs == []


def test_program() -> None:
    graph = parse_graph("graph forward(%x: f32[s]) {\n  return %x\n}\n")
    symbols = {"s": SymbolRange(2, 64), "t": SymbolRange(1)}
    program = Program(
        {"forward": Method(graph, ["tuple", 1], {"k": None}, symbols)}, {"labels": ["cat", "hund\n", "Ä"]}
    )
    program.methods["other"] = Method(parse_graph("graph other() {\n  return\n}\n"))
    text = print_program(program)
    back = parse_program(text)
    assert print_program(back) == text
    assert back.metadata == program.metadata
    method = back.methods["forward"]
    assert (method.input_spec, method.output_spec, method.symbols) == (["tuple", 1], {"k": None}, symbols)
    assert back.methods["other"].input_spec is None


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("grph f() {\n}\n", 1, 1, "expected 'graph', got 'grph'"),
        ("graph f(%x) {\n  return %x\n}", 1, 11, "expected ':' and a type after %x"),
        ("graph f(%x: f31[2]) {\n  return %x\n}", 1, 13, "unknown type 'f31'"),
        ("graph f(%x: f32) {\n  return %x\n}", 1, 16, "expected '['"),
        ("graph f(%x: f32[2 2]) {\n  return %x\n}", 1, 17, "dim expression, got '2 2'"),
        ("graph f(%x: f32[1 / 2]) {\n  return %x\n}", 1, 17, "dim expression"),
        ("graph f() {\n  %y: f32[] = neg(%x)\n  return %y\n}", 2, 19, "%x is not defined above"),
        ("graph f() {\n  return @c\n}", 2, 10, "@c is not defined above"),
        ("graph f() {\n\n  # nothing\n  %y: f32[] = neg(1)\n}", 4, 19, "expected '%'"),
        ("graph f(%x: f32[]) {\n  %y: f32[] = neg(%x, a=1, %x)\n  return\n}", 2, 28, "attributes come after"),
        ("graph f(%x: f32[]) {\n  %y: f32[] = neg(%x, a=1, a=2)\n  return\n}", 2, 28, "given twice"),
        ("graph f(%x: f32[]) {\n  %y: f32[] = neg(%x) )\n  return\n}", 2, 23, "expected the end of the line, got ')'"),
        ("graph f(%x: f32[]) {\n  %x: f32[] = neg(%x)\n  return\n}", 2, 3, "%x is defined twice"),
        ("graph f(%x: f32[]) {\n  %y: f32[] = neg(%x)\n", 3, 1, "ends with 'return'"),
        ("graph f(%x: f32[]) {\n  %y: f32[] = neg(%x)\n}", 3, 2, "ends with 'return'"),
        ("graph f(%x: f32[]) {\n  return %x\n", 3, 1, "expected '}'"),
        ("graph f(%x: f32[]) {\n  return %x\n}\nmore", 4, 1, "expected nothing more, got 'more'"),
        ("graph f() {\n  @c: f32[2] = [1.0]\n  return @c\n}", 2, 3, "do not make a f32[2]"),
        ("graph f() {\n  @c: i64[1] = [1.5]\n  return @c\n}", 2, 3, "not all of them fit i64"),
        ("graph f() {\n  @c: f32[n]\n  return @c\n}", 2, 3, "static shape"),
        ("graph f() {\n  @c: f32[1]\n  @c: f32[1]\n  return @c\n}", 3, 3, "@c is defined twice"),
        ("graph f() {\n  %y: f32[] = neg()\n  @c: f32[1]\n  return\n}", 3, 3, "at the top of the graph"),
        ('graph f() {\n  %y: f32[] = neg(a="b\n  return\n}', 2, 21, "expected an integer"),
    ],
)
def test_errors_say_where_and_why(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(ParseError, match=re.escape(words)) as caught:
        parse_graph(text)
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")


# Generated graphs. They need not be sensible, only printable: names, types, attributes and blocks of every kind.

symbols = st.sampled_from(["n", "height", "s0", "_k"]).map(symbol)
dims = st.recursive(
    st.integers(0, 2**40) | symbols,
    lambda inner: st.builds(combine, st.sampled_from(["+", "-", "*", "max", "min"]), inner, inner),
)
divided = st.builds(combine, st.sampled_from(["//", "%"]), dims, st.integers(1, 99))
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.from_regex(
    r"[a-z][a-z0-9_.]{0,9}", fullmatch=True
)
tensor_types = st.builds(TensorType, st.sampled_from(list(DTYPES)), st.lists(dims | divided, max_size=5).map(tuple))
types = st.recursive(
    tensor_types | st.sampled_from(["int", "float", "bool", "str", "none"]).map(ScalarType),
    lambda inner: (
        st.builds(ListType, inner)
        | st.lists(inner, max_size=3).map(lambda e: TupleType(tuple(e)))
        | st.builds(DictType, inner, inner)
    ),
    max_leaves=4,
)
items = st.integers(-(2**63), 2**63) | st.floats() | st.booleans() | st.text(max_size=9) | st.none() | dims | divided
attrs = st.dictionaries(
    st.from_regex(r"[a-z]\w{0,8}", fullmatch=True).filter(str.isascii),
    items | st.lists(items, max_size=4).map(tuple),
    max_size=4,
)
sources = st.text(max_size=20)


@st.composite
def constants(draw: st.DrawFn) -> np.ndarray:
    dtype = numpy_dtype(draw(st.sampled_from([d for d in DTYPES if d != "bf16"])))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    raw = draw(st.binary(min_size=dtype.itemsize * int(np.prod(shape)), max_size=dtype.itemsize * int(np.prod(shape))))
    if dtype.kind == "b":
        return (np.frombuffer(raw, np.uint8) > 99).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape)


@st.composite
def fill(draw: st.DrawFn, graph: Graph, block: Block, outer: list[Value], depth: int) -> None:
    taken: set[str] = set()

    def value(type_strategy: st.SearchStrategy) -> Value:
        name = draw(names.filter(lambda n: n not in taken))
        taken.add(name)
        return Value(name, draw(type_strategy), layout=draw(st.sampled_from(["plain", "nhwc", "strided"])))

    block.inputs = [value(types) for _ in range(draw(st.integers(0, 2)))]

    def visible() -> list[Value]:
        own = [*block.inputs, *(o for n in block.nodes for o in n.outputs)]
        hidden = {v.name for v in own}
        return own + [v for v in outer if v.name not in hidden]

    for _ in range(draw(st.integers(0, 3))):
        usable = [*visible(), *graph.constants.values(), None]
        inputs = draw(st.lists(st.sampled_from(usable), max_size=3))
        node = graph.node(draw(st.sampled_from(["relu", "if", "conv2d"])), inputs, draw(attrs), source=draw(sources))
        node.kernel = draw(st.sampled_from(["", "conv2d.f32.gemm"]))
        scope = visible()  # what its nested blocks see: not its own outputs
        for _ in range(draw(st.integers(0, 2)) if depth else 0):
            node.blocks.append(Block())
            draw(fill(graph, node.blocks[-1], scope, depth - 1))
        node.outputs = [value(types) for _ in range(draw(st.integers(0, 2)))]
        block.append(node)
    usable = [*visible(), *graph.constants.values()]
    block.outputs = draw(st.lists(st.sampled_from(usable), max_size=3)) if usable else []


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph(name=draw(names))
    for array in draw(st.lists(constants(), max_size=3)):
        graph.add_constant(array, draw(names))
    draw(fill(graph, graph, [], 2))
    return graph


def same_block(a: Block, b: Block, twin: dict[Value, Value]) -> None:
    def pair(xs: list, ys: list) -> None:
        assert len(xs) == len(ys)
        for x, y in zip(xs, ys, strict=True):
            assert (x.name, x.type, x.layout) == (y.name, y.type, y.layout)
            twin[x] = y

    pair(a.inputs, b.inputs)
    assert len(a.nodes) == len(b.nodes)
    for m, n in zip(a.nodes, b.nodes, strict=True):
        assert (m.op, repr(m.attrs), m.kernel, m.source) == (n.op, repr(n.attrs), n.kernel, n.source)
        assert [None if v is None else twin[v] for v in m.inputs] == n.inputs
        assert len(m.blocks) == len(n.blocks)
        for inner_a, inner_b in zip(m.blocks, n.blocks, strict=True):
            same_block(inner_a, inner_b, twin)
        pair(m.outputs, n.outputs)
        assert all(o.producer is n for o in n.outputs)
    assert [twin[v] for v in a.outputs] == b.outputs


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(graphs())
def test_any_graph_comes_back_from_its_text(graph: Graph) -> None:
    text = print_graph(graph)
    large = {n: v.constant for n, v in graph.constants.items() if v.constant is not None and v.constant.size > 16}
    back = parse_graph(text, large)
    assert print_graph(back) == text
    assert back.name == graph.name
    assert list(back.constants) == list(graph.constants)
    twin: dict[Value, Value] = {}
    for name, value in graph.constants.items():
        twin[value] = other = back.constants[name]
        assert other.type == value.type
        assert value.constant is not None
        assert other.constant is not None
        assert np.array_equal(other.constant, value.constant, equal_nan=value.dtype.startswith("f"))
        if value.dtype.startswith("f"):  # -0.0 too
            assert np.array_equal(
                np.signbit(other.constant) & ~np.isnan(other.constant),
                np.signbit(value.constant) & ~np.isnan(value.constant),
            )
    same_block(graph, back, twin)
    for value, other in twin.items():
        assert len(value.users) == len(other.users)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*'%@:=()[]{}<>,.#"\\ \nab1-', "graph ", "return ", "none", "f32[", "%y: f32[2]", "= relu(%x)"]
        ),
        max_size=40,
    )
)
def test_no_text_breaks_the_parser(pieces: list[str]) -> None:
    text = "".join(pieces)
    for wrapped in (text, "graph f(%x: f32[2]) {\n" + text, "graph f(%x: f32[2]) {\n" + text + "\n  return %x\n}\n"):
        error = None
        try:
            parse_graph(wrapped)
        except ParseError as e:
            error = e
        if error is not None:
            lines = wrapped.split("\n")
            assert 1 <= error.line <= len(lines)
            assert 1 <= error.column <= len(lines[error.line - 1]) + 1


def test_dim_operators_all_print_and_parse() -> None:
    for op in OPERATORS:
        dim = combine(op, combine("+", symbol("a"), 1), combine("*", 2, symbol("b")))
        graph = Graph(inputs=[Value("x", TensorType("f32", (dim,)))])
        assert parse_graph(print_graph(graph)).inputs[0].type == graph.inputs[0].type
