"""Dynamic quantization, by every way in: planned in integers, and torch's numbers under each of its engines."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torch.nn.functional as F
from torch import nn
from torch.ao import quantization

import penlight
from penlight.compile import compile_model
from tests.vm.quantized import engine

pytestmark = pytest.mark.filterwarnings("ignore")
OPS = torch.ops.quantized_decomposed
DYNAMIC = {"quantize_dynamic.f32", "columns_dynamic.i32", "linear.q8"}


def keys(model: Any, *args: Any, **options: Any) -> set[str]:
    program = compile_model(model, args or None, **options)
    assert program.script is None
    return {node.kernel for node in program.methods["forward"].graph.walk() if node.kernel}


def quantized(dtype: torch.dtype = torch.qint8, per_channel: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(41, 64), nn.ReLU(), nn.Linear(64, 66), nn.GELU(), nn.Linear(66, 7)).eval()
    config = {nn.Linear: quantization.per_channel_dynamic_qconfig} if per_channel else {nn.Linear}
    return quantization.quantize_dynamic(model, config, dtype=dtype)  # type: ignore[no-any-return]


def inputs(n: int = 5) -> torch.Tensor:
    return torch.randn(n, 41, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ["qnnpack", "fbgemm", "x86"])
def test_modules(name: str, per_channel: bool) -> None:
    with engine(name), torch.no_grad():
        model, x = quantized(per_channel=per_channel), inputs()
        expected = model(x)
        for way in (model, torch.jit.script(model), torch.jit.trace(model, (x,))):
            assert keys(way, x) >= DYNAMIC
            got = penlight.optimize(way, (x,), threads=2)(x)
            # a last bit of gelu may move a number by a level of the next product
            assert (got - expected).abs().max() <= 5e-3 * expected.abs().max()
        first = nn.Sequential(model[0], model[1])
        got, expected = penlight.optimize(first, (x,))(x), first(x)
        assert (got - expected).abs().max() <= (0.0 if name == "qnnpack" else 1e-6 * expected.abs().max())


def test_files_are_for_phones() -> None:
    """The flag for 7 bits is in every file; the engine is in none. What PyTorch Mobile ran them with took 8."""
    with engine("qnnpack"), torch.no_grad():
        model, x = nn.Sequential(quantized()[0]), inputs()
        expected = model(x)
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(model), file)
    with engine("x86"):
        assert torch.equal(penlight.optimize(_path(file.getvalue()), (x,))(x), expected)
        assert torch.equal(penlight.optimize(_path(file.getvalue()), plan=False)(x), expected)


def _path(content: bytes) -> Any:
    return content


def test_half_weights() -> None:
    with engine("fbgemm"), torch.no_grad():
        model, x = quantized(torch.float16), inputs()
        assert "linear.f32" in keys(model, x)
        got, expected = penlight.optimize(model, (x,))(x), model(x)
        assert (got - expected).abs().max() <= 1e-5 * expected.abs().max()


class Pairs(nn.Module):
    """What PT2E's dynamic quantizers make of relu(linear(x)): XNNPACK's of i8, x86's of u8, with reduce_range or without."""

    def __init__(self, dtype: torch.dtype, low: int, high: int) -> None:
        super().__init__()
        self.dtype, self.low, self.high = dtype, low, high
        self.register_buffer("w", torch.randint(-127, 128, (17, 33), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(17) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(17, dtype=torch.int64))
        self.b = nn.Parameter(torch.randn(17))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = (self.low, self.high)
        scale, zero = OPS.choose_qparams.tensor(x, *levels, 2**-12, self.dtype)
        stored = OPS.quantize_per_tensor.tensor(x, scale, zero, *levels, self.dtype)
        x = OPS.dequantize_per_tensor.tensor(stored, scale, zero, *levels, self.dtype)
        w = OPS.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return F.relu(F.linear(x, w, self.b))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.uint8, 0, 127), (torch.int8, -127, 127)],
)
def test_pt2e(dtype: torch.dtype, low: int, high: int) -> None:
    torch.manual_seed(0)
    model = Pairs(dtype, low, high).eval()
    n = torch.export.Dim("n", max=64)
    x = torch.randn(9, 33)
    assert keys(model, x) == DYNAMIC
    ours = penlight.optimize(model, (x,), dynamic_shapes=({0: n},))
    for case in (x, torch.randn(3, 33) * 100, torch.rand(2, 33) + 1, -torch.rand(5, 33), torch.zeros(4, 33), x * 1e-5):
        with torch.no_grad():
            expected = model(case)
        assert (ours(case) - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_integers_that_are_used_otherwise() -> None:
    """The stored integers, scale and zero point as results: torch's, of its dtype."""

    class Stored(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            scale, zero = OPS.choose_qparams.tensor(x, -128, 127, 2**-12, torch.int8)
            stored = OPS.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
            return stored, scale, zero, OPS.dequantize_per_tensor.tensor(stored, scale, zero, -128, 127, torch.int8)

    x = torch.randn(9, 33, generator=torch.Generator().manual_seed(0))
    for got, expected in zip(penlight.optimize(Stored(), (x,))(x), Stored()(x), strict=True):
        assert got.dtype == expected.dtype
        assert torch.allclose(got.double(), expected.double(), rtol=1e-6)


@pytest.mark.parametrize("name", ["qnnpack", "fbgemm"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent(kind: Any, name: str) -> None:
    """Interpreted, with the engine's levels. A last bit of tanh may move a state by a level."""
    torch.manual_seed(0)
    with engine(name), torch.no_grad():
        model = quantization.quantize_dynamic(nn.Sequential(kind(7, 12, 2)).eval(), {kind})
        x = torch.randn(5, 3, 7)
        (expected, _), (got, _) = model(x), penlight.optimize(model, (x,))(x)
        assert (got - expected).abs().max() <= 1e-2 * expected.abs().max()
