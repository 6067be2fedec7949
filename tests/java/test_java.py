"""org.pytorch and org.penlight on a desktop's virtual machine, under -Xcheck:jni, with the native library built for this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penlight import _runtime
from penlight.build.generate import ISAS
from penlight.build.library import build_library
from penlight.build.model_selection import selection_of_models
from penlight.build.targets import TARGETS
from tests import vulkan_drivers
from tests.java import desktop

pytestmark = pytest.mark.slow  # it compiles

PYTORCH = ["TensorTest", "IValueTest", "ModuleTest", "KindsTest", "torchvision.ImageTest"]
CLASSES = [*(f"pytorch.{name}" for name in PYTORCH), "penlight.PenlightTest", "penlight.LifetimeTest"]


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str, java_models: Path) -> None:
    desktop.junit(f"org.{name}", java_models)


@pytest.mark.parametrize("isa", [name for name in ISAS if name in _runtime.isas()])
def test_pictures_on_each_instruction_set(isa: str, java_models: Path) -> None:
    desktop.junit("org.pytorch.torchvision.ImageTest", java_models, environment={"PENLIGHT_ISA": isa})


def test_forward_allocates_and_copies_nothing(java_models: Path) -> None:
    made = desktop.counting_library()
    counting = {"options": [f"-Dcounting={made}"], "environment": {"LD_PRELOAD": str(made)}}
    desktop.junit("org.penlight.AllocationTest", java_models, **counting)  # type: ignore[arg-type]


def test_vulkan_runs_there(java_models: Path) -> None:
    if not vulkan_drivers.DRIVERS["lavapipe"].exists() or "vulkan" not in _runtime.backends():
        pytest.skip("no software GPU, or a library without Vulkan (./dev test installs what is missing)")
    desktop.junit("org.penlight.DeviceTest", java_models, options=["-Dvulkan=there"])


def test_vulkan_says_why_not(java_models: Path) -> None:
    nowhere = dict.fromkeys(vulkan_drivers.ENVIRONMENT, "/no/driver.json") | {"PENLIGHT_VULKAN_DEVICE": ""}
    options = ["-Dvulkan=missing", "-Dwhy=driver"]
    desktop.junit("org.penlight.DeviceTest", java_models, options=options, environment=nowhere)


@pytest.mark.slow
def test_small_library(java_models: Path, tmp_path: Path) -> None:
    """One binding goes with any library: here with one for a single model, which has neither the VM nor Vulkan."""
    selection = selection_of_models([java_models / "big.pen"])
    assert (selection.vm, selection.backends) == (False, ("cpu",))
    made = build_library(TARGETS["host"], selection, tmp_path / "dist", cache=desktop.ROOT / "build/libraries", jobs=2)
    for path in (made.path, desktop.library() / "libpenlight_jni.so"):
        shutil.copy(path, tmp_path / path.name)
    desktop.junit("org.penlight.SmallLibraryTest", java_models, folder=tmp_path)


def test_declarations_are_those_of_the_jdk() -> None:
    desktop.needs_java()
    include = desktop.jdk() / "include"
    if not (include / "jni.h").exists():
        pytest.skip(f"{include}/jni.h is not there: default-jdk-headless has it")
    flags = [*desktop.FLAGS, f"-I{desktop.ROOT}", f"-I{include}", f"-I{include}/linux"]
    desktop.run_tool(["g++", *flags, "-fsyntax-only", desktop.BINDING / "jni/jvm_check.cc"])


def test_surface() -> None:
    """Every class and method that PyTorch Mobile has (surface.txt, as javap prints them), with the same types: compiled apps find them."""
    desktop.needs_java()
    wanted: dict[str, list[str]] = {}
    for line in (desktop.HERE / "surface.txt").read_text().splitlines():
        if line.startswith("  "):
            wanted[name].append(line.strip())  # noqa: F821 (a class comes first)
        elif line:
            name = line
            wanted[name] = []
    stubs, binding = desktop.classes()[:2]
    for name, members in wanted.items():
        found = desktop.run_tool(["javap", "-public", "-cp", f"{stubs}:{binding}", name])
        missing = [member for member in members if member not in {line.strip() for line in found.splitlines()}]
        assert not missing, f"{name}: {missing}"
    assert sum(map(len, wanted.values())) == 120
