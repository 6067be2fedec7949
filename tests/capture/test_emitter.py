"""The Emitter's services to converters, against torch where torch has an opinion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from penlight.capture.export.tensors import DTYPE_NAMES
from penlight.ir.dims import combine, symbol
from penlight.ir.graph import Graph, Value
from penlight.ir.types import TensorType
from penlight.ops.emitter import Emitter, Unconvertible

TORCH = {name: dtype for dtype, name in DTYPE_NAMES.items()}
OPERANDS = [(dtype, rank) for dtype in TORCH for rank in (0, 2)] + [(kind, -1) for kind in (bool, int, float)]


@pytest.fixture
def g() -> Emitter:
    return Emitter(Graph())


def as_torch(dtype: object, rank: int) -> torch.Tensor | bool | int | float:
    return torch.ones((1,) * rank, dtype=TORCH[str(dtype)]) if rank >= 0 else dtype(1)  # type: ignore[operator]


def as_value(dtype: object, rank: int) -> Value | bool | int | float:
    return Value("x", TensorType(str(dtype), (1,) * rank)) if rank >= 0 else dtype(1)  # type: ignore[operator]


@pytest.mark.parametrize("a", OPERANDS, ids=str)
def test_promotion_is_torchs(g: Emitter, a: tuple[object, int]) -> None:
    for b in OPERANDS:
        expected = DTYPE_NAMES[torch.result_type(as_torch(*a), as_torch(*b))]
        assert g.promote(as_value(*a), as_value(*b)) == expected, (a, b)


def test_promotion_of_three(g: Emitter) -> None:
    for a, b, c in itertools.product([("i64", 2), ("f16", 0), (float, -1)], repeat=3):
        both = torch.result_type(as_torch(*a), as_torch(*b))
        if {a, b, c} == {("i64", 2), ("f16", 0), (float, -1)}:
            assert both is not None
            assert g.promote(as_value(*a), as_value(*b), as_value(*c)) == "f16"


def test_a_scalar_is_one_constant(g: Emitter) -> None:
    assert g.constant(0.5) is g.constant(0.5, "f32")
    assert g.constant(float("nan")) is g.constant(float("nan"))
    assert g.constant(0.0) is not g.constant(-0.0)
    assert g.constant(1) is not g.constant(1.0)
    assert g.constant(True).dtype == "bool"
    assert [g.constant(v).type for v in (1, 1.0)] == [TensorType("i64", ()), TensorType("f32", ())]
    assert np.isinf(g.constant(1e300, "f32").constant)
    assert g.constant(-1, "u8").constant == 255


@pytest.mark.parametrize("value", [1.0, -2.5, 3.14159, 1e-40, 65504.0, float("inf"), float("nan"), 1.00390625])
def test_bf16_constants_have_torchs_bits(g: Emitter, value: float) -> None:
    made = g.constant(value, "bf16")
    assert made.type == TensorType("bf16", ())
    assert made.constant is not None
    expected = torch.tensor(value, dtype=torch.bfloat16)
    got = torch.from_numpy(made.constant.view("int16").copy()).view(torch.bfloat16)
    assert torch.equal(got, expected) or (got.isnan() and expected.isnan())


def test_a_symbolic_number_is_computed_from_shapes(g: Emitter) -> None:
    made = g.constant(combine("*", symbol("n"), 2), "f32")
    assert made.type == TensorType("f32", ())
    assert [n.op for n in g.graph.nodes] == ["arange", "reshape"]


def test_emit_completes_and_checks(g: Emitter) -> None:
    x = g.graph.add_input("x", TensorType("f32", (2, 3)))
    g.out, g.source = TensorType("f32", (3, 2)), "net.py:1"
    y = g.emit("permute", x, dims=[1, 0])
    assert (y.type, y.producer.attrs, y.producer.source) == (g.out, {"dims": (1, 0)}, "net.py:1")
    linear = g.emit("linear", y, g.constant(np.ones((4, 2), "f4")), type=TensorType("f32", (3, 4))).producer
    assert linear.inputs[2:] == [None, None]
    assert linear.attrs == {"act": "", "act_args": ()}
    for wrong, words in (
        (lambda: g.emit("permute", x), "'dims' is missing"),
        (lambda: g.emit("permute", x, dims=[0, 1], order=1), "no attribute order"),
        (lambda: g.emit("permute", 3, dims=[0, 1]), "must be a Value"),
        (lambda: g.emit("permute", x, x, dims=[0, 1]), "takes 1 tensor"),
        (lambda: g.emit("permute", None, dims=[0, 1]), "'x' is missing"),
        (lambda: g.emit("permute", x, dims=[0, "1"]), "must be int"),
        (lambda: g.emit("permute", x, dims=1), "list of int"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            wrong()


def test_reshape_and_permute_do_nothing_for_nothing(g: Emitter) -> None:
    n = symbol("n")
    x = g.graph.add_input("x", TensorType("f32", (n, 4, 6)))
    assert g.reshape(x, (n, 4, 6)) is x
    assert g.permute(x, (0, -2, 2)) is x
    assert g.reshape(x, (n, -1)).shape == (n, 24)
    assert g.reshape(x, (-1, 6)).shape == (combine("*", n, 4),)[:1] + (6,)
    assert g.reshape(x, (4, 6, -1)).shape == (4, 6, n)
    assert g.cast(x, "f32") is x


def test_fail_is_for_capture_to_collect(g: Emitter) -> None:
    with pytest.raises(Unconvertible, match="why"):
        g.fail("why")
