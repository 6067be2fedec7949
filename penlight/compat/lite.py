"""torch.jit.mobile: opens what phones were given and runs it; tells the operators, types and versions in it.

Files are told apart by content: .pen, .ptl (zip and flatbuffer), and TorchScript .pt, which PyTorch's own loader refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penlight.compat.compiled_module import CompiledModule, read_extra_files
from penlight.errors import ArgumentError, CaptureError, InputError
from penlight.file_kinds import WORDS, file_kind
from penlight.ir.script import OPERATORS
from penlight.paths import check_path

if TYPE_CHECKING:
    from penlight.capture.lite.program import LiteProgram
    from penlight.model import Model

__all__ = [
    "LiteScriptModule", "OperatorInfo", "_export_operator_list", "_get_mobile_model_contained_types", "_get_model_bytecode_version",
    "_get_model_ops_and_info", "_load_for_lite_interpreter",
]  # fmt: skip

File = str | os.PathLike[str] | IO[bytes]


class LiteScriptModule(CompiledModule):
    """A loaded model. Methods are called by name, `forward` also by calling the module."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._c = self  # PyTorch's functions look there

    @property
    def operators(self) -> frozenset[str]:
        return frozenset(self.model.metadata.get(OPERATORS, ()))


@dataclass(frozen=True)
class OperatorInfo:
    num_schema_args: int | None  # how many arguments the file gives it; None: all, or not said


def _load_for_lite_interpreter(
    f: File, map_location: Any = None, _extra_files: dict[str, Any] | None = None
) -> LiteScriptModule:
    """Loads a model: a path, or a file opened for reading. The names in _extra_files get the bytes of the files stored beside it."""
    loaded = LiteScriptModule(_model(f, map_location))
    read_extra_files(loaded.model, _extra_files)
    return loaded


def _model(f: File | bytes, map_location: Any = None) -> Model:
    import penlight

    source = _opened(f)
    device = _location(map_location)
    if file_kind(source) == "pen":
        return penlight.load(source, device=device)
    from penlight.capture.script import torch_module
    from penlight.compile import carried_files, compile_model, open_source
    from penlight.file.writer import to_array
    from penlight.model import Model

    methods: list[str] | None = None
    opened: Any
    if file_kind(source) == "torchscript":
        opened = open_source(source)
        methods, module = list(opened.methods), torch_module(opened)
        operators = sorted(torch_names(module) if module is not None else opened.script().operators)
    else:
        opened = _program(source)
        operators = sorted(operators_of(opened))
    metadata = {"name": _name(source), OPERATORS: operators, **carried_files(source, opened)}
    # Interpreted, which is ready at once; who wants it planned has penlight.optimize.
    program = compile_model(opened, methods=methods, plan=False, allow_missing=True, metadata=metadata)
    return Model(to_array(program), device=device)


def _export_operator_list(module: Any) -> set[str]:
    """Names of the operators that any method calls, with overload."""
    return set(module._c.operators)


def _get_model_bytecode_version(f_input: File) -> int:
    """4 … 9, or -1 where the file has no bytecode."""
    from penlight.capture.lite.read import bytecode_version

    source = _opened(f_input)
    return bytecode_version(source) if file_kind(source) in ("zip", "flatbuffer") else -1


def _get_mobile_model_contained_types(f_input: File) -> set[str]:
    """Names in the types that the bytecode builds and tests for: {"List", "int", "Tensor"}."""
    from penlight.capture.lite.read import contained_types

    return contained_types(_program(_opened(f_input)))


def _get_model_ops_and_info(f_input: File) -> dict[str, OperatorInfo]:
    """The operators that the model's code calls, and how many arguments it gives them."""
    source = _opened(f_input)
    if file_kind(source) == "pen":
        import penlight

        return {name: OperatorInfo(None) for name in penlight.load(source).metadata.get(OPERATORS, ())}
    return {name: OperatorInfo(count) for name, count in operators_of(_program(source)).items()}


def _name(source: str | bytes) -> str:
    return Path(source).stem if isinstance(source, str) else ""


def torch_names(module: Any) -> list[str]:
    """The operators that PyTorch's bytecode of a module would call."""
    import torch

    return list(torch._C._export_opnames(module._c))  # type: ignore[attr-defined]


def operators_of(program: LiteProgram) -> dict[str, int | None]:
    from penlight.capture.lite.read import operators

    return operators(program)


def _opened(f: Any) -> str | bytes:
    """A path that exists, or the bytes of an open file."""
    if isinstance(f, (str, os.PathLike)):
        check_path(f)
        if not os.path.exists(f):
            raise ArgumentError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ArgumentError(f"The provided filename {f} is a directory")
        return os.fsdecode(f)
    if hasattr(f, "read"):
        f = f.read()
    if not isinstance(f, (bytes, bytearray, memoryview)):
        raise InputError(f"expected a path, or a file opened for reading in binary, got {type(f).__name__}")
    return bytes(f)


def _location(location: Any) -> str:
    """The device that a map_location names."""
    name = "cpu" if location is None else str(location).lower()
    kind = name.partition(":")[0]
    if kind not in ("cpu", "vulkan"):
        raise ArgumentError(f"map_location: expected 'cpu', 'vulkan' or None, got {str(location)!r}")
    return "cpu" if kind == "cpu" else name


def _program(source: str | bytes) -> LiteProgram:
    """The bytecode in a file; that of TorchScript is made by torch."""
    from penlight.capture.lite.read import read

    kind = file_kind(source)
    if kind in ("zip", "flatbuffer"):
        return read(source)
    if kind == "torchscript":
        return read(_torchscript(source)._c._save_to_buffer_for_mobile())
    name = source if isinstance(source, str) else "the model"
    raise CaptureError(f"{name}: expected a .pen, .ptl or TorchScript file, got {WORDS[kind]}")


def _torchscript(source: str | bytes) -> Any:
    """As torch opens it, where all that it runs then is computation (capture/trust.py)."""
    from penlight.capture.script import torch_module
    from penlight.capture.source import SourceProgram

    script = torch_module(SourceProgram(source), must=True)
    if script is None:
        name = source if isinstance(source, str) else "the model"
        raise CaptureError(
            f"{name}: torch cannot open this TorchScript file: it is not installed, or lacks a class or an operator of it"
        )
    return script.eval()
