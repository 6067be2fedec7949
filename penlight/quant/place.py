"""Which nodes compute in integers, which values are stored as u8, and which of those share a scale.

A convolution or linear with a constant weight always computes in integers (unless it is to be kept). Everything else that could, sums, pools,
tables, views, products of two activations, does so only on the way between two of them: where its input comes from integers and its result goes, in the end, into a
convolution or linear. A value is stored as u8 where somebody in integers reads it. So softmax and layer_norm stay in floats with
all that stands between them, the residual stream of a transformer too, and a network ends in floats. Recurrent layers compute in
integers too, which they make of their state by themselves: floats come in and go out.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, is_unary
from penlight.ir.types import Quant, TensorType
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry
from penlight.ops.conv.conv2d import MOST_DEPTH
from penlight.quant import recurrent
from penlight.quant.unfuse import LIMITS, RESIDUAL

KEEPS_SCALE = ("resize",)
"""Results between the least and the greatest input, about as large: with its scale they take one rounding less."""
QUANTIZED = "this model is quantized already: penlight.optimize takes it as it is"
MOST_APART = 4.0  # ranges of what is concatenated, above which an input that others read too keeps a scale of its own


@dataclass
class Placement:
    """By the name of a node's first output, and of values."""

    integer: set[str] = field(default_factory=set)  # nodes that compute in integers
    stored: set[str] = field(default_factory=set)  # values that are stored as u8
    same: dict[str, str] = field(default_factory=dict)  # value -> another that has its scale, up to a root

    def root(self, name: str) -> str:
        while self.same.get(name, name) != name:
            name = self.same[name]
        return name

    def join(self, a: str, b: str) -> None:
        first, second = sorted((self.root(a), self.root(b)))
        self.same[second] = first


def is_heavy(node: Node) -> bool:
    """A product with constant weights that has integer kernels."""
    if node.op not in WITH_EPILOGUE or "q8" not in registry.get(node.op).dtypes:
        return False
    x, weight, bias = node.inputs[:3]
    assert x is not None
    if weight is None or weight.constant is None or math.prod(weight.constant.shape[1:]) > MOST_DEPTH:
        return False
    fixed = bias is None or bias.is_constant
    return fixed and weight.dtype == "f32" and not x.is_constant and node.attrs["act"] in LIMITS


def is_light(node: Node) -> bool:
    """Anything else that integers can go through: data of one dtype, none of it constant."""
    if node.op in STRUCTURAL or node.op in WITH_EPILOGUE or node.op in ("quantize", "dequantize"):
        return False
    op = registry.get(node.op)
    if not (moves(node) or is_unary(op) or is_function(node) or _has_kernel(node)):
        return False
    return all(v.dtype == "f32" and not v.is_constant for v in [*data(node), *node.outputs]) and bool(data(node))


def _has_kernel(node: Node) -> bool:
    """Whether integer kernels take the node, were all that it reads and gives u8."""
    op = registry.get(node.op)
    if "q8" not in op.dtypes or len(node.outputs) != 1 or (op.takes_q8 is not None and not op.takes_q8(node)):
        return False
    some = Quant.of(1.0, 0)
    inputs = [v and Value(v.name, replace(v.tensor, dtype="u8", quant=some)) for v in node.inputs]
    result = Value(node.output.name, replace(node.output.tensor, dtype="u8", quant=some))
    return op.takes_bytes is None or op.takes_bytes(node, inputs, result)


def is_function(node: Node) -> bool:
    """An elementwise operator of one tensor and of numbers: x * 0.5 is a table of 256 as much as sigmoid(x)."""
    op = registry.get(node.op)
    tensors = [v for v in node.inputs if v is None or not v.is_constant]
    numbers = all(v.constant.size == 1 for v in node.inputs if v is not None and v.constant is not None)
    if op.rule is None or op.fold is None or len(tensors) != 1 or not numbers or tensors[0] is None:
        return False
    return tensors[0].type == node.output.type


def moves(node: Node) -> bool:
    """Whether its results are its inputs' integers, as they are."""
    return node.op not in STRUCTURAL and registry.get(node.op).quantized == "same"


