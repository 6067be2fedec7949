"""Examples and benches run and say what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_demo_recognises_the_cat() -> None:
    done = subprocess.run([ROOT / "dev", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The cat was recognised." in done.stdout
    for text in ("tiger cat", "espresso", "best run", "load the file", "MB"):
        assert text in done.stdout


def test_size_bench(tmp_path: Path) -> None:
    if not (ROOT / "build" / "release" / "libpenlight.so").exists():
        pytest.skip("build/release is not there: ./dev build makes it")
    path = tmp_path / "size.json"
    done = run("bench/size.py", "build/release", "--json", path)
    assert done.returncode == 0, done.stdout + done.stderr
    files = json.loads(path.read_text())["files"]
    assert files["runtime library"]["stripped"] < 5_000_000
