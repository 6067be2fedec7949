"""Small networks for the tests of the C runtime, each with what real ones are made of, and files made from them: a .pen
file with cases (case.py) beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import penlight
from penlight.torchvision import declare_operators
from tests.models import randomise
from tests.runtime.case import case_bytes
from tests.runtime.native import locked


class Classifier(nn.Module):
    """Stem, inverted residual with squeeze-excite, pooling, head; a second input that is used as an index; a dict out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(16, 40, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(40, 40, 5, 1, 2, groups=40, bias=False), nn.BatchNorm2d(40), nn.SiLU())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(40, 10, 1), nn.ReLU(), nn.Conv2d(10, 40, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(40, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.head = nn.Linear(16, 10)
        self.names = nn.Embedding(7, 10)

    def forward(self, image: torch.Tensor, name: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.stem(image)
        y = self.depthwise(self.expand(x))
        x = x + self.project(y * self.squeeze(y))
        return {"scores": self.head(x.mean((2, 3))) + self.names(name), "map": x}


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(24, 3, 40, activation="gelu", batch_first=True)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.norm(self.layer(x))[:, 0]), -1)


class Segmenter(nn.Module):
    """Parallel branches, concatenated (one of them twice, one nested), resized: what placing in memory has to get right."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 12, 3, padding=2, dilation=2)
        self.c = nn.Conv2d(8, 5, 1)
        self.d = nn.Conv2d(8, 20, 3, padding=1, groups=4)
        self.e = nn.Conv2d(65, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.relu(self.a(x))
        b, c = F.relu(self.b(a)), torch.sigmoid(self.c(a))
        inner = torch.cat([b, c], 1)
        pooled = F.interpolate(F.avg_pool2d(a, 3, 2, 1), size=a.shape[2:], mode="bilinear", align_corners=False)
        y = torch.cat([inner, self.d(a), pooled, inner[:, :12]], 1)
        y = F.relu(self.e(torch.cat([y, a], 1)))
        up = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return torch.cat([F.max_pool2d(up, 2), y], 0)


class Mixed(nn.Module):
    """Views, reductions, comparisons, integers: operators that the others leave out."""

    def forward(self, x: torch.Tensor, ids: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.abs() + 0.5
        y = y / y[:, :1]  # an operand that is part of the other: in place, the first row would change under the rest
        y = y.permute(0, 2, 1).reshape(x.shape[0], -1)
        total = (ids * 3 + 1).sum(1, keepdim=True)
        masked = torch.where(keep, x, x * 0.5 - 1.0)
        padded = F.pad(masked, (1, 2, -1, 3), value=0.25)
        picked = torch.index_select(padded, 2, ids[0].remainder(padded.shape[2]))
        product = torch.matmul(masked, masked.transpose(1, 2))
        return y.softmax(1), total, picked.amax(2), product.argmax(-1), (x > 0.1) & keep, torch.log_softmax(product, 1)


class Detector(nn.Module):
    """A small YOLO: boxes for every cell of a grid, those with a good score, without those that overlap better ones. How
    many are left only the image tells."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 24, 3, 2, 1), nn.SiLU()
        )
        self.head = nn.Conv2d(24, 4 + 1 + 3, 1)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        raw = self.head(self.body(image))
        h, w = raw.shape[2:]
        raw = raw[0].permute(1, 2, 0).reshape(-1, 8)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([columns, rows], -1).reshape(-1, 2)
        centre, size = (raw[:, :2].sigmoid() + grid) * 4, raw[:, 2:4].exp() * 6
        boxes = torch.cat([centre - size / 2, centre + size / 2], 1)
        best = (raw[:, 4:5].sigmoid() * raw[:, 5:].softmax(1)).max(1)
        good = best.values > 0.19
        boxes, scores, labels = boxes[good], best.values[good], best.indices[good]
        kept = torch.ops.torchvision.nms(boxes + labels[:, None] * 1000.0, scores, 0.45)
        return {"boxes": boxes[kept], "scores": scores[kept], "labels": labels[kept], "grid": best.values}


@dataclass(frozen=True)
class Network:
    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[torch.Tensor, ...]]  # by scale 1, 2, 3: other sizes of the free dims
    dynamic: Any = None


def _free(*names: str) -> dict[int, Any]:
    return {d: torch.export.Dim.AUTO for d, name in enumerate(names) if name}


NETWORKS: dict[str, Network] = {
    "classifier": Network(
        Classifier,
        lambda k: (torch.randn(k, 3, 16 + 5 * k, 20 + 3 * k), torch.arange(k) % 7),
        (_free("n", "", "h", "w"), _free("n")),
    ),
    "transformer": Network(Transformer, lambda k: (torch.randn(2, 5 + 12 * k, 24),), (_free("", "s", ""),)),
    "segmenter": Network(Segmenter, lambda k: (torch.randn(1, 3, 6 + 2 * k, 9 + 3 * k),), (_free("", "", "h", "w"),)),
    "mixed": Network(
        Mixed,
        lambda k: (torch.randn(2, 6, 7 + 2 * k), torch.arange(2 * 5).reshape(2, 5), torch.rand(2, 6, 7 + 2 * k) > 0.4),
        (_free("", "", "w"), _free(), _free("", "", "w")),
    ),
    "detector": Network(
        Detector, lambda k: (torch.randn(1, 3, 16 + 8 * k, 24 + 4 * k) * k,), (_free("", "", "h", "w"),)
    ),
}


def build(name: str) -> nn.Module:
    """The same weights on every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        declare_operators()
        model = NETWORKS[name].make().eval()
        randomise(model)
    return model


def inputs(name: str, scale: int = 1) -> tuple[torch.Tensor, ...]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(100 + scale)
        return NETWORKS[name].inputs(scale)


def compile(name: str, metadata: dict[str, Any] | None = None) -> penlight.Model:
    return penlight.optimize(
        build(name), inputs(name, 2), dynamic_shapes=NETWORKS[name].dynamic, metadata=metadata or {"name": name}
    )


def flat(outputs: Any) -> list[torch.Tensor]:
    if isinstance(outputs, dict):
        return [leaf for value in outputs.values() for leaf in flat(value)]
    return [leaf for value in outputs for leaf in flat(value)] if isinstance(outputs, (tuple, list)) else [outputs]


def cases(folder: Path) -> dict[str, tuple[Path, list[Path]]]:
    """name -> (.pen file, cases at several sizes), made once per folder; workers wait for the one that makes them."""
    found = {n: (folder / f"{n}.pen", [folder / f"{n}.{k}.case" for k in (1, 2, 3)]) for n in NETWORKS}
    with locked(folder / "lock"):
        if not (folder / "done").exists():
            for name, (file, paths) in found.items():
                compile(name, {"name": name, "labels": ["a", "b ☀"]}).save(file)
                module = build(name)
                for scale, path in enumerate(paths, 1):
                    given = inputs(name, scale)
                    with torch.no_grad():
                        path.write_bytes(case_bytes(given, flat(module(*given))))
            (folder / "done").touch()
    return found
