"""org.pytorch and org.penlight on a desktop's virtual machine, under -Xcheck:jni, with the native library built for this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.java import desktop

CLASSES = ["pytorch.TensorTest", "pytorch.IValueTest", "pytorch.ModuleTest", "pytorch.KindsTest", "penlight.PenlightTest"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str, java_models: Path) -> None:
    desktop.junit(f"org.{name}", java_models)
