"""Elementwise operators of the VM beside torch's: every dtype, odd layouts, special values, promotion, in-place and out= forms."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from penlight.ops import registry
from penlight.ops.elementwise.overloads import schemas
from penlight.ops.elementwise.rules import ElementwiseOp
from penlight.ops.vm_operators import operators
from tests.vm.check import check, run
from tests.vm.samples import EVERY, INF, NAN, SPECIAL, same_as_torch, tensors, values

RULES = [op for op in registry.load_all().values() if isinstance(op, ElementwiseOp)]
FLOAT_FUNCTIONS = ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "sigmoid", "lgamma", "digamma", "sinc", "reciprocal", "i0", "rad2deg", "deg2rad", "logit"]  # fmt: skip
SAME_FUNCTIONS = [
    "neg",
    "abs",
    "sign",
    "sgn",
    "square",
    "positive",
    "floor",
    "ceil",
    "trunc",
    "round",
    "frac",
    "relu",
    "relu6",
    "hardtanh",
    "nan_to_num",
    "bitwise_not",
]
TESTS = ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"]
ACTIVATIONS = [
    "hardswish",
    "hardsigmoid",
    "silu",
    "mish",
    "log_sigmoid",
    "gelu",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "softplus",
    "hardshrink",
    "softshrink",
    "rrelu",
]


@pytest.mark.parametrize("name", FLOAT_FUNCTIONS + SAME_FUNCTIONS + TESTS + ACTIVATIONS)
def test_unary(name: str) -> None:
    taken = 0
    for dtype in EVERY:
        for x in tensors(dtype):
            if name in ("i0", "gelu") and x.is_floating_point():
                x = x.nan_to_num(0.5, 1.5, -1.5)  # torch's have NaN at infinity
            taken += same_as_torch(
                f"aten::{name}", x, tolerance=1e-5 if name == "i0" and x.dtype == torch.float32 else None
            )
    assert taken


BINARY = [
    f"{n}.Tensor"
    for n in [
        "add",
        "sub",
        "mul",
        "div",
        "true_divide",
        "rsub",
        "remainder",
        "fmod",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ]
]
BINARY += [
    "floor_divide",
    "maximum",
    "minimum",
    "max.other",
    "min.other",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "logaddexp",
    "xlogy.Tensor",
    "copysign.Tensor",
]
BINARY += [
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and.Tensor",
    "bitwise_or.Tensor",
    "bitwise_xor.Tensor",
    "__and__.Tensor",
]
BINARY += [
    "__or__.Tensor",
    "__xor__.Tensor",
    "pow.Tensor_Tensor",
    "bitwise_left_shift.Tensor",
    "bitwise_right_shift.Tensor",
    "gcd",
    "lcm",
]
PAIRS = [(torch.float32, torch.float32), (torch.float32, torch.int64), (torch.int64, torch.int64), (torch.int32, torch.uint8),
         (torch.bool, torch.bool), (torch.float16, torch.float16), (torch.float64, torch.float32), (torch.bfloat16, torch.float16),
         (torch.uint8, torch.int8), (torch.int16, torch.bool), (torch.float16, torch.int32), (torch.float64, torch.float64)]  # fmt: skip


def pairs(a: torch.dtype, b: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(2)
    x, y = (torch.randn(3, 5, 7) * 4).to(a), (torch.rand(3, 5, 7) * 4 + 1).to(b)
    return [(x, y), (x.permute(2, 0, 1), y.permute(2, 0, 1)), (x, y[0, 0]), (x[:, :, :1], y[:1]), (x[0, 0, 0], y), (x[:, :0], y[:, :0]),
            (x.transpose(0, 1), y[0, 0, 0])]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    taken = 0
    for a, b in PAIRS:
        for x, y in pairs(a, b):
            result = torch.promote_types(a, b)
            exact = name.split(".")[0] in ("add", "sub", "mul", "div", "maximum", "minimum") and result in (
                torch.float32,
                torch.float64,
            )
            taken += same_as_torch(f"aten::{name}", x, y, tolerance=0.0 if exact else None, layout=True)
    assert taken


SCALARS = [
    "add",
    "sub",
    "mul",
    "div",
    "true_divide",
    "rsub",
    "floor_divide",
    "remainder",
    "fmod",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "__and__",
    "__or__",
]


@pytest.mark.parametrize("name", [f"{n}.Scalar" for n in SCALARS] + ["pow.Tensor_Scalar", "copysign.Scalar"])
def test_numbers(name: str) -> None:
    for dtype in EVERY:
        for number in (2, 2.5, -3, True):
            for x in (values(dtype), tensors(dtype)[1]):
                same_as_torch(f"aten::{name}", x, number, layout=True)


X = torch.randn(3, 5, 7)
P = X.permute(2, 0, 1)
I = torch.arange(-10, 11).reshape(3, 7)  # noqa: E741
B = I > 2
S = torch.tensor(SPECIAL)
MORE: dict[str, list[tuple[Any, ...]]] = {
    "add.Tensor": [(X, X, 2), (I, I, 3), (I, I, 0.5), (X, I[:, None], -0.5), (B, B, True), (X.half(), X.half(), 0.1), (X, torch.zeros(4)), (B, B, 0)],
    "add.Scalar": [(X, 1.5, 2), (I, 2, 3), (B, True), (X.bfloat16(), 0.1)],
    "add.out": [(X, X, 1, torch.zeros(3, 5, 7)), (P, P, 2, torch.zeros(3, 5, 7).permute(2, 0, 1)), (I, I, 1, torch.zeros(3, 7)), (X, X, 1, I.clone())],
    "add_.Tensor": [(X, X + 1), (P, P * 2, 3), (I, X[0]), (I, I[0].clone()), (X[0], X.clone()), (X, I[:, None], 2)],
    "add_.Scalar": [(X, 1), (I, 2), (I, 1.5), (P, 2.5)],
    "sub_.Tensor": [(X, P.reshape(X.shape))],
    "sub_.Scalar": [(X, 2)],
    "mul_.Tensor": [(X, X + 1), (I, X[0, 0]), (B, B)],
    "mul_.Scalar": [(X, 2), (I, 2.5)],
    "mul.out": [(X, X, torch.zeros(3, 5, 7))],
    "div_.Tensor": [(X, X + 1), (I, I)],
    "div.Tensor_mode": [(x, y, m) for x, y in ((X, X + 3), (I, I + 100), (I, X[0]), (I, I), (X.half(), X.half() + 3)) for m in (None, "floor", "trunc", "round")],
    "div.Scalar_mode": [(x, y, m) for x, y in ((X, 0.3), (I, 3), (I, -3), (I, 0), (I, 2.5), (I.to(torch.uint8), 7)) for m in (None, "floor", "trunc")],
    "div_.Tensor_mode": [(I, I + 100, "floor"), (I, I + 100, None)],
    "floor_divide_.Scalar": [(I, 3), (X, 0.3)],
    "remainder.Scalar_Tensor": [(7, I + 100), (7.5, X)],
    "pow.Tensor_Scalar": [(x, e) for x in (X, I, X.half(), S) for e in (0, 1, 2, 3, 4, 0.5, -0.5, -1, 2.0, 1.7, -2)],
    "pow.Scalar": [(2, I.abs()), (1.5, X), (2, I), (0, I.abs()), (1, X)],
    "pow_.Scalar": [(X, 2), (I, 2), (I, 0.5)],
    "pow_.Tensor": [(X.abs(), X)],
    "float_power.Tensor_Scalar": [(X.abs(), 2.5), (I, 2)],
    "clamp": [(X, -0.5, 0.5), (X, None, 0.5), (X, -0.5), (X,), (I, 2, 5), (I, 2.5, 5), (X, 1, 0), (S, NAN, 1.0), (S, -1, 1), (B, 0, 1), (X.half(), -0.1, 0.1), (X.double(), -0.1, 0.1), (I.to(torch.uint8), 3, 200)],
    "clamp_": [(X, -0.5, 0.5), (I, 0, None), (I, 0.5, None)],
    "clamp.Tensor": [(X, X - 1, X + 0.1), (X, None, X[0]), (I, I[0], None), (X, I[:, None], None), (X,)],
    "clamp_min": [(X, 0.1), (I, 1.5), (S, 0)],
    "clamp_max": [(X, 0.1), (I, 1)],
    "clamp_min.Tensor": [(X, X[0])],
    "clamp_max.Tensor": [(X, X[0])],
    "hardtanh": [(X, -0.5, 0.25), (X, 1, -1), (I, -3, 4), (S,), (X.half(), -0.1, 0.1)],
    "hardtanh_": [(X, 0.0, 6.0)],
    "relu_": [(X,), (P,), (I,)],
    "hardswish_": [(X,)],
    "hardsigmoid_": [(X,)],
    "leaky_relu_": [(X, 0.2)],
    "leaky_relu": [(S, 0.3), (X.double(), -0.1), (X.half(), 0.1)],
    "elu": [(X, 0.5, 2.0, 1.5), (X.double(), 0.5, 2.0, 1.5), (S,)],
    "celu": [(X, 0.7), (X, 0.0)],
    "gelu": [(X, "tanh"), (X.double(), "tanh"), (X, "other"), (X.half(),)],
    "softplus": [(X * 30, 2, 10), (X.double() * 30, 0.5, 20)],
    "threshold": [(X, 0.1, -2), (I, 3, 7), (S, 0, 20)],
    "threshold_": [(X, 0.1, -2)],
    "hardshrink": [(X, 0.3)],
    "softshrink": [(X, 0.3), (X, -1.0), (S,)],
    "rrelu": [(X, 0.1, 0.3)],
    "prelu": [(X, torch.tensor([0.3])), (X, torch.rand(5)), (X[0, 0], torch.tensor([0.3])), (X, torch.rand(4)), (P, torch.rand(3)), (X.double(), torch.rand(5).double()), (X[0], torch.rand(7))],
    "glu": [(torch.randn(3, 6),), (torch.randn(4, 3, 5), 0), (X,), (torch.randn(2, 8, 3).transpose(1, 2), -1), (torch.tensor(1.0),), (torch.randn(2, 4).double(),)],
    "logit": [(torch.rand(3, 4),), (torch.rand(3, 4), 0.2), (S, 1e-6), (I,)],
    "nan_to_num": [(S,), (S, 1.5), (S, 1.5, 2.5, -2.5), (S.double(), None, 3.0), (S.half(),), (S.bfloat16(),), (I,), (S.half(), 0.0, 9.0)],
    "nan_to_num_": [(S,), (S, 0.5, 1.0, -1.0)],
    "trunc_": [(X * 3,)],
    "round.decimals": [(X, 1), (X * 100, -1), (X, 0), (I, 1), (X.double(), 3)],
    "where.self": [(X > 0, X, P.reshape(X.shape)), (B, I, 1 - I), (B[0], X, I[:, None]), (B, torch.tensor(1.0), torch.tensor(2)), (X > 0, X.half(), X), (I, I, I), (B.to(torch.uint8), I, I), (B, B, ~B)],
    "where.ScalarOther": [(B, I, 2), (B, I, 2.5), (B, X[0, 0], 1)],
    "where.ScalarSelf": [(B, 2, I), (B, -INF, I.float())],
    "where.Scalar": [(B, 1, 2), (B, 1.5, 2), (B, True, False)],
    "lerp.Scalar": [(X, X + 1, 0.3), (X, X[0], 0.8), (X.half(), X.half(), 0.1), (X, X.double(), 0.5), (I, I, 0.5), (X.double(), X.double() + 1, 0.3)],
    "lerp.Tensor": [(X, X + 1, X[0]), (X, X, X.double())],
    "addcmul": [(X, X, X[0]), (X, X, X, 0.5), (I, I, I, 3), (I, I, I, 0.5), (X, I[:, None], X), (X.half(), X.half(), X.half(), 0.3), (X.double(), X.double(), X.double(), 0.3)],
    "addcdiv": [(X, X, X[0] + 5), (X, X, X + 5, 0.5), (I, I, I + 100), (X.double(), X.double(), X.double() + 5, 0.3)],
    "addcmul_": [(X, X + 1, X[0] + 1)],
    "logical_and": [(X, I[:, None])],
    "bitwise_not": [(I,), (B,), (I.to(torch.uint8),), (X,)],
    "bitwise_and.Scalar": [(I, 6), (B, True), (B, 3)],
    "__iand__.Tensor": [(I, I - 1), (B, ~B)],
    "__lshift__.Scalar": [(I, 2), (I, 70), (I, -1), (I.to(torch.int8), 9)],
    "__rshift__.Scalar": [(I, 2), (I, 70), (I.to(torch.int8), 9)],
    "bitwise_left_shift.Tensor": [(I, I.abs()), (I.int(), I.abs().int() * 4)],
    "eq.Scalar": [(I.to(torch.uint8), 300), (I.to(torch.uint8), -10), (I, 2.5), (B, 1), (X.half(), 0.1), (I.to(torch.int8), 200)],
    "eq_.Tensor": [(X, X + 0), (I, I)],
    "polygamma": [(0, X.abs() + 1), (2, X.abs() + 1), (1, X.double().abs() + 1)],
    "heaviside": [(S, torch.ones_like(S) * 0.5), (I, I)],
    "ldexp.Tensor": [(X, I[:, None])],
    "positive": [(X,), (B,)],
    "neg": [(B,), (I,)],
    "signbit": [(S,), (I,)],
    "rad2deg": [(X,), (I,), (X.double(),)],
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more(name: str) -> None:
    loose = name.startswith(("prelu", "glu", "masked"))  # layouts that torch's kernels of these choose by themselves
    tolerance = 1e-6 if name == "polygamma" else None
    taken = [same_as_torch(f"aten::{name}", *args, layout=not loose, tolerance=tolerance) for args in MORE[name]]
    assert any(taken)


def test_every_form() -> None:
    """Each elementwise operator, in-place and out= forms too, on arguments made from its schema."""
    made = {
        "tensor": lambda: torch.rand(3, 5) * 0.8 + 0.1,
        "number": lambda: 0.5,
        "real": lambda: 0.5,
        "integer": lambda: 2,
        "boolean": lambda: False,
    }
    integers_only = ("bitwise", "__", "gcd", "lcm")
    seen = 0
    for name, op in operators().items():
        if op.source.parent.name != "elementwise" or not name.startswith("aten::"):
            continue
        whole = name.removeprefix("aten::").startswith(integers_only)
        result = (
            torch.long if whole else torch.bool if name.startswith(("aten::is", "aten::signbit")) else torch.float32
        )
        args: list[Any] = []
        for p in op.params:
            if p.default is not None and p.name not in ("min", "max", "out"):
                break
            if p.name == "out":
                args.append(torch.zeros(3, 5, dtype=result))
            elif p.name == "rounding_mode":
                args.append("floor")
            elif p.name in ("condition", "mask"):
                args.append(torch.rand(3, 5) > 0.5)
            elif whole:
                args.append(torch.arange(1, 16).reshape(3, 5) if p.kind == "tensor" else 2)
            elif p.name == "weight" and "prelu" in name:
                args.append(torch.rand(1) if "kernel" not in name else torch.rand(3, 5))
            else:
                args.append(made[p.kind]())
        if any(p.name == "out" for p in op.params):
            args += [
                torch.zeros(3, 5, dtype=result) if p.name == "out" else _default(p.default)
                for p in op.params[len(args) :]
            ]
        seen += same_as_torch(name, *args)
    assert seen > 300


def _default(text: str | None) -> Any:
    return None if text in (None, "None") else eval(text)  # of our own schemas


def test_values_are_not_rounded_on_the_way() -> None:
    """Integers of 64 bits, beyond what a double holds."""
    x = torch.tensor([2**62 + 1, -(2**62) - 3, 2**53 + 1])
    for name, args in (
        ("add.Scalar", (x, 1)),
        ("mul.Scalar", (x, 3)),
        ("eq.Scalar", (x, 2**53 + 1)),
        ("add.Tensor", (x, x)),
        ("clamp_max", (x, 2**53 + 1)),
        ("where.ScalarOther", (x > 0, x, 2**53 + 1)),
    ):
        check(f"aten::{name}", *args)


def test_in_place_reads_before_it_writes() -> None:
    """Operands that overlap what is written, but lie otherwise."""
    x = torch.randn(5, 5)
    parts = {
        "turned": (lambda m: m, lambda m: m.t()),
        "before": (lambda m: m[1:], lambda m: m[:-1]),
        "after": (lambda m: m[:-1], lambda m: m[1:]),
        "same": (lambda m: m, lambda m: m),
        "row": (lambda m: m, lambda m: m[2]),
    }
    for name, (part, other) in parts.items():
        ours = x.clone()
        expected = part(x) * other(x) + 1
        run("aten::add_.Scalar", run("aten::mul_.Tensor", part(ours), other(ours)), 1)
        assert torch.equal(part(ours), expected), name
    flat = torch.arange(4.0)
    stretched = flat[:1].expand(4)
    run("aten::add_.Tensor", flat, stretched.clone())
    assert torch.equal(flat, torch.arange(4.0))
    big = torch.randn(300, 301)
    ours = big.clone()
    run("aten::sigmoid_", ours.t())
    assert torch.allclose(ours, big.sigmoid(), atol=1e-6)


def test_add_relu() -> None:
    x, y = torch.randn(3, 5), torch.randn(5)
    check("aten::_add_relu.Tensor", x, y)
    check("aten::_add_relu.Tensor", x.t(), torch.randn(5, 1), 0.5, tolerance=1e-7)
    check("aten::_add_relu_.Tensor", x, y, 2)
    check("aten::_add_relu.Tensor", torch.arange(-3, 4), torch.tensor(1))
    check("aten::_add_relu.Scalar", x, 0.25)
    check("aten::_add_relu_.Scalar", x.double(), -1)


def test_operators_of_rules_have_torchs_schemas() -> None:
    """Word by word; and none of torch's overloads of an operator that is a rule is missing."""
    derived = {n: s for op in RULES for s in schemas(op) for n in [s.partition("(")[0]]}
    for name, schema in derived.items():
        base, _, overload = name.partition(".")
        found = {s.overload_name: str(s) for s in torch._C._jit_get_schemas_for_operator(base)}
        assert found.get(overload) == schema, f"{name}: torch has {sorted(found)}"
    for base in sorted({f"aten::{name.partition('.')[0]}" for op in RULES for name in op.aten}):
        for s in torch._C._jit_get_schemas_for_operator(base) + torch._C._jit_get_schemas_for_operator(f"{base}_"):
            name = f"{s.name}.{s.overload_name}".removesuffix(".")
            takes_tensors = any(a.type.kind() == "TensorType" for a in s.arguments)
            assert name in operators() or not takes_tensors, name
