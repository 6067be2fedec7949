"""How quant runs graphs, without knowing how they are compiled: a function that takes a graph and gives a callable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from penlight.ir.graph import Graph, Value

Leaves: TypeAlias = Sequence[np.ndarray]
"""The inputs of a graph, in their order."""
Runnable: TypeAlias = Callable[[Leaves], list[np.ndarray]]
Execute: TypeAlias = Callable[[Graph], Runnable]


def with_outputs(graph: Graph, names: Sequence[str]) -> Graph:
    """A copy that gives the values of these names instead of its own outputs."""
    copy = graph.copy()
    known = values_by_name(copy)
    copy.outputs = [known[name] for name in names]
    return copy


def values_by_name(graph: Graph) -> dict[str, Value]:
    return {v.name: v for v in [*graph.inputs, *(out for node in graph.nodes for out in node.outputs)]}
