"""Graphs on quantized tensors, from their text, under every instruction set of this machine and on one thread and two: `run` gives the
one result, after it has seen that all give the same bits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import torch

import penlight
from penlight import _runtime
from penlight.file.writer import to_array
from penlight.ir import parse_graph
from penlight.ir.graph import Method, Program
from penlight.ir.verify import verify
from penlight.lower import lower
from penlight.passes import layout

ISAS = tuple(str(isa) for isa in _runtime.isas())


def _file(text: str, inputs: Sequence[np.ndarray], constants: dict[str, np.ndarray]) -> np.ndarray:
    graph = parse_graph(textwrap.dedent(text), constants)
    verify(graph)
    if " nhwc" not in text:  # else it says itself how everything lies
        layout.run(graph)
        verify(graph)
    program = Program({"forward": Method(graph, {"args": list(range(len(graph.inputs))), "kwargs": {}}, 0)})
    return to_array(lower(program))


def model(text: str, *, isa: str | None = None, threads: int = 1, **constants: np.ndarray) -> penlight.Model:
    return penlight.Model(_file(text, (), constants), isa=isa, threads=threads)


def run(text: str, *inputs: np.ndarray, **constants: np.ndarray) -> np.ndarray:
    data = _file(text, inputs, constants)
    result: np.ndarray | None = None
    for isa in ISAS:
        for threads in (1, 2):
            y = penlight.Model(data, isa=isa, threads=threads)(*inputs)
            if result is None:
                result = y
            np.testing.assert_array_equal(y, result, err_msg=f"{isa}, {threads} threads")
    assert result is not None
    return result


def stored(x: torch.Tensor) -> np.ndarray:
    return x.int_repr().numpy()


def quantized(values: np.ndarray, scale: float, zero: int) -> torch.Tensor:
    """A quantized tensor of these stored bytes."""
    return torch._make_per_tensor_quantized_tensor(torch.from_numpy(values), scale, zero)


def u8(shape: Sequence[int], scale: float, zero: int) -> str:
    """A type as the text form has it."""
    return f"u8[{', '.join(map(str, shape))}] q({scale!r}, {zero})"
