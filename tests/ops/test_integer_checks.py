"""Files whose integer products do not add up: weights, columns and attributes changed after lowering, as a damaged or hostile file would have
them. The runtime must answer in words, whatever the numbers: weights are read when a plan is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import penlight
from penlight.file.writer import to_array
from penlight.ir.graph import Graph, Method, Node, Program, Value
from penlight.ir.types import TensorType
from penlight.lower import lower
from penlight.passes.pipeline import optimize
from tests.ops import test_dynamic_products as dynamic
from tests.ops import test_integer_products as products
from tests.ops import test_quantized_depthwise as maps

HUGE = 1 << 60
Change = Callable[[Node], None]
Made = tuple[Graph, tuple[np.ndarray, ...]]


def of_dynamic(case: int) -> Made:
    graph, x, _ = dynamic.convolution(dynamic.CONVOLUTIONS[case])
    return graph, (x,)


STATIC: dict[str, Callable[[], Made]] = {
    "conv2d": lambda: products.convolution(products.Case((2, 24, 9, 9), 36, (3, 3), groups=3))[:2],
    "conv2d, f32 results": lambda: products.convolution(products.Case((2, 12, 9, 9), 17, real=True))[:2],
    "conv2d, depthwise": lambda: maps.depthwise(maps.Case(20))[:2],
    "linear": lambda: products.linear(5, 37, 24, False)[:2],
}
DYNAMIC: dict[str, Callable[[], Made]] = {
    "conv2d": lambda: of_dynamic(5),  # of groups
    "conv2d, depthwise": lambda: of_dynamic(4),
}


def constant(node: Node, index: int) -> Value:
    value = node.inputs[index]
    assert value is not None
    assert value.constant is not None
    return value


def set_columns(index: int, change: Callable[[np.ndarray], np.ndarray], dtype: str = "i32") -> Change:
    def set_to(node: Node) -> None:
        array = np.ascontiguousarray(change(constant(node, index).constant))  # type: ignore[arg-type]
        node.inputs[index] = Value("other", TensorType(dtype, array.shape), constant=array)

    return set_to


def shrink(index: int) -> Change:
    def change(node: Node) -> None:
        weight = constant(node, index)
        weight.constant = weight.constant.reshape(-1)[:-16].copy()  # type: ignore[union-attr]

    return change


def lay(index: int, layout: str) -> Change:
    """As one of its own layouts where it has the other."""

    def change(node: Node) -> None:
        weight = constant(node, index)
        weight.layout = layout or {"taps": "quads16", "quads16": "taps"}[weight.layout]

    return change


def retype(index: int, change: Callable[[TensorType], TensorType]) -> Change:
    def set_to(node: Node) -> None:
        weight = constant(node, index)
        weight.type = change(weight.tensor)

    return set_to


def set_attr(name: str, value: int) -> Change:
    def change(node: Node) -> None:
        node.attrs[name] = value

    return change


def leave_out(index: int) -> Change:
    return lambda node: node.inputs.__setitem__(index, None)


def of_weights(index: int) -> dict[str, Change]:
    return {
        "short weight": shrink(index),
        "weight in the other layout": lay(index, ""),
        "weight not packed": lay(index, "plain"),
        "weight in floats' layout": lay(index, "panel16"),
        "weight of no scale": retype(index, lambda t: replace(t, quant=None)),
        "more outputs than there are": retype(index, lambda t: replace(t, shape=(t.shape[0] * 64, *t.shape[1:]))),  # type: ignore[operator]
    }


PRODUCT = {
    **of_weights(1),
    "columns left out": leave_out(2),
    "a panel too few": set_columns(2, lambda c: c[:, :-16]),
    "no rows": set_columns(2, lambda c: c[:0]),
    "three rows": set_columns(2, lambda c: np.repeat(c[:1], 3, 0)),
    "five rows": set_columns(2, lambda c: np.repeat(c[:1], 5, 0)),
    "columns of rank 1": set_columns(2, lambda c: c.reshape(-1)),
    "columns of f32": set_columns(2, lambda c: c.view(np.float32), "f32"),
}
COLUMNS = {
    **of_weights(2),
    "weight left out": leave_out(2),
    "a panel too few": set_columns(0, lambda c: c[:, :-16]),
    "a panel too many": set_columns(0, lambda c: np.concatenate([c, c[:, :16]], 1)),
    "two rows": set_columns(0, lambda c: np.repeat(c, 2, 0)),
    "all rows, and weights": set_columns(0, lambda c: np.repeat(c, 4, 0)),
    "columns of rank 1": set_columns(0, lambda c: c.reshape(-1)),
    "no groups": set_attr("groups", 0),
    "negative groups": set_attr("groups", -3),
    "huge groups": set_attr("groups", HUGE),
    "other groups": set_attr("groups", 5),
    "a zero point below u8": set_attr("zero", -1),
    "a zero point above u8": set_attr("zero", 256),
}


def run(made: Made, op: str, change: Change) -> None:
    """Loads and runs a file whose one `op` has been changed."""
    graph, inputs = made
    outputs = list(range(len(graph.outputs)))
    program = Program({"forward": Method(graph, {"args": list(range(len(inputs))), "kwargs": {}}, {"tuple": outputs})})
    optimize(program)
    lower(program)
    node = next(n for n in graph.walk() if n.op == op and (op == "columns_dynamic" or ".q8" in n.kernel))
    for value in node.inputs:  # not shared with other nodes
        if value is not None and value.constant is not None:
            copy = Value(f"{value.name}_of_one", value.type, constant=value.constant, layout=value.layout)
            node.inputs[node.inputs.index(value)] = copy
    change(node)
    for value in node.inputs:
        if value is not None and value.constant is not None:
            graph.constants[value.name] = value
    penlight.load(bytes(to_array(program)))(*inputs)


@pytest.mark.parametrize("kind", STATIC)
def test_unchanged(kind: str) -> None:
    run(STATIC[kind](), kind.partition(",")[0], lambda node: None)


@pytest.mark.parametrize("kind", DYNAMIC)
def test_unchanged_columns(kind: str) -> None:
    run(DYNAMIC[kind](), "columns_dynamic", lambda node: None)


@pytest.mark.parametrize("case", PRODUCT)
@pytest.mark.parametrize("kind", STATIC)
def test_products(kind: str, case: str) -> None:
    with pytest.raises(penlight.PenlightError, match="expected"):
        run(STATIC[kind](), kind.partition(",")[0], PRODUCT[case])


@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.parametrize("kind", DYNAMIC)
def test_columns_of_the_run(kind: str, case: str) -> None:
    with pytest.raises(penlight.PenlightError, match="expected"):
        run(DYNAMIC[kind](), "columns_dynamic", COLUMNS[case])
