"""`penlight doctor`: what is there is named, what is not has a way to get it, and nothing that is missing is an error."""

from __future__ import annotations

import json
import os
import platform

import pytest

import penlight
from penlight import _runtime
from penlight.tools import doctor
from tests.tools.call import Penlight


def test_what_it_says(penlight_command: Penlight) -> None:
    told = penlight_command("doctor")
    assert (told.code, told.err) == (0, "")
    for part in (
        penlight.__version__,
        platform.python_version(),
        _runtime.isas()[0],
        "Vulkan",
        "loader",
        "zig",
        "glslc",
    ):
        assert part in told.out
    for device in penlight.vulkan_devices():
        assert device["name"] in told.out


def test_the_processor(penlight_command: Penlight) -> None:
    """Caches and who shares them, vector units, the instruction set chosen, and the blocking that follows."""
    told = " ".join(penlight_command("doctor").out.split())
    found = _runtime.processor()[1]
    for part in (
        f"chosen {os.environ.get('PENLIGHT_ISA') or _runtime.isas()[0]}",
        f"caches L1 {doctor.in_kib(found['l1_bytes'])}",
        f"L2 {doctor.in_kib(found['l2_bytes'])}",
        "vector units",
        f"K by {found['blocking']['part_of_k']}",
        f"strips of {doctor.in_kib(found['blocking']['strip_bytes'])}",
    ):
        assert part in told


def test_json(penlight_command: Penlight) -> None:
    found = json.loads(penlight_command("doctor", "--json").out)
    assert found["versions"]["penlight"] == penlight.__version__
    assert found["cpu"]["cores"] == os.cpu_count()
    assert found["cpu"]["instruction_sets"] == _runtime.isas()
    assert found["cpu"]["caches"] == _runtime.processor()[1]
    assert found["cpu"]["caches_reason"] == ""
    assert found["vulkan"]["available"] == penlight.is_vulkan_available()
    assert found["vulkan"]["devices"] == penlight.vulkan_devices()
    for tool in found["tools"].values():
        assert tool["path"] or tool["install"]


def test_a_bare_machine(penlight_command: Penlight, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool, no loader, no driver, no torch: each is told of, with what to do."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    monkeypatch.setenv("VK_DRIVER_FILES", "/nowhere.json")
    problem = {"message": "Vulkan: expected libvulkan.so.1, got none"}
    monkeypatch.setattr(_runtime, "vulkan_devices", lambda: (problem, []))
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(doctor, "PACKAGES", ("no_such_package",))
    told = penlight_command("doctor").out
    for part in (
        "expected libvulkan.so.1",
        "libvulkan1",
        "mesa-vulkan-drivers",
        "not installed",
        "Debian: glslc",
        "none found",
    ):
        assert part in told
