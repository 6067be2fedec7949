"""Hostile files with state: what is kept from call to call (hostile.py)."""

from __future__ import annotations

from typing import Any

from penlight.file import format as f
from tests.file.edit import Edit
from tests.file.hostile_edits import hostile, refer


def _state(edit: Edit, name: str) -> dict[str, Any]:
    return next(s for s in edit.tables["STAT"] if edit.name(s["name"]) == name)


@hostile("state", "STAT: expected methods that exist")
def a_state_of_a_method_that_does_not_exist(edit: Edit) -> None:
    edit.tables["STAT"][-1]["method"] = 1


@hostile("state", "STAT: expected methods that exist, in their order")
def states_out_of_order(edit: Edit) -> None:
    edit.tables["METH"].append(dict(edit.tables["METH"][0]))
    edit.tables["STAT"][0]["method"] = 1


@hostile("state", "STAT: expected a string index")
def a_state_without_a_name(edit: Edit) -> None:
    edit.tables["STAT"][0]["name"] = f.NONE


@hostile("state", "cache: expected a constant that exists")
def a_state_that_starts_from_nothing(edit: Edit) -> None:
    _state(edit, "cache")["constant"] = f.NONE


@hostile("state", "cache: expected a state that starts from a plain constant, got panel16")
def a_state_that_starts_packed(edit: Edit) -> None:
    edit.tables["CNST"][_state(edit, "cache")["constant"]]["layout"] = edit.string("panel16")


@hostile("state", "region inputs of the register's dtype and rank")
def a_state_that_starts_with_another_dtype(edit: Edit) -> None:
    _state(edit, "calls")["constant"] = _state(edit, "seen")["constant"]


@hostile("state", "a next value of the same size")
def a_state_that_starts_with_another_size(edit: Edit) -> None:
    """Its dtype and rank fit: a run would write 40 rows into the memory of 20."""
    c = edit.tables["CNST"][_state(edit, "cache")["constant"]]
    c.update(dims=edit.append("INTS", 20, 32), size=20 * 32 * 4)
    edit.attr(edit.node("as_strided_scatter"), "offset")["start"] = edit.append("INTS", 0)
    edit.node("index_put")["inputs"] = edit.append("INDX", *_other_table(edit))


def _other_table(edit: Edit) -> list[int]:
    """The inputs of index_put, with 40 rows that are computed elsewhere in place of the state."""
    node = edit.node("index_put")
    first, *rest = edit.arrays["INDX"][node["inputs"] : node["inputs"] + node["input_count"]]
    region = edit.tables["REGN"][0]
    number = region["value_count"]
    values = edit.tables["VALS"][region["values"] : region["values"] + number]
    region["values"] = len(edit.tables["VALS"])
    region["value_count"] += 1
    edit.tables["CNST"].append(dict(edit.tables["CNST"][_state(edit, "cache")["constant"]]))
    edit.tables["CNST"][-1].update(dims=edit.append("INTS", 40, 32), size=40 * 32 * 4)
    edit.tables["VALS"] += [*values, {**values[first], "constant": len(edit.tables["CNST"]) - 1}]
    return [number, *rest]


@hostile("state", "a region's result of its own as a state's next value")
def a_state_that_becomes_itself(edit: Edit) -> None:
    """A cycle: what a run finds would be what it leaves."""
    _state(edit, "cache")["result"] = edit.tables["METH"][0]["input_count"]


@hostile("state", "a region's result of its own as a state's next value")
def a_state_that_becomes_an_input(edit: Edit) -> None:
    _state(edit, "cache")["result"] = 0


@hostile("state", "a region's result of its own as a state's next value")
def a_state_that_becomes_an_output(edit: Edit) -> None:
    end = edit.tables["CODE"][-1]
    _state(edit, "cache")["result"] = edit.arrays["INDX"][end["args"]]


@hostile("state", "a region's result of its own as a state's next value")
def two_states_that_become_one(edit: Edit) -> None:
    _state(edit, "seen")["result"] = _state(edit, "calls")["result"]


@hostile("state", "a region's result of its own as a state's next value")
def a_state_in_a_register_that_does_not_exist(edit: Edit) -> None:
    _state(edit, "cache")["result"] = edit.tables["METH"][0]["registers"]


@hostile("state", "a next value of the dtype and rank that it starts with")
def states_that_change_places(edit: Edit) -> None:
    calls, seen = _state(edit, "calls"), _state(edit, "seen")
    calls["result"], seen["result"] = seen["result"], calls["result"]


@hostile("state", "a register for each input and result")
def more_states_than_registers(edit: Edit) -> None:
    edit.tables["STAT"] += [dict(_state(edit, "calls")) for _ in range(99)]


@hostile("state", "a format version that has states")
def states_in_an_older_file(edit: Edit) -> None:
    edit.header["version"] = 3


@hostile("state", "a dim of an input, or a dim or value of an earlier stage's result")
def a_size_that_a_state_holds(edit: Edit) -> None:
    refer(edit, "arange", "end", "register_value", edit.tables["METH"][0]["input_count"] + 1)
