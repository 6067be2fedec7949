"""Puts PyTorch Mobile's functions, as Penlight has them, where torch had them; and takes them away again."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

_ABSENT = object()
_before: list[tuple[Any, str, Any]] = []  # module, name, what was there


def install() -> None:
    """After this, code written for PyTorch Mobile runs on today's torch: torch.utils.mobile_optimizer, torch.utils.bundled_inputs,
    torch.jit.mobile, torch.quantization.fuse_modules and torch.is_vulkan_available are Penlight's, torch.jit.load reads what
    Penlight wrote too, and tensors go to a GPU with .to(device="vulkan") and .vulkan(). Calling it again changes nothing.

    >>> penlight.compat.install()
    >>> from torch.utils.mobile_optimizer import optimize_for_mobile
    """
    if _before:
        return
    import torch

    from penlight.compat import bundled_inputs, lite, load, mobile_optimizer, quantization, vulkan

    for path, source, names in (
        ("torch.utils.mobile_optimizer", mobile_optimizer, mobile_optimizer.__all__),
        ("torch.utils.bundled_inputs", bundled_inputs, bundled_inputs.__all__),
        ("torch.jit.mobile", lite, lite.__all__),
        ("torch.quantization", quantization, quantization.__all__),
        ("torch._C", load, load.LOADERS),
        ("torch.jit._serialization", load, ["wrap_cpp_module"]),
    ):
        module = _module(path)
        for name in names:
            _put(module, name, getattr(source, name))
    _put(torch, "is_vulkan_available", vulkan.is_vulkan_available)
    for name in ("to", "vulkan"):
        _put(torch.Tensor, name, getattr(vulkan, name))


def uninstall() -> None:
    """Puts back what was there before install()."""
    while _before:
        module, name, value = _before.pop()
        if value is _ABSENT:
            delattr(module, name)
        else:
            setattr(module, name, value)


def _put(module: Any, name: str, value: Any) -> None:
    _before.append((module, name, module.__dict__.get(name, _ABSENT)))
    setattr(module, name, value)


def _module(path: str) -> Any:
    """A module of torch; an empty one in its place if this torch has dropped it."""
    try:
        return importlib.import_module(path)
    except ImportError:
        made = types.ModuleType(path)
        parent, _, name = path.rpartition(".")
        sys.modules[path] = made
        _put(importlib.import_module(parent), name, made)
        return made
