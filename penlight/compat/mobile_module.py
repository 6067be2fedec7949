"""What optimize_for_mobile gives back: PyTorch Mobile's names on a compiled Penlight model.

It is called, asked and saved like the ScriptModule that PyTorch gave. What it writes, under any name, is a .pen file. `_c` is
the graph as PyTorch's optimizer would have left it: torch.jit.export_opnames reads its operators.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from penlight.compat import rewrite
from penlight.compat.bundled import Bundles, bundles_in
from penlight.compat.lite import as_torch
from penlight.file.writer import to_array
from penlight.model import Model

if TYPE_CHECKING:
    from penlight.ir.graph import Program
    from penlight.ir.script import Bundle

FLAGS = {"cpu": "mobile_optimized", "vulkan": "optimized_for_vulkan", "metal": "optimized_for_metal"}
EXTRA_FILES = "extra_files"  # key in the metadata


class MobileModule:
    """A model for phones. Call it like the module that it came from; methods that were kept are attributes.

    >>> m = optimize_for_mobile(torch.jit.script(model))
    >>> m(image)
    >>> m._save_for_lite_interpreter("model.ptl")
    """

    def __init__(
        self,
        script: torch.jit.ScriptModule,
        optimized: Any,
        program: Program,
        methods: tuple[str, ...],
        attributes: Mapping[str, Any],
        backend: str,
        blocked: frozenset[str],
    ) -> None:
        """script: in eval mode, for itself alone. optimized: its graph as PyTorch would have left it. program: the module compiled.
        attributes: those of the module that stay readable."""
        self._script = script
        self._c = optimized
        self._program = program
        self._methods = methods
        self._attributes = dict(attributes)
        self.backend = backend
        self.model = Model(to_array(program))
        self.training = False
        setattr(self, FLAGS[backend], True)
        if backend == "vulkan" and rewrite.VULKAN_AUTOMATIC_GPU_TRANSFER not in blocked:
            self.requires_backend_transfers = False

    # --- running ---
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if "forward" not in self._methods:
            raise NotImplementedError(f"this module has no method forward; it has {', '.join(self._methods)}")
        return self.run_method("forward", *args, **kwargs)

    def run_method(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return as_torch(self.model.run_method(name, *args, **kwargs))

    def find_method(self, name: str) -> bool:
        return name in self._methods

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            if name in self.__dict__.get("_methods", ()):
                method = functools.partial(self.run_method, name)
                method.__name__ = name  # type: ignore[attr-defined]
                return method
            if name in self.__dict__.get("_attributes", ()):
                return self._attributes[name]
            if "model" in self.__dict__ and (found := self._bundles.method(self, name)) is not None:
                return found
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}; methods that should stay go into preserved_methods"
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._methods, *self._attributes, *self._bundles.method_names()})

    def eval(self) -> MobileModule:
        return self

    def train(self, mode: bool = True) -> MobileModule:
        if mode:
            raise RuntimeError(
                "a module optimized for mobile is for inference: it has no gradients and no dropout left"
            )
        return self

    def __repr__(self) -> str:
        return f"<MobileModule for {self.backend}: {', '.join(self._methods)}; {self.model!r}>"

    # --- what it is ---
    @property
    def graph(self) -> Any:
        return self._c._get_method("forward").graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        return str(torch.jit._recursive.wrap_cpp_module(self._c).code)

    def export_opnames(self) -> list[str]:
        """Names of the operators, as torch.jit.export_opnames gives them."""
        return list(torch._C._export_opnames(self._c))  # type: ignore[attr-defined]

    # --- saving ---
    def save(self, f: str | os.PathLike[str], _extra_files: Mapping[str, str | bytes] | None = None) -> None:
        self._with(_extra_files).save(Path(f))

    def save_to_buffer(self, _extra_files: Mapping[str, str | bytes] | None = None) -> bytes:
        return self._with(_extra_files).to_bytes()

    def _save_for_lite_interpreter(
        self,
        f: str | os.PathLike[str],
        _extra_files: Mapping[str, str | bytes] | None = None,
        _save_mobile_debug_info: bool = False,
        _use_flatbuffer: bool = False,
    ) -> None:
        """Writes a .pen file. It always has its source lines (debug info), and is mapped like a flatbuffer."""
        self.save(f, _extra_files)

    def _save_to_buffer_for_lite_interpreter(
        self,
        _extra_files: Mapping[str, str | bytes] | None = None,
        _save_mobile_debug_info: bool = False,
        _use_flatbuffer: bool = False,
    ) -> bytes:
        return self.save_to_buffer(_extra_files)

    def _with(self, extra_files: Mapping[str, str | bytes] | None) -> Model:
        """The model, with these files in its metadata."""
        if not extra_files:
            return self.model
        files = {name: _as_json(content) for name, content in extra_files.items()}
        metadata = {**self._program.metadata, EXTRA_FILES: files}
        return Model(to_array(dataclasses.replace(self._program, metadata=metadata)))

    @property
    def _bundles(self) -> Bundles:
        return bundles_in(self.model)

    def _bundle(self, bundles: list[Bundle]) -> None:
        """Takes other bundled inputs, for the file too."""
        self._program = dataclasses.replace(self._program, bundles=bundles)
        self.model = Model(to_array(self._program))


def _as_json(content: str | bytes) -> Any:
    """A file's content in JSON: its text, or bytes in base 64 where they are none."""
    if isinstance(content, str):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
