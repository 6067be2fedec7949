"""Says where every value lies (plain, nhwc, strided) and puts the few conversions that are needed at the edges.

    graph forward(%x: f32[1, 3, 8, 8]) {
      %c: f32[1, 8, 6, 6] = conv2d(%x, …)             %copy_1: f32[1, 3, 8, 8] nhwc = copy(%x, force=false)
      %r: f32[1, 8, 6, 6] = sigmoid(%c)         ->    %c: f32[1, 8, 6, 6] nhwc = conv2d(%copy_1, …)
      return %r                                       %r: f32[1, 8, 6, 6] nhwc = sigmoid(%c)
    }                                                 %copy_2: f32[1, 8, 6, 6] = copy(%r, force=true)
                                                      return %copy_2

By `Op.layout`: "channels" operators work on nhwc (dim 1 innermost, rank 4 or 5), "follow" operators take the layout that most of their data has, views
are strided, and so is a "turned" result where its readers swap two of its dims. An input that leads to a channels operator is converted once (at run time that is a view, if the caller's data
is channels-last already). Views cost nothing: strides are followed through them, and a conversion is made only where the
result does not lie as nhwc. A consumer that needs rows lets the runtime copy. Every output of the graph becomes a plain
value of its own, since the caller owns its memory.
"""

from __future__ import annotations

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, call
from penlight.ir.types import TensorType
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry
from penlight.passes.strides import (
    Strides,
    fresh_strides,
    is_copied,
    lies_nhwc,
    lies_plain,
    merges,
    sizes_of,
    turned_strides,
    view_strides,
)

RANKS = (4, 5)  # of maps: images, and volumes or videos


def run(graph: Graph) -> int:
    return sum(_assign(graph, block) for block in blocks(graph))


class Layouts:
    """The layout that each value of a block is best given; `converted` inputs get a copy in nhwc."""

    def __init__(self, block: Block) -> None:
        self.of: dict[Value, str] = {}
        self._strides: dict[Value, Strides] = {}
        self._wanted = _wanted_nhwc(block)
        self._returned = set(block.outputs)
        self.converted = [v for v in block.inputs if v in self._wanted and not self.is_nhwc(v)]
        for node in block.nodes:
            for out in node.outputs:
                if isinstance(out.type, TensorType):
                    self._place(node, out)

    def is_nhwc(self, value: Value) -> bool:
        return value.rank in RANKS and lies_nhwc(sizes_of(value.shape), self.strides(value))

    def strides(self, value: Value) -> Strides:
        if value not in self._strides:
            self._strides[value] = fresh_strides(sizes_of(value.shape), self.of.get(value, value.layout))
        return self._strides[value]

    def _place(self, node: Node, out: Value) -> None:
        kind = "plain" if node.op in STRUCTURAL else registry.get(node.op).layout
        source = node.inputs[0] if node.inputs else None
        if kind == "view" and source is not None and self._is_copied(node, source, out):
            self.of[out] = self._target(source, out)
        elif kind == "view" and source is not None:
            self.of[out] = "strided"
            self._strides[out] = view_strides(node, sizes_of(source.shape), self.strides(source), sizes_of(out.shape))
        elif kind == "turned" and self._is_swapped(out):
            self.of[out] = "strided"
            self._strides[out] = turned_strides(sizes_of(out.shape))
        elif out.rank in RANKS and (kind == "channels" or (kind == "follow" and self._becomes_nhwc(node, out))):
            self.of[out] = "nhwc"
        else:
            self.of[out] = "plain"

    def _is_swapped(self, out: Value) -> bool:
        """Whether all who read it swap the two dims before its last: a view of memory in their order is dense."""
        return (
            out.rank >= 3
            and out not in self._returned
            and bool(out.users)
            and all(_swaps(user, out.rank) for user in out.users)
        )

    def _is_copied(self, node: Node, source: Value, out: Value) -> bool:
        return is_copied(node, sizes_of(source.shape), self.strides(source), sizes_of(out.shape))

    def _target(self, source: Value, out: Value) -> str:
        """A reshape that moves elements anyway (channel and pixel shuffles) puts them where they are wanted."""
        if out in self._returned:
            return "plain"
        wanted = out.rank in RANKS and out in self._wanted and merges(source.shape, out.shape)
        return "nhwc" if wanted else "strided"

    def _becomes_nhwc(self, node: Node, out: Value) -> bool:
        return (_reads_any(node) and out in self._wanted) or self._mostly_nhwc(node, out)

    def _mostly_nhwc(self, node: Node, out: Value) -> bool:
        """By the amount of data. What lies as both (1x1 maps, one channel) and constants have no say."""
        votes = {True: 0, False: 0}
        tagged = False
        for value in node.inputs:
            if value is None or value.is_constant or value.rank != out.rank:
                continue
            tagged |= self.of.get(value) == "nhwc" or value in self.converted
            sizes, elements = sizes_of(value.shape), 1
            for n in sizes:
                elements *= n
            if value in self.converted:
                votes[True] += elements
            elif self.is_nhwc(value) != lies_plain(sizes, self.strides(value)):
                votes[self.is_nhwc(value)] += elements
        if votes[True] == votes[False]:
            return out in self._wanted or (tagged and votes[True] == 0)
        return votes[True] > votes[False]


