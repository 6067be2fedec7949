"""Runs graphs that are written in text form: parsed, verified, optimized, lowered, written, loaded and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penlight.file.writer import to_array
from penlight.ir.graph import Graph, Method, Program
from penlight.ir.parse import parse_graph
from penlight.lower import lower
from penlight.model import Model
from penlight.passes.pipeline import optimize


def compiled(graph: str | Graph, constants: Mapping[str, np.ndarray] | None = None, **options: Any) -> Model:
    """The model whose forward takes the graph's inputs and gives its outputs as a tuple."""
    return Model(file_of(parse_graph(graph, constants) if isinstance(graph, str) else graph), **options)


def file_of(graph: Graph) -> np.ndarray:
    """The same model, as a file."""
    names = [v.name for v in graph.inputs]
    inputs = {"args": list(range(len(names))), "kwargs": {}, "names": names}
    program = Program({"forward": Method(graph, inputs, {"tuple": list(range(len(graph.outputs)))})})
    optimize(program)
    lower(program)
    return to_array(program)


def run(
    graph: str | Graph, *inputs: np.ndarray, constants: Mapping[str, np.ndarray] | None = None, **options: Any
) -> tuple[np.ndarray, ...]:
    return compiled(graph, constants, **options)(*inputs)  # type: ignore[no-any-return]
