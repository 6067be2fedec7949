"""A compiled model under the names that modules of PyTorch Mobile have: methods, bundled inputs, saving, and those of nn.Module that
still mean something. PyTorch froze a module when it optimized it for phones, so its parameters are constants of the code and
`parameters()`, `state_dict()` and the rest are empty: here too.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

import penlight
from penlight.compat.bundled import Bundles
from penlight.file.metadata import EXTRA_FILES, stored_files
from penlight.tensor import Tensor
from penlight.vm_module import as_torch, is_protocol

if TYPE_CHECKING:
    from penlight.model import Model

ExtraFiles = Mapping[str, str | bytes] | None


@functools.cache
def _has_gpu() -> bool:
    """A device that is no processor in disguise."""
    return any(device["type"] != "CPU" and not device["unfit"] for device in penlight.vulkan_devices())


class CompiledModule:
    """Call it like the module that it came from; its methods are attributes."""

    training = False
    _moves = True  # whether one for Vulkan takes torch's tensors there by itself

    def __init__(self, model: Model) -> None:
        self.model = model
        self._elsewhere: dict[str, Model] = {}  # by device

    @functools.cached_property
    def _bundles(self) -> Bundles:
        return Bundles.of(self.model)

    # --- running ---
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run_method("forward", *args, **kwargs)

    def run_method(self, method_name: str, /, *args: Any, **kwargs: Any) -> Any:
        if method_name not in self.model.methods:
            found = self._bundles.method(self, method_name)
            if found is None:
                raise RuntimeError(f"Method '{method_name}' is not defined.")
            return found(*args)
        result = self._model_for(args, kwargs).run_method(method_name, *args, **kwargs)
        return as_torch(result) if sys.modules.get("torch") is not None else result

    def _model_for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Model:
        """The model where its tensors live, as in torch. torch's own stay on the CPU, but for a model that was optimized for Vulkan: it takes
        them to the GPU and its results back, as PyTorch's did, unless that was blocked; a GPU in software has to be asked for."""
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor) and value.buffer is not None and value.device != self.model.device:
                if value.device not in self._elsewhere:
                    self._elsewhere[value.device] = self.model.on(value.device)
                return self._elsewhere[value.device]
        if self._moves and self.model.device == "cpu" and self.model.metadata.get("backend") == "vulkan" and _has_gpu():
            if "vulkan" not in self._elsewhere:
                self._elsewhere["vulkan"] = self.model.on("vulkan")
            return self._elsewhere["vulkan"]
        return self.model

    def find_method(self, method_name: str) -> bool:
        return method_name in self.model.methods or method_name in self._bundles.method_names()

    def __getattr__(self, name: str) -> Any:
        if not is_protocol(name) and "model" in self.__dict__ and self.find_method(name):
            method = functools.partial(self.run_method, name)
            method.__name__ = name  # type: ignore[attr-defined]
            return method
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.model.methods, *self._bundles.method_names()})

    # --- as an nn.Module ---
    def eval(self) -> Any:
        return self

    def train(self, mode: bool = True) -> Any:
        if mode:
            raise RuntimeError(
                "a module optimized for mobile is for inference: it has no gradients and no dropout left"
            )
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Itself, on the CPU or a Vulkan device, and with the dtypes that it has; anything else is an error."""
        for value in (*args, *kwargs.values()):
            if value is None or isinstance(value, bool) or str(value).startswith("torch.preserve_format"):
                continue
            if str(value).lower().partition(":")[0] == "vulkan" and penlight.is_vulkan_available():
                self.model = self.model.on(str(value))
                continue
            if str(value).partition(":")[0] not in ("cpu", "torch.float32"):
                raise RuntimeError(
                    f"to({value}): a compiled module stays on the CPU, and its weights as they are; change the module before"
                    " it is optimized"
                )
        return self

    def cpu(self) -> Any:
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        return self if not requires_grad else self.train()

    def state_dict(self, *args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        return OrderedDict()

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        return iter(())

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        return iter(())

    def named_children(self) -> Iterator[tuple[str, Any]]:
        return iter(())

    def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        return iter([("", self)])

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        return (value for _, value in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        return (value for _, value in self.named_buffers(recurse=recurse))

    def children(self) -> Iterator[Any]:
        return (value for _, value in self.named_children())

    def modules(self) -> Iterator[Any]:
        return (value for _, value in self.named_modules())

    # --- saving ---
    def save(self, f: str | os.PathLike[str] | IO[bytes], _extra_files: ExtraFiles = None) -> None:
        """Writes a .pen file, whatever its name is."""
        self._with(_extra_files).save(f)

    def save_to_buffer(self, _extra_files: ExtraFiles = None) -> bytes:
        return self._with(_extra_files).to_bytes()

    def _save_for_lite_interpreter(
        self,
        f: str | os.PathLike[str] | IO[bytes],
        _extra_files: ExtraFiles = None,
        _save_mobile_debug_info: bool = False,
        _use_flatbuffer: bool = False,
    ) -> None:
        """Writes a .pen file. It always has its source lines (debug info), and is mapped like a flatbuffer."""
        self.save(f, _extra_files)

    def _save_to_buffer_for_lite_interpreter(
        self, _extra_files: ExtraFiles = None, _save_mobile_debug_info: bool = False, _use_flatbuffer: bool = False
    ) -> bytes:
        return self.save_to_buffer(_extra_files)

    def _with(self, extra_files: ExtraFiles) -> Model:
        """The model, with these files beside those that it carries."""
        if not extra_files:
            return self.model
        carried = self.model.metadata.get(EXTRA_FILES, {})
        return self.model.with_metadata({EXTRA_FILES: {**carried, **stored_files(extra_files)}})


def read_extra_files(model: Model, wanted: dict[str, Any] | None) -> None:
    """As torch's loaders do: each name in the dict gets its file's bytes; none, where there is no such file."""
    for name in wanted or ():
        assert wanted is not None
        wanted[name] = model.extra_files.get(name, b"")