def _swaps(user: Node, rank: int) -> bool:
    if user.op != "permute":
        return False
    dims = user.attrs["dims"]
    return isinstance(dims, tuple) and dims[-1] == rank - 1 and dims.index(rank - 2) < dims.index(rank - 3)


def _wanted_nhwc(block: Block) -> set[Value]:
    """Maps that lead to a channels operator through operators that keep the order of dims."""
    wanted: set[Value] = set()
    for node in reversed(block.nodes):
        if node.op in STRUCTURAL:
            continue
        kind = registry.get(node.op).layout
        if kind == "channels":
            sources = [node.inputs[i] for i in _channel_inputs(node)]
        elif ((kind == "follow" and not _reads_any(node)) or node.op in ("slice", "expand")) and any(
            out in wanted for out in node.outputs
        ):
            sources = list(node.inputs)
        else:
            continue
        wanted.update(v for v in sources if v is not None and not v.is_constant and v.rank in RANKS)
    return wanted


def _reads_any(node: Node) -> bool:
    reads_any = registry.get(node.op).reads_any
    return reads_any is not None and reads_any(node)


def _channel_inputs(node: Node) -> list[int]:
    """The inputs that a channels operator reads pixel by pixel."""
    op = registry.get(node.op)
    names = [p.name for p in op.tensors]
    first = [] if _reads_any(node) else [0]
    return first + ([names.index("residual")] if "residual" in names else [])


def _assign(graph: Graph, block: Block) -> int:
    """Writes the layouts into the values and inserts copies; returns how many."""
    layouts = Layouts(block)
    for placed, layout in layouts.of.items():
        placed.layout = layout
    copies: dict[Value, Value] = {}

    def nhwc_copy(value: Value, before: Node) -> Value:
        if value not in copies:
            # before its first user, so that it serves the later ones too; of an input: before everything
            anchor = block.nodes[0] if value in block.inputs else before
            copies[value] = call(graph, block, anchor, "copy", [value], value.type, force=False)
            copies[value].layout = "nhwc"
        return copies[value]

    for node in list(block.nodes):
        kind = "" if node.op in STRUCTURAL else registry.get(node.op).layout
        if kind == "channels":
            needed = _channel_inputs(node)
        elif kind == "follow" and not _reads_any(node) and any(layouts.of.get(out) == "nhwc" for out in node.outputs):
            needed = [i for i, v in enumerate(node.inputs) if v in layouts.converted or v in copies]
        else:
            continue
        for i in needed:
            value = node.inputs[i]
            if value is not None and value.rank in RANKS and not value.is_constant and not layouts.is_nhwc(value):
                node.set_input(i, nhwc_copy(value, node))
    return len(copies) + _own_outputs(graph, block)


def _own_outputs(graph: Graph, block: Block) -> int:
    made, taken = 0, set()
    for i, value in enumerate(block.outputs):
        if not isinstance(value.type, TensorType):
            continue
        producer = value.producer
        own = producer is not None and producer in block.nodes and (
            producer.op in STRUCTURAL or not _may_alias(producer)
        )  # fmt: skip
        if own and value.layout == "plain" and value not in taken:
            taken.add(value)
            continue
        copy = graph.node(
            "copy", [value], {"force": True}, value.type, name="copy", source=producer.source if producer else ""
        )
        block.outputs[i] = block.append(copy).output
        made += 1
    return made


def _may_alias(node: Node) -> bool:
    """Views, unless they were told to be plain; a copy that is not forced may turn out to be one."""
    if registry.get(node.op).layout == "view":
        return node.output.layout != "plain"
    return node.op == "copy" and not node.attrs["force"]
