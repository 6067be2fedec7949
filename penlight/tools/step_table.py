"""A profile as tables: every kernel call, and each kind of kernel, with what it did per second.

Whether a step is slow shows against what it had to do: multiply-adds (two operations each) for convolutions and matrix
products, bytes for all. Given the machine's peak, `of peak` is the time that the slower of the two would take at best,
over the time taken. Data that stays in the cache can pass the peak of a copy through memory, and Winograd that of
multiply-adds, which are counted as the convolution's definition has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from penlight.model import StepTime
from penlight.tools.screen import table

NUMBERS = ("ms", "share", "M mul-add", "GFLOP/s", "MB", "GB/s")


@dataclass(frozen=True)
class Peak:
    """What a machine can do with the threads at hand: f32 operations and bytes copied."""

    gflops: float
    gigabytes: float


@dataclass
class _Sum:
    """What several steps did together."""

    calls: int = 0
    seconds: float = 0.0
    multiply_adds: int = 0
    bytes: int = 0
    least: float = 0.0  # seconds at the machine's peak

    def add(self, step: StepTime, peak: Peak | None) -> None:
        self.calls += 1
        self.seconds += step.seconds
        self.multiply_adds += step.multiply_adds
        self.bytes += step.bytes
        if peak is not None:
            self.least += max(2e-9 * step.multiply_adds / peak.gflops, 1e-9 * step.bytes / peak.gigabytes)

    def cells(self, whole: float, peak: Peak | None) -> list[str]:
        per_second = 1e-9 / self.seconds if self.seconds else 0.0
        arithmetic = (f"{self.multiply_adds / 1e6:.1f}", f"{2 * self.multiply_adds * per_second:.1f}")
        cells = [
            f"{1e3 * self.seconds:.3f}",
            f"{self.seconds / whole if whole else 0:.1%}",
            *(arithmetic if self.multiply_adds else ("", "")),
            f"{self.bytes / 1e6:.2f}",
            f"{self.bytes * per_second:.1f}",
        ]
        return cells + ([f"{self.least / self.seconds if self.seconds else 0:.0%}"] if peak else [])


def by_step(
    title: str, steps: Sequence[StepTime], peak: Peak | None = None, weights: Mapping[str, str] | None = None
) -> Table:
    """Every call in order of execution. Views do nothing in a run, and are left out. `weights`: their dtypes in the file, by output."""
    numbers = (*NUMBERS, "of peak") if peak else NUMBERS
    shown = table(
        title, "kernel", "output", "shape", *(["weights"] if weights else []), *numbers, "source", right=numbers
    )
    whole = sum(step.seconds for step in steps)
    for step in steps:
        if not step.bytes:
            continue
        alone = _Sum()
        alone.add(step, peak)
        copied = f" ({step.copied} copied)" if step.copied else ""
        shape = " × ".join(map(str, step.shape))
        dtype = [weights.get(step.output, "")] if weights else []
        shown.add_row(step.key, step.output, shape, *dtype, *alone.cells(whole, peak), step.source + copied)
    return shown


def by_kernel(title: str, steps: Sequence[StepTime], peak: Peak | None = None) -> Table:
    """One line a kernel, slowest first, and the sum of all."""
    numbers = ("calls", *NUMBERS, "of peak") if peak else ("calls", *NUMBERS)
    shown = table(title, "kernel", *numbers, right=numbers)
    sums: dict[str, _Sum] = {}
    everything = _Sum()
    for step in steps:
        if step.bytes:
            sums.setdefault(step.key, _Sum()).add(step, peak)
            everything.add(step, peak)
    slowest: Callable[[str], float] = lambda key: -sums[key].seconds  # noqa: E731
    for key in sorted(sums, key=slowest):
        shown.add_row(key, str(sums[key].calls), *sums[key].cells(everything.seconds, peak))
    shown.add_section()
    shown.add_row("all", str(everything.calls), *everything.cells(everything.seconds, peak))
    return shown
