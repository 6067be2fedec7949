"""Compute shaders to programs that the runtime holds: GLSL in, SPIR-V and C++ out.

A shader is a file ops/**/NAME.comp beside its operator's C++. It says what it takes:

    layout(push_constant) uniform Push { uint rows; float scale; };   ->   struct NamePush { uint32_t rows; float scale; }
    layout(constant_id = 0) const uint ACT = 0;                       ->   constants, by their place
    BUFFER(0, x); WRITTEN(1, y);                                      ->   storage buffers, by their place

so that what C++ fills and what the shader reads cannot differ. Each is compiled twice, for values stored as f32 and as f16 (T in GLSL);
numbers are f32 in both. glslc (Debian: glslc) compiles and is needed here only: wheels ship what it made.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penlight.errors import BuildError

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "runtime/gpu"
_PUSH = re.compile(r"layout\(push_constant[^)]*\)\s*uniform\s+\w+\s*\{([^}]*)\}", re.DOTALL)
_FIELD = re.compile(r"\b(uint|int|float)\s+(\w+)(?:\[(\d+)\])?\s*;")
_CONSTANT = re.compile(r"layout\(constant_id\s*=\s*(\d+)\)\s*const\s+(\w+)\s+(\w+)")
_BUFFER = re.compile(r"^(?:BUFFER|WRITTEN|WORDS)\w*\((\d+),", re.MULTILINE)
_CPP = {"uint": "uint32_t", "int": "int32_t", "float": "float"}


@dataclass(frozen=True)
class Shader:
    """As its source describes it."""

    name: str
    path: Path
    push: tuple[tuple[str, str, int], ...]  # type, name, how many
    constants: tuple[str, ...]
    buffers: int

    @property
    def push_bytes(self) -> int:
        return 4 * sum(count for _, _, count in self.push)


@cache
def shaders() -> dict[str, Shader]:
    """By name."""
    found = {}
    for path in sorted((ROOT / "ops").rglob("*.comp")):
        text = path.read_text("utf-8")
        block = _PUSH.search(text)
        push = tuple((t, n, int(c or 1)) for t, n, c in _FIELD.findall(block[1])) if block else ()
        constants = {int(place): name for place, _, name in _CONSTANT.findall(text)}
        if sorted(constants) != list(range(len(constants))):
            raise BuildError(f"{path}: constant_id: expected 0, 1, 2, …, got {sorted(constants)}")
        buffers = {int(place) for place in _BUFFER.findall(text)}
        if buffers != set(range(len(buffers))):
            raise BuildError(f"{path}: buffers: expected 0, 1, 2, …, got {sorted(buffers)}")
        found[path.stem] = Shader(path.stem, path, push, tuple(constants[i] for i in sorted(constants)), len(buffers))
    return found


def compile_shader(shader: Shader, f16: bool) -> bytes:
    """SPIR-V 1.3, optimized for size, without names."""
    command = [tool("glslc"), "--target-env=vulkan1.1", "-Os", "-fshader-stage=compute", f"-I{INCLUDE}", *(["-DF16"] if f16 else []),
               str(shader.path), "-o", "-"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BuildError(f"{shader.path}:\n{done.stderr.decode(errors='replace')}")
    return done.stdout


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise BuildError(f"{name} is not installed, and shaders need it to be compiled. Debian: apt-get install {name}")
    return found


def push_header() -> str:
    """C++ structs of what shaders are given."""
    lines = ["// Generated from the shaders by penlight/build/shaders.py. Do not edit.", "#pragma once", "#include <stdint.h>", "namespace pen {"]
    for shader in shaders().values():
        fields = [f"  {_CPP[t]} {n}{f'[{c}]' if c > 1 else ''};" for t, n, c in shader.push]
        name = "".join(part.capitalize() for part in shader.name.split("_"))
        lines += [f"struct {name}Push {{", *fields, "};"]
    return "\n".join([*lines, "}  // namespace pen", ""])
