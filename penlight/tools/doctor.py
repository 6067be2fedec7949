"""`penlight doctor`: what this machine has for running models and for building libraries, and what to install for the rest."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import penlight
from penlight.errors import BuildError
from penlight.tools.screen import Screen, heading, in_bytes, screen, table

PACKAGES = ("numpy", "torch", "torchvision")
# What kernels are chosen by, as Linux calls it on x86 and on ARM.
CPU_FEATURES = ("sse4_1", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8",
                "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2")  # fmt: skip
DRIVER_PLACES = (
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "~/.local/share/vulkan/icd.d",
)
FEATURES = ("f16_storage", "f16_arithmetic", "i8_storage", "i8_arithmetic", "integer_dot", "cooperative_matrix")


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def doctor_command(as_json: bool) -> None:
    """Say what this machine has, and what to install for what it lacks.

    Versions, the processor and its instruction sets, Vulkan (loader, drivers, devices with limits and features), and the tools that
    building libraries needs.
    """
    found = examine()
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    out = screen()
    for show in (_show_versions, _show_cpu, _show_vulkan, _show_tools):
        show(out, found)


def examine() -> dict[str, Any]:
    """All that the command shows, as plain values."""
    return {"versions": _versions(), "cpu": _cpu(), "vulkan": _vulkan(), "tools": _tools()}


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {
        "penlight": penlight.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    try:
        from penlight import _runtime

        versions["runtime"] = _runtime.version()
    except ImportError:
        versions["runtime"] = None
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _cpu() -> dict[str, Any]:
    name, flags = platform.processor() or platform.machine(), set[str]()
    if (info := Path("/proc/cpuinfo")).exists():
        for line in info.read_text(errors="replace").splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "model name":
                name = value
            elif key in ("flags", "Features"):
                flags.update(value.split())
    try:
        from penlight import _runtime

        isas = _runtime.isas()
        problem, told = _runtime.processor()
        reason = problem["message"] if problem else ""
    except ImportError:
        isas, told, reason = [], {}, "the compiled runtime is not there"
    return {
        "name": name,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "features": [f for f in CPU_FEATURES if f in flags],
        "instruction_sets": isas,
        "instruction_set": os.environ.get("PENLIGHT_ISA") or (isas[0] if isas else None),
        "caches": told,
        "caches_reason": reason,
    }


def _vulkan() -> dict[str, Any]:
    reason = "the compiled runtime is not there: install the package (pip install .)"
    devices: list[dict[str, Any]] = []
    try:
        from penlight import _runtime

        problem, devices = _runtime.vulkan_devices()
        problem = problem or _runtime.without_vulkan()
        reason = problem["message"] if problem else ""
    except ImportError:
        pass
    chosen = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if chosen:
        files = [Path(part) for part in chosen.split(os.pathsep)]
    else:
        files = sorted(file for place in DRIVER_PLACES for file in Path(place).expanduser().glob("*.json"))
    return {
        "available": not reason,
        "reason": reason,
        "loader": os.environ.get("PENLIGHT_VULKAN_LIBRARY") or ctypes.util.find_library("vulkan"),
        "drivers": [str(file) for file in files if file.exists()],
        "chosen": os.environ.get("PENLIGHT_VULKAN_DEVICE", ""),
        "devices": devices,
        "install": _advice(devices, files),
    }


def _advice(devices: list[dict[str, Any]], drivers: list[Path]) -> str:
    """What to install, in Debian's names where there is no other way to say it."""
    if any(not device["unfit"] and device["type"] != "CPU" for device in devices):
        return ""
    steps = []
    if not ctypes.util.find_library("vulkan"):
        steps.append("the loader (Debian: libvulkan1)")
    if any(Path("/proc/driver/nvidia").glob("version")) and not any("nvidia" in d.name for d in drivers):
        steps.append(
            "NVIDIA's Vulkan driver (Debian: nvidia-vulkan-icd; in a container, NVIDIA_DRIVER_CAPABILITIES=all)"
        )
    elif not devices:
        steps.append("the GPU's driver (Debian: mesa-vulkan-drivers, which has a GPU in software too, for tests)")
    return f"install {', and '.join(steps)}" if steps else ""


def _tools() -> dict[str, dict[str, str | None]]:
    """Of each: where it is (null: nowhere), what it says of its version, what it is for, and how to get it."""

    def found(path: str | None, version: tuple[str, ...], use: str, install: str) -> dict[str, str | None]:
        return {
            "path": path,
            "version": _first_line([path, *version]) if path and version else "",
            "for": use,
            "install": install,
        }

    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    ndk = os.environ.get("ANDROID_NDK_HOME")
    return {
        "zig": found(_zig(), ("version",), "libraries for every target", "pip install 'penlight[build]'"),
        "ninja": found(_ninja(), ("--version",), "building libraries", "pip install 'penlight[build]'"),
        "glslc": found(shutil.which("glslc"), ("--version",), "shaders, where Vulkan is built in", "Debian: glslc"),
        "ndk": found(ndk if ndk and Path(ndk).exists() else None, (), "Android libraries, in place of zig",
                     "set ANDROID_NDK_HOME; zig does without"),
        "qemu-aarch64": found(qemu, ("--version",), "running ARM libraries here", "Debian: qemu-user-static"),
        "node": found(shutil.which("node"), ("--version",), "running WebAssembly here", "Debian: nodejs"),
        "adb": found(shutil.which("adb"), ("--version",), "penlight bench --adb", "Debian: adb"),
    }  # fmt: skip


