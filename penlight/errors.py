"""What can go wrong, as exceptions. All derive from PenlightError; each says what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


class PenlightError(Exception):
    """Base of every error that Penlight raises on purpose."""


class CaptureError(PenlightError):
    """A model cannot be turned into a Program."""


class InputError(PenlightError, TypeError):
    """A call's arguments do not have the containers, the constants or the kinds that the model was captured with."""


@dataclass
class UnsupportedCall:
    """One way in which a model uses an operator that Penlight lacks: all calls with the same operator and reason."""

    op: str  # "aten::grid_sampler_2d"; with an overload: "aten::add.Tensor"
    reason: str = ""  # where the operator is known, but not this use of it
    inside: str = ""  # the call of which torch made this one, where it was decomposed
    count: int = 0
    shapes: list[str] = field(default_factory=list)  # of the tensor arguments, one text per distinct call
    sources: list[str] = field(default_factory=list)  # distinct source lines

    def describe(self) -> str:
        times = "1 call" if self.count == 1 else f"{self.count} calls"
        head = f"  {self.op}{f' (part of {self.inside})' if self.inside else ''}: {self.reason or 'not implemented'}, {times}"
        lines = [head, *(f"      on {shape}" for shape in _some(self.shapes)), *(f"      {s}" for s in _some(self.sources))]
        return "\n".join(lines)


class UnsupportedError(CaptureError):
    """Names every operator call of a model that Penlight cannot run, in one go."""

    def __init__(self, calls: Sequence[UnsupportedCall]) -> None:
        self.calls = list(calls)
        operators = len({c.op for c in self.calls})
        head = "1 operator" if operators == 1 else f"{operators} operators"
        super().__init__(f"{head} of this model cannot run in Penlight yet:\n" + "\n".join(c.describe() for c in self.calls))


def _some(texts: list[str], limit: int = 4) -> list[str]:
    rest = len(texts) - limit
    return texts if rest <= 0 else [*texts[:limit], f"… and {rest} more"]


class LoadError(PenlightError):
    """A .pen file cannot be used. `status` says why: io, format, version, kernel, memory or checksum."""

    def __init__(self, message: str, status: str = "format") -> None:
        super().__init__(message)
        self.status = status


class RunError(PenlightError):
    """A run failed. The parts of the message stand alone too, "" where they do not apply."""

    def __init__(
        self, message: str, *, status: str = "", op: str = "", tensor: str = "", expected: str = "", got: str = "", source: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.op = op  # operator, as its kernel key
        self.tensor = tensor
        self.expected = expected
        self.got = got
        self.source = source  # the Python line that the operator came from
