"""The command line, for files that would do harm."""

from __future__ import annotations

import pytest

from tests.tools.call import Penlight


@pytest.fixture
def penlight_command(capsys: pytest.CaptureFixture[str]) -> Penlight:
    return Penlight(capsys)
