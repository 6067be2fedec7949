"""Compute shaders to programs that the runtime holds: GLSL in, SPIR-V and C++ out.

A shader is a file ops/**/NAME.comp beside its operator's C++, or generated from elementwise rules (ops/elementwise/glsl.py). It says what it
takes:

    layout(push_constant) uniform Push { uint rows; uint x_at; };     ->   push.rows; x_at: which element of its buffer is x's first
    layout(constant_id = 0) const uint ACT = 0;                       ->   ACT, a specialization constant
    READ(0, x); WRITE(1, y);                                          ->   storage buffers, by their place

and the C++ struct of the same name (gpu_shaders.h) has just these fields, so that what C++ fills and what the shader reads cannot differ.
Each is compiled twice, for values stored as f32 and as f16 (T in GLSL); numbers are f32 in both. glslc compiles, and is needed where
shaders change only: a wheel ships what it made.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from os import cpu_count
from pathlib import Path
from tempfile import TemporaryDirectory

from penlight.build.pack_spirv import as_bytes, pack
from penlight.errors import BuildError
from penlight.ops import registry
from penlight.ops.elementwise.glsl import activations_source, elementwise_shaders

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "runtime/gpu"
SHIPPED = ROOT / "spirv"  # in an installed package: what glslc made when it was built
_PACKER = (ROOT / "build/pack_spirv.py").read_bytes()
MOST_PUSH_BYTES = 128  # what every Vulkan device has
_PUSH = re.compile(r"layout\(push_constant[^)]*\)\s*uniform\s+\w+\s*\{([^}]*)\}", re.DOTALL)
_FIELD = re.compile(r"\b(uint|int|float)\s+([^;]+);")
_CONSTANT = re.compile(r"layout\(constant_id\s*=\s*(\d+)\)\s*const\s+uint\s+(\w+)\s*=\s*(\d+)")
_BUFFER = re.compile(r"^(READ|WRITE)\w*\((\d+),\s*(\w+)\)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")
_CPP = {"uint": "uint32_t", "int": "int32_t", "float": "float"}


@dataclass(frozen=True)
class Shader:
    """As its source describes it."""

    name: str
    text: str
    push: tuple[tuple[str, str, int], ...]  # type, name, how many
    constants: tuple[tuple[str, int], ...]  # and their defaults
    buffers: tuple[str, ...]
    written: tuple[bool, ...]
    kinds: tuple[bool, ...]  # compiled for values as f32 (False), as f16 (True)

    @property
    def push_bytes(self) -> int:
        return 4 * sum(count for _, _, count in self.push)

    @property
    def struct(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))

    def first_word(self, buffer: str) -> int:
        """The word of push constants that has the place of a buffer's first element; -1: none has."""
        at = 0
        for _, name, count in self.push:
            if name == f"{buffer}_at":
                return at
            at += count
        return -1


def describe(name: str, text: str) -> Shader:
    plain = _COMMENT.sub("", text)
    block = _PUSH.search(plain)
    push: list[tuple[str, str, int]] = []
    for kind, names in _FIELD.findall(block[1]) if block else ():
        for field in names.split(","):
            found = re.fullmatch(r"\s*(\w+)(?:\[(\d+)\])?\s*", field)
            if not found:
                raise BuildError(f"{name}.comp: push constants: expected names, got {field.strip()!r}")
            push.append((kind, found[1], int(found[2] or 1)))
    constants = {int(place): (word, int(value)) for place, word, value in _CONSTANT.findall(plain)}
    if sorted(constants) != list(range(len(constants))):
        raise BuildError(f"{name}.comp: constant_id: expected 0, 1, 2, …, got {sorted(constants)}")
    buffers = {int(place): (word, kind == "WRITE") for kind, place, word in _BUFFER.findall(plain)}
    if sorted(buffers) != list(range(len(buffers))):
        raise BuildError(f"{name}.comp: buffers: expected 0, 1, 2, …, got {sorted(buffers)}")
    shader = Shader(
        name,
        text,
        tuple(push),
        tuple(constants[i] for i in sorted(constants)),
        tuple(buffers[i][0] for i in sorted(buffers)),
        tuple(buffers[i][1] for i in sorted(buffers)),
        (True,) if "ONLY_F16" in text else (False,) if "ANY_VALUES" in text else (False, True),
    )
    if shader.push_bytes > MOST_PUSH_BYTES:
        raise BuildError(
            f"{name}.comp: push constants: expected at most {MOST_PUSH_BYTES} bytes, got {shader.push_bytes}"
        )
    return shader


@cache
def shaders() -> dict[str, Shader]:
    """By name, sorted."""
    texts = {path.stem: path.read_text("utf-8") for path in (ROOT / "ops").rglob("*.comp")}
    texts |= {path.stem: path.read_text("utf-8") for path in INCLUDE.glob("*.comp")}
    texts |= elementwise_shaders(registry.load_all())
    return {name: describe(name, texts[name]) for name in sorted(texts)}


# ---- SPIR-V ----
@cache
def included() -> dict[str, str]:
    """What shaders include, by name."""
    files = {path.name: path.read_text("utf-8") for path in sorted(INCLUDE.glob("*.glsl"))}
    return {**files, "activations.glsl": activations_source(registry.load_all())}


def file_name(shader: Shader, f16: bool) -> str:
    """By content, so that what is kept is never of another version."""
    digest = hashlib.sha256(f"{''.join(included().values())}{f16}{shader.text}".encode()).hexdigest()[:24]
    return f"{shader.name}{'.f16' if f16 else ''}.{digest}.spv"


