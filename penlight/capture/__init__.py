"""A PyTorch model in, a Program (penlight.ir) out. One folder for each source, and one for what follows on scripts:

    export/   torch.export: an nn.Module, an ExportedProgram or a .pt2 file becomes a Graph
    source/   TorchScript .pt files become register code (ir/script.py), without torch
    lite/     .ptl files of PyTorch Mobile become register code, without torch
    script/   register code is run in Python, to find out which of it can be planned as Graphs

torch is imported only when something is captured; without it, .pt and .ptl files are interpreted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penlight.capture.lite.program import LiteProgram
from penlight.capture.script import capture_script
from penlight.capture.source import SourceProgram
from penlight.errors import CaptureError
from penlight.file_kinds import WORDS, file_kind

if TYPE_CHECKING:
    from penlight.ir.graph import Program
    from penlight.ir.script import Bundle, Script

Say = Callable[[str], None]
Run = Callable[["Script", tuple[Any, ...]], None]


def capture(
    source: Any,
    example_inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    methods: Sequence[str] | None = None,
    bundles: Sequence[Bundle] = (),
    plan: bool = True,
    trust: bool = False,
    say: Say = lambda text: None,
    run: Run | None = None,
) -> Program:
    """The Program of a model.

    source: an nn.Module, an ExportedProgram, a ScriptModule, or the path or the bytes of a TorchScript .pt, a .ptl or an exported .pt2.
    example_inputs, kwargs: what the model is called with: a tuple of tensors (and containers and constants). Scripts do without:
        then those are taken that come with the model, or can be guessed.
    dynamic_shapes: None (the shapes of the examples; free where nobody gave any), "auto" (every size may vary, unless the
        model's code fixes it), or what torch.export.export takes.
    methods: of scripts: which methods to keep; None: forward, of a .ptl file all.
    bundles: inputs that come with the model, to plan a script for.
    plan: False: scripts are interpreted as they are, which is ready at once.
    trust: whether a file may do what a program may.
    say: called with a line of text where something is worth knowing.
    run: runs a script from a .pt within limits, to tell whether examples are right that capture fails on.
    """
    if isinstance(source, (str, os.PathLike, bytes)):
        source = open_file(source, file_kind(source), trust)
    if isinstance(source, (LiteProgram, SourceProgram)):
        return capture_script(source, example_inputs, kwargs, dynamic_shapes, methods, bundles, plan, say, run)
    import torch
    from torch.export import ExportedProgram

    if isinstance(source, torch.jit.ScriptModule):
        return capture_script(source, example_inputs, kwargs, dynamic_shapes, methods, bundles, plan, say)
    if methods is not None and list(methods) != ["forward"]:
        raise CaptureError("only TorchScript has methods to keep: torch.jit.script(model) first")
    if isinstance(source, ExportedProgram):
        from penlight.capture.export.exported_program import capture_exported

        if dynamic_shapes is not None:
            raise CaptureError("an ExportedProgram has its dynamic shapes already; give them to torch.export.export")
        return capture_exported(source)
    if isinstance(source, torch.nn.Module):
        from penlight.capture.export.nn_module import capture_module

        if example_inputs is None and not kwargs:
            raise CaptureError("an nn.Module needs example inputs to be captured with: capture(module, (x,))")
        from penlight.capture.script.packed_modules import as_script, is_packed

        if is_packed(source):
            script = as_script(source, example_inputs, kwargs, say)
            return capture_script(script, example_inputs, kwargs, dynamic_shapes, methods, bundles, plan, say)
        return capture_module(source, () if example_inputs is None else example_inputs, kwargs, dynamic_shapes, say)
    raise TypeError(
        f"cannot capture a {type(source).__name__}; expected an nn.Module, an ExportedProgram (torch.export), a ScriptModule"
        " (torch.jit), or the path of a .pt, .ptl or .pt2 file"
    )


def open_file(source: str | os.PathLike[str] | bytes, kind: str, trust: bool = False) -> Any:
    """What a file holds: a LiteProgram, a SourceProgram, or an ExportedProgram. `kind` is what file_kind says of it; `trust`: the file may
    do what a program may (capture/trust.py)."""
    if kind in ("zip", "flatbuffer"):
        from penlight.capture.lite.read import read

        return read(source)
    if kind == "torchscript":
        return SourceProgram(source, trust)
    if kind == "exported":
        from penlight.capture.export.pt2_file import open_exported
        from penlight.capture.lite.read import opened

        return open_exported(*opened(source), trust)
    where = "the model" if isinstance(source, bytes) else os.fspath(source)
    raise CaptureError(
        f"{where}: expected a TorchScript file (torch.jit.save), a .ptl file or an exported program (torch.export.save), got"
        f" {WORDS[kind]}"
    )
