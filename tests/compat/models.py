"""Small models that use what PyTorch's mobile optimizer changes. Needs torch alone, of any version since 1.13."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple  # noqa: UP035

import torch
from torch import nn


class Many(nn.Module):
    """Layers that are packed, and others; weights.t() that linear fusing must not find."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv1d(3, 8, 3)
        self.l = nn.Linear(4, 4)
        self.t = nn.ConvTranspose2d(3, 4, 2)
        self.ln = nn.LayerNorm(4)
        self.g = nn.GRU(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        a = torch.relu(self.c(x))
        b = torch.relu(a + a.flip(0))
        c = torch.relu(self.l(b[..., :4]))
        d = torch.clamp(self.t(y), 0, 1)
        e = torch.addmm(self.l.bias, c[0], self.l.weight.t())
        f = torch.matmul(c, self.l.weight.t()) + self.l.bias
        return b, f, d, e, torch.conv2d(y, y), self.ln(c), self.g(c)[0]


class Branch(nn.Module):
    """Control flow, and a second method."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.d = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = self.b(x)
        else:
            for _ in range(x.size(0)):
                x = self.a(x)
        return self.d(x)

    @torch.jit.export
    def other(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.relu(self.a(x)) * n


class Twice(nn.Module):
    """A convolution's result read twice, its weights used twice, a weight that comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> Any:
        y = self.c(x)
        z = torch.relu(y) + y
        v = torch.relu_(torch.nn.functional.linear(z, w))
        return torch.relu_(z + v), torch.nn.functional.hardtanh(self.c(v), -2.0, 2.0)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(10, 4)
        self.l = nn.LSTM(4, 4, batch_first=True)
        self.o = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.o(self.l(self.e(x))[0]), -1)


class Addmm(nn.Linear):
    """A linear layer as torch wrote it in 2020."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, input, self.weight.t())


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inputs * expand
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.residual:
            return x + self.conv(x)
        return self.conv(x)


class MobileNet2020(nn.Module):
    """MobileNetV2, narrow, with its forward as torchvision had it in 2020."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True),
            Inverted(8, 16, 2, 2), Inverted(16, 16, 1, 2), Inverted(16, 24, 2, 2), Inverted(24, 24, 1, 2),
            nn.Conv2d(24, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU6(inplace=True),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(0.2), Addmm(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, 1).reshape(x.shape[0], -1)
        return self.classifier(x)


def _image() -> Tuple[torch.Tensor, ...]:  # noqa: UP006
    return (torch.rand(1, 4, 4, 4),)


Made = Tuple[nn.Module, Tuple[torch.Tensor, ...]]  # noqa: UP006
MODELS: Dict[str, Callable[[], Made]] = {  # noqa: UP006
    "many": lambda: (Many(), (torch.rand(3, 3, 8), torch.rand(1, 3, 4, 4))),
    "branch": lambda: (Branch(), _image()),
    "twice": lambda: (Twice(), (torch.rand(1, 4, 4, 4), torch.rand(4, 4))),
    "words": lambda: (Words(), (torch.zeros(1, 5, dtype=torch.long),)),
    "linear_relu": lambda: (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (torch.rand(2, 4),)),
    "linear_hardtanh": lambda: (nn.Sequential(nn.Linear(4, 4), nn.Hardtanh(inplace=True)), (torch.rand(2, 4),)),
    "conv_relu": lambda: (nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU()), _image()),
    "conv_bn_relu6": lambda: (
        nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU6(inplace=True), nn.Dropout(0.2)), _image(),
    ),
    "transposed_relu": lambda: (nn.Sequential(nn.ConvTranspose2d(4, 4, 1), nn.ReLU()), _image()),
    "conv1d": lambda: (nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.ReLU()), (torch.rand(1, 4, 4),)),
    "conv3d": lambda: (nn.Sequential(nn.Conv3d(4, 4, 1), nn.BatchNorm3d(4), nn.ReLU()), (torch.rand(1, 4, 4, 4, 4),)),
    "circular": lambda: (
        nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.ReLU6()), _image(),
    ),
    "mobilenet": lambda: (MobileNet2020(), (torch.rand(1, 3, 32, 32),)),
}  # fmt: skip
BLOCKED = ("", "CONV_BN_FUSION", "INSERT_FOLD_PREPACK_OPS", "REMOVE_DROPOUT", "FUSE_ADD_RELU")
PRESERVED = {"branch": ["other"]}
