"""Generates the C++ that no person should keep in step by hand, into a build folder:

    pen_format.h       the .pen records, from file/format.py
    pen_dtypes.h       dtype promotion, from ir/dtypes.py
    gpu_*              tables and programs for GPUs, from PEN_GPU rules and shaders (gpu_rules.py, shaders.py)
    conv_kernels.h     which kernel computes a convolution, from ops/conv/kernels.py
    elementwise_*.cc   row functions, from the scalar rules in ops/elementwise
    registry.cc        one line per kernel key, found by scanning ops/**/*.cc for PEN_SHAPE, PEN_BIND, PEN_KERNEL, PEN_KERNEL_ANY
    operators.cc       the VM's operators, found by scanning for PEN_OP (ops/vm_operators.py)
    sources.cmake      which sources are compiled once and which per instruction set

A Selection restricts it to some kernels and VM operators; their sources alone are then compiled. Needs the standard library only: it
runs in isolated builds, before anything is installed.
"""

from __future__ import annotations

import argparse
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from penlight.build import gpu_rules, shaders
from penlight.build.elementwise import elementwise_entries, emit_elementwise
from penlight.build.selection import COPIES, EVERYTHING, Selection
from penlight.file import format as pen_format
from penlight.ir import dtypes
from penlight.ops import devices, registry
from penlight.ops.conv import kernels as conv_kernels
from penlight.ops.cpp_tables import INT64_CODE, Function, TextTable, function_table
from penlight.ops.registry import Op
from penlight.ops.vm_operators import operators, operators_source

ROOT = Path(__file__).resolve().parents[1]  # the package: sources lie in it, so an installed copy can build libraries
BINDINGS = ROOT.parent / "bindings"  # in a checkout
if not (BINDINGS / "cpp").exists():
    BINDINGS = ROOT / "bindings"  # in a wheel
_ROW = re.compile(r'ROW\((\w+), "(\w+)", "([^"]*)", "([^"]*)"\)')


class Isa(NamedTuple):
    """An instruction set, as runtime/exec/isas.h lists it."""

    processors: str  # that may have it, or "any"
    flags: list[str]  # compiler's
    headers: frozenset[str]  # sources that include one are compiled for it, within the package; none: all


# By name.
ISAS = {
    m[1]: Isa(m[2], m[3].split(), frozenset(m[4].split()))
    for m in _ROW.finditer((ROOT / "runtime/exec/isas.h").read_text("utf-8"))
}
_INCLUDE = re.compile(r'^#include "penlight/([^"]+)"', re.MULTILINE)
_MACRO = re.compile(r"^PEN_(SHAPE|BIND|KERNEL|KERNEL_ANY)\(([\w, ]+)\)", re.MULTILINE)


@dataclass
class Kernel:
    key: str
    op: Op
    symbol: str
    source: Path
    per_isa: bool


@dataclass
class Scan:
    shapes: dict[str, Path] = field(default_factory=dict)  # op -> file of its shape rule
    binds: dict[str, Path] = field(default_factory=dict)  # op -> file of its schedule on the CPU
    kernels: dict[str, Kernel] = field(default_factory=dict)  # key -> kernel


def scan(ops: dict[str, Op]) -> Scan:
    """All bind rules and kernels in the operators' C++ files; an error where one has no operator or no partner."""
    found = Scan()
    for path in sorted((ROOT / "ops").rglob("*.cc")):
        for macro, arguments in _MACRO.findall(path.read_text("utf-8")):
            names = [a.strip() for a in arguments.split(",")]
            if names[0] not in ops:
                raise ValueError(
                    f"{path}: PEN_{macro}({arguments}): no operator {names[0]!r} is declared under penlight/ops"
                )
            if macro in ("SHAPE", "BIND"):
                (found.shapes if macro == "SHAPE" else found.binds)[names[0]] = path
            else:
                key = ".".join(names)
                found.kernels[key] = Kernel(key, ops[names[0]], "_".join(names), path, macro == "KERNEL")
    for kernel in found.kernels.values():
        for macro, rules in (("SHAPE", found.shapes), ("BIND", found.binds)):
            if kernel.op.name not in rules:
                raise ValueError(f"{kernel.source}: kernel {kernel.key} has no PEN_{macro}({kernel.op.name})")
    return found


