"""Casts between the dtypes that GPUs have, of numbers where rounding, wrapping and cutting differ: as on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import penlight
from penlight.ops.elementwise.glsl import CAST_DTYPES
from tests.gpu.conftest import device_of
from tests.ops.recording import Call

DTYPES = {
    "f32": torch.float32, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8,
}  # fmt: skip
_powers = [
    s * (2**k + d)
    for k in (7, 8, 15, 24, 25, 31, 32, 33, 40, 53, 54, 62)
    for d in (-1, 0, 1, 2**k // 3)
    for s in (1, -1)
]
WHOLE = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 2**24 + 1, 2**25 + 2, 2**25 + 6, *_powers])
FLOATS = torch.cat(
    [
        WHOLE.float(),
        torch.tensor([0.5, -0.5, 0.99, -1.99, 255.7, -128.9, float("nan"), float("inf"), -float("inf"), 1e30, -0.0]),
    ]
)


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize("dtype", CAST_DTYPES)
def test_casts(dtype: str, driver: str, tmp_path: Path) -> None:
    x = FLOATS if dtype == "f32" else WHOLE.to(DTYPES[dtype])
    targets = [DTYPES[d] for d in CAST_DTYPES if d != dtype]
    file = tmp_path / "model.pen"
    penlight.optimize(Call(lambda x: [x.to(t) for t in targets]).eval(), (x,)).save(file)
    host, device = penlight.load(file)(x), penlight.load(file, device=device_of(driver))(x)
    for target, expected, got in zip(targets, host, device, strict=True):
        assert torch.equal(expected, got), (
            f"{dtype} to {target}: {x[expected != got]}: {got[expected != got]}, not {expected[expected != got]}"
        )
        if dtype != "f32":
            assert torch.equal(expected, x.to(target))


def test_of_f16(tmp_path: Path) -> None:
    """Elements of another size than on the CPU: nothing is computed in place of what is still read."""
    file = tmp_path / "model.pen"
    x = torch.arange(5000).reshape(50, 100) % 301 - 150.0
    fn = lambda x: [((x * 2).to(torch.int32) + 1).to(torch.float32) * 2, (x + 1).to(torch.int64), (x - 3).bool()]  # noqa: E731
    penlight.optimize(Call(fn).eval(), (x,)).save(file)
    got = penlight.load(file, device=device_of("lavapipe"), f16=True)(x)
    for a, b in zip(got, fn(x), strict=True):
        assert torch.equal(a, b)
