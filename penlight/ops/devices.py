"""What devices compute, as far as compiling must know: which kernel keys a GPU has, and which choices are the CPU's alone.

A GPU's rules are found by scanning ops/**/*_gpu.cc for PEN_GPU(op, "keys"); elementwise rules have a place there where GLSL can say them.
Keys are the same on all devices, so a file that was compiled for one runs on others too, if those have its keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from penlight.errors import BuildError
from penlight.ops import registry
from penlight.ops.elementwise.glsl import Rule, elementwise_rules

ROOT = Path(__file__).resolve().parents[1]
_MACRO = re.compile(r'^PEN_GPU\((\w+), "([^"]+)"\)', re.MULTILINE)
VARIANT = "~gpu."  # before a method's name: the same method, compiled for a GPU


@dataclass
class GpuRules:
    keys: dict[str, str] = field(default_factory=dict)  # patterns of keys -> operator whose rule it is
    sources: dict[str, Path] = field(default_factory=dict)  # operator -> file


@cache
def scan_gpu() -> GpuRules:
    found, ops = GpuRules(), registry.load_all()
    for path in sorted((ROOT / "ops").rglob("*_gpu.cc")):
        for name, keys in _MACRO.findall(path.read_text("utf-8")):
            if name not in ops:
                raise BuildError(f"{path}: PEN_GPU({name}, …): no operator {name!r} is declared under penlight/ops")
            found.sources[name] = path
            for key in keys.split():
                found.keys[f"{name}.{key}"] = name
    return found


@cache
def gpu_rows() -> dict[str, Rule]:
    """Of elementwise kernel keys, the shader and its case."""
    return elementwise_rules(registry.load_all())


def is_view(key: str) -> bool:
    """Whether all outputs are views: the same rule says where they lie on every device."""
    return key.split(".")[1] == "view"


@cache
def rule_of(key: str) -> str | None:
    """The operator whose PEN_GPU takes it."""
    return next((op for pattern, op in scan_gpu().keys.items() if fnmatchcase(key, pattern)), None)


def on_gpu(key: str) -> bool:
    """Whether a GPU computes this kernel key."""
    return is_view(key) or key in gpu_rows() or rule_of(key) is not None


@dataclass(frozen=True)
class Device:
    """What graphs are compiled for: the CPU, or a GPU, whichever backend runs it."""

    name: str

    @property
    def is_cpu(self) -> bool:
        """Then choices are made that suit it alone: Winograd, fused depthwise convolutions."""
        return self.name == "cpu"

    def has(self, key: str) -> bool:
        return self.is_cpu or on_gpu(key)


CPU, GPU = Device("cpu"), Device("gpu")
BACKENDS = {"cpu": CPU, "vulkan": GPU, "metal": GPU}  # by the names that callers give; no library has Metal yet
