"""Converts one case for one engine (or one source that engines share): `python -m bench.prepare STEP MODEL [BATCH SIZE PRECISION]`.

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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.accuracy import nearest_of
from bench.case import ROOT, Case, Convertible, flat
from bench.engines import ENGINES
from bench.running import write_arrays
from bench.sequence_list import SequenceCase


def reference(case: Convertible, folder: Path) -> None:
    """Inputs, torch's outputs, and the multiply-adds of the model as written (padding counted, no Winograd)."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = case.module(), case.inputs()
    about: dict[str, int] = {"parameters": sum(p.numel() for p in module.parameters())}
    # Fused encoder layers, fused attention and oneDNN's LSTM are operators that the counter does not know.
    torch.backends.mha.set_fastpath_enabled(False)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False), counter:
        outputs = flat(module(*inputs))
    about["multiply_adds"] = counter.get_total_flops() // 2
    write_arrays(folder / "inputs.npz", [x.numpy() for x in inputs])
    write_arrays(folder / "outputs.npz", [y.numpy() for y in outputs])
    if memory := case.memory():
        about["moved_bytes"] = case.moved_bytes()
        with torch.no_grad():  # goes on after the run above
            further = [y.numpy() for _ in range(memory.runs - 1) for y in flat(module(*inputs))]
        write_arrays(folder / "further.npz", further)
    (folder / "about.json").write_text(json.dumps(about))


def onnx(case: Convertible, folder: Path) -> None:
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # which has no counterpart in ONNX
    module, inputs, names = case.module(), case.inputs(), {}
    if memory := case.memory():
        module, inputs = memory.growing, (*inputs, *memory.past)
        names = port_names(len(memory.past))
        names["dynamic_axes"] = {name: {2: "words"} for name in (*names["input_names"][1:], *names["output_names"][1:])}
    torch.onnx.export(module, inputs, folder / "model.onnx", dynamo=False, **names)


def port_names(count: int, *more: str) -> dict[str, Any]:
    """Names in ONNX of what a decoder takes and gives, with so many keys and values."""
    past, present = ([f"{word}_{i}" for i in range(count)] for word in ("past", "present"))
    return {"input_names": ["word", *more, *past], "output_names": ["scores", *present]}


def weights(case: Convertible, folder: Path) -> None:
    import numpy as np

    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in case.module().state_dict().items()})


def calibration(case: Case, folder: Path) -> None:
    """The batches that every engine calibrates with, and what a right answer to the input must be told from."""
    import numpy as np
    import torch

    module, batches = case.module(), case.calibration()
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        wanted, *others = ([t.numpy() for t in flat(module(batch))] for batch in (*case.inputs(), *batches))
    np.save(folder / "batches.npy", torch.stack(batches).numpy())
    np.savez(folder / "nearest.npz", *map(nearest_of, wanted, zip(*others, strict=True)))


SOURCES: dict[str, tuple[str, Callable[[Any, Path], None]]] = {
    "reference": ("project", reference),
    "calibration": ("project", calibration),
    "onnx": ("peers", onnx),
    "weights": ("project", weights),
}


def steps(engines: Iterable[str]) -> list[str]:
    """What has to be prepared for these engines, in order."""
    wanted = list(engines)
    sources = [source for source in ("onnx", "weights") if any(ENGINES[e].source == source for e in wanted)]
    calibrated = ["calibration"] * any(ENGINES[e].precision == "int8" for e in wanted)
    return ["reference", *calibrated, *sources, *wanted]


def python_of(step: str) -> str:
    return SOURCES[step][0] if step in SOURCES else ENGINES[step].python


def is_ready(step: str, case: Convertible) -> bool:
    mark = case.folder / step / ".stamp"
    return mark.exists() and mark.read_text() == stamp(step, case)


def stamp(step: str, case: Convertible) -> str:
    """A hash of all that the result depends on: versions, models, the code that converts; for Penlight that is Penlight."""
    parts = [
        path.read_bytes()
        for path in (*(ROOT / path for path in case.code), *sorted((ROOT / "bench").glob("requirements*.txt")))
    ]
    if step.startswith("penlight"):
        sources = sorted(path for path in (ROOT / "penlight").rglob("*") if path.suffix in (".py", ".h", ".cc"))
        parts += [path.read_bytes() for path in sources]
    if step in ENGINES:
        for file in (ENGINES[step].module, *ENGINES[step].more):
            parts.append(_code(ROOT / "bench" / "engines" / f"{file}.py", lambda name: name != "load"))
        parts.append(stamp(ENGINES[step].source, case).encode() if ENGINES[step].source else b"")
    else:
        parts.append(_code(Path(__file__), lambda name: name == step))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _code(path: Path, wanted: Callable[[str], bool]) -> bytes:
    """Functions of a file, whatever their formatting and comments."""
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return b"".join(ast.dump(node).encode() for node in functions if wanted(node.name))


def convert(step: str, case: Convertible) -> None:
    """Into a folder of its own first, so that nobody sees half a model."""
    done, folder = case.folder / step, case.folder / f"{step}.new"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if step in SOURCES:
        SOURCES[step][1](case, folder)
    else:
        importlib.import_module(f"bench.engines.{ENGINES[step].module}").prepare(case, folder)
    (folder / ".stamp").write_text(stamp(step, case))
    shutil.rmtree(done, ignore_errors=True)
    folder.rename(done)


if __name__ == "__main__":
    step, model, *rest = sys.argv[1:]
    convert(step, Case(model, int(rest[0]), int(rest[1]), rest[2]) if rest else SequenceCase(model))