def _zig() -> str | None:
    from penlight.build.toolchain import find_zig

    return _or_none(lambda: str(find_zig()))


def _ninja() -> str | None:
    from penlight.build.toolchain import find_ninja

    return _or_none(find_ninja)


def _or_none(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except BuildError:
        return None


def _first_line(command: list[str]) -> str:
    """What a program says of itself; "" where it does not answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((done.stdout or done.stderr).strip().splitlines()), "")


# --- on the screen ---
def _show_versions(out: Screen, found: dict[str, Any]) -> None:
    versions = found["versions"]
    out.print(heading("versions"))
    for name, version in versions.items():
        out.print(f"  {name:12} {version or 'not installed'}")


def _show_cpu(out: Screen, found: dict[str, Any]) -> None:
    cpu = found["cpu"]
    out.print(heading("processor", f"{cpu['name']}, {cpu['cores']} cores"))
    out.print(f"  features     {' '.join(cpu['features']) or 'not told by this system'}")
    out.print(f"  kernels for  {', '.join(cpu['instruction_sets']) or 'nothing: the runtime is not there'}, best first")
    out.print(f"  chosen       {cpu['instruction_set'] or 'none'}")
    told = cpu["caches"]
    if not told:
        out.print(f"  caches       {cpu['caches_reason']}")
        return
    by = f"as {told['source']} says" if told["source"] else "assumed: this system does not tell"
    out.print(f"  caches       {', '.join(_caches(told))}; {by}")
    out.print(
        f"  vector units {'as wide as the vectors' if told['whole_vectors'] else 'half as wide as the widest vectors'}"
    )
    cut = told["blocking"]
    out.print(
        f"  blocking     for {in_kib(cut['near_bytes'])} of L2 a core: K by {cut['part_of_k']}, strips of"
        f" {in_kib(cut['strip_bytes'])}, weights near up to {in_kib(cut['near_weights'])}, expanded rows of"
        f" {in_kib(cut['expanded_bytes'])} over {in_kib(cut['expand_input_bytes'])}, turns of {in_kib(cut['turn_bytes'])}"
        " (docs/PROCESSOR.md)"
    )


def in_kib(size: int) -> str:
    """As caches are measured, in powers of two: 49152 -> "48 KiB"."""
    return f"{size >> 20} MiB" if size >= 1 << 20 and size % (1 << 20) == 0 else f"{size / 1024:g} KiB"


def _caches(told: dict[str, Any]) -> list[str]:
    """Those that are known, with who shares them."""
    lines = []
    for level in ("l1", "l2", "l3"):
        size, sharers = told[f"{level}_bytes"], told[f"{level}_sharers"]
        if size:
            shared = f" for {sharers} logical cores" if sharers > 1 else ""
            lines.append(f"{level.upper()} {in_kib(size)}{shared}")
    return lines


def _show_vulkan(out: Screen, found: dict[str, Any]) -> None:
    vulkan = found["vulkan"]
    out.print(heading("Vulkan", "available" if vulkan["available"] else f"not available: {vulkan['reason']}"))
    out.print(f"  loader       {vulkan['loader'] or 'none'}")
    out.print(f"  drivers      {', '.join(vulkan['drivers']) or 'none found'}")
    if vulkan["chosen"]:
        out.print(f"  chosen       PENLIGHT_VULKAN_DEVICE={vulkan['chosen']}")
    for i, device in enumerate(vulkan["devices"]):
        what = f"{device['type']}, Vulkan {device['api']}, {in_bytes(device['memory_bytes'])}"
        out.print(heading(f"  {i} {device['name']}", device["unfit"] or what))
        out.print(f"    driver     {device['driver']} {device['driver_info']}".rstrip())
        if device["unfit"]:
            continue
        out.print(
            f"    limits     subgroups of {device['subgroup_size']}, groups of {device['group_threads']} threads,"
            f" {in_bytes(device['shared_bytes'])} shared, tensors up to {in_bytes(device['buffer_bytes'])}"
        )
        out.print(
            f"    features   {', '.join(f.replace('_', ' ') for f in FEATURES if device[f]) or 'none of the optional ones'}"
        )
    if vulkan["install"]:
        out.print(f"  → {vulkan['install']}")


def _show_tools(out: Screen, found: dict[str, Any]) -> None:
    shown = table("", "tool", "version", "for", "where")
    for name, tool in found["tools"].items():
        shown.add_row(name, tool["version"], tool["for"], tool["path"] or f"not here → {tool['install']}")
    out.print(heading("tools"))
    out.print(shown)
