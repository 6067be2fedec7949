"""torch.jit.load of .pen files, and the lite interpreter's loader for code that imported it before install(): torch's functions call one
function of torch._C for a path, one for bytes, and wrap what these give. TorchScript stays torch's affair.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.jit import _serialization

from penlight.compat.compiled_module import read_extra_files
from penlight.compat.lite import LiteScriptModule, _model
from penlight.file_kinds import file_kind
from penlight.model import Model

LOADERS = [
    "import_ir_module", "import_ir_module_from_buffer", "_load_for_lite_interpreter", "_load_for_lite_interpreter_from_buffer",
]  # fmt: skip
_originals: dict[str, Any] = {name: getattr(torch._C, name) for name in LOADERS[:2]}
_wrap: Any = _serialization.wrap_cpp_module


def _import(name: str) -> Any:
    def import_module(unit: Any, source: Any, map_location: Any, extra_files: dict[str, Any], *options: Any) -> Any:
        if file_kind(source) != "pen":
            return _originals[name](unit, source, map_location, extra_files, *options)
        model = _model(source, map_location)
        read_extra_files(model, extra_files)
        return model

    return import_module


import_ir_module, import_ir_module_from_buffer = map(_import, LOADERS[:2])
_load_for_lite_interpreter = _load_for_lite_interpreter_from_buffer = _model


def wrap_cpp_module(module: Any) -> Any:
    return LiteScriptModule(module) if isinstance(module, Model) else _wrap(module)
