"""What hostile files are made with: a change to a good file, what the runtime must say of it, and the edits that many of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penlight.file import format as f
from tests.file.edit import Edit


@dataclass(frozen=True)
class Hostile:
    seed: str
    change: Callable[[Edit], None]
    error: str  # part of the message; "" where the file is odd but runs
    section: Callable[[str, dict[str, Any]], None] | None = None


HOSTILE: dict[str, Hostile] = {}


def hostile(
    seed: str, error: str, section: Callable[[str, dict[str, Any]], None] | None = None
) -> Callable[[Callable[[Edit], None]], None]:
    def add(change: Callable[[Edit], None]) -> None:
        HOSTILE[change.__name__] = Hostile(seed, change, error, section)

    return add


def set_text(edit: Edit, key: str, attr: str, text: str) -> None:
    edit.attr(edit.node(key), attr).update(kind=f.ATTR_KINDS["str"], start=edit.string(text))


def set_ints(edit: Edit, key: str, attr: str, *values: int) -> None:
    edit.attr(edit.node(key), attr).update(
        kind=f.ATTR_KINDS["ints"], start=edit.append("INTS", *values), count=len(values)
    )


def set_int(edit: Edit, key: str, attr: str, value: int) -> None:
    edit.attr(edit.node(key), attr).update(kind=f.ATTR_KINDS["int"], start=edit.append("INTS", value))


def instructions(edit: Edit, op: str) -> list[dict[str, Any]]:
    method = edit.tables["METH"][0]
    code = edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]
    return [row for row in code if row["op"] == f.INSTRUCTIONS[op]]


def refer(edit: Edit, key: str, attr: str, op: str, arg: int) -> None:
    """The attribute becomes a dim expression of this one step."""
    edit.tables["EXPR"].append({"start": len(edit.tables["STEP"]), "count": 1})
    edit.tables["STEP"].append({"op": f.STEP_OPS[op], "reserved0": 0, "arg": arg})
    set_int(edit, key, attr, f.EXPR_BASE + len(edit.tables["EXPR"]) - 1)


def result(edit: Edit, name: str) -> int:
    """The register that holds the value of this name."""
    for instruction in instructions(edit, "region"):
        region = edit.tables["REGN"][instruction["target"]]
        for i in range(region["output_count"]):
            value = edit.tables["VALS"][region["values"] + edit.arrays["INDX"][region["outputs"] + i]]
            if edit.name(value["name"]) == name:
                return int(edit.arrays["INDX"][instruction["results"] + i])
    raise KeyError(name)


def value_of(edit: Edit, key: str, input: int) -> dict[str, Any]:
    """The value that the first node with a key reads as input so-and-so; -1: the one that it gives. Regions count theirs from their first."""
    node = edit.node(key)
    index = edit.tables["NODE"].index(node)
    region = next(r for r in edit.tables["REGN"] if r["nodes"] <= index < r["nodes"] + r["node_count"])
    place = edit.arrays["INDX"][node["outputs"] if input < 0 else node["inputs"] + input]
    return edit.tables["VALS"][region["values"] + place]


def quant_of(edit: Edit, key: str, input: int) -> dict[str, Any]:
    return edit.tables["QUNT"][value_of(edit, key, input)["quant"] - 1]


def constant_of(edit: Edit, key: str, input: int) -> dict[str, Any]:
    return edit.tables["CNST"][value_of(edit, key, input)["constant"]]
