"""A PyTorch model in, a Program (penlight.ir) out; one file per kind of source.

    program = capture(model, (x,))                                  # nn.Module, in eval mode
    program = capture(model, (x,), dynamic_shapes="auto")           # all sizes may vary
    program = capture("model.pt", (x,))                             # TorchScript
    program = capture(torch.export.export(model, (x,)))             # ExportedProgram, or the path of a .pt2

torch is imported only when something is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penlight.errors import CaptureError

if TYPE_CHECKING:
    from penlight.ir.graph import Program


def capture(
    source: Any,
    example_inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    methods: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Program:
    """The Program of a model.

    source: an nn.Module, an ExportedProgram, a ScriptModule, or the path of a TorchScript .pt or an exported .pt2 file.
    example_inputs, kwargs: what the model is called with: a tuple of tensors (and containers and constants). Not needed for
        an ExportedProgram, for a traced model that still knows its input shapes, or for one with bundled inputs.
    dynamic_shapes: None (the shapes of the examples), "auto" (every size above 1 may vary, unless the model's code fixes
        it), or what torch.export.export takes.
    methods: of TorchScript: which methods to keep; None: forward, of a .ptl file all.
    say: called with a line of text where something is worth knowing.
    """
    if isinstance(source, (str, Path)):
        return _capture_file(Path(source), example_inputs, kwargs, dynamic_shapes, methods, say)
    import torch
    from torch.export import ExportedProgram

    if isinstance(source, ExportedProgram):
        from penlight.capture.export.exported_program import capture_exported

        if dynamic_shapes is not None:
            raise CaptureError("an ExportedProgram has its dynamic shapes already; give them to torch.export.export")
        return capture_exported(source)
    if isinstance(source, torch.jit.ScriptModule):
        from penlight.capture.torchscript import capture_torchscript

        return capture_torchscript(source, example_inputs, kwargs, dynamic_shapes, methods, say)
    if methods is not None and list(methods) != ["forward"]:
        raise CaptureError("only TorchScript has methods to keep: torch.jit.script(model) first")
    if isinstance(source, torch.nn.Module):
        from penlight.capture.export.nn_module import capture_module

        if example_inputs is None and not kwargs:
            raise CaptureError("an nn.Module needs example inputs to be captured with: capture(module, (x,))")
        return capture_module(source, () if example_inputs is None else example_inputs, kwargs, dynamic_shapes)
    raise TypeError(
        f"cannot capture a {type(source).__name__}; expected an nn.Module, an ExportedProgram (torch.export), a ScriptModule"
        " (torch.jit), or the path of a .pt or .pt2 file"
    )


def _capture_file(
    path: Path,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    methods: Sequence[str] | None,
    say: Callable[[str], None],
) -> Program:
    """Files are told apart by what is in them, not by their names."""
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    kind = _file_kind(path)
    if kind == "exported":
        import torch

        return capture(torch.export.load(str(path)), dynamic_shapes=dynamic_shapes)
    if kind == "torchscript":
        from penlight.capture.torchscript import capture_torchscript

        return capture_torchscript(path, example_inputs, kwargs, dynamic_shapes, methods, say)
    if kind == "lite":
        from penlight.capture.script.plan import capture_lite

        return capture_lite(path, example_inputs, kwargs, dynamic_shapes, methods, say)
    raise CaptureError(f"{path}: {kind}")


def _file_kind(path: Path) -> str:
    """What is in the file: "torchscript", "lite", "exported", or in words why it is none of them."""
    import zipfile

    expected = "expected a TorchScript file (torch.jit.save), a .ptl file or an exported program (torch.export.save)"
    with path.open("rb") as file:
        if file.read(8)[4:] == b"PTMF":
            return "lite"
    if not zipfile.is_zipfile(path):
        return f"this is no model file that PyTorch wrote; {expected}"
    with zipfile.ZipFile(path) as archive:
        names = [n.partition("/")[2] or n for n in archive.namelist()]
    if any(n.startswith("models/") or n == "serialized_exported_program.json" for n in names):
        return "exported"
    if "bytecode.pkl" in names:  # beside code/, which is for torch.jit.load
        return "lite"
    if any(n.startswith("code/") for n in names):
        return "torchscript"
    if "data.pkl" in names:
        return f"a pickle of torch.save (weights or a module), which holds no graph: load it and pass the module; {expected}"
    return f"a zip file of another kind; {expected}"
