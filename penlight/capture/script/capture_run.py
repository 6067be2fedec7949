"""A script, or a part of one, run by a ScriptMachine under torch.export → a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx.traceback

from penlight.capture.export import nn_module
from penlight.capture.script.machine import ScriptMachine
from penlight.errors import CaptureError
from penlight.ir.graph import Method


def capture_run(
    machine: ScriptMachine,
    names: Sequence[str],
    inputs: tuple[Any, ...],
    dynamic_shapes: Any,
    run: Callable[..., Any],
    say: Callable[[str], None] = lambda text: None,
) -> Method:
    """What `run` computes with the machine, as a graph. torch.export takes the names of inputs from a function's signature: one
    with these names is made."""
    scope: dict[str, Any] = {"run": run}
    exec(f"def forward({', '.join(names)}):\n    return run({', '.join(names)})\n", scope)
    object.__setattr__(machine, "forward", scope["forward"])
    with torch.fx.traceback.preserve_node_meta():
        method = nn_module.capture_shapes(machine, inputs, {}, dynamic_shapes, machine.decided, say).methods["forward"]
    if method.states:  # the module's, which its other methods may look at: a plan's would be its own
        raise CaptureError(f"the model keeps state: its code changes {', '.join(s.name for s in method.states)}")
    return method
