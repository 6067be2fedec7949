"""The two software GPUs that a machine without one may have: lavapipe has all features, SwiftShader few. A process that has begun to use Vulkan
sees no other drivers, so all tests have both from the start."""

from __future__ import annotations

import os
from pathlib import Path

DRIVERS = {
    "lavapipe": next(Path("/usr/share/vulkan/icd.d").glob("lvp_icd.*.json"), Path("/no/lavapipe")),
    "swiftshader": Path("/usr/lib/chromium/vk_swiftshader_icd.json"),
}
PACKAGES = {"lavapipe": "mesa-vulkan-drivers", "swiftshader": "chromium-common"}
_THERE = os.pathsep.join(str(path) for path in DRIVERS.values() if path.exists())
ENVIRONMENT = {"VK_ICD_FILENAMES": _THERE, "VK_DRIVER_FILES": _THERE, "PENLIGHT_VULKAN_DEVICE": ""} if _THERE else {}
