"""The models of the Java tests, made once for all workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.java import desktop
from tests.runtime import native


@pytest.fixture(scope="session")
def java_models(shared_folder: Path) -> Path:
    """The folder with the models of tests/java/models.py."""
    desktop.needs_java()
    from tests.java.models import make

    folder = shared_folder / "java"
    with native.locked(shared_folder / "java.lock"):
        if not (folder / ".made").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            (folder / ".made").touch()
    return folder
