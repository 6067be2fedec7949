"""Files that PyTorch Mobile wrote, with what its own runtime computed: `cases()`, for any test that runs them.

The fixtures come from torch 1.13. `make(folder)` writes files with another PyTorch: the installed one, or one under another Python.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"
ORIGINAL_PYTHON = "/usr/bin/python3"  # of a system that packages PyTorch 1.13


@dataclass(frozen=True)
class Call:
    method: str
    args: list[Any]  # numpy arrays for tensors
    expected: Any = None
    error: str = ""  # instead: the line of the exception


@dataclass(frozen=True)
class Case:
    """One file. The calls follow each other on one loaded module, whose state they may change."""

    name: str  # "control.v4"
    path: Path
    version: int
    calls: list[Call]
    source: Path  # the same model, as torch.jit.save writes it

    @property
    def args(self) -> list[Any]:
        return self.calls[0].args

    @property
    def expected(self) -> Any:
        return self.calls[0].expected


def cases(folder: Path = FIXTURES, only: str = "") -> Iterator[Case]:
    """All files in a folder of make_legacy.py; `only`: those whose name starts so."""
    for table in sorted(folder.glob("*.json")):
        record = json.loads(table.read_text())
        calls = [
            Call(c["method"], [decode(a) for a in c["args"]], decode(c.get("expected")), c.get("error", ""))
            for c in record["calls"]
        ]
        for version, file in record["files"].items():
            if file.startswith(only):
                yield Case(file.removesuffix(".ptl"), folder / file, int(version), calls, folder / record["source"])


def decode(value: Any) -> Any:
    """Back from make_legacy.encode, with numpy arrays for tensors."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        raw = base64.b64decode(value["tensor"])
        return np.frombuffer(raw, value["dtype"]).reshape(value["shape"])
    if "tuple" in value:
        return tuple(decode(v) for v in value["tuple"])
    return {decode(k): decode(v) for k, v in value["dict"]}


def make(folder: Path, python: str, *names: str) -> None:
    """Writes files with the PyTorch of another Python (or this one's, by sys.executable)."""
    command = [python, str(HERE / "make_legacy.py"), str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


@lru_cache
def original_missing() -> str:
    """Why files cannot be made by the original PyTorch Mobile here; "" if they can."""
    if not os.path.exists(ORIGINAL_PYTHON):
        return f"no {ORIGINAL_PYTHON}"
    probe = "import torch; assert torch.__version__.startswith('1.'), torch.__version__"
    done = subprocess.run([ORIGINAL_PYTHON, "-c", probe], capture_output=True, text=True, check=False)
    return f"{ORIGINAL_PYTHON} has no PyTorch 1: {done.stderr.strip().splitlines()[-1]}" if done.returncode else ""
