"""Calls the command line in this process, as a user would, and says what came out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penlight.tools.main import main


@dataclass
class Called:
    code: int
    out: str
    err: str


class Penlight:
    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def __call__(self, *arguments: object) -> Called:
        self.capture.readouterr()
        with pytest.raises(SystemExit) as exited:
            main([str(a) for a in arguments])
        text = self.capture.readouterr()
        return Called(int(exited.value.code or 0), text.out, text.err)
