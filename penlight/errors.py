"""What can go wrong, as exceptions. All derive from PenlightError; each says what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penlight.printable import printable


class PenlightError(Exception):
    """Base of every error that Penlight raises on purpose. Its text may quote a file's names, and Python prints what nobody catches."""

    def __str__(self) -> str:
        return printable(super().__str__())


class PenlightWarning(UserWarning):
    """Base of every warning, which Python prints too."""

    def __str__(self) -> str:
        return printable(super().__str__())


class CaptureError(PenlightError):
    """A model cannot be turned into a Program."""


class ExampleError(CaptureError):
    """The example inputs are what a model fails on, as far as can be told: whoever chose them says where they come from."""


class BudgetError(CaptureError):
    """A model file causes more work while it is read than its size allows (penlight/budget.py)."""


class UntrustedError(CaptureError):
    """A model file asks for more than to be read and computed: trust=True (--trust) is for files whose origin is known."""


class InterpretedWarning(PenlightWarning):
    """A model, or a part of it, is interpreted although example inputs were given: right, but slower than a plan."""


class PlanWarning(PenlightWarning):
    """A part of a model could not be planned because of a mistake in Penlight, or for lack of memory. The result is right, but slow."""


class DeviceWarning(PenlightWarning):
    """A device could not be used, or was not found to compute what the CPU does: the model runs on the CPU."""


class QuantizationError(PenlightError):
    """A model cannot be quantized: the calibration data is not what the model takes, a budget cannot be met, or the model has no plan."""


class ReportError(PenlightError, ValueError):
    """A file carries no report of what quantization did, or one that is none."""


class CalibrationWarning(PenlightWarning):
    """Calibration data that tell little: one example, or blank ones."""


class InputError(PenlightError, TypeError):
    """A call's arguments do not have the containers, the constants or the kinds that the model was captured with."""


class ArgumentError(PenlightError, ValueError):
    """An argument, or an option of a command, that is none of those that a call takes."""


@dataclass
class UnsupportedCall:
    """One way in which a model uses an operator that Penlight lacks: all calls with the same operator and reason."""

    op: str  # as the model calls it: "aten::cumsum"; with an overload: "aten::add.Tensor"
    reason: str = ""  # where the operator is known, but not this use of it
    through: str = ""  # the operator that is missing, where torch could take `op` apart, but not into known ones
    shapes: list[str] = field(default_factory=list)  # of the tensor arguments, one text per distinct call
    sources: list[str] = field(default_factory=list)  # distinct source lines
    calls: set[str] = field(default_factory=set)  # names of the calls in the exported graph
    instead: str = ""  # what to use in its place

    @property
    def count(self) -> int:
        return len(self.calls)

    def describe(self) -> str:
        times = "1 call" if self.count == 1 else f"{self.count} calls"
        what = self.reason or "not implemented"
        head = f"  {self.op}: {what}{f' ({self.through})' if self.through else ''}, {times}"
        on = [f"on {shape}" for shape in self.shapes]
        hint = [f"instead: {self.instead}"] if self.instead else []
        return "\n      ".join([head, *_some(on, 2), *_some(self.sources, 4), *hint])


class DeviceError(CaptureError):
    """Names all that a model needs and the device it is compiled for lacks."""


class UnsupportedError(CaptureError):
    """Names every operator call of a model that Penlight cannot run, in one go."""

    def __init__(self, calls: Sequence[UnsupportedCall]) -> None:
        self.calls = list(calls)
        operators = len({c.op for c in self.calls})
        head = "1 operator" if operators == 1 else f"{operators} operators"
        super().__init__(
            f"{head} of this model cannot run in Penlight yet:\n"
            + "\n".join(c.describe() for c in self.calls)
            + "\nThe whole model was looked at: there are no others."
        )


def _some(texts: list[str], limit: int) -> list[str]:
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
        self,
        message: str,
        *,
        status: str = "",
        op: str = "",
        tensor: str = "",
        expected: str = "",
        got: str = "",
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.op = op  # operator, as its kernel key
        self.tensor = tensor
        self.expected = expected
        self.got = got
        self.source = source  # the Python line that the operator came from


class OutOfMemoryError(RunError, MemoryError):
    """What a run gave needs more memory than there is, or than the limit allows."""


class BuildError(PenlightError):
    """A library or program cannot be built, or what came out is not what it must be."""
