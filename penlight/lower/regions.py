"""Wraps code into `region` nodes: what the runtime plans and runs as a whole.

    %y = conv2d(%x, …)                          %y = region(%x) {
    return %y                          ->         ^(%x1): %y1 = conv2d(%x1, …) return %y1 }
                                                return %y

Most methods become one region. Where sizes come out of the data, what needs them is the next one, a stage later: the runtime
plans it when the first has run.

    %i: i64[u0, 2] = nonzero(%x)                %i = region(%x) { … nonzero(%x1) … }
    %y: i64[u0, 2] = add(%i, @one)     ->       %y = region(%i) { … add(%i1, @one) … }
    return %y                                   return %y

A node goes into the first stage in which all that it needs is known, so that there are few of them. Values that later stages
read are results of the region that computes them; a view is not, it is made anew where it is used.

What the device lacks (`island`) goes into stages of its own, which run on the CPU: their regions have device="cpu".
"""

from __future__ import annotations

from collections.abc import Callable

from penlight.ir.dims import symbols_of
from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.symbols import defined_by, is_sized_by_data, used_by
from penlight.ops import registry


def wrap_regions(graph: Graph, island: Callable[[Node], bool] = lambda node: False) -> None:
    stages, definers, islands = _stages(graph, island)
    stage_of = {node: i for i, nodes in enumerate(stages) for node in nodes}
    returned = list(graph.outputs)
    results: list[Value | None] = [None] * len(returned)
    made: dict[Value, Value] = {}  # a value of one region -> that region's result, which others read
    graph.nodes = []
    for index, nodes in enumerate(stages):
        body = _body(graph, nodes, made, list(graph.inputs) if index == 0 else [])
        region = Node("region", list(body.sources), {"device": "cpu"} if islands[index] else {}, blocks=[body.block])
        for i, value in enumerate(returned):
            if (stage_of[value.producer] if value.producer is not None else 0) == index:
                results[i] = made[value] = _result(region, body.inner.get(value, value), f"out{i}")
        for value in _read_later(nodes, index, stage_of, definers, stages):
            if value not in made:
                made[value] = _result(region, value, value.name)
        graph.append(region)
    graph.outputs = [r for r in results if r is not None]


def _stages(graph: Graph, island: Callable[[Node], bool]) -> tuple[list[list[Node]], dict[str, Node], list[bool]]:
    """The nodes of each stage, in order; which node defines a symbol; and which stages are islands. Views stay with what they show."""
    readable: dict[Value, int] = {}  # the stage from which on a value can be read
    known: dict[str, int] = {}  # the same of symbols
    definers: dict[str, Node] = {}
    bound = set().union(*(symbols_of(d) for v in graph.inputs for d in v.shape))
    stages: list[list[Node]] = []
    islands: list[bool] = []
    for node in graph.nodes:
        needs = [readable.get(v, 0) for v in node.inputs if v is not None]
        stage = max([0, *needs, *(known.get(name, 0) for name in used_by(node))])
        apart = island(node) if not _may_be_view(node) else stage < len(islands) and islands[stage]
        while stage < len(islands) and islands[stage] != apart:
            stage += 1
        if stage == len(islands):
            islands.append(apart)
        for out in node.outputs:
            readable[out] = stage + is_sized_by_data(node)
        for name in defined_by(node) - bound - definers.keys():
            known[name], definers[name] = stage + 1, node
        while len(stages) <= stage:
            stages.append([])
        stages[stage].append(node)
    stages, islands = stages or [[]], islands or [False]
    _remake_views(graph, stages)
    return stages, definers, islands


def _remake_views(graph: Graph, stages: list[list[Node]]) -> None:
    """Views of earlier stages that a stage reads become its own."""
    home = {node: i for i, nodes in enumerate(stages) for node in nodes}
    for index in range(1, len(stages)):
        own: dict[Value, Value] = {}
        nodes: list[Node] = []

        def remade(value: Value, index: int = index, own: dict[Value, Value] = own, nodes: list[Node] = nodes) -> Value:
            producer = value.producer
            if producer is None or home[producer] == index or not _may_be_view(producer):
                return value
            if value not in own:
                inputs = [v if v is None or v.is_constant else remade(v) for v in producer.inputs]
                copy = graph.node(
                    producer.op, inputs, producer.attrs, [o.type for o in producer.outputs], name=producer.op
                )
                copy.kernel, copy.source = producer.kernel, producer.source
                for v in inputs:
                    if v is not None:
                        v.users.append(copy)
                for mine, theirs in zip(copy.outputs, producer.outputs, strict=True):
                    mine.layout, mine.producer, own[theirs] = theirs.layout, copy, mine
                home[copy] = index
                nodes.append(copy)
            return own[value]

        for node in stages[index]:
            for i, value in enumerate(node.inputs):
                if value is not None and not value.is_constant:
                    mine = remade(value)
                    if mine is not value:
                        node.set_input(i, mine)
            nodes.append(node)
        stages[index] = nodes
    for nodes in stages[:-1]:
        for node in reversed(list(nodes)):
            if _may_be_view(node) and not any(o.users or graph.is_output(o) for o in node.outputs):
                for value in node.inputs:
                    if value is not None:
                        value.users.remove(node)
                nodes.remove(node)


def _may_be_view(node: Node) -> bool:
    """Whether its result may share memory with an input, or lies in a packed layout: such values stay in their region."""
    if node.op == "copy":
        return not node.attrs["force"]
    return node.op == "pack" or registry.get(node.op).layout == "view"


class _Body:
    """The block of a region: `sources` are the values outside that it reads, `inner` what they are called inside."""

    def __init__(self) -> None:
        self.block = Block()
        self.sources: list[Value] = []
        self.inner: dict[Value, Value] = {}


def _body(graph: Graph, nodes: list[Node], made: dict[Value, Value], inputs: list[Value]) -> _Body:
    body = _Body()
    own = set(nodes)

    def enter(value: Value) -> Value:
        if value not in body.inner:
            body.inner[value] = Value(value.name, value.type, layout=value.layout)
            body.block.inputs.append(body.inner[value])
            body.sources.append(made.get(value, value))
        return body.inner[value]

    for value in inputs:
        enter(value)
    for node in nodes:
        for i, used in enumerate(node.inputs):
            if used is not None and not used.is_constant and (used.producer is None or used.producer not in own):
                node.set_input(i, enter(used))
    body.block.nodes = nodes
    return body


def _result(region: Node, value: Value, name: str) -> Value:
    region.blocks[0].outputs.append(value)
    region.outputs.append(Value(name, value.type, layout=value.layout))
    return region.outputs[-1]


def _read_later(
    nodes: list[Node], index: int, stage_of: dict[Node, int], definers: dict[str, Node], stages: list[list[Node]]
) -> list[Value]:
    """Results of these nodes that later stages read, or whose size or number their dims refer to."""
    later = {node for rest in stages[index + 1 :] for node in rest}
    asked = set().union(*(used_by(node) for node in later))
    found: list[Value] = []
    for node in nodes:
        defined = {name for name in defined_by(node) & asked if definers.get(name) is node}
        for out in node.outputs:
            sizes = node.op == "item" or (
                out.shape and not isinstance(out.shape[0], int) and symbols_of(out.shape[0]) & defined
            )
            if any(user in later for user in out.users) or (defined and sizes):
                found.append(out)
    return found
