from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime import networks


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[Path]]]:
    """Files and cases of all small networks, shared by all workers of this test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    return networks.cases(shared / "networks")
