"""Makes golden/v<VERSION>.pen and its expected numbers, once per released format version; never again for that version.

    python -m tests.file.golden.make

The files are the compatibility promise: every later runtime must load them and give these numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import penlight
from penlight.file.writer import write_file
from tests.file.golden.integers import integer_program
from tests.file.golden.packed import packed_program
from tests.file.golden.script import expected, golden_program
from tests.file.golden.state import state_program

HERE = Path(__file__).parent


class Golden(nn.Module):
    """Something of each kind that version 1 can hold: the three packed layouts, fused activations, views, symbolic dims
    with arithmetic, constants that are not weights, an index input, containers in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 18, 3, 2, 1)
        self.depthwise = nn.Conv2d(18, 18, 3, 1, 1, groups=18)
        self.grouped = nn.Conv2d(18, 6, 1, groups=3)
        self.head = nn.Linear(6, 5)
        self.names = nn.Embedding(4, 5)
        self.register_buffer("scale", torch.linspace(0.5, 2.0, 5))

    def forward(self, image: torch.Tensor, name: torch.Tensor) -> dict[str, object]:
        x = torch.relu(self.stem(image))
        x = torch.nn.functional.hardswish(self.depthwise(x)) + x
        x = self.grouped(x)
        scores = self.head(x.mean((2, 3))) * self.scale + self.names(name)
        return {
            "scores": torch.softmax(scores, -1),
            "best": [scores.argmax(-1)],
            "map": torch.cat([x, x[:, :2] * 2.0], 1),
        }


def version_1() -> None:
    torch.manual_seed(1)
    module = Golden().eval()
    image, name = torch.randn(2, 3, 13, 16), torch.tensor([3, 0])
    free = torch.export.Dim.AUTO
    metadata = {"name": "golden", "labels": ["a", "b", "c", "d", "ë"], "license": "BSD-3-Clause"}
    model = penlight.optimize(
        module, (image, name), dynamic_shapes=({0: free, 2: free, 3: free}, {0: free}), metadata=metadata
    )
    model.save(HERE / "v1.pen")
    arrays = {}
    for case, (n, h, w) in enumerate([(2, 13, 16), (1, 5, 7), (3, 20, 9)]):
        torch.manual_seed(case)
        image, name = torch.randn(n, 3, h, w), torch.randint(0, 4, (n,))
        with torch.no_grad():
            out = module(image, name)
        arrays |= {f"image{case}": image.numpy(), f"name{case}": name.numpy(), f"scores{case}": out["scores"].numpy()}  # type: ignore[attr-defined]
        arrays |= {f"best{case}": out["best"][0].numpy(), f"map{case}": out["map"].numpy()}  # type: ignore[index, attr-defined]
    np.savez_compressed(HERE / "v1.npz", **arrays)


def version_2() -> None:
    """VM code: calls in a row, since it has state. Rank 1 does not fit the planned method."""
    write_file(golden_program(), HERE / "v2.pen")
    rng = np.random.default_rng(2)
    xs = [
        (rng.standard_normal(s) * 4 - o).astype(np.float32)
        for s, o in (((2, 3), 0), ((3,), 0), ((5, 3), 1), ((1, 3), 2))
    ]
    ns, names = [0, 3, 1, 2], ["a", "b", "c", "d"]
    results = expected(xs, ns, names)  # type: ignore[arg-type]
    arrays = {f"x{i}": x for i, x in enumerate(xs)} | {"n": np.array(ns), "names": np.array(names)}
    for i, (((scores, text),), last) in enumerate(results):
        key = next(iter(scores))
        arrays |= {f"scores{i}": scores[key], f"texts{i}": np.array([key, text, last])}
    np.savez_compressed(HERE / "v2.npz", **arrays)


def version_2_packed() -> None:
    """Weights that VM code shares with a plan; packed.py says what comes out."""
    write_file(packed_program(), HERE / "v2_packed.pen")


def version_3() -> None:
    """Quantized tensors in a region; integers.py says what comes out."""
    write_file(integer_program(), HERE / "v3.pen")


def version_4() -> None:
    """State; state.py says what comes out."""
    write_file(state_program(), HERE / "v4.pen")


def main() -> None:
    made = {"v1": version_1, "v2": version_2, "v2_packed": version_2_packed, "v3": version_3, "v4": version_4}
    for name, make in made.items():
        if (HERE / f"{name}.pen").exists():
            print(f"{name}.pen exists: a golden file is made once")
        else:
            make()


if __name__ == "__main__":
    main()
