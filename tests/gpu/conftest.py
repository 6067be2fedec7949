"""Devices for tests: a software GPU, by the name of its driver."""

from __future__ import annotations

import pytest

from penlight import _runtime
from tests.vulkan_drivers import DRIVERS, PACKAGES

NAMES = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}  # as the drivers call their devices


def device_of(driver: str) -> str:
    if "vulkan" not in _runtime.backends():
        pytest.skip("this build has no Vulkan: glslc is not installed (Debian: glslc)")
    if not DRIVERS[driver].exists():
        pytest.skip(f"{driver} is not installed (Debian: {PACKAGES[driver]})")
    return f"vulkan:{NAMES[driver]}"