def data(node: Node) -> list[Value]:
    """The inputs that hold what the node computes with, and may be integers: no weights, no biases, no indices."""
    if node.op in recurrent.OPS:
        return []
    if node.op in WITH_EPILOGUE:
        return [v for i, v in enumerate(node.inputs) if v is not None and i in (0, RESIDUAL)]
    op = registry.get(node.op)
    params = op.inputs_of(node.inputs)
    if is_function(node):
        return [v for v in node.inputs if v is not None and not v.is_constant]
    if moves(node):
        return [v for i, v in enumerate(node.inputs) if v is not None and op.moves(i)]
    return [v for v, p in zip(node.inputs, params, strict=True) if v is not None and p.name not in op.mixed]


def layer_name(node: Node) -> str:
    """As the model's author calls it, where the weight tells: "features.0.conv" for @features.0.conv.weight."""
    weight = weight_of(node)
    if weight is not None and weight.is_constant and (node.op in recurrent.OPS or weight.name.endswith(".weight")):
        return weight.name.removesuffix(".weight")
    return node.outputs[0].name


def weight_of(node: Node) -> Value | None:
    return node.inputs[1] if node.op in (*WITH_EPILOGUE, *recurrent.OPS) else None


def is_quantized(graph: Graph) -> bool:
    """Whether it came with integers: those that PyTorch chose, or some of them."""
    values = [*graph.constants.values(), *(v for node in graph.walk() for v in node.outputs)]
    return any(isinstance(v.type, TensorType) and v.type.quant is not None for v in values)


def is_kept(node: Node, patterns: Collection[str]) -> bool:
    names = (layer_name(node), node.outputs[0].name, node.op)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)


def place(graph: Graph, keep: Collection[str] = (), kept: Collection[str] = ()) -> Placement:
    """`keep`: patterns of layers, values or operators that stay in floats; `kept`: the very names of values whose nodes do."""
    found = Placement()
    free = [n for n in graph.nodes if n.outputs and n.outputs[0].name not in kept and not is_kept(n, keep)]
    heavy = {node for node in free if is_heavy(node)}
    light = {node for node in free if is_light(node)}
    fed: set[Value] = set()
    for node in graph.nodes:
        if node in heavy or (node in light and _is_fed(node, fed)):
            fed.update(node.outputs)
    wanted: set[Value] = set()
    for node in reversed(graph.nodes):
        goes_on = any(out in wanted for out in node.outputs)
        if node in heavy:
            found.integer.add(node.output.name)
            wanted.update(data(node) if goes_on else data(node)[:1])
        elif node in light and goes_on and _is_fed(node, fed):
            found.integer.add(node.outputs[0].name)
            wanted.update(data(node))
            wanted.update(node.outputs)  # of several, all
    found.integer |= {node.outputs[0].name for node in free if recurrent.takes_integers(node)}
    found.stored = {v.name for v in wanted}
    _share(graph, found)
    return found


def _is_fed(node: Node, fed: Collection[Value]) -> bool:
    """Whether integers come in. Of activations that are multiplied with each other all must be integers: softmax's rows differ too much in
    size for one scale."""
    return (all if node.op in ("matmul", "attention") else any)(v in fed for v in data(node))


def _share(graph: Graph, found: Placement) -> None:
    for node in integers(graph, found):
        if (moves(node) or node.op in KEEPS_SCALE) and node.op != "cat":
            for value in [*data(node)[1:], *node.outputs]:
                found.join(data(node)[0].name, value.name)
    for node in integers(graph, found):
        if node.op == "cat":
            for value in data(node):
                if all(user is node for user in value.users):
                    found.join(node.output.name, value.name)


def share_near(graph: Graph, found: Placement, ranges: dict[str, float]) -> None:
    """Of what is concatenated and read by others too: what is about as large as the whole shares its scale. The rest is brought to it."""
    for node in integers(graph, found):
        if node.op == "cat":
            for value in data(node):
                if ranges[value.name] * MOST_APART >= ranges[node.output.name]:
                    found.join(node.output.name, value.name)


def integers(graph: Graph, found: Placement) -> Iterator[Node]:
    return (node for node in graph.nodes if node.outputs and node.outputs[0].name in found.integer)
