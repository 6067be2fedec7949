"""What optimize_for_mobile gives back: PyTorch Mobile's names on a compiled Penlight model.

It is called, asked and saved like the ScriptModule that PyTorch gave. What it writes, under any name, is a .pen file. `_c` is
the graph as PyTorch's optimizer would have left it: torch.jit.export_opnames reads its operators.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from penlight.compat import rewrite
from penlight.compat.compiled_module import CompiledModule
from penlight.file.writer import to_array
from penlight.model import Model

if TYPE_CHECKING:
    from penlight.ir.graph import Program
    from penlight.ir.script import Bundle

FLAGS = {"cpu": "mobile_optimized", "vulkan": "optimized_for_vulkan", "metal": "optimized_for_metal"}


class MobileModule(CompiledModule):
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
        super().__init__(Model(to_array(program)))
        self._script = script
        self._c = optimized
        self._program = program
        self._methods = methods
        self._attributes = dict(attributes)
        self.backend = backend
        setattr(self, FLAGS[backend], True)
        self._moves = rewrite.VULKAN_AUTOMATIC_GPU_TRANSFER not in blocked
        if backend == "vulkan" and rewrite.VULKAN_AUTOMATIC_GPU_TRANSFER not in blocked:
            self.requires_backend_transfers = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if "forward" not in self._methods:
            raise NotImplementedError(f"this module has no method forward; it has {', '.join(self._methods)}")
        return self.run_method("forward", *args, **kwargs)

    def find_method(self, method_name: str) -> bool:
        return method_name in self._methods or method_name in self._bundles.method_names()

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_attributes", ()):
            return self._attributes[name]
        try:
            return super().__getattr__(name)
        except AttributeError as e:
            raise AttributeError(f"{e}; methods that should stay go into preserved_methods") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._attributes})

    def __repr__(self) -> str:
        return f"<MobileModule for {self.backend}: {', '.join(self._methods)}; {self.model!r}>"

    # --- what it is ---
    @property
    def _frozen(self) -> Any:
        return torch.jit._recursive.wrap_cpp_module(self._c)

    @property
    def graph(self) -> Any:
        return self._c._get_method("forward").graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        return str(self._frozen.code)

    def export_opnames(self) -> list[str]:
        """Names of the operators, as torch.jit.export_opnames gives them."""
        return list(torch._C._export_opnames(self._c))  # type: ignore[attr-defined]

    # What freezing has left: attributes that code changes, or that were to be kept.
    def state_dict(self, *args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        found: OrderedDict[str, Any] = self._frozen.state_dict(*args, **kwargs)
        return found

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        yield from self._frozen.named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        yield from self._frozen.named_buffers(*args, **kwargs)

    def _bundle(self, bundles: list[Bundle]) -> None:
        """Takes other bundled inputs, for the file too."""
        self._program = dataclasses.replace(self._program, bundles=bundles)
        self.model = Model(to_array(self._program))
        self.__dict__.pop("_bundles", None)
