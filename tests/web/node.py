"""Modules for the tests, in build/wasm, and Node to run them: values go in and come out as JSON (run.mjs)."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penlight.build.library import Library, build_library
from penlight.build.selection import Selection
from penlight.build.targets import TARGETS
from penlight.ir.types import numpy_dtype
from penlight.tools.serve import _written
from tests.runtime.native import ROOT

HERE = Path(__file__).parent


def built(name: str, chosen: Selection) -> Library:
    """An up-to-date module with what is chosen; all share their objects."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the ziglang package is not installed")
    return build_library(TARGETS["wasm"], chosen, ROOT / "build/wasm" / name, cache=ROOT / "build/wasm/cache")


def module(name: str, chosen: Selection) -> Path:
    return built(name, chosen).path


def node(script: Path, *arguments: object, given: str = "", last_words: str = "") -> str:
    """What it printed. `last_words`: with these at the end all was done, and how Node itself ends does not matter."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    command = ["node", "--no-warnings", str(script), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=600)
    ended = last_words and done.stdout.rstrip().endswith(last_words)
    assert ended or done.returncode == 0, f"exit status {done.returncode}: " + done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def run(module: Path, pen: Path, calls: Sequence[tuple[str, Sequence[Any]]], max_steps: int = 0) -> list[Any]:
    """Calls methods of one model, one after the other: each gives its result, or the text of its error."""
    written = [[method, [_written(a) for a in args]] for method, args in calls]
    return [
        _read(result)
        for result in json.loads(node(HERE / "run.mjs", module, pen, max_steps, given=json.dumps(written)))
    ]


def _read(written: Any) -> Any:
    if not isinstance(written, dict):
        return written
    if "tensor" in written:
        tensor = written["tensor"]
        data = np.frombuffer(base64.b64decode(tensor["base64"]), numpy_dtype(tensor["dtype"]))
        return data.reshape(tensor["shape"])
    if "list" in written:
        return [_read(v) for v in written["list"]]
    return {_read(k): _read(v) for k, v in written["dict"]}
