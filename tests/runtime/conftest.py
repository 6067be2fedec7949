from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime import networks


@pytest.fixture(scope="session")
def cases(shared_folder: Path) -> dict[str, tuple[Path, list[Path]]]:
    """Files and cases of all small networks, shared by all workers of this test run."""
    return networks.cases(shared_folder / "networks")
