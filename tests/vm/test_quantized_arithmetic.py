"""Quantized sums, products and activations. u8 under qnnpack is bit-equal where qnnpack has the operator; what torch computes in f32 in
loops of its own (signed integers, broadcasting, leaky_relu, elu …) may be a step apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm import check
from tests.vm.quantized import engine, quantized, same

DTYPES = {torch.quint8: (0, 100, 255), torch.qint8: (-128, 3, 127), torch.qint32: (0, 5, -9)}
CASES = [(dtype, zero) for dtype, zeros in DTYPES.items() for zero in zeros]
SHAPES = [(2, 3, 5, 7), (1,), (64, 33)]
NUMBERS = [0.0, 1.3, -2.7, 100.0, -100.0]


def steps(dtype: torch.dtype) -> int:
    return 0 if dtype == torch.quint8 else 1


@pytest.mark.parametrize(("dtype", "zero"), CASES)
@pytest.mark.parametrize("name", ["add", "add_relu", "mul", "mul_relu"])
def test_two_tensors(name: str, dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(0)
    middle, last = DTYPES[dtype][1:]
    with engine("qnnpack"):
        for shape in SHAPES:
            a, b = (
                quantized(*shape, dtype=dtype, zero=zero, scale=0.03),
                quantized(*shape, dtype=dtype, zero=last, scale=0.07),
            )
            for scale, to in ((0.09, middle), (0.004, zero), (7.0, middle)):
                if name == "add_relu" and to == 255:
                    continue  # qnnpack refuses an empty range
                if dtype != torch.qint32 or scale > 0.01:  # else f32 has no more digits
                    same(f"quantized::{name}", a, b, scale, to, steps=steps(dtype))


@pytest.mark.parametrize("name", ["add", "add_relu", "mul", "mul_relu"])
def test_layouts_and_broadcasting(name: str) -> None:
    torch.manual_seed(1)
    a, b = quantized(2, 6, 5, 4), quantized(2, 6, 5, 4, scale=0.02, zero=7)
    last = a.contiguous(memory_format=torch.channels_last)
    with engine("qnnpack"):
        for x, y in (
            (last, b),
            (a, last),
            (last, last),
            (a[:, ::2], b[:, ::2]),
            (a.transpose(1, 2), b.transpose(1, 2)),
        ):
            same(f"quantized::{name}", x, y, 0.1, 50, layout=x is last)
        for small in (quantized(1, 6, 1, 1, scale=0.02, zero=7), quantized(5, 1, scale=0.01, zero=200), quantized(1)):
            same(f"quantized::{name}", a, small, 0.1, 50, steps=1)
        same(f"quantized::{name}", quantized(0, 3), quantized(0, 3), 0.1, 50)
        for form in (".out", "_out"):
            out = torch.quantize_per_tensor(torch.zeros(2, 6, 5, 4), 0.2, 30, torch.quint8)
            same(f"quantized::{name}{form}", a, b, out, steps=1)


@pytest.mark.parametrize(("dtype", "zero"), CASES)
@pytest.mark.parametrize("name", ["add", "add_relu", "mul", "mul_relu"])
def test_with_a_number(name: str, dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(2)
    x = quantized(7, 9, dtype=dtype, zero=zero, scale=0.03)
    old = name.replace("_relu", "") + "_scalar" + ("_relu" if "relu" in name else "")
    for number in NUMBERS:
        same(f"quantized::{name}.Scalar", x, number)
        same(f"quantized::{name}.Scalar2", number, x)
        same(f"quantized::{old}", x, number)
        same(f"quantized::{old}.Tensor", x, torch.tensor(number))


@pytest.mark.parametrize(("dtype", "zero"), CASES)
def test_activations(dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(3)
    middle = DTYPES[dtype][1]
    with engine("qnnpack"):
        for shape in SHAPES:
            x = quantized(*shape, dtype=dtype, zero=zero, scale=0.03)
            exact = steps(dtype)
            same("quantized::hardswish", x, 0.01, middle, steps=exact)
            if dtype != torch.quint8:  # there it has one scale only
                same("quantized::sigmoid", x, 0.01, middle, steps=1)
            same("quantized::leaky_relu", x, 0.1, False, 0.03, middle, steps=1)
            same("quantized::elu", x, 0.03, middle, 1.1, 1.0, 1.0, steps=1)
            same("quantized::celu", x, 0.03, middle, 1.3, steps=1)
            same("quantized::relu6", x, False)
            same("quantized::clamp", x, -1.03, 2.0)
            same("quantized::threshold", x, 0.5, 0.2, steps=1)
            same("quantized::dropout", x, 0.1, 3, 0.5, False)


PLAIN: list[tuple[Any, ...]] = [("relu",), ("relu_",), ("hardsigmoid",), ("sigmoid",), ("tanh",), ("hardtanh", -0.7, 1.1), ("clamp", -0.4, 1.0),
         ("relu6",), ("leaky_relu", 0.2), ("hardtanh_", -0.7, 1.1)]  # fmt: skip


@pytest.mark.parametrize("call", PLAIN, ids=lambda c: c[0])
@pytest.mark.parametrize(("dtype", "zero"), CASES)
def test_plain_activations(call: tuple[Any, ...], dtype: torch.dtype, zero: int) -> None:
    """aten's own operators, on quantized tensors."""
    torch.manual_seed(4)
    inexact = 1 if call[0] == "leaky_relu" else steps(dtype)
    if dtype == torch.qint32 and call[0] in ("sigmoid", "tanh", "hardsigmoid"):
        inexact = 1 << 10  # of 2^32 levels: f32
    with engine("qnnpack"):
        for x in (quantized(3, 4, 5, 6, dtype=dtype, zero=zero), quantized(4, 6, dtype=dtype, zero=zero)[:, ::2]):
            same(f"aten::{call[0]}", x.clone() if call[0].endswith("_") else x, *call[1:], steps=inexact, layout=False)
    with engine(
        "fbgemm" if call[0] in ("clamp", "hardtanh", "hardtanh_", "relu6") else "qnnpack"
    ):  # qnnpack's moves elements about
        x = quantized(3, 4, 5, 6, dtype=dtype, zero=zero).contiguous(memory_format=torch.channels_last)
        same(f"aten::{call[0]}", x, *call[1:], steps=inexact)
    empty = check.run(
        f"aten::{call[0]}", quantized(0, 3, dtype=dtype, zero=zero), *call[1:]
    )  # torch's qnnpack divides by zero
    assert empty.shape == (0, 3)
    assert empty.dtype == dtype


