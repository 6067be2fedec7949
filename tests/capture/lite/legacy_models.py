"""Tiny models for files of PyTorch Mobile: what its users had in them, each with a few calls. Written for torch 1.13 and later.

`MODELS` maps a name to a function that makes (module, calls); a call is (method, arguments). make_legacy.py saves them.
"""

# ruff: noqa: UP006, UP031, UP032, UP035, UP045

import threading
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

try:
    import torch.ao.quantization as quantization
except ImportError:
    import torch.quantization as quantization


class Net(nn.Module):
    """Convolutions of all kinds, a batch norm that folds, activations that fuse."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=(2, 1), dilation=(2, 1), groups=8)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1)
        self.head = nn.Linear(4, 5)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = F.hardtanh(self.depthwise(x), 0.0, 6.0)
        x = self.up(x) + 0.5
        x = F.max_pool2d(x, 3, 2).mean([2, 3])
        return self.head(self.dropout(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2, 3, 3) / 4)
        self.shift = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        x = F.conv2d(x, self.weight, self.shift, stride=[2, 1], padding=[1, 0])
        return torch.relu(x)


class Small(nn.Module):
    """Little code: for files in every version."""

    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Parameter(torch.randn(4, 3))
        self.tied = self.head

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(x).mean([2, 3])
        return torch.softmax(x @ self.head, 1) + self.tied[0]


class Point(NamedTuple):
    x: Tensor
    label: str


class Control(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 3
        self.names = ["zero", "one", "two"]
        self.table: Dict[str, float] = {"a": 0.5, "b": -2.0}
        self.scale: Optional[float] = None

    def forward(self, x: Tensor, mode: str = "sum", steps: Optional[int] = None) -> Tuple[Tensor, List[Tensor]]:
        if x.dim() != 2:
            raise RuntimeError("expected a matrix, got " + str(x.dim()) + " dimensions")
        history: List[Tensor] = []
        n = steps if steps is not None else self.limit
        for i in range(n):
            if i == 4:
                break
            x = x * 2 - i
            history.append(x)
        while bool(x.abs().max() > 10.0):
            x = x / 2
        if mode == "none":
            return x, history
        if mode in self.table:
            x = x + self.table[mode]
        elif mode == "sum":
            x = x.sum(0, keepdim=True)
        else:
            x = torch.zeros_like(x)
        return x, history

    @torch.jit.export
    def describe(self, values: Dict[str, Tensor]) -> Dict[str, str]:
        out: Dict[str, str] = {}
        for key, value in values.items():
            index = int(value.sum().item()) % len(self.names)
            out[key] = "{}={}:{}".format(key, self.names[index], value.size(0))
        return out

    @torch.jit.export
    def point(self, x: Tensor, index: int) -> Tuple[Tensor, str]:
        found = Point(x[index], "row%d" % index)
        return found.x + len(found.label), found.label + "!"

    @torch.jit.export
    def numbers(self, a: int, b: float, flag: bool) -> Tuple[int, float, bool, List[int]]:
        assert a > 0, "a must be positive"
        return a // 3 + a % 3, b**2 - a, not flag, [a, a * a] + [1, 2]


class Named(nn.Module):
    """Returns a named tuple, which flatbuffer files cannot."""

    def forward(self, x: Tensor, label: str) -> Point:
        return Point(x + 1, label)


class Counter(nn.Module):
    """State that changes: a buffer in place, an attribute, a list; a view that aliases."""

    seen: List[int]

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.calls = 0
        self.seen = []

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        self.calls += 1
        self.seen.append(self.calls * 10)
        first = self.total[0:1]
        first.mul_(2)
        return self.total + self.calls

    @torch.jit.export
    def history(self) -> List[int]:
        return self.seen

    @torch.jit.export
    def reset(self):
        self.total.zero_()
        self.calls = 0
        self.seen.clear()


class Saved(nn.Module):
    """A class with __getstate__ and __setstate__."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).view(2, 3))
        self.gain = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight) * self.gain

    @torch.jit.export
    def __getstate__(self):
        return self.weight.detach() * 1, self.gain, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, float, bool]):
        self.weight = state[0]
        self.gain = state[1]
        self.training = state[2]


class WithSaved(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Saved()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 7)
        self.lstm = nn.LSTM(7, 4)
        self.gru = nn.GRU(4, 3)
        self.head = nn.Linear(3, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.linear(x))
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        return self.head(x)


class Static(nn.Module):
    """Quantized values from quantize_per_tensor to dequantize."""

    def __init__(self):
        super().__init__()
        self.quant = quantization.QuantStub()
        self.dequant = quantization.DeQuantStub()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.relu = nn.ReLU()
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.side = nn.Conv2d(8, 8, 1)
        self.plus = nn.quantized.FloatFunctional()
        self.join = nn.quantized.FloatFunctional()
        self.times = nn.quantized.FloatFunctional()
        self.wave = nn.Conv1d(16, 8, 3)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(self.quant(x)))
        a = self.depthwise(x)
        b = self.side(x)
        x = self.plus.add_relu(a, b)
        x = self.join.cat([x, self.times.mul(a, b)], 1)
        x = F.max_pool2d(x, 2)
        x = self.wave(x.mean([3]))
        return self.dequant(self.head(x.mean([2])))


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 8, mode="sum")
        self.table = nn.Embedding(10, 8)

    def forward(self, indices: Tensor, offsets: Tensor) -> Tensor:
        return self.bag(indices, offsets) + self.table(indices[0 : offsets.size(0)])


