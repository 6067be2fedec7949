"""Checks that a graph is what everybody downstream takes for granted; runs after each pass that
changed something.

In: a Graph, or a Program with all its methods. Out: nothing, or a VerifyError that says in words which node is wrong,
what was expected and what was found. Operators are those declared under penlight/ops; `region`, `if` and `loop` are
structural and known here:

    region(inputs…)                one block; its inputs and outputs are the node's
    if(cond)                       two blocks without inputs, whose outputs are the node's
    loop(max_trip, cond, carried…) one block (iteration, carried…) -> (cond, carried…); outputs: carried…
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from penlight.ir.dims import Expr, symbols_of
from penlight.ir.graph import LAYOUTS, Block, Graph, Method, Node, Program, Value
from penlight.ir.symbols import defined_by
from penlight.ir.types import (
    DTYPES,
    LEVELS,
    SCALAR_KINDS,
    DictType,
    ListType,
    Quant,
    ScalarType,
    TensorType,
    TupleType,
    Type,
    numpy_dtype,
)
from penlight.ops import registry
from penlight.ops.registry import Op, Param

STRUCTURAL = ("region", "if", "loop")
RESERVED_SYMBOLS = frozenset({"true", "false", "none", "inf", "nan", "max", "min"})
"""Words of the text form and of dim expressions, which therefore cannot name a symbolic dim."""


class VerifyError(ValueError):
    """The graph breaks a rule of the IR. In a pass's output: a bug of that pass."""


def verify(what: Graph | Program, *, laid_out: bool = False) -> None:
    """Raises VerifyError where `what` breaks a rule. `laid_out`: also the rules that hold from passes/layout.py on."""
    if isinstance(what, Program):
        for name, method in what.methods.items():
            if not isinstance(method.graph, Graph):
                raise VerifyError(f"method {name!r}: expected a Graph, got {type(method.graph).__name__}")
            _Verifier(method.graph).run(laid_out)
            verify_states(name, method)
    else:
        _Verifier(what).run(laid_out)


