"""What a torch model computes on the way: every operator's results, for comparing them with the kernels of the file made of it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from penlight.agreement import Call, leaves
from penlight.apart import ApartError, apart

Values: TypeAlias = tuple[list[tuple[str, Any]], list[tuple[str, np.ndarray]]]


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


def torch_values(source: Path, method: str, call: Call, layers: bool, trust: bool = False) -> Values:
    """The model's outputs by name, and with `layers` all values in between, by operator. What a file's own code computes is run apart."""
    from penlight.capture.script import torch_file
    from penlight.capture.source import SourceProgram
    from penlight.compile import open_source

    opened = open_source(source, trust)
    if isinstance(opened, torch.export.ExportedProgram):
        return _values(opened.module(), method, call, layers)
    file = torch_file(opened, must=True) if isinstance(opened, SourceProgram) else None
    if file is None:
        raise click.ClickException(f"{source}: torch cannot run it, so there is nothing to compare with")
    if trust:
        return _values_of_file(file, method, call, layers)
    try:
        return apart(_values_of_file, file, method, call, layers, work=len(file))  # type: ignore[no-any-return]
    except ApartError as e:
        raise click.ClickException(f"{source}: torch does not tell what it gives: {e}") from None


def _values_of_file(file: bytes, method: str, call: Call, layers: bool) -> Values:
    return _values(torch.jit.load(io.BytesIO(file), map_location="cpu"), method, call, layers)


def _values(module: Any, method: str, call: Call, layers: bool) -> Values:
    run = module if method == "forward" else getattr(module, method)
    args = [_as_torch(a) for a in call[0]]
    kwargs = {name: _as_torch(a) for name, a in call[1].items()}
    recorder = _Recorder()
    with torch.no_grad(), torch.jit.optimized_execution(False):
        if not layers:
            return leaves(run(*args, **kwargs)), []
        with recorder:
            outputs = run(*args, **kwargs)
    return leaves(outputs), recorder.values


def _as_torch(value: Any) -> Any:
    from penlight.vm_module import as_torch

    return as_torch(value)