def test_in_place() -> None:
    """relu_ writes the integers of its argument; sigmoid_ gives it another scale too."""
    for name in ("relu_", "sigmoid_"):
        x = quantized(3, 4)
        problem, _, after = check.call(f"aten::{name}", [x], keep=True)
        got = check._from_vm(after[0])
        expected = getattr(torch, name.rstrip("_"))(x)
        assert problem is None
        assert torch.equal(got.int_repr(), expected.int_repr())
        assert (got.q_scale(), got.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8])
def test_prelu_softmax_matmul(dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    zero = DTYPES[dtype][1]
    x = quantized(2, 6, 4, 5, dtype=dtype, zero=zero)
    for y in (x, x.contiguous(memory_format=torch.channels_last)):
        same("quantized::prelu", y, quantized(6, dtype=dtype, zero=zero, scale=0.01), 0.05, zero, steps=1)
        for dim in (0, 1, -1):
            same("quantized::softmax", y, dim, 1 / 256, DTYPES[dtype][0], steps=1, layout=False)
    a, b = (
        quantized(2, 3, 5, 7, dtype=dtype, zero=zero, scale=0.03),
        quantized(2, 3, 7, 4, dtype=dtype, zero=zero, scale=0.02),
    )
    same("quantized::matmul", a, b, 0.1, zero, steps=1)
    same("quantized::matmul", a[0, 0], b[0, 0], 0.1, zero, steps=1)
    same("quantized::matmul", a.transpose(2, 3), b.transpose(2, 3)[:, :1, :, :5].transpose(2, 3), 0.1, zero, steps=1)
    same("quantized::matmul", a[0, 0], b[0, 0, :, 0], 0.1, zero, steps=1)  # a vector
    long = quantized(3, 33026, dtype=dtype, zero=zero), quantized(33026, 2, dtype=dtype, zero=zero)
    same("quantized::matmul", *long, 20.0, zero, steps=1)  # longer than 32 bits hold for sure
    same("quantized::matmul", a[:, :, :0], b, 0.1, zero, steps=1)
    same("quantized::matmul", a[..., :0], b[:, :, :0], 0.1, zero, steps=1)


def test_refused() -> None:
    x, signed = quantized(2, 3), quantized(2, 3, dtype=torch.qint8, zero=0)
    cases = [
        ("quantized::add", (x, signed, 0.1, 0), "one dtype"),
        ("quantized::add", (x, quantized(2, 4), 0.1, 0), "broadcast"),
        ("quantized::add", (x, x, -1.0, 0), "scale"),
        ("quantized::add", (x, x, float("nan"), 0), "scale"),
        ("quantized::add", (x, x, 0.1, 256), "zero point"),
        ("quantized::add", (x, torch.ones(2, 3), 0.1, 0), "quantized tensor"),
        ("quantized::mul.Scalar", (x, float("nan")), "NaN"),
        ("quantized::add.Scalar", (x, float("inf")), "within reach"),
        ("quantized::matmul", (x, x, 0.1, 0), "inner sizes"),
        ("quantized::matmul", (x, x.t(), 0.1, 256), "zero point"),
        ("quantized::matmul", (x, x.t(), -1.0, 0), "scale"),
        ("quantized::matmul", (quantized(2, 4, 3), quantized(5, 3, 2), 0.1, 0), "leading dims"),
        ("quantized::celu", (x, 0.1, 0, 0.0), "alpha"),
    ]
    for name, args, words in cases:
        with pytest.raises(check.OperatorError, match=words):
            check.run(name, *args)
