"""The models that the Java tests run, each with numbers of torch's: `name.x` and `name.y` are tensors as they lie in memory."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import penlight


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).relu().mean((2, 3)))


class Containers(nn.Module):
    """Every form of a result that a planned method may have."""

    def forward(self, x: Tensor, n: Tensor) -> dict:
        parts = [x + 1, x + 2]
        return {"twice": x * 2, "rows": x.shape[0], "item": n.item(), "list": parts, "pair": (x.sum(), None), "text": "fixed",
                "numbers": [1, 2], "halves": [0.5], "mixed": [x, 7], "by_number": {3: x * 3}, "yes": True, "none": []}  # fmt: skip


class Nested(nn.Module):
    """Every form of an argument."""

    def forward(
        self, x: Tensor, parts: dict, more: list, pair: tuple, scale: float, text: str, flag: bool, nothing=None
    ):
        return x * scale + parts["a"] - parts["b"] + more[0] * more[1] + pair[0] * pair[1][0]


class Point(NamedTuple):
    x: Tensor
    y: int


class Kinds(nn.Module):
    """Interpreted: every kind of value in and out, and state."""

    kept: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.calls = 0
        self.kept = None

    def forward(self, x: Tensor) -> Tensor:
        return x * 2

    @torch.jit.export
    def copies(self, x: Tensor, count: int) -> list[Tensor]:
        return [x] * count

    @torch.jit.export
    def optional(self, x: Tensor | None) -> Tensor | None:
        return None if x is None else x + 1

    @torch.jit.export
    def boolean(self, x: bool) -> bool:
        return not x

    @torch.jit.export
    def integer(self, x: int, y: int = 3) -> int:
        return x * y

    @torch.jit.export
    def number(self, x: float) -> float:
        return x / 2

    @torch.jit.export
    def text(self, x: str) -> str:
        return x + "!"

    @torch.jit.export
    def pair(self, x: tuple[int, Tensor]) -> tuple[Tensor, int, str]:
        return x[1] * x[0], x[0] + 1, "pair"

    @torch.jit.export
    def bools(self, x: list[bool]) -> list[bool]:
        return [not b for b in x]

    @torch.jit.export
    def ints(self, x: list[int]) -> list[int]:
        return [i * i for i in x]

    @torch.jit.export
    def floats(self, x: list[float]) -> list[float]:
        return [i * 0.5 for i in x]

    @torch.jit.export
    def tensors(self, x: list[Tensor]) -> list[Tensor]:
        return [i + 1 for i in x]

    @torch.jit.export
    def optionals(self, x: list[Tensor | None]) -> list[Tensor | None]:
        return x

    @torch.jit.export
    def lists(self, x: list[list[int]]) -> list[list[int]]:
        return [i + [len(i)] for i in x]

    @torch.jit.export
    def by_name(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        return {k + "2": v * 2 for k, v in x.items()}

    @torch.jit.export
    def by_number(self, x: dict[int, Tensor]) -> dict[int, Tensor]:
        return {k + 1: v * k for k, v in x.items()}

    @torch.jit.export
    def deep(self, x: dict[str, list[tuple[int, dict[int, Tensor]]]]) -> dict[str, list[tuple[int, dict[int, Tensor]]]]:
        return {k: [(n + 1, {i: t + n for i, t in d.items()}) for n, d in v] for k, v in x.items()}

    @torch.jit.export
    def point(self, x: Tensor) -> Point:
        return Point(x, 4)

    @torch.jit.export
    def nothing(self) -> None:
        return None

    @torch.jit.export
    def add(self, x: Tensor) -> tuple[Tensor, int]:
        self.total += x
        self.calls += 1
        return self.total, self.calls

    @torch.jit.export
    def keep(self, x: Tensor) -> Tensor:
        before = self.kept
        self.kept = x
        return x if before is None else before

    @torch.jit.export
    def turned(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1)

    @torch.jit.export
    def write(self, x: Tensor) -> int:
        x += 1
        return 0

    @torch.jit.export
    def fails(self, x: int) -> int:
        if x > 0:
            raise ValueError("no more than 0 — a “limit”")
        return x


def _save(folder: Path, name: str, *tensors: Tensor) -> None:
    for suffix, tensor in zip("xy", tensors, strict=False):
        (folder / f"{name}.{suffix}").write_bytes(tensor.detach().contiguous().numpy().tobytes())


def make(folder: Path) -> None:
    torch.manual_seed(0)
    classifier, image = Classifier().eval(), torch.randn(1, 3, 8, 8)
    model = penlight.optimize(classifier, (image,), backend=("cpu", "vulkan"), metadata={
        "labels": ["cat", "dog — “é”"], "nested": {"a": [1, 2.5, True, None]}, "extra_files": {"labels.txt": "cat\ndog é"}},
        bundled_inputs={"forward": [(image,)]})  # fmt: skip
    model.save(folder / "classifier.pen")
    data = (folder / "classifier.pen").read_bytes()
    (folder / "any name é.bin").write_bytes(data)
    (folder / "asset.ptl").write_bytes(b"\1" * 4096 + data + b"\2" * 4096)  # as in a package: stubs/AssetManager
    (folder / "compressed.pen").write_bytes(data)
    (folder / "cut.pen").write_bytes(data[: len(data) // 2])
    _save(folder, "classifier", image, classifier(image))
    big = torch.randn(1, 3, 64, 64)
    penlight.optimize(classifier, (big,)).save(folder / "big.pen")
    _save(folder, "big", big, classifier(big))

    rows = torch.export.Dim("rows", max=64)
    x, n = torch.arange(8.0).reshape(2, 4), torch.tensor(5)
    penlight.optimize(Containers(), (x, n), dynamic_shapes={"x": {0: rows}, "n": {}}).save(folder / "containers.pen")
    call = (x, {"a": x, "b": x}, [x, x], (x, [x]), 0.5, "fixed é", True, None)
    penlight.optimize(Nested(), call).save(folder / "nested.pen")
    methods = ["forward", *(name for name, value in vars(Kinds).items() if hasattr(value, "_torchscript_modifier"))]
    penlight.optimize(torch.jit.script(Kinds().eval()), methods=methods).save(folder / "kinds.pen")
    penlight.optimize(_Halves(), (x.half(), x > 3)).save(folder / "halves.pen")
    penlight.optimize(_Dtypes(), tuple((x * 2).to(t) for t in _DTYPES)).save(folder / "dtypes.pen")
    penlight.optimize(_Nonzero(), (x,)).save(folder / "nonzero.pen")
    penlight.optimize(_Random(), (x,)).save(folder / "random.pen")
    penlight.optimize(_Complex(), (x,)).save(folder / "complex.pen")
    script = torch.jit.script(classifier)
    script._save_for_lite_interpreter(str(folder / "legacy.ptl"))
    script._save_for_lite_interpreter(str(folder / "flat.ptl"), _use_flatbuffer=True)


_DTYPES = (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float64, torch.int16)


class _Halves(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, ~mask


class _Dtypes(nn.Module):
    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor) -> list[Tensor]:
        return [a + 1, b + 1, c + 1, d + 1, e + 1, f + 1]


class _Nonzero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nonzero(x)


class _Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.rand_like(x)


class _Complex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(x)
