"""Three small models: one that is planned as a whole and one that is interpreted, with bundled inputs, and one in integers."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple  # noqa: UP035 (TorchScript reads these)

import torch

import penlight


class Planned(torch.nn.Module):
    """A linear layer and what is around it, a dict out."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(40, 50)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.sigmoid(self.layer(x)).transpose(0, 1), "large": self.layer(x) > 0}


class Interpreted(torch.nn.Module):
    """A loop that ends by its data, lists, strings, nested results."""

    def forward(
        self, x: torch.Tensor, times: int
    ) -> Tuple[Dict[str, torch.Tensor], str, Tuple[float, Optional[int], List[bool]]]:  # noqa: UP006, UP045
        kept = []
        for i in range(times):
            x = x * 0.5 + float(i)
            if float(x.sum()) > 20:
                break
            kept.append(x)
        return {"all": torch.stack(kept)}, f"{len(kept)} kept", (1.5, None, [True])


def planned() -> penlight.Model:
    torch.manual_seed(0)
    x = torch.randn(3, 40)
    dims = {"x": {0: torch.export.Dim("n", min=1, max=64)}}
    return penlight.optimize(Planned().eval(), (x,), dynamic_shapes=dims, bundled_inputs={"forward": [(x,), (x[:1],)]})


def quantized() -> penlight.Model:
    """A convolution, one that is depthwise, and a linear."""
    torch.manual_seed(0)
    layers = [
        torch.nn.Conv2d(8, 24, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(24, 24, 3, groups=24),
        torch.nn.Flatten(),
    ]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(24 * 7 * 7, 20)).eval()
    return penlight.quantize(model, [torch.randn(1, 8, 9, 9) for _ in range(4)], sensitivity=False)


def interpreted() -> penlight.Model:
    calls = [(torch.ones(2, 3), 3), (torch.ones(2, 3), 9)]
    return penlight.optimize(torch.jit.script(Interpreted().eval()), bundled_inputs={"forward": calls})
