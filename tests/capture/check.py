"""Captured graphs against torch, without the runtime: what capture makes of a model must compute what the model computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from penlight.capture import capture
from penlight.ir import containers
from penlight.ir.graph import Method
from penlight.ir.verify import verify
from tests.compare import assert_same
from tests.passes.reference import run_graph


def captured(source: Any, *args: Any, **options: Any) -> Method:
    program = capture(source, *args, **options)
    verify(program)
    return program.methods["forward"]


def run(method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """Runs the graph with torch's operators, inside the containers of its specs."""
    leaves = containers.flatten(method.input_spec, args, kwargs)
    sizes: dict[str, int] = {}
    for value, leaf in zip(method.graph.inputs, leaves, strict=True):
        sizes.update({str(d): n for d, n in zip(value.shape, leaf.shape, strict=True)})
    return containers.unflatten(method.output_spec, run_graph(method.graph, leaves), sizes)


def assert_captures(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    *more: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    source: Any = None,
) -> Method:
    """Captures `source` (or the module itself) with `args` and compares on `args` and on each of `more`."""
    method = captured(source if source is not None else module, args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
    module.eval()
    for inputs in (args, *more):
        with torch.no_grad():
            expected = module(*inputs, **(kwargs or {}))
        assert_same(run(method, inputs, kwargs), expected, 1e-5)
    return method


def ops_of(method: Method) -> list[str]:
    return [node.op for node in method.graph.nodes]
