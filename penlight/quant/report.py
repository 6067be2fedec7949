"""What quantization did: layer by layer what computes in integers and what that costs; size, speed and accuracy of the whole. Kept in the
file's metadata as JSON, so that a loaded model still has it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from penlight.errors import ReportError
from penlight.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

KEY = "quantization"  # in the metadata


@dataclass(frozen=True)
class LayerReport:
    """One operator that has integer kernels."""

    name: str
    op: str
    shape: str  # of its result
    stored: str  # what it computes with: "i8" or "f32"
    why: str = ""  # of f32: who wanted that
    sqnr: float | None = None  # dB, of its result with all layers in integers
    cost: float | None = None  # relative error at the outputs with this layer alone in integers
    bytes_before: int = 0
    bytes_after: int = 0


@dataclass(frozen=True)
class Report:
    """What `penlight.quantize` did. Print it, or save it as a page."""

    name: str
    method: str
    examples: int  # calibrated on
    layers: tuple[LayerReport, ...] = ()
    sqnr: float = 0.0  # dB, of all outputs, on the calibration data
    relative: float = 0.0  # the same as a relative error
    top1: float | None = None  # how often the greatest output is the same one, where the outputs are scores
    bytes_before: int = 0
    bytes_after: int = 0
    seconds_before: float | None = None
    seconds_after: float | None = None
    threads: int = 1
    equalized: int = 0  # pairs of layers
    corrected: int = 0  # biases
    costs: str = ""  # how they were found
    budget: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)

    def to_metadata(self) -> dict[str, Any]:
        """As JSON. A layer is a list, in the order of its fields: hundreds of them would count in a small file."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        told = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items() if v is not None}
        return told | {"layers": [list(dataclasses.astuple(layer)) for layer in self.layers]}

    @staticmethod
    def from_metadata(told: Mapping[str, Any]) -> Report:
        """Also of a file that a later version wrote: what is unknown is left out. ReportError where it is no report at all."""
        names = [f.name for f in dataclasses.fields(LayerReport)]
        try:
            rows = tuple(_checked(LayerReport, dict(zip(names, row, strict=False))) for row in told.get("layers", ()))
            return _checked(Report, {**told, "layers": rows, "notes": tuple(map(str, told.get("notes", ())))})
        except (TypeError, ValueError, OverflowError) as e:
            raise ReportError(f"the report that this file has is not one that penlight.quantize wrote: {e}") from None

    def html(self) -> str:
        """A page with pictures, which needs nothing but a browser."""
        from penlight.quant.report_page import report_page

        return report_page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `html()`. The old page stays until the new one is whole."""
        from penlight.paths import replace_text

        replace_text(path, self.html())

    def totals(self) -> list[tuple[str, str, str]]:
        """(what, before, after) of the whole."""
        rows = [("file", _bytes(self.bytes_before), f"{_bytes(self.bytes_after)} ({self.smaller:.2f}×)")]
        if self.seconds_before and self.seconds_after:
            ratio = self.seconds_after / self.seconds_before
            rows.append((
                f"one run, {self.threads} thread{'s' if self.threads > 1 else ''}", f"{self.seconds_before * 1e3:.2f} ms",
                f"{self.seconds_after * 1e3:.2f} ms ({ratio:.2f}×)",
            ))  # fmt: skip
        rows.append(("outputs, SQNR", "", f"{self.sqnr:.1f} dB (relative error {self.relative:.2g})"))
        if self.top1 is not None:
            rows.append(("same top 1", "", f"{self.top1:.1%} of {self.examples}"))
        return rows

    @property
    def smaller(self) -> float:
        return self.bytes_after / self.bytes_before if self.bytes_before else 1.0

    @property
    def worst(self) -> LayerReport | None:
        """The layer whose result is furthest off."""
        measured = [layer for layer in self.layers if layer.sqnr is not None]
        return min(measured, key=lambda layer: layer.sqnr or 0.0, default=None)

    def lines(self) -> list[str]:
        """What is said besides the numbers."""
        kept = sum(layer.stored != "i8" for layer in self.layers)
        done = f"{len(self.layers) - kept} of {len(self.layers)} layers compute in integers; ranges by {self.method}, {_count(self.examples, 'example')}"
        more = (
            [f"{_count(self.equalized, 'pair')} equalized, {_count(self.corrected, 'bias')} corrected"]
            if self.equalized or self.corrected
            else []
        )
        return [
            done,
            *more,
            *([self.budget] if self.budget else []),
            *([f"costs: {self.costs}"] if self.costs else []),
            *self.notes,
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        def text(told: str) -> Text:  # any console may print it, and most take [brackets] in a string for markup
            return Text(printable(told))

        plain: dict[str, Any] = {
            "box": box.SIMPLE_HEAD,
            "title_justify": "left",
            "title_style": "bold",
            "pad_edge": False,
            "show_edge": False,
        }
        rows = Table(title=text(f"{self.name or 'model'}, quantized"), **plain)
        for column in ("layer", "operator", "result", "in", "SQNR dB", "alone costs", "bytes", "in integers", "why"):
            right = column in ("SQNR dB", "alone costs", "bytes", "in integers")
            rows.add_column(column, justify="right" if right else "left", overflow="fold")
        for layer in self.layers:
            cells = (
                layer.name, layer.op, layer.shape, layer.stored, "" if layer.sqnr is None else f"{layer.sqnr:.1f}",
                "" if layer.cost is None else f"{layer.cost:.2g}", _bytes(layer.bytes_before) if layer.bytes_before else "",
                _bytes(layer.bytes_after) if layer.bytes_after else "", layer.why,
            )  # fmt: skip
            rows.add_row(*map(text, cells))
        whole = Table(**plain)
        for column in ("whole", "in floats", "quantized"):
            whole.add_column(column, justify="left" if column == "whole" else "right")
        for row in self.totals():
            whole.add_row(*map(text, row))
        yield rows
        yield whole
        yield from map(text, self.lines())

    def __str__(self) -> str:
        import io

        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=180, highlight=False, markup=False, emoji=False).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


T = TypeVar("T")


def _number(value: Any) -> int:
    if not -(2**63) <= int(value) < 2**63:  # nothing can be computed with some of the others
        raise ValueError("a number of more than 64 bits")
    return int(value)


_KINDS: dict[str, Callable[[Any], Any]] = {"str": str, "int": _number, "float": float}  # as annotations call them


def _checked(kind: Callable[..., T], told: Mapping[str, Any]) -> T:
    """A dataclass of what is told, each field of its kind. A file may say anything."""
    fields = {f.name: str(f.type) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]

    def field_of(name: str, value: Any) -> Any:
        convert = _KINDS.get(fields[name].removesuffix(" | None"))
        return value if convert is None or (value is None and fields[name].endswith("None")) else convert(value)

    return kind(**{name: field_of(name, value) for name, value in told.items() if name in fields})


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}{'es' if what.endswith('s') else 's'}"


def _bytes(count: int) -> str:
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"