def compile_shaders(names: Iterable[str], folder: Path) -> dict[tuple[str, bool], bytes]:
    """SPIR-V 1.3 of each shader, by name and whether values are f16; what is in `folder` already, or in the package, is taken from there.
    Sources lie elsewhere: another build, of another version too, may compile for the same folder at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(shaders()[n], f16) for n in names for f16 in shaders()[n].kinds]

    def one(job: tuple[Shader, bool]) -> bytes:
        shader, f16 = job
        name = file_name(shader, f16)
        if (SHIPPED / name).exists():
            return (SHIPPED / name).read_bytes()
        kept = folder / name
        if not kept.exists():
            _keep(_glslc(shader, f16, Path(sources)), kept)
        return kept.read_bytes()

    with TemporaryDirectory() as sources, ThreadPoolExecutor(cpu_count()) as pool:
        for name, text in included().items():
            (Path(sources) / name).write_text(text, "utf-8")
        done = list(pool.map(one, wanted))
    return {(shader.name, f16): words for (shader, f16), words in zip(wanted, done, strict=True)}


def all_spirv(folder: Path) -> dict[str, bytes]:
    """Every module there is, by the name of its file: for packages."""
    return {file_name(shaders()[name], f16): words for (name, f16), words in compile_shaders(shaders(), folder).items()}


def _glslc(shader: Shader, f16: bool, include: Path) -> bytes:
    source = include / f"{shader.name}{'.f16' if f16 else ''}.comp"
    source.write_text(shader.text, "utf-8")
    command = [tool("glslc"), "--target-env=vulkan1.1", "-Os", "-fshader-stage=compute", f"-I{include}", *(["-DF16"] if f16 else []),
               str(source), "-o", "-"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BuildError(f"{shader.name}.comp{' (f16)' if f16 else ''}:\n{done.stderr.decode(errors='replace')}")
    return done.stdout


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise BuildError(f"{name} is not installed, and shaders need it to be compiled. Debian: apt-get install {name}")
    return found


# ---- C++ ----
def header() -> str:
    """A struct for each shader: what a rule fills before it dispatches it (runtime/gpu/gpu.h)."""
    lines = [
        "// Generated from the shaders by penlight/build/shaders.py. Do not edit.",
        "#pragma once",
        "#include <stdint.h>",
        "namespace pen::shader {",
    ]
    for number, shader in enumerate(shaders().values()):
        at = ", ".join(str(shader.first_word(b)) for b in shader.buffers)
        written = sum(1 << i for i, w in enumerate(shader.written) if w)
        constants = [f"{name} = {value}" for name, value in shader.constants]
        lines += [
            f"struct {shader.struct} {{  // buffers: {', '.join(shader.buffers)}",
            f"  static constexpr uint16_t kNumber = {number};",
            f"  static constexpr int kBuffers = {len(shader.buffers)}, kConstants = {len(shader.constants)};",
            f"  static constexpr uint32_t kWritten = {written};",
            f"  static constexpr int8_t kAt[kBuffers] = {{{at}}};",
            "  struct Push {",
            *(f"    {_CPP[t]} {n}{f'[{c}]' if c > 1 else ''};" for t, n, c in shader.push),
            "  } push = {};",
            *([f"  uint32_t {', '.join(constants)};"] if constants else []),
            *([f"  const uint32_t* constants() const {{ return &{shader.constants[0][0]}; }}"] if constants else
              ["  const uint32_t* constants() const { return nullptr; }"]),
            "};",
        ]  # fmt: skip
    return "\n".join([*lines, f"constexpr int kShaders = {len(shaders())};", "}  // namespace pen::shader", ""])


def _keep(made: bytes, kept: Path) -> None:
    """For later builds, which take it as it is: so it has its name when it is whole. Another build may do the same at the same time."""
    scrap = kept.with_name(f".{kept.name}.{secrets.token_hex(8)}")
    scrap.write_bytes(made)
    scrap.replace(kept)


def programs_source(spirv: Mapping[tuple[str, bool], bytes], folder: Path) -> str:
    """Those that a library holds, packed, by number; the others are empty. What was packed before is taken from `folder`."""
    lines = [
        "// Generated from the shaders by penlight/build/shaders.py. Do not edit.",
        '#include "penlight/runtime/gpu/gpu.h"',
        "namespace pen {",
        "namespace {",
    ]
    rows = []
    for shader in shaders().values():
        modules = [spirv.get((shader.name, f16), b"") for f16 in (False, True)]
        name, size, unpacked = "nullptr", 0, 0
        if any(modules):
            digest = hashlib.sha256(b"".join([_PACKER, *modules])).hexdigest()[:24]
            kept = folder / f"{shader.name}.{digest}.packed"
            if not kept.exists():
                _keep(pack(*filter(None, modules)), kept)
            packed = kept.read_bytes()
            name, size, unpacked = f"k{shader.struct}", len(packed), sum(len(as_bytes(m)) for m in modules if m)
            lines.append(f"const uint8_t {name}[] = {{{','.join(map(str, packed))}}};")
        words = ", ".join(str(len(m) // 4) for m in modules)
        rows.append(
            f'    {{"{shader.name}", {name}, {size}, {unpacked}, {{{words}}}, {len(shader.buffers)}, {shader.push_bytes}}},'
        )
    return "\n".join(
        [*lines, "}  // namespace", "const ShaderProgram kShaderPrograms[] = {", *rows, "};", "}  // namespace pen", ""]
    )
