"""Converts one case for one engine (or one source that engines share): `python -m bench.prepare STEP MODEL BATCH SIZE`.

Runs in a process of its own, under the interpreter that has the engine; `stamp` says whether the result on disk is still
good, so that a second benchmark starts at once.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.case import ROOT, Case, Convertible, flat
from bench.engines import ENGINES


def reference(case: Convertible, folder: Path) -> None:
    """Input, torch's output, and the multiply-adds of the model as written (padding counted, no Winograd)."""
    import numpy as np
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = case.module(), case.inputs()
    # The fused attention of torch's encoder layers is one operator that the counter does not know.
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        outputs = flat(module(*inputs))
    np.save(folder / "input.npy", inputs[0].numpy())
    np.savez(folder / "outputs.npz", *[output.numpy() for output in outputs])
    about = {"multiply_adds": counter.get_total_flops() // 2, "parameters": sum(p.numel() for p in module.parameters())}
    (folder / "about.json").write_text(json.dumps(about))


def onnx(case: Convertible, folder: Path) -> None:
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # which has no counterpart in ONNX
    torch.onnx.export(case.module(), case.inputs(), folder / "model.onnx", dynamo=False)


def weights(case: Convertible, folder: Path) -> None:
    import numpy as np

    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in case.module().state_dict().items()})


SOURCES = {"reference": ("project", reference), "onnx": ("peers", onnx), "weights": ("project", weights)}


def steps(engines: Iterable[str]) -> list[str]:
    """What has to be prepared for these engines, in order."""
    wanted = list(engines)
    sources = [source for source in ("onnx", "weights") if any(ENGINES[e].source == source for e in wanted)]
    return ["reference", *sources, *wanted]


def python_of(step: str) -> str:
    return SOURCES[step][0] if step in SOURCES else ENGINES[step].python


def is_ready(step: str, case: Convertible) -> bool:
    mark = case.folder / step / ".stamp"
    return mark.exists() and mark.read_text() == stamp(step)


def stamp(step: str) -> str:
    """A hash of all that the result depends on: versions, models, the code that converts; for Penlight that is Penlight."""
    parts = [
        path.read_bytes()
        for path in (ROOT / "tests" / "models.py", *sorted((ROOT / "bench").glob("requirements*.txt")))
    ]
    if step.startswith("penlight"):
        sources = sorted(path for path in (ROOT / "penlight").rglob("*") if path.suffix in (".py", ".h", ".cc"))
        parts += [path.read_bytes() for path in sources]
    if step in ENGINES:
        parts.append(_code(ROOT / "bench" / "engines" / f"{ENGINES[step].module}.py", "prepare"))
        parts.append(stamp(ENGINES[step].source).encode() if ENGINES[step].source else b"")
    else:
        parts.append(_code(Path(__file__), step))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _code(path: Path, function: str) -> bytes:
    """One function, whatever its formatting and comments."""
    found = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    return ast.dump(found[0]).encode()


def convert(step: str, case: Convertible) -> None:
    """Into a folder of its own first, so that nobody sees half a model."""
    done, folder = case.folder / step, case.folder / f"{step}.new"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if step in SOURCES:
        SOURCES[step][1](case, folder)
    else:
        importlib.import_module(f"bench.engines.{ENGINES[step].module}").prepare(case, folder)
    (folder / ".stamp").write_text(stamp(step))
    shutil.rmtree(done, ignore_errors=True)
    folder.rename(done)


if __name__ == "__main__":
    convert(sys.argv[1], Case(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
