"""Three small models with arguments and what they give: one planned, two interpreted. For the tests of faults and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import penlight

Cases = list[tuple[tuple[Any, ...], list[np.ndarray]]]


class Planned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.norm(self.conv(x)))
        return self.out(y.mean((2, 3))), y.amax(1)


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, times: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [x]
        for i in range(times):
            if bool(rows[-1].sum() > -100.0 * i):
                rows.append(torch.tanh(self.layer(rows[-1])))
        return torch.cat(rows), torch.stack(rows).sum(0)


class Contained(nn.Module):
    """Takes and keeps containers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, torch.Tensor] = {"": torch.zeros(1)}

    def forward(self, parts: dict[str, torch.Tensor], order: list[str], pair: tuple[int, float]) -> list[torch.Tensor]:
        made: list[torch.Tensor] = []
        for name in order:
            self.seen[name + "!"] = parts[name].clone().add_(pair[0])
            made.append(self.seen[name + "!"] * pair[1])
        return made


def planned() -> tuple[penlight.Model, Cases]:
    torch.manual_seed(1)
    x = torch.rand(1, 3, 12, 12)
    model = penlight.optimize(
        Planned().eval(), (torch.rand(2, 3, 12, 12),), dynamic_shapes={"x": {0: torch.export.Dim("n", max=8)}}
    )
    return model, [_case(model, x.numpy()), _case(model, torch.rand(3, 3, 12, 12).numpy())]


def scripted() -> tuple[penlight.Model, Cases]:
    torch.manual_seed(2)
    model = penlight.optimize(torch.jit.script(Scripted().eval()), plan=False)
    return model, [_case(model, torch.rand(2, 4).numpy(), 3), _case(model, torch.rand(1, 4).numpy(), 5)]


def contained() -> tuple[penlight.Model, Cases]:
    model = penlight.optimize(torch.jit.script(Contained().eval()), plan=False)
    parts = {"a": np.ones((2, 3), np.float32), "ß": np.arange(4.0)}
    return model, [_case(model, parts, ["ß", "a"], (3, 0.5)), _case(model, {}, [], (0, 0.0))]


def _case(model: penlight.Model, *given: Any) -> tuple[tuple[Any, ...], list[np.ndarray]]:
    return given, [np.array(y) for y in model(*given)]
