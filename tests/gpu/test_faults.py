"""Indices out of range, which only the data of a run shows: the same error in words as on the CPU, and the next run is right again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import penlight
from penlight.errors import RunError
from tests.gpu.conftest import device_of
from tests.ops.recording import Call

TABLE = torch.randn(5, 7)


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("embedding", lambda i: torch.nn.functional.embedding(i, TABLE) * 2),
        ("index_select", lambda i: TABLE.index_select(0, i) * 2),
        ("index", lambda i: TABLE[i, i] + 1),
        ("gather", lambda i: TABLE.gather(0, i[:, None].expand(3, 7)) + 1),
        ("scatter", lambda i: TABLE.scatter(0, i[:, None].expand(3, 7), TABLE[:3] * 2) + 1),
        ("index_put", lambda i: TABLE.index_put((i,), TABLE[:3] * 2) + 1),
    ],
)
def test_bad_index(name: str, fn: Callable[..., Any], driver: str, tmp_path: Path) -> None:
    good = torch.tensor([4, 0, 2])
    file = tmp_path / "model.pen"
    penlight.optimize(Call(fn), (good,)).save(file)
    host, device = penlight.load(file), penlight.load(file, device=device_of(driver))
    for bad in (5, -6, 2**31, 2**32, 2**32 + 1, -(2**40), 2**63 - 1, -(2**63)):
        errors = []
        for model in (host, device):
            with pytest.raises(RunError) as error:
                model(torch.tensor([1, bad, 3]))
            errors.append(str(error.value))
        assert errors[0] == errors[1]
        assert str(bad) in errors[0]
        assert torch.equal(device(good), fn(good))