class Divide(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        a = x / y
        b = x / 2
        c = x.clone()
        c /= 3
        return a, b, c


class Gelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x)


def _images(*shapes):
    g = torch.Generator().manual_seed(7)
    return [torch.randn(*shape, generator=g) for shape in shapes]


def net():
    model = Net().eval()
    with torch.no_grad():
        model.norm.running_mean.uniform_(-0.5, 0.5)
        model.norm.running_var.uniform_(0.5, 2)
    return model, [("forward", [x]) for x in _images((1, 3, 9, 9), (2, 3, 12, 10))]


def trace(model, x):
    """In a thread, so that the stacks in the file start here."""
    made = []
    thread = threading.Thread(target=lambda: made.append(torch.jit.trace(model, x)))
    thread.start()
    thread.join()
    return made[0]


def small():
    return Small().eval(), [("forward", [x]) for x in _images((1, 2, 6, 5), (3, 2, 4, 4))]


def control():
    (x,) = _images((3, 4))
    calls = [
        ("forward", [x]),
        ("forward", [x * 100, "a", 6]),
        ("forward", [x, "none", 0]),
        ("forward", [x, "other", 1]),
        ("forward", [x[0]]),
        ("describe", [{"k": torch.ones(2), "l": torch.full((5,), 2.0)}]),
        ("point", [x, 2]),
        ("numbers", [7, 1.5, True]),
        ("numbers", [-1, 1.5, True]),
    ]
    return Control(), calls


def counter():
    calls = [("forward", [torch.tensor([1.0, 2.0, 3.0])])] * 2
    return Counter(), [*calls, ("history", []), ("reset", []), *calls[:1], ("history", [])]


def named():
    return Named(), [("forward", [torch.ones(2), "ones"])]


def saved():
    return WithSaved(), [("forward", [torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])])]


def dynamic(dtype=torch.qint8):
    kinds = {nn.Linear, nn.LSTM, nn.GRU}
    model = quantization.quantize_dynamic(Dynamic().eval(), kinds, dtype=dtype)
    return model, [("forward", [x]) for x in _images((5, 2, 6), (1, 1, 6))]


def static(engine):
    torch.backends.quantized.engine = engine
    model = Static().eval()
    model.qconfig = quantization.get_default_qconfig(engine)
    quantization.fuse_modules(model, [["conv", "relu"]], inplace=True)
    quantization.prepare(model, inplace=True)
    inputs = _images((1, 3, 14, 11))
    for x in inputs:
        model(x)
    quantization.convert(model, inplace=True)
    return model, [("forward", [x]) for x in inputs]


def tables(bits):
    model = Tables().eval()
    model.bag.qconfig = {
        8: quantization.float_qparams_weight_only_qconfig,
        4: quantization.float_qparams_weight_only_qconfig_4bit,
    }[bits]
    model.table.qconfig = quantization.float_qparams_weight_only_qconfig
    quantization.prepare(model, inplace=True)
    quantization.convert(model, inplace=True)
    return model, [("forward", [torch.tensor([1, 9, 0, 3, 3, 7]), torch.tensor([0, 2, 5])])]


def divide():
    x, y = torch.tensor([7, -7, 9, -1]), torch.tensor([2, 2, -4, 3])
    return Divide(), [("forward", [x, y]), ("forward", [x.float(), y]), ("forward", [x.float(), y.float()])]


class Outs(nn.Module):
    """Out arguments behind defaults that are left out, names without overload, functional forms of in-place operators."""

    def forward(self, x: Tensor) -> List[Tensor]:
        made = [torch.empty(0) for _ in range(8)]
        torch.add(x, x, out=made[0])
        torch.add(x, x, alpha=2, out=made[1])
        torch.linspace(0.0, 1.0, 5, out=made[2])
        torch.logspace(0.0, 1.0, 4, out=made[3])
        torch.logspace(0.0, 1.0, 4, 2.0, out=made[4])
        torch._C._nn.gelu(x, out=made[5])
        torch.sum(x, [1], out=made[6])
        torch.mm(x, x.t(), out=made[7])
        left, right = torch.split(x, [1, 2], dim=1)
        drawn, again = torch.ops.aten.random(x, 2, 5), torch.empty_like(x)
        torch.ops.aten.random(x, 2, 5, out=again)
        inside = [(d >= 2).all() & (d < 5).all() for d in (drawn, again)]
        return made + inside + [left, right, torch.ops.aten.zero(x)]


def outs():
    return Outs(), [("forward", [x]) for x in _images((2, 3), (4, 3))]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        y, weights = self.inner(x, x, x)
        return self.layer(y), weights


def attention():
    return Attention().eval(), [("forward", [x]) for x in _images((2, 3, 8), (1, 5, 8))]


def gelu():
    return Gelu(), [("forward", [torch.linspace(-4, 4, 9)])]
