"""org.pytorch and org.penlight on a desktop's virtual machine, under -Xcheck:jni, with the native library built for this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from penlight import _runtime
from penlight.build.generate import ISAS
from tests import vulkan_drivers
from tests.java import desktop

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
    desktop.junit("org.penlight.AllocationTest", java_models, **counting)


def test_vulkan_runs_there(java_models: Path) -> None:
    if not vulkan_drivers.DRIVERS["lavapipe"].exists() or "vulkan" not in _runtime.backends():
        pytest.skip("no software GPU, or a library without Vulkan (./dev test installs what is missing)")
    desktop.junit("org.penlight.DeviceTest", java_models, options=["-Dvulkan=there"])


def test_vulkan_says_why_not(java_models: Path) -> None:
    nowhere = dict.fromkeys(vulkan_drivers.ENVIRONMENT, "/no/driver.json") | {"PENLIGHT_VULKAN_DEVICE": ""}
    options = ["-Dvulkan=missing", "-Dwhy=driver"]
    desktop.junit("org.penlight.DeviceTest", java_models, options=options, environment=nowhere)
