"""What a torch model computes on the way: every operator's results, for comparing them with the kernels of the file made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from penlight.agreement import Call


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[str, np.ndarray]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (list, tuple)) else [result]:
            if (
                isinstance(value, torch.Tensor) and value.is_floating_point()
            ):  # a copy: it may be written in place later
                self.values.append(
                    (str(func).removeprefix("aten.").removesuffix(".default"), value.detach().float().numpy().copy())
                )
        return result


def torch_values(
    source: Path, method: str, call: Call, layers: bool, trust: bool = False
) -> tuple[Any, list[tuple[str, np.ndarray]]]:
    """The model's outputs, and with `layers` all values in between, by operator."""
    from penlight.compile import _original, open_source

    opened = open_source(source, trust)
    if isinstance(opened, torch.export.ExportedProgram):
        opened = opened.module()
    module = _original(opened, must=True)
    if module is None:
        raise click.ClickException(f"{source}: torch cannot run it, so there is nothing to compare with")
    run = module if method == "forward" else getattr(module, method)
    args = [_as_torch(a) for a in call[0]]
    kwargs = {name: _as_torch(a) for name, a in call[1].items()}
    recorder = _Recorder()
    with torch.no_grad(), torch.jit.optimized_execution(False):
        if not layers:
            return run(*args, **kwargs), []
        with recorder:
            outputs = run(*args, **kwargs)
    return outputs, recorder.values


def _as_torch(value: Any) -> Any:
    from penlight.vm_module import as_torch

    return as_torch(value)
