"""What every test shares: a fixed seed, and few threads (suites run side by side)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import penlight  # noqa: F401 (torchvision imports after it)
from tests import vulkan_drivers

os.environ |= vulkan_drivers.ENVIRONMENT

LONGEST = (
    "test_newcomer.py",
    "lite/test_zoo.py",
    "test_fuzz.py",
    "test_arm.py",
    "zoo/test_zoo.py::test_model[retinanet",
    "histogramdd",
    "unique-",
)

try:
    import torch
except ImportError:  # some suites (file format, IR) run without torch
    torch = None  # type: ignore[assignment]
else:
    torch.set_num_threads(1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: one that begins when all others are done leaves the other workers with nothing to do."""
    items.sort(key=lambda item: not any(long in item.nodeid for long in LONGEST))


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same random numbers in every test, whatever ran before it."""
    if torch is not None:
        torch.manual_seed(0)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all workers of this test run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if base.name.startswith("popen-") else base


@pytest.fixture(scope="session")
def recording(shared_folder: Path) -> Path:
    """Where the operators' samples are recorded (tests/ops/recording.py)."""
    folder = shared_folder / "samples"
    folder.mkdir(exist_ok=True)
    return folder
