"""The IR: a Program of methods; a method's Graph of nodes; a node calls one operator of `penlight.ops`.

Nodes are in execution order. Every Value knows its producer and its users, kept exact by the methods here: change
inputs only through `set_input` / `replace_uses`, add and remove nodes only through the block. Straight-line code is
functional (no aliasing); `region`, `if` and `loop` nodes carry nested blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from penlight.ir.dims import Expr
from penlight.ir.script import Bundle, Script
from penlight.ir.types import TensorType, Type, dtype_of

# An attribute: a constant, a symbolic dim, or a flat list of one of them.
AttrItem: TypeAlias = int | float | bool | str | Expr | None
Attr: TypeAlias = AttrItem | tuple[AttrItem, ...]

LAYOUTS = ("plain", "nhwc", "strided")
"""Where a value's bytes lie. plain: row-major in logical order. nhwc: dim 1 innermost (channels last, rank 3 to 5).
strided: the runtime derives its strides at bind: a view, or a result whose operator may lay it out. Constants have layout names of their own (file/SPEC.md)."""
HALVES = "f16_"
"""Before the layout of a constant of f32 that the file holds in f16, which has all its numbers."""


@dataclass(frozen=True, eq=False)
class Packed:
    """What a packed constant was made from: VM code that has the same weight need not have another copy of it in the file."""

    plain: np.ndarray
    groups: int


@dataclass(eq=False)
class Value:
    name: str
    type: Type
    producer: Node | None = None
    constant: np.ndarray | None = None
    layout: str = "plain"
    packed: Packed | None = None  # of a constant in a packed layout
    users: list[Node] = field(default_factory=list, repr=False)  # one entry per use

    @property
    def tensor(self) -> TensorType:
        """Its type, where it must be a tensor."""
        if not isinstance(self.type, TensorType):
            raise TypeError(f"%{self.name} is {self.type}, a tensor is needed here")
        return self.type

    @property
    def shape(self) -> tuple[int | Expr, ...]:
        return self.tensor.shape

    @property
    def rank(self) -> int:
        return self.tensor.rank

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

    def __repr__(self) -> str:
        return f"{'@' if self.is_constant else '%'}{self.name}: {self.type}"


@dataclass(eq=False)
class Node:
    """One call. `inputs` follow the operator's tensor parameters (None: an optional one left out; a list parameter
    takes the rest); `attrs` hold its other parameters by name, all of them."""

    op: str
    inputs: list[Value | None]
    attrs: dict[str, Attr]
    outputs: list[Value] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    kernel: str = ""  # key that lowering chose ("conv2d.f32.gemm"); empty before
    source: str = ""  # "file.py:12, in forward: x = self.conv(x)", for error messages

    @property
    def output(self) -> Value:
        if len(self.outputs) != 1:
            raise ValueError(f"{self.op} has {len(self.outputs)} outputs, one is needed here")
        return self.outputs[0]

    def set_input(self, index: int, value: Value | None) -> None:
        old = self.inputs[index]
        if old is not None:
            old.users.remove(self)
        self.inputs[index] = value
        if value is not None:
            value.users.append(self)

    def __repr__(self) -> str:
        outs = ", ".join(f"%{o.name}" for o in self.outputs)
        ins = ", ".join("none" if i is None else ("@" if i.is_constant else "%") + i.name for i in self.inputs)
        return f"{outs} = {self.op}({ins})"


@dataclass(eq=False)
class Block:
    """Straight-line code: inputs, nodes, outputs. A nested block may also use values of the blocks around it."""

    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def insert(self, index: int, node: Node) -> Node:
        """Puts a new node before position `index` and registers its uses."""
        self.nodes.insert(index, node)
        for value in node.inputs:
            if value is not None:
                value.users.append(node)
        for out in node.outputs:
            out.producer = node
        return node

    def append(self, node: Node) -> Node:
        return self.insert(len(self.nodes), node)

    def insert_before(self, anchor: Node, node: Node) -> Node:
        return self.insert(self.nodes.index(anchor), node)

    def erase(self, node: Node) -> None:
        """Removes a node whose outputs nobody uses."""
        for out in node.outputs:
            if out.users or any(out is o for o in self.outputs):
                raise ValueError(f"cannot erase {node!r}: %{out.name} is still used")
        for value in node.inputs:
            if value is not None:
                value.users.remove(node)
        self.nodes.remove(node)

    def replace_uses(self, old: Value, new: Value) -> None:
        """Every user of `old`, and the block's outputs, use `new` from now on."""
        for node in list(old.users):
            for i, value in enumerate(node.inputs):
                if value is old:
                    node.set_input(i, new)
        self.outputs = [new if o is old else o for o in self.outputs]

    def is_output(self, value: Value) -> bool:
        return any(value is o for o in self.outputs)

    def walk(self) -> Iterator[Node]:
        """All nodes, those of nested blocks after their owner."""
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.walk()