def verify_states(name: str, method: Method) -> None:
    """Each state is an input and an output of the graph, the last ones, of its own fixed type."""
    count = len(method.states)
    if min(len(method.graph.inputs), len(method.graph.outputs)) < count:
        raise VerifyError(f"method {name!r}: expected an input and an output for each of {count} states, got fewer")
    ends = [side[len(side) - count :] for side in (method.graph.inputs, method.graph.outputs)]
    for state, before, after in zip(method.states, *ends, strict=True):
        if not state.is_constant or state.layout != "plain":
            raise VerifyError(
                f"method {name!r}, state {state.name}: expected a plain constant to start from, got {state!r}"
            )
        if before.type != state.type or after.type != state.type:
            raise VerifyError(
                f"method {name!r}, state {state.name}: expected {state.type} as input and output, got {before!r} and {after!r}"
            )


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.where = ""  # the node at hand, for messages
        self.symbols: set[str] = set()
        self.found_uses: dict[Value, Counter[Node]] = {}
        self.seen_nodes: set[Node] = set()

    def fail(self, message: str) -> VerifyError:
        return VerifyError(f"graph {self.graph.name!r}{self.where}: {message}")

    def run(self, laid_out: bool) -> None:
        for value in self.graph.inputs:
            if isinstance(value.type, TensorType):
                self.symbols.update(*(symbols_of(d) for d in value.type.shape))
        if clash := sorted(self.symbols & RESERVED_SYMBOLS):
            raise self.fail(f"a symbolic dim is named {clash[0]!r}, which is a word of the text form")
        for name, value in self.graph.constants.items():
            self.constant(name, value)
        self.block(self.graph, {})
        self.uses()
        if laid_out:
            self.laid_out_outputs()

    # Values and types

    def constant(self, name: str, value: Value) -> None:
        self.where = f", constant @{name}"
        array = value.constant
        if value.name != name:
            raise self.fail(f"expected the value's name to be its key, got {value.name!r}")
        if array is None:
            raise self.fail("expected data, got none")
        if value.producer is not None:
            raise self.fail(f"expected no producer, got {value.producer!r}")
        self.type(value.type)
        expected = numpy_dtype(value.dtype)
        if array.dtype != expected:
            raise self.fail(f"type {value.type} needs {expected} data, got {array.dtype}")
        if not array.flags.c_contiguous:
            raise self.fail(f"expected C-contiguous data, got strides {array.strides} for shape {array.shape}")
        if value.layout == "plain" and array.shape != value.shape:
            raise self.fail(f"type {value.type} needs data of that shape, got {list(array.shape)}")
        if not value.tensor.is_static:
            raise self.fail(f"expected a static shape, got {value.type}")
        if not value.layout.isidentifier() or value.layout == "strided":
            raise self.fail(f"{value.layout!r} is not a layout for a constant")

    def type(self, type: Type) -> None:
        match type:
            case TensorType(dtype, shape, quant):
                if dtype not in DTYPES:
                    raise self.fail(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
                if not isinstance(shape, tuple):
                    raise self.fail(f"expected a tuple as shape, got {shape!r}")
                for dim in shape:
                    if isinstance(dim, bool) or not isinstance(dim, (int, Expr)):
                        raise self.fail(f"expected ints or dim expressions as dims, got {dim!r} in {type}")
                    if isinstance(dim, int) and dim < 0:
                        raise self.fail(f"expected dims of at least 0, got {dim} in {type}")
                    self.bound(dim, f"type {type}")
                if quant is not None:
                    self.quant(quant, type)
            case ScalarType(kind):
                if kind not in SCALAR_KINDS:
                    raise self.fail(f"unknown scalar kind {kind!r}; known: {', '.join(SCALAR_KINDS)}")
            case ListType(element):
                self.type(element)
            case TupleType(elements):
                for element in elements:
                    self.type(element)
            case DictType(key, value):
                self.type(key)
                self.type(value)
            case _:
                raise self.fail(f"expected a type, got {type!r}")

    def quant(self, quant: Quant, type: TensorType) -> None:
        if type.dtype not in LEVELS:
            raise self.fail(f"expected one of {', '.join(LEVELS)} as quantized dtype, got {type}")
        if any(not (math.isfinite(s) and s > 0) for s in quant.scales):
            raise self.fail(f"expected finite scales above 0, got {type}")
        low, high = LEVELS[type.dtype]
        if any(isinstance(z, bool) or not isinstance(z, int) or not low <= z <= high for z in quant.zeros):
            raise self.fail(f"expected zero points from {low} to {high}, got {type}")
        if quant.axis is None:
            count: int | Expr = 1
        elif 0 <= quant.axis < type.rank:
            count = type.shape[quant.axis]
        else:
            raise self.fail(f"expected a dim below {type.rank} as axis, got {quant.axis} in {type}")
        if len(quant.scales) != count or len(quant.zeros) != count:
            raise self.fail(f"expected {count} scales and zero points, got {len(quant.scales)} and {len(quant.zeros)}")

    def quantized(self, node: Node, op: Op) -> None:
        """Integers that stand for reals are read only by operators which know that."""
        known = [v for v in (*node.inputs, *node.outputs) if v is not None and v.tensor.quant is not None]
        if not known:
            return
        if not op.quantized:
            raise self.fail(f"{node.op} does not know quantized tensors, got {known[0]!r}")
        if op.quantized == "same":
            data = [*(v for i, v in enumerate(node.inputs) if op.moves(i)), *node.outputs]
            quants = {v.tensor.quant for v in data if v is not None}
            if len(quants) != 1:
                raise self.fail(
                    f"{node.op} moves integers as they are: expected one scale and zero point for all, got {sorted(map(str, quants))}"
                )

    def bound(self, dim: int | Expr, where: str) -> None:
        if free := sorted(symbols_of(dim) - self.symbols):
            raise self.fail(
                f"symbol {free[0]!r} in {where} is not bound by the dims of the graph's inputs, nor by a node before"
            )

    def value(self, value: Value, producer: Node | None) -> None:
        if value.producer is not producer:
            raise self.fail(f"%{value.name}: expected producer {producer!r}, got {value.producer!r}")
        if value.constant is not None:
            raise self.fail(f"%{value.name} is defined here and also a constant")
        self.type(value.type)
        if value.layout not in LAYOUTS:
            raise self.fail(f"%{value.name}: unknown layout {value.layout!r}; known: {', '.join(LAYOUTS)}")
        if value.layout != "plain" and not isinstance(value.type, TensorType):
            raise self.fail(f"%{value.name}: layout {value.layout} is for tensors, its type is {value.type}")
        if value.layout == "nhwc" and not 3 <= value.rank <= 5:
            raise self.fail(f"%{value.name}: layout nhwc needs rank 3 to 5, its type is {value.type}")
        if value.layout == "strided" and _layout(producer) not in ("view", "turned"):
            raise self.fail(f"%{value.name}: layout strided is for results of view operators and of attention")

    # Nodes

    def block(self, block: Block, outer: dict[str, Value]) -> None:
        """`outer`: values of the blocks around, by name. A block's own names hide them."""
        scope, own = dict(outer), set()

        def define(value: Value) -> None:
            if value.name in own:
                raise self.fail(f"the name %{value.name} is taken already in this block")
            if not value.name:
                raise self.fail("a value has an empty name")
            own.add(value.name)
            scope[value.name] = value

        self.where = ", inputs"
        for value in block.inputs:
            self.value(value, None)
            define(value)
        for index, node in enumerate(block.nodes):
            here = self.where = f", node {index}, {node!r}" + (f" ({node.source})" if node.source else "")
            if node in self.seen_nodes:
                raise self.fail("this node is in the graph twice")
            self.seen_nodes.add(node)
            for used in node.inputs:
                if used is not None:
                    self.visible(used, scope)
                    self.found_uses.setdefault(used, Counter())[node] += 1
            self.call(node, scope)
            self.where = here
            self.symbols |= defined_by(node)
            for value in node.outputs:
                self.value(value, node)
                define(value)
        self.where = ", outputs"
        for value in block.outputs:
            self.visible(value, scope)

    def visible(self, value: Value, scope: dict[str, Value]) -> None:
        if value.is_constant:
            if self.graph.constants.get(value.name) is not value:
                raise self.fail(f"@{value.name} is not among the graph's constants")
        elif scope.get(value.name) is not value:
            hidden = "another value of that name hides it" if value.name in scope else "it is not defined before"
            raise self.fail(f"%{value.name} is used here, but {hidden}")

    def call(self, node: Node, scope: dict[str, Value]) -> None:
        if node.op in STRUCTURAL:
            if node.attrs:
                raise self.fail(f"{node.op} takes no attributes, got {', '.join(node.attrs)}")
            {"region": self.region, "if": self.branch, "loop": self.loop}[node.op](node)
            for block in node.blocks:
                self.block(block, scope)
            return
        try:
            op = registry.get(node.op)
        except KeyError as e:
            raise self.fail(str(e.args[0])) from None
        if node.blocks:
            raise self.fail(f"{node.op} takes no blocks, got {len(node.blocks)}")
        self.inputs(node, op)
        self.attributes(node, op)
        if len(node.outputs) != op.outputs:
            raise self.fail(f"{node.op} has {op.outputs} outputs, got {len(node.outputs)}")
        for value in node.outputs:
            if not isinstance(value.type, TensorType):
                raise self.fail(f"%{value.name}: {node.op} gives tensors, its type is {value.type}")
        self.quantized(node, op)

    def inputs(self, node: Node, op: Op) -> None:
        listed = bool(op.tensors) and op.tensors[-1].kind == "tensor[]"
        fixed = len(op.tensors) - listed
        if len(node.inputs) < fixed or (len(node.inputs) > fixed and not listed):
            raise self.fail(
                f"expected {fixed}{' or more' if listed else ''} inputs ({op.schema}), got {len(node.inputs)}"
            )
        for i, value in enumerate(node.inputs):
            param = op.tensors[min(i, len(op.tensors) - 1)]
            if value is None and param.kind != "tensor?":
                raise self.fail(f"input {i} ({param.name}) is left out, but not optional")
            if value is not None and not isinstance(value.type, TensorType):
                raise self.fail(f"input {i} ({param.name}): expected a tensor, got {value.type}")

    def attributes(self, node: Node, op: Op) -> None:
        declared = {p.name: p for p in op.attrs}
        for name in sorted(declared.keys() - node.attrs.keys()):
            raise self.fail(f"attribute {name!r} is missing")
        for name in sorted(node.attrs.keys() - declared.keys()):
            raise self.fail(f"{node.op} has no attribute {name!r}; it has {', '.join(declared) or 'none'}")
        for name, value in node.attrs.items():
            self.attribute(declared[name], value)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Expr):
                    self.bound(item, f"attribute {name}={item}")
        if node.attrs.get("act") and "act_args" in declared:
            self.activation(str(node.attrs["act"]), node.attrs["act_args"])

    def attribute(self, param: Param, value: object) -> None:
        kind = param.kind
        if kind.endswith("?"):
            if value is None:
                return
            kind = kind[:-1]
        if kind.endswith("[]"):
            good = isinstance(value, tuple) and all(_is_kind(item, kind[:-2]) for item in value)
        else:
            good = _is_kind(value, kind)
        if not good:
            raise self.fail(f"attribute {param.name}: expected {param.kind}, got {value!r}")

    def activation(self, name: str, args: object) -> None:
        """A fused activation is a unary elementwise operator; its arguments are that operator's float attributes."""
        if name not in registry.load_all():
            raise self.fail(f"act={name!r} is not an operator")
        op = registry.get(name)
        if len(op.tensors) != 1 or any(p.kind != "float" for p in op.attrs):
            raise self.fail(f"act={name!r} is not a unary operator with float attributes only ({op.schema})")
        if not isinstance(args, tuple) or len(args) != len(op.attrs):
            raise self.fail(f"act_args: {name} takes ({', '.join(p.name for p in op.attrs)}), got {args!r}")

    def region(self, node: Node) -> None:
        if len(node.blocks) != 1:
            raise self.fail(f"region has one block, got {len(node.blocks)}")
        self.same_types("region's inputs and its block's inputs", node.inputs, node.blocks[0].inputs)
        self.same_types("region's outputs and its block's outputs", node.outputs, node.blocks[0].outputs)

    def branch(self, node: Node) -> None:
        if len(node.inputs) != 1 or len(node.blocks) != 2:
            raise self.fail(f"if has one input and two blocks, got {len(node.inputs)} and {len(node.blocks)}")
        for block in node.blocks:
            self.same_types("a block without inputs", [], block.inputs)
            self.same_types("if's outputs and its block's outputs", node.outputs, block.outputs)

    def loop(self, node: Node) -> None:
        if len(node.blocks) != 1 or len(node.inputs) < 2:
            raise self.fail(
                f"loop has max_trip, cond and one block, got {len(node.inputs)} inputs, {len(node.blocks)} blocks"
            )
        body = node.blocks[0]
        if not body.inputs or not body.outputs:
            raise self.fail("a loop's block takes (iteration, carried…) and gives (cond, carried…)")
        self.same_types("loop's carried inputs and its block's", node.inputs[2:], body.inputs[1:])
        self.same_types("loop's outputs and its block's", node.outputs, body.outputs[1:])
        self.same_types("loop's carried inputs and its outputs", node.inputs[2:], node.outputs)

    def same_types(self, what: str, left: Iterable[Value | None], right: Iterable[Value | None]) -> None:
        a, b = (["none" if v is None else _signature(v.type) for v in side] for side in (left, right))
        if a != b:
            raise self.fail(f"{what} must agree: ({', '.join(a)}) against ({', '.join(b)})")

    # The whole graph

    def uses(self) -> None:
        values = [*self.found_uses, *self.graph.constants.values(), *self.graph.inputs]
        values += [v for n in self.seen_nodes for v in (*n.outputs, *(i for b in n.blocks for i in b.inputs))]
        self.where = ""
        for value in dict.fromkeys(values):
            expected, got = self.found_uses.get(value, Counter()), Counter(value.users)
            if expected != got:
                raise self.fail(
                    f"{value!r}: the users it knows are not those it has: expected {sorted(map(repr, expected.elements()))}, "
                    f"got {sorted(map(repr, got.elements()))}"
                )

    def laid_out_outputs(self) -> None:
        """What passes/layout.py promises the runtime, which hands each output's buffer to the caller."""
        self.where = ", outputs"
        for value in self.graph.outputs:
            if value.producer is None:
                raise self.fail(f"{value!r}: expected the result of a node, got an input or a constant")
            if value.layout != "plain":
                raise self.fail(f"%{value.name}: expected layout plain, got {value.layout}")
            # A reshape copies where its result may not be strided.
            if _layout(value.producer) == "view" and value.producer.op != "reshape":
                raise self.fail(f"%{value.name}: expected memory of its own, got a view made by {value.producer.op}")
        if len(set(self.graph.outputs)) != len(self.graph.outputs):
            raise self.fail("expected every output to be a value of its own, got one twice")


def _layout(producer: Node | None) -> str:
    """What its operator does with layouts (Op.layout); "" for all else."""
    return "" if producer is None or producer.op in STRUCTURAL else registry.get(producer.op).layout


def _is_kind(item: object, kind: str) -> bool:
    match kind:
        case "int":
            return isinstance(item, (int, Expr)) and not isinstance(item, bool)
        case "float":
            return isinstance(item, float)
        case "bool":
            return isinstance(item, bool)
        case "str":
            return isinstance(item, str)
    return False


def _signature(type: Type) -> str:
    """A type less its dims: branches and iterations may differ in those."""
    return f"{type.dtype} of rank {type.rank}" if isinstance(type, TensorType) else str(type)
