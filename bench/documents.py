"""`./dev bench --docs`: docs/BENCHMARKS.md keeps its text and gets the tables of the last runs between its marks; the chart
is drawn anew. A run that has not been made leaves its part as it is."""

from __future__ import annotations

import json
from typing import Any

from bench import chart, compare, int8, layers, report, scaling, sequences, start, uneven
from bench.case import MODELS, ROOT
from bench.layer_list import COUNT
from bench.sequence_list import SEQUENCES

MODELS_JSON = ROOT / "build" / "bench.json"
LAYERS_JSON = ROOT / "build" / "bench-layers.json"
SCALING_JSON = ROOT / "build" / "bench-scaling.json"
OPERATORS_JSON = ROOT / "build" / "bench-operators.json"
ZOO_JSON = ROOT / "build" / "bench-zoo.json"
INT8_JSON = ROOT / "build" / "bench-int8.json"
LOAD_JSON = ROOT / "build" / "load.json"  # of ./dev load
SEQUENCES_JSON = ROOT / "build" / "bench-sequences.json"
PAGE = ROOT / "docs" / "BENCHMARKS.md"
CHART = ROOT / "docs" / "bench.svg"
WHOLE = {
    "models": 2 * len(MODELS),
    "int8": 2 * len(MODELS),
    "sequences": 2 * len(SEQUENCES),
    "layers": COUNT,
    "scaling": len(scaling.questions()) + uneven.ROWS,
    "start": 3,
}  # rows of a run worth printing


def write() -> None:
    text = PAGE.read_text()
    for mark, path, render in (
        ("models", MODELS_JSON, of_models),
        ("int8", INT8_JSON, of_int8),
        ("sequences", SEQUENCES_JSON, of_sequences),
        ("layers", LAYERS_JSON, of_layers),
        ("scaling", SCALING_JSON, of_scaling),
        ("start", LOAD_JSON, of_start),
    ):
        if not path.exists():
            continue
        result = json.loads(path.read_text())
        if len(result["models" if mark == "start" else "rows"]) < WHOLE[mark]:
            raise SystemExit(f"{path.relative_to(ROOT)} is of a run with only a part of the {mark}: run it whole first")
        text = replace(text, mark, render(result))
        if mark == "models":
            CHART.write_text(chart.svg(result))
    PAGE.write_text(text)


def replace(text: str, mark: str, content: str) -> str:
    """Puts the content between <!-- mark --> and <!-- end -->."""
    begin, end = f"<!-- {mark} -->", "<!-- end -->"
    if begin not in text:
        raise ValueError(f"docs/BENCHMARKS.md has no {begin}")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def of_models(result: dict[str, Any]) -> str:
    return _comparison(result, compare.tables(result), report.footnotes(result["rows"]))


def of_int8(result: dict[str, Any]) -> str:
    return _comparison(result, int8.tables(result), [*report.ways(result["rows"]), *report.footnotes(result["rows"])])


def of_sequences(result: dict[str, Any]) -> str:
    notes = [*report.ways(result["rows"]), *report.footnotes(result["rows"])]
    return _comparison(result, sequences.tables(result), notes)


def _comparison(result: dict[str, Any], tables: list[tuple[str, list[str], list[list[str]]]], notes: list[str]) -> str:
    versions = ", ".join(f"{engine} {version}" for engine, version in result["versions"].items())
    parts = [f"{_where(result)} {versions}."]
    parts += [f"**{title}**\n\n{report.as_markdown(header, lines)}" for title, header, lines in tables]
    parts += [f"- {note}" for note in notes]
    return "\n\n".join(parts)


def of_layers(result: dict[str, Any]) -> str:
    made = [f"**{title}**\n\n{report.as_markdown(header, lines)}" for title, header, lines in layers.tables(result, 10)]
    return "\n\n".join([_where(result), *made, layers.call_cost(result)])


def of_scaling(result: dict[str, Any]) -> str:
    return f"{_where(result)}\n\n{report.as_markdown(*scaling.cells(result))}"


def of_start(result: dict[str, Any]) -> str:
    return f"{_where(result)} {result['threads']} thread{'s' * (result['threads'] > 1)}.\n\n{report.as_markdown(*start.cells(result))}"


def _where(result: dict[str, Any]) -> str:
    return f"{result['date']}, {result['machine']['cpu']}, {result['machine']['cores']} cores."
