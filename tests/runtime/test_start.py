"""What it costs to start, in memory: the limits of bench/load.py on a small network (its times need a quiet machine)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import penlight
from bench import load
from tests.runtime import native


def test_memory_of_a_c_program(tmp_path: Path) -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(64, 512, 3, padding=1), nn.ReLU(),
        nn.Conv2d(512, 512, 3, padding=1, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100),
    ).eval()  # fmt: skip
    file = tmp_path / "small.pen"
    x = torch.zeros(1, 3, 96, 96)
    penlight.optimize(module, (x,)).save(file)
    program = native.program("plain", native.ROOT / "bench/load.c")
    told = load.measure(program, file, tuple(x.shape), threads=2, rounds=1)
    assert told["file_bytes"] > 5e6
    assert told["arena_bytes"] > 4e6  # large enough for huge pages
    assert not {"memory", "arena"} & set(told["missed"]), told
    assert min(told[part] for part in ("open_ms", "plan_ms", "first_ms", "warm_ms", "touch_ms", "python_ms")) > 0
    load.show([{"model": "small", **told}], threads=2)


def test_load_program_says_what_is_wrong(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pen"
    broken.write_bytes(b"nothing")
    program = native.program("plain", native.ROOT / "bench/load.c")
    assert "expected a .pen file" in native.run([program, broken], expect=1).stderr
    assert "usage" in native.run([program], expect=1).stderr
