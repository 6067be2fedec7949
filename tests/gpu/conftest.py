"""The two software GPUs that a machine without one may have, both in one process: lavapipe has all features, SwiftShader few."""

from __future__ import annotations

import os

import pytest

from penlight import _runtime
from tests.runtime.test_vulkan import DRIVERS, PACKAGES

NAMES = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}  # as the drivers call their devices
_there = os.pathsep.join(str(path) for path in DRIVERS.values() if path.exists())


@pytest.fixture(scope="session", autouse=True)
def _drivers() -> None:
    """Before the first use of Vulkan in this process."""
    os.environ |= {"VK_ICD_FILENAMES": _there, "VK_DRIVER_FILES": _there, "PENLIGHT_VULKAN_DEVICE": ""}


def device_of(driver: str) -> str:
    if "vulkan" not in _runtime.backends():
        pytest.skip("this build has no Vulkan: glslc is not installed (Debian: glslc)")
    if not DRIVERS[driver].exists():
        pytest.skip(f"{driver} is not installed (Debian: {PACKAGES[driver]})")
    return f"vulkan:{NAMES[driver]}"
