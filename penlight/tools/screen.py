"""What the commands show and how: consoles, tables, sizes, progress. Results go to stdout, all else to stderr.

Piped output has no colours, no frames, and lines as long as they need to be, so that grep and awk can read it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.table import Table
from rich.text import Text

from penlight.printable import printable

PIPED_WIDTH = 400
BAR = 24  # characters of a progress bar


class Screen(Console):
    """A console that prints text as it is: names in a file may look like markup, or carry control codes meant for the
    terminal. Styles are given as Text."""

    def __init__(self, piped: bool, stderr: bool = False) -> None:
        width = PIPED_WIDTH if piped else None
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """All that is shown comes through here, also what was given as Text."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text is segment.text else Segment(text, segment.style)


def screen() -> Screen:
    """For results."""
    return Screen(piped=not sys.stdout.isatty())


def error_screen() -> Screen:
    """For progress and errors."""
    return Screen(piped=not sys.stderr.isatty(), stderr=True)


def heading(name: object, rest: str = "") -> Text:
    """A line that begins in bold."""
    return Text.assemble((str(name), "bold"), f"  {rest}" if rest else "")


def table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table; `right` names the columns to align right, numbers usually."""
    made = Table(
        title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False, show_edge=False
    )
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def in_bytes(count: int) -> str:
    """1234567 -> "1.23 MB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:  # 999 999 bytes, in three digits, are 1 MB
            return f"{count / factor:.3g} {unit}" if count < 999 * factor else f"{count / factor:.0f} {unit}"
    return f"{count} B"


def in_seconds(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


class Stages:
    """Progress of long work: a spinner for the stage under way, a line with its time for each that is done.

    >>> with Stages() as stage:
    ...     stage("capturing the model")
    """

    def __init__(self) -> None:
        self.screen = error_screen()
        self.status: Status | None = None
        self.text = ""
        self.start = 0.0

    def __call__(self, text: str) -> None:
        self.finish()
        self.text, self.start = text, time.perf_counter()
        self.status = self.screen.status(Text(text))  # of a string it would take [brackets] for markup
        self.status.start()

    def step(self, done: int, total: int, what: str) -> None:
        """How far the stage is: so many of so many."""
        if self.status is not None:
            full = BAR * min(done, total) // max(total, 1)
            self.status.update(Text(f"{self.text}  {'━' * full}{'╌' * (BAR - full)}  {done} of {total} {what}"))

    def finish(self, done: bool = True) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None
            if done:
                self.screen.print(f"  {self.text}: {in_seconds(time.perf_counter() - self.start)}", style="dim")

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(done=kind is None)
