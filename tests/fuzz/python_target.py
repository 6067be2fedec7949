"""What a fuzzing target in Python is: a way to make the file of any number, and a way to run such a file.

Everything that is fuzzed here is a file (a model, or a few words of JSON that say which random network), so that whatever is found can be
written down, made smaller and run again. `run` returns how it ended, in words: files that end in new words are kept in the corpus.
"""

from __future__ import annotations

import random
import re
from typing import Protocol


class Finding(Exception):
    """What must not be: `signature` is the same for the same mistake, `told` is for a person."""

    def __init__(self, signature: str, told: str) -> None:
        super().__init__(signature)
        self.signature, self.told = signature, told


class PythonTarget(Protocol):
    executions: int  # how often something was run, and not merely made

    def make(self, number: int, corpus: list[bytes]) -> bytes:
        """The file with this number: the same one as long as the corpus is."""

    def run(self, data: bytes) -> str:
        """How it ended. Raises Finding."""


def outcome(text: str) -> str:
    """Words without what differs from file to file."""
    return re.sub(r"[0-9]+|'[^']*'|\"[^\"]*\"|0x[0-9a-f]+", "#", text)[:300]


def drawn(number: int) -> random.Random:
    return random.Random(number * 2654435761 + 97)