@dataclass(eq=False)
class Graph(Block):
    """A method's body, and the names and constants in it."""

    name: str = "forward"
    constants: dict[str, Value] = field(default_factory=dict)
    _next: int = 0

    def fresh_name(self, stem: str = "") -> str:
        self._next += 1
        return f"{stem}_{self._next}" if stem else f"v{self._next}"

    def add_input(self, name: str, type: Type) -> Value:
        value = Value(name, type)
        self.inputs.append(value)
        return value

    def add_constant(self, array: np.ndarray, name: str = "") -> Value:
        """A constant tensor. The array is kept, not copied; it must be C-contiguous in its logical shape."""
        name = name if name and name not in self.constants else self.fresh_name(name or "c")
        array = array if array.flags.c_contiguous else array.copy(order="C")
        value = Value(name, TensorType(dtype_of(array), array.shape), constant=array)
        self.constants[name] = value
        return value

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Attr] | None = None,
        types: Type | Sequence[Type] = (),
        *,
        name: str = "",
        source: str = "",
        blocks: Sequence[Block] = (),
    ) -> Node:
        """A new node with outputs of `types`, not yet in any block; append or insert it."""
        kinds: list[Type] = list(types) if isinstance(types, (list, tuple)) else [types]  # type: ignore[list-item]
        outputs = [Value(self.fresh_name(name), t) for t in kinds]
        return Node(op, list(inputs), dict(attrs or {}), outputs, list(blocks), source=source)

    def copy(self) -> Graph:
        """Values and nodes of its own; the arrays of constants are shared."""
        made: dict[Value, Value] = {}

        def value(old: Value) -> Value:
            if old not in made:
                made[old] = replace(old, producer=None, users=[])
            return made[old]

        def fill(old: Block, new: Block) -> None:
            new.inputs = [value(v) for v in old.inputs]
            for node in old.nodes:
                inputs = [None if v is None else value(v) for v in node.inputs]
                blocks = [Block() for _ in node.blocks]
                for theirs, mine in zip(node.blocks, blocks, strict=True):
                    fill(theirs, mine)
                outputs = [value(v) for v in node.outputs]
                new.append(Node(node.op, inputs, dict(node.attrs), outputs, blocks, node.kernel, node.source))
            new.outputs = [value(v) for v in old.outputs]

        graph = Graph(name=self.name, _next=self._next)
        graph.constants = {name: value(v) for name, v in self.constants.items()}
        fill(self, graph)
        return graph

    def prune_constants(self) -> None:
        """Forgets constants that nobody uses."""
        self.constants = {n: v for n, v in self.constants.items() if v.users or self.is_output(v)}


@dataclass
class SymbolRange:
    """Values that a symbolic dim may take, both ends included; None: no upper bound. `hint`: its value in the example inputs,
    where that is known; kernels are chosen for it."""

    min: int = 0
    max: int | None = None
    hint: int | None = field(default=None, compare=False)


@dataclass
class Method:
    """One callable of a program: `graph` works on flat tensors, the specs (ir/containers.py) say how the
    caller's containers flatten into its inputs and how its outputs are put together again.

    `states` are what the method keeps from run to run. They are constants, what it starts from; the graph's last inputs, one for each,
    are what a run finds there, its last outputs what it leaves. Callers see neither."""

    graph: Graph
    input_spec: Any = None
    output_spec: Any = None
    symbols: dict[str, SymbolRange] = field(default_factory=dict)
    states: list[Value] = field(default_factory=list)


@dataclass(frozen=True)
class Unplanned:
    """A straight line of VM code that was to be planned and is interpreted after all."""

    function: str
    operators: int
    source: str
    why: str


@dataclass
class Program:
    """Methods that are planned, and, where there is code that cannot be, a script that calls them."""

    methods: dict[str, Method]
    metadata: dict[str, Any] = field(default_factory=dict)
    script: Script | None = None
    bundles: list[Bundle] = field(default_factory=list)
    unplanned: list[Unplanned] = field(default_factory=list)

    @property
    def public_methods(self) -> list[str]:
        """Planned or interpreted, those that can be called by name; others (~) are parts of interpreted ones."""
        interpreted = self.script.functions.values() if self.script is not None else ()
        return [
            *(m for m in self.methods if not m.startswith("~")),
            *(f.method for f in interpreted if f.method is not None),
        ]