def registry_source(ops: dict[str, Op], found: Scan, chosen: Selection, isas: list[str]) -> str:
    text = TextTable()
    rules: dict[str, int] = {}  # by the name of an operator, or "elementwise"
    functions: list[Function] = []
    rows: dict[str, str] = {}  # by key

    def add(
        key: str,
        rule: str,
        symbol: str,
        takes: tuple[str, str],
        sets: list[str],
        dtypes: tuple[str, str] | None,
        loops: int = 0,
    ) -> None:
        op = ops[key.split(".")[0]]
        enums = ", ".join("DType::" + {"bool": "boolean"}.get(d, d) for d in dtypes or ("f32", "f32"))
        number = rules.setdefault(rule, len(rules))
        flags = ", ".join(str(flag).lower() for flag in (dtypes is not None, len(sets) > 1))
        rows[key] = (
            f"{text(key)}, {text(op.compact_schema())}, {number}, {len(functions)}, {op.outputs}, {flags}, {loops}, {enums}"
        )
        # A function for every set of the library, or for base alone: a set that has nothing of its own takes that of the one before.
        for i in range(len(isas) if len(sets) > 1 else 1):
            isa = next(name for name in reversed(isas[: i + 1]) if name in sets)
            functions.append(Function(("pen", isa, symbol), *takes))

    for key, kernel in sorted(found.kernels.items()):
        if chosen.has_key(key):
            add(
                key,
                kernel.op.name,
                kernel.symbol,
                ("const Run&", "RKNS_3RunE"),
                _isas_of(kernel.source, isas) if kernel.per_isa else ["base"],
                None,
            )
    for key, symbol, dtype, result, per_isa, loops in elementwise_entries(ops):
        if chosen.has_key(key):
            row = "void*, const void* const*, const int64_t*, int64_t, const double*"
            takes = (row, "PvPKPKvPK{int64}{int64}PKd")
            sets = [isa for isa in isas if per_isa and not ISAS[isa].headers] or ["base"]
            add(key, "elementwise", symbol, takes, sets, (dtype, result), loops)
    if chosen.keys is not None and (missing := chosen.keys - set(rows)):
        raise ValueError(f"no kernels for these keys: {', '.join(sorted(missing))}")
    shapes = [Function(("pen", f"{rule}_shape"), "Shapes& s", "RNS_6ShapesE") for rule in rules]
    binds = [Function(("pen", f"{rule}_bind"), "Bind& b", "RNS_4BindE") for rule in rules]
    runs_rows = "elementwise" in rules
    lines = [
        "// Generated from penlight/ops by penlight/build/generate.py. Do not edit.",
        '#include "penlight/runtime/exec/backend.h"',
        *INT64_CODE,
        *(function.declaration("Status") for function in [*shapes, *binds]),
        *(function.declaration("void") for function in functions),
        "namespace pen {",
        *(["void elementwise_run(const Run& r);"] if runs_rows else []),
        *text.array("kKernelText"),
        "const KernelEntry kKernels[] = {",
        *(f"    {{{rows[key]}}}," for key in sorted(rows)),
        *([] if rows else ["    {},"]),
        "};",
        f"const int kKernelCount = {len(rows)};",
        f"const Isa kIsas[] = {{{', '.join(f'Isa::{isa}' for isa in isas)}}};",
        f"const int kIsasHeld = {len(isas)};",
        *function_table("ShapeFn", "shape_function", shapes),
        *function_table("BindFn", "bind_function", binds),
        *function_table("AnyFn", "kernel_function", functions),
        f"const RunFn kElementwiseRun = {'elementwise_run' if runs_rows else 'nullptr'};",
        *(f"extern const Backend k{name.capitalize()};" for name in chosen.backends),
        f"const Backend* const kBackends[] = {{{', '.join(f'&k{name.capitalize()}' for name in chosen.backends)}}};",
        f"const int kBackendCount = {len(chosen.backends)};",
        "}  // namespace pen",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Sources:
    per_isa: dict[str, list[Path]]  # by instruction set: what is compiled for it
    once: list[Path]  # the runtime itself, operators' rules, VM operators, tables


def generate(out: Path, isas: list[str], chosen: Selection = EVERYTHING, spirv: Path | None = None) -> Sources:
    """Writes the C++ for a library with what is chosen, and says which files it is made of. `spirv`: where compiled shaders are kept."""
    ops = registry.load_all()
    found = scan(ops)
    # a set that none of the kernels gains from is left out
    used = [k.source for key, k in found.kernels.items() if k.per_isa and chosen.has_key(key)]
    isas = [isa for isa in isas if not ISAS[isa].headers or any(isa in _isas_of(source, [isa]) for source in used)]
    generated = emit_elementwise(ops, chosen)
    vm = {name: op for name, op in operators().items() if chosen.has_operator(name)}
    if chosen.operators and (missing := chosen.operators - set(vm)):
        raise ValueError(f"no VM operators of these names: {', '.join(sorted(missing))}")
    files = {
        "pen_format.h": pen_format.cpp_header(),
        "pen_dtypes.h": dtypes.cpp_header(),
        "conv_kernels.h": conv_kernels.cpp_header(),
        "registry.cc": registry_source(ops, found, chosen, isas),
        **_gpu_files(ops, found, chosen, out, spirv),
        **({"operators.cc": operators_source(vm)} if chosen.vm else {}),
        **generated,
    }
    sources = _sources(out, found, chosen, isas, [name for name in files if name.endswith(".cc")])
    files["sources.cmake"] = (
        "# Generated by penlight/build/generate.py. Do not edit.\n"
        + f"set(PEN_ISAS {' '.join(isas)})\n"
        + "".join(f"set(PEN_FLAGS_{isa} {' '.join(ISAS[isa].flags)})\n" for isa in isas)
        + "".join(f"set(PEN_SOURCES_{isa}\n" + "".join(f'  "{p}"\n' for p in sources.per_isa[isa]) + ")\n" for isa in isas)
        + "set(PEN_ONCE_SOURCES\n" + "".join(f'  "{p}"\n' for p in sources.once) + ")\n"
    )  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = out / name
        if not path.exists() or path.read_text("utf-8") != text:  # unchanged files keep their time: no needless rebuild
            path.write_text(text, "utf-8")
    return sources


def _gpu_files(ops: dict[str, Op], found: Scan, chosen: Selection, out: Path, spirv: Path | None) -> dict[str, str]:
    if chosen.backends == ("cpu",):
        return {}
    keys = sorted(k for k in [*found.kernels, *(e.key for e in elementwise_entries(ops))] if chosen.has_key(k))
    names, folder = gpu_rules.used_shaders(keys), spirv or out / "shaders"
    return {
        "gpu_shaders.h": shaders.header(),
        "gpu_rules.cc": gpu_rules.tables_source(ops, keys),
        "gpu_programs.cc": shaders.programs_source(shaders.compile_shaders(names, folder), folder),
    }


@functools.cache
def _headers(path: Path) -> frozenset[str]:
    """What a file of the package includes, and what that includes, within the package."""
    found: set[str] = set()
    for name in _INCLUDE.findall(path.read_text("utf-8")):
        if name not in found:
            found |= {name, *_headers(ROOT / name)}
    return frozenset(found)


def _isas_of(source: Path, isas: list[str]) -> list[str]:
    """Those that a source of kernels is compiled for."""
    return [isa for isa in isas if not ISAS[isa].headers or ISAS[isa].headers & _headers(source)]


def _by_isa(per_isa: list[Path], isas: list[str]) -> dict[str, list[Path]]:
    """Generated files are not written yet, and have no kernels but elementwise ones."""
    return {
        isa: [p for p in per_isa if not ISAS[isa].headers or (p.is_relative_to(ROOT) and isa in _isas_of(p, isas))]
        for isa in isas
    }


def _sources(out: Path, found: Scan, chosen: Selection, isas: list[str], generated: list[str]) -> Sources:
    used = [k for k in found.kernels.values() if chosen.has_key(k.key)]
    tables = {"registry.cc", "operators.cc", "gpu_rules.cc", "gpu_programs.cc"}
    rooms = ("base", "file", "exec", "cpu", *(("gpu", "vulkan", "vulkan_plans") if "vulkan" in chosen.backends else ()))
    runtime = {p for room in rooms for p in (ROOT / "runtime" / room).glob("*.cc")}
    per_isa = {p for p in runtime if "namespace PEN_ISA" in p.read_text("utf-8")}
    per_isa |= {k.source for k in used if k.per_isa} | {out / name for name in generated if name not in tables}
    once = (
        runtime | {k.source for k in used} | {rules[k.op.name] for k in used for rules in (found.shapes, found.binds)}
    )
    once |= {out / name for name in generated if name in tables}
    if "vulkan" in chosen.backends:
        once |= {devices.scan_gpu().sources[op] for k in used if (op := devices.rule_of(k.key))}
    else:  # no device has memory of its own
        once.remove(ROOT / "runtime/exec/buffer.cc")
    if not chosen.state:
        once -= {ROOT / "runtime/exec/state.cc", ROOT / "runtime/file/states.cc"}
    if not chosen.turns:
        once.remove(ROOT / "runtime/exec/turns.cc")
    without_vm = ROOT / "runtime/file/without_vm.cc"
    if chosen.vm:
        once.remove(without_vm)
        once |= {
            *(ROOT / "runtime/vm").glob("*.cc"),
            *(ROOT / "ops").rglob("*_ops.cc"),
            *(ROOT / "ops/script").glob("*.cc"),
        }
        once |= {op.source for op in operators().values() if op.source.suffix == ".cc"}

    def place(path: Path) -> str:  # what a library is linked of has the same order wherever the folders lie
        return path.relative_to(ROOT if path.is_relative_to(ROOT) else out).as_posix()

    return Sources(_by_isa(sorted(per_isa, key=place), isas), sorted(once - per_isa, key=place))


def jni_sources(isas: list[str]) -> Sources:
    """What a library for Java is made of besides the runtime, which it needs as a library of its own."""
    found = sorted([*(BINDINGS / "java/jni").glob("*.cc"), *(ROOT / "runtime/image").glob("*.cc")])
    found = [p for p in found if p.name != "jvm_check.cc"]  # for tests: it reads a JDK's jni.h
    per_isa = [p for p in found if "namespace PEN_ISA" in p.read_text("utf-8")]
    return Sources(_by_isa(per_isa, isas), [p for p in found if p not in per_isa])


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Generates the runtime's registry, format header and elementwise kernels."
    )
    parser.add_argument("--out", type=Path, required=True, help="build folder to write to")
    parser.add_argument("--processor", default="any", help="as CMake names it: to compile for all its instruction sets")
    parser.add_argument("--isas", help="or for these only, comma-separated, base first")
    parser.add_argument(
        "--keys", type=Path, help="file with one kernel key a line: only these are built, without the VM"
    )
    parser.add_argument("--backends", default="cpu,vulkan", help="devices that it runs on, comma-separated")
    parser.add_argument("--no-vm", action="store_true", help="without the operators of VM code")
    arguments = parser.parse_args()
    keys = frozenset(arguments.keys.read_text("utf-8").split()) | set(COPIES.values()) if arguments.keys else None
    processor = {"AMD64": "x86_64", "arm64": "aarch64"}.get(arguments.processor, arguments.processor)
    isas = (
        arguments.isas.split(",")
        if arguments.isas
        else [n for n, isa in ISAS.items() if isa.processors in ("any", processor)]
    )
    if unknown := [isa for isa in isas if isa not in ISAS]:
        raise ValueError(f"instruction sets: expected some of {', '.join(ISAS)}, got {unknown[0]!r}")
    vm = keys is None and not arguments.no_vm
    generate(
        arguments.out.resolve(),
        isas,
        Selection(keys, None if vm else frozenset(), vm, tuple(arguments.backends.split(","))),
    )


if __name__ == "__main__":
    main()
