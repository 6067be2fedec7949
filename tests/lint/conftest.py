"""The command line, as tests/tools has it."""

from __future__ import annotations

import pytest

from tests.tools.call import Penlight


@pytest.fixture
def penlight_command(capsys: pytest.CaptureFixture[str]) -> Penlight:
    return Penlight(capsys)
