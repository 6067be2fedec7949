"""The operators' samples, captured once in a test run: model, inputs, torch's outputs and the tolerance of each lie in a
file, from which Python (test_samples.py) and a C program on every instruction set (tests/runtime/samples.c) run them.

Workers share the folder. Whoever needs a sample first records it, so the work is divided without anyone waiting.
"""

from __future__ import annotations

import functools
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

import penlight
from penlight.ir import containers
from penlight.ops import registry
from tests.runtime.case import case_bytes


@dataclass(frozen=True)
class Case:
    index: int
    name: str
    op: registry.Op
    sample: registry.Sample

    @property
    def tolerance(self) -> float:
        return self.op.tolerance if self.sample.tolerance is None else self.sample.tolerance

    @property
    def dynamic_shapes(self) -> Any:
        """A sample gives one entry per input; `Call.forward(*inputs)` has one parameter, which takes them all."""
        given = self.sample.dynamic
        if given is None or isinstance(given, str) or (len(given) == 1 and isinstance(given[0], tuple)):
            return given
        return (tuple(given),)


class Call(torch.nn.Module):
    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: Any) -> Any:
        return self.fn(*inputs)


@functools.cache
def all_cases() -> list[Case]:
    """The same tensors in every process."""
    found: list[Case] = []
    for name, op in sorted(registry.load_all().items()):
        for sampler in op.samplers:
            torch.manual_seed(0)
            for index, sample in enumerate(sampler()):
                suffix = f"-{sample.name}" if sample.name else ""
                found.append(Case(len(found), f"{name}-{sampler.__name__}-{index}{suffix}", op, sample))
    return found


def model_of(case: Case, folder: Path) -> bytes:
    """The .pen file of a sample; captures it if nobody has yet."""
    path = folder / f"{case.index}.pen"
    if not path.exists():
        with torch.no_grad():
            model = penlight.optimize(
                Call(case.sample.fn).eval(), case.sample.inputs, dynamic_shapes=case.dynamic_shapes
            )
        own = path.with_suffix(f".{os.getpid()}")  # another worker may be at the same sample: whole files only
        model.save(own)
        own.rename(path)
    return path.read_bytes()


def record_all(folder: Path, subnormals: bool = True) -> Path:
    """One file with all samples, for the C program. Without subnormals, inputs below 1.2e-38 are zeros: armv7 takes them
    for zeros in vectors, and as they are in scalars."""
    path = folder / f"samples-{subnormals}"
    if not path.exists():
        own = path.with_suffix(f".{os.getpid()}")
        own.write_bytes(b"".join(_record(case, model_of(case, folder), subnormals) for case in all_cases()))
        own.rename(path)
    return path


def _record(case: Case, file: bytes, subnormals: bool) -> bytes:
    handle, name = penlight.load(file)._handle, case.name.encode()
    inputs = case.sample.inputs if subnormals else pytree.tree_map_only(torch.Tensor, _flushed, case.sample.inputs)
    with torch.no_grad():
        results = case.sample.fn(*inputs)
    given = containers.flatten(json.loads(handle.input_spec("forward")), inputs)
    result_spec = json.loads(handle.output_spec("forward"))
    expected = containers.flatten({"args": [result_spec], "kwargs": {}, "names": ["y"]}, [results])
    head = struct.pack("<i", len(name)) + name + b"\0" + struct.pack("<q", len(file))
    return head + file + case_bytes(given, expected, case.tolerance, _complex_scales(result_spec, expected))


def _complex_scales(spec: Any, expected: list[torch.Tensor]) -> dict[int, float]:
    """The parts of a complex result are judged by the larger of the two, as the Python test does."""
    if isinstance(spec, dict) and "complex" in spec:
        largest = max(
            (float(x.nan_to_num(0, 0, 0).abs().max()) for i in spec["complex"] if (x := expected[i]).numel()),
            default=0.0,
        )
        return dict.fromkeys(spec["complex"], largest)
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
    return {i: scale for part in parts for i, scale in _complex_scales(part, expected).items()}


def _flushed(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    small = tensor.abs() < torch.finfo(torch.float32).tiny
    return tensor.masked_fill(small, 0) if small.any() else tensor
