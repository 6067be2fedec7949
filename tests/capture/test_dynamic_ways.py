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
from tests.capture.lite import legacy
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


# ---- recurrent layers ----
PLANNED = {nn.LSTM: {"lstm_dynamic.i8"}, nn.GRU: {"gru_dynamic.i8"}}


def recurrent(kind: Any, per_channel: bool = False, dtype: torch.dtype = torch.qint8, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    config = {kind: quantization.per_channel_dynamic_qconfig} if per_channel else {kind}
    return quantization.quantize_dynamic(nn.Sequential(kind(7, 13, **options)).eval(), config, dtype=dtype)  # type: ignore[no-any-return]


def assert_near(got: Any, expected: Any, tolerance: float = 5e-3) -> None:
    """Integers are exact; a last bit of tanh may move a state by a level of the next step's scale."""
    if isinstance(expected, tuple):
        for a, b in zip(got, expected, strict=True):
            assert_near(a, b, tolerance)
    else:
        assert got.shape == expected.shape
        assert (got - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}], ids=["one", "all"]
)
@pytest.mark.parametrize("name", ["qnnpack", "fbgemm"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent(kind: Any, name: str, options: dict[str, Any]) -> None:
    x = torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(1))
    with engine(name), torch.no_grad():
        model = recurrent(kind, per_channel=bool(options), **options)
        scripted, expected = torch.jit.script(model), model(x)
        assert keys(model, x) >= DYNAMIC | PLANNED[kind]
        assert keys(scripted, x) >= DYNAMIC | PLANNED[kind]
        got = penlight.optimize(model, (x,), threads=2)(x)
        assert_near(got, expected)
        interpreted = penlight.optimize(scripted, plan=False)(x)
        assert torch.equal(interpreted[0], got[0])  # the same kernels


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_files(kind: Any) -> None:
    """A .pt and a .ptl file, which are planned, and have the levels of phones whatever the engine here."""
    x = torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(1))
    with engine("qnnpack"), torch.no_grad():
        model = recurrent(kind, num_layers=2)
        expected = model(x)
        scripted = torch.jit.script(model)
        file = io.BytesIO()
        torch.jit.save(scripted, file)
        lite = scripted._save_to_buffer_for_lite_interpreter()
    with engine("x86"):
        for content in (file.getvalue(), lite):
            assert keys(content, x) >= DYNAMIC | PLANNED[kind]
            assert_near(penlight.optimize(content, (x,))(x), expected)


def test_a_file_of_pytorch_mobile() -> None:
    """Of torch 1.13, LSTM, GRU and linear in turn, with what its runtime computed."""
    for case in legacy.cases(only="dynamic_qnnpack"):
        args = tuple(map(torch.from_numpy, case.args))
        assert keys(case.path, *args) >= {"lstm_dynamic.i8", "gru_dynamic.i8", "linear.q8"}
        assert_near(penlight.optimize(case.path, args)(*args), torch.as_tensor(case.expected))


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(7, 13, 2)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> Any:
        return self.lstm(x, state)


def test_recurrent_with_a_state() -> None:
    """States come in a tuple, as for the float model; steps and rows may be free."""
    torch.manual_seed(0)
    t, n = torch.export.Dim("t", max=50), torch.export.Dim("n", min=1, max=20)
    free = {"x": {0: t, 1: n}, "state": ({1: n}, {1: n})}
    with engine("qnnpack"), torch.no_grad():
        model = quantization.quantize_dynamic(Stateful().eval(), {nn.LSTM})

        def inputs(steps: int, rows: int) -> Any:
            return torch.randn(steps, rows, 7), (torch.randn(2, rows, 13), torch.randn(2, rows, 13))

        assert keys(model, *inputs(5, 3)) >= DYNAMIC | PLANNED[nn.LSTM]
        ours = penlight.optimize(model, inputs(5, 3), dynamic_shapes=free)
        for given in (inputs(5, 3), inputs(9, 1), inputs(2, 20)):
            assert_near(ours(*given), model(*given))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_of_halves(kind: Any) -> None:
    x = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(1))
    with engine("fbgemm"), torch.no_grad():
        model = recurrent(kind, dtype=torch.float16, num_layers=2, bidirectional=True, batch_first=True)
        assert keys(model, x) >= {f"{kind.__name__.lower()}.f32"}
        assert_near(penlight.optimize(model, (x,))(x), model(x), 1e-5)


@pytest.mark.parametrize("name", ["qnnpack", "fbgemm"])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_single_cells(kind: Any, name: str) -> None:
    """torch takes 128 levels with fbgemm, though the code of a cell does not say so."""

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = kind(7, 13)

        def forward(self, x: torch.Tensor, h: torch.Tensor) -> Any:
            return self.cell(x, (h, h * 2)) if kind is nn.LSTMCell else self.cell(x, h)

    torch.manual_seed(0)
    with engine(name), torch.no_grad():
        model = quantization.quantize_dynamic(Step().eval(), {kind})
        x, h = torch.randn(3, 7), torch.randn(3, 13)
        op = kind.__name__.removesuffix("Cell").lower()
        assert keys(model, x, h) >= DYNAMIC | {f"{op}_dynamic.i8"}
        for plan in (True, False):
            assert_near(penlight.optimize(model, (x, h), plan=plan)(x, h), model(x, h), 1e-6)


def test_packed_sequences_are_interpreted() -> None:
    """As those of the float model are. Rows drop out as sequences end."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(7, 13)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
            return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0])[0]

    torch.manual_seed(0)
    with engine("qnnpack"), torch.no_grad():
        model = quantization.quantize_dynamic(Packed().eval(), {nn.LSTM})
        x, lengths = torch.randn(6, 3, 7), torch.tensor([6, 4, 1])
        assert_near(penlight.optimize(model, (x, lengths))(x, lengths), model(x, lengths))
