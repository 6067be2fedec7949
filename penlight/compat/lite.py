"""torch.jit.mobile: opens what phones were given and runs it; tells the operators, types and versions in it.

Files are told apart by content: .pen, .ptl (zip and flatbuffer), and TorchScript .pt, which PyTorch's own loader refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penlight.capture.file_kinds import WORDS, file_kind
from penlight.errors import CaptureError

if TYPE_CHECKING:
    from penlight.capture.lite.program import LiteProgram
    from penlight.model import Model

__all__ = [
    "LiteScriptModule", "OperatorInfo", "_export_operator_list", "_get_mobile_model_contained_types", "_get_model_bytecode_version",
    "_get_model_ops_and_info", "_load_for_lite_interpreter",
]  # fmt: skip

File = str | os.PathLike[str] | IO[bytes]
OPERATORS = "torch_operators"  # key in a .pen's metadata: what PyTorch's lite interpreter would call


class LiteScriptModule:
    """A loaded model. Methods are called by name, `forward` also by calling the module."""

    def __init__(self, model: Model, operators: Iterable[str]) -> None:
        self._c = self  # PyTorch's functions look there
        self.model = model
        self.operators = frozenset(operators)

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)

    def forward(self, *args: Any) -> Any:
        return self.run_method("forward", *args)

    def find_method(self, method_name: str) -> bool:
        return method_name in self.model.methods or method_name in self._bundles.method_names()

    def run_method(self, method_name: str, *args: Any) -> Any:
        if method_name not in self.model.methods:
            found = self._bundles.method(self, method_name)
            if found is None:
                raise RuntimeError(f"Method '{method_name}' is not defined.")
            return found(*args)
        result = self.model.run_method(method_name, *args)
        return as_torch(result) if sys.modules.get("torch") is not None else result

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and "model" in self.__dict__ and self.find_method(name):
            return lambda *args: self.run_method(name, *args)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _bundles(self) -> Any:
        from penlight.compat.bundled import bundles_in

        return bundles_in(self.model)


@dataclass(frozen=True)
class OperatorInfo:
    num_schema_args: int | None  # how many arguments the file gives it; None: all, or not said


def _load_for_lite_interpreter(f: File, map_location: Any = None) -> LiteScriptModule:
    """Loads a model: a path, or a file opened for reading."""
    import penlight

    source = _opened(f)
    _check_location(map_location)
    kind = file_kind(source)
    if kind == "pen":
        model = penlight.load(source)
        return LiteScriptModule(model, model.metadata.get(OPERATORS, ()))
    program = _program(source)
    return LiteScriptModule(_compile(source, kind, program), operators_of(program))


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


def operators_of(program: LiteProgram) -> dict[str, int | None]:
    from penlight.capture.lite.read import operators

    return operators(program)


def _opened(f: Any) -> str | bytes:
    """A path that exists, or the bytes of an open file."""
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
        return os.fspath(f)
    if isinstance(f, (bytes, bytearray, memoryview)):
        return bytes(f)
    return bytes(f.read())


def _check_location(location: Any) -> None:
    if location is not None and str(location).partition(":")[0] != "cpu":
        raise ValueError(f"map_location: expected 'cpu' or None, got {str(location)!r}; Penlight runs on the CPU here")


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
    import io

    import torch

    from penlight.capture.quiet import quiet

    with quiet():
        script = torch.jit.load(io.BytesIO(source) if isinstance(source, bytes) else source, map_location="cpu")
    script.eval()
    return script


def _compile(source: str | bytes, kind: str, program: LiteProgram) -> Model:
    """.ptl files need no torch; a module of TorchScript is planned where it can be."""
    metadata = {"name": Path(source).stem if isinstance(source, str) else "", OPERATORS: sorted(operators_of(program))}
    if kind == "torchscript":
        from penlight.compat.bundled import bundles_of
        from penlight.compat.compile import compile_script

        script = _torchscript(source)
        bundles = bundles_of(script)
        methods = [name for name in program.methods if not name.startswith("__")]
        return compile_script(script, methods, metadata, bundles)
    from penlight.compat.compile import compile_program

    return compile_program(program, metadata)


def as_torch(value: Any) -> Any:
    """With torch tensors for numpy arrays: what PyTorch's functions give, also where no tensor went in."""
    import numpy as np
    import torch

    if isinstance(value, np.ndarray):
        return torch.from_numpy(value if value.flags.writeable else value.copy())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(as_torch(v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(as_torch(v) for v in value)
    if isinstance(value, dict):
        return {k: as_torch(v) for k, v in value.items()}
    return value
