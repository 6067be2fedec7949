"""VM files that are wrong in one chosen way: an error that says what is wrong, at load by the runtime and by the reader alike, or when
the code runs; never a crash, never a hang."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.file import format as f
from penlight.file.reader import read
from penlight.file.writer import to_array
from tests.file.assemble import MODULE, program
from tests.file.edit import Edit

GOLDEN, GOLDEN_PACKED = ((Path(__file__).parents[1] / f"file/golden/{v}.pen").read_bytes() for v in ("v2", "v2_packed"))
OPS = f.VM_INSTRUCTIONS
KINDS = f.DATUM_KINDS
CONSTANT = 1 << 31
Change = Callable[[Edit], None]


def first(edit: Edit, op: str) -> dict[str, Any]:
    """The first instruction of this kind."""
    return next(row for row in edit.tables["VMCD"] if row["op"] == OPS[op])


def set_arg(op: str, value: int, index: int = 0) -> Change:
    return lambda e: e.arrays["INDX"].__setitem__(first(e, op)["args"] + index, value)


def set_result(op: str, value: int) -> Change:
    return lambda e: e.arrays["INDX"].__setitem__(first(e, op)["results"], value)


def set_field(op: str, /, **values: int) -> Change:
    return lambda e: first(e, op).update(values)


def set_row(section: str, index: int, /, **values: int) -> Change:
    return lambda e: e.tables[section][index].update(values)


def datum(kind: str, /, **values: int) -> dict[str, Any]:
    return {"kind": KINDS[kind], "type": 0, "number": 0, "start": 0, "count": 0, **values}


def add_datum(kind: str, parts: list[int] | None = None, /, **values: int) -> Change:
    def change(e: Edit) -> None:
        more = {"start": e.append("INDX", *parts), "count": len(parts)} if parts is not None else {}
        e.tables["DATM"].append(datum(kind, **{**more, **values}))

    return change


def add_tensor(*numbers: int) -> Change:
    return lambda e: e.tables["DATM"].append(datum("tensor", start=e.append("INTS", *numbers), count=len(numbers)))


def nested(levels: int) -> Change:
    def change(e: Edit) -> None:
        for _ in range(levels):
            below = len(e.tables["DATM"]) - 1
            add_datum("list", [below, below])(e)

    return change


def shared_arguments(e: Edit) -> None:
    """A thousand instructions that share one list of a hundred thousand arguments."""
    row = {**first(e, "list"), "args": e.append("INDX", *[0] * 100_000), "arg_count": 100_000}
    function = e.tables["FUNC"][0]
    function.update(code=len(e.tables["VMCD"]), code_count=1001)
    e.tables["VMCD"] += [row] * 1000 + [{**first(e, "return")}]


def second_module(e: Edit) -> None:
    e.tables["PROG"].append(dict(e.tables["PROG"][0]))


LAST = OPS["set_attr"]
LOAD: dict[str, tuple[Change, str]] = {
    "a jump out of the function": (set_field("jump", target=1000), "a target that exists"),
    "a branch out of the function": (set_field("branch", target=42), "a target that exists"),
    "a loop that ends outside": (set_field("loop", target=f.NONE), "a target that exists"),
    "a planned call that goes on outside": (set_field("planned", extra=999), "a planned method's inputs and outputs"),
    "a planned call of nothing": (set_field("planned", target=1), "a target that exists"),
    "a planned call without its argument": (set_field("planned", arg_count=0), "a planned method's inputs and outputs"),
    "an argument out of range": (set_arg("return", 27), "a register or a constant that exists"),
    "a constant out of range": (set_arg("return", CONSTANT | 100_000), "a register or a constant that exists"),
    "a result out of range": (set_result("get_attr", 27), "an index inside its table"),
    "a result that is a constant": (set_result("get_attr", CONSTANT), "an index inside its table"),
    "arguments outside of INDX": (set_field("return", args=1 << 20), "a range inside its table"),
    "results outside of INDX": (set_field("get_attr", results=f.NONE), "a range inside its table"),
    "an instruction that is none": (set_field("move", op=len(OPS)), "a known instruction"),
    "an operator out of range": (set_field("op", target=500), "a target that exists"),
    "a function out of range": (set_field("call", target=3), "a target that exists"),
    "a call with too few arguments": (set_field("call", arg_count=1), "as many arguments as the function has"),
    "a class out of range": (set_field("create", target=9), "a target that exists"),
    "a named tuple of no class": (set_field("tuple", target=77), "a target that exists"),
    "types that are no string": (set_field("isinstance", target=10_000), "a target that exists"),
    "an attribute beyond all": (set_field("get_attr", target=1 << 20), "a target that exists"),
    "a return without a value": (set_field("return", arg_count=0), "as many arguments and results"),
    "a move with two results": (set_field("move", result_count=2), "as many arguments and results"),
    "a dict without a value": (set_field("dict", arg_count=3), "a value for each key"),
    "a method of nothing": (set_field("call", op=OPS["call_method"], target=0, arg_count=0), "an object to call a method of"),
    "a loop over constants": (
        lambda e: [set_arg("loop", CONSTANT + i, i)(e) for i in range(4)] and None, "consecutive registers of a loop",
    ),
    "a loop over scattered registers": (set_arg("loop", 5, 1), "consecutive registers of a loop"),
    "a loop without a condition": (set_field("loop", arg_count=2), "a loop's count, limit and condition"),
    "a constant emptied": (set_arg("drop", CONSTANT), "registers to empty"),
    "an operator with nine results": (set_field("op", result_count=9), "at most 4096 arguments and 8 results"),
    "no return at the end": (set_row("FUNC", 0, code_count=5), "return or jump as the last instruction"),
    "a function without code": (set_row("FUNC", 1, code_count=0), "a function that returns"),
    "code outside of VMCD": (set_row("FUNC", 1, code=1 << 30), "a range inside its table"),
    "more registers than there may be": (set_row("FUNC", 0, registers=(1 << 20) + 1), "at most 1048576"),
    "a million registers, three times": (
        lambda e: [set_row("FUNC", i, registers=1 << 20)(e) for i in range(3)] and None, "complexity",
    ),
    "more parameters than registers": (set_row("FUNC", 1, param_count=6), "a register for each parameter"),
    "a method without self": (set_row("FUNC", 1, param_count=0, registers=5), "a method that takes the module itself"),
    "more defaults than parameters": (set_row("FUNC", 1, default_count=1), "at most one default for each parameter"),
    "a default that does not exist": (
        lambda e: e.tables["FUNC"][0].update(defaults=e.append("INDX", 9999), default_count=1), "an index inside its table",
    ),
    "two methods of one name": (
        lambda e: e.tables["FUNC"][2].update(method=e.tables["FUNC"][1]["method"]), "methods with names of their own",
    ),
    "two functions of one name": (
        lambda e: e.tables["FUNC"][2].update(name=e.tables["FUNC"][1]["name"]), "functions with names of their own",
    ),
    "a datum of no kind": (add_datum("none", kind=10), "a known kind"),
    "a string that is not there": (add_datum("str", number=-1), "a string that exists"),
    "a list that contains itself": (lambda e: add_datum("list", [len(e.tables["DATM"])])(e), "an index inside its table"),
    "a list of what comes later": (lambda e: add_datum("list", [len(e.tables["DATM"]) + 5])(e), "an index inside its table"),
    "a dict without its last value": (add_datum("dict", [0]), "a value for each key"),
    "a dict with a list for a key": (
        lambda e: (add_datum("list", [])(e), add_datum("dict", [len(e.tables["DATM"]) - 1, 0])(e))[1], "keys that are numbers or strings",
    ),
    "an object of no class": (add_datum("object", [], type=f.NONE), "a class with a field for each part"),
    "an object with too many parts": (add_datum("object", [0] * 9, type=0), "a class with a field for each part"),
    "values nested too deep": (nested(65), "values nested at most 64 deep"),
    "a tensor of too few numbers": (add_tensor(0, 0, 0, 0, -2), "constant, dtype, offset, rank, axis and channels"),
    "a tensor of no constant": (add_tensor(99, 0, 0, 0, -2, 0), "a constant that exists"),
    "a tensor of no dtype": (add_tensor(1, 10, 0, 0, -2, 0), "a dtype code below 10"),
    "a tensor of rank 9": (add_tensor(1, 0, 0, 9, *[1] * 18, -2, 0), "a rank of at most 8"),
    "a tensor outside of its storage": (add_tensor(1, 0, 2, 1, 3, 1, -2, 0), "a tensor inside its storage"),
    "a tensor before its storage": (add_tensor(1, 0, -1, 1, 1, 1, -2, 0), "a tensor inside its storage"),
    "a tensor that overflows": (add_tensor(1, 0, 0, 1, 1 << 40, 1 << 40, -2, 0), "a tensor inside its storage"),
    "a tensor of more elements than can be counted": (
        add_tensor(1, 0, 0, 2, 1 << 40, 1 << 40, 0, 0, -2, 0), "a tensor inside its storage",
    ),
    "a tensor with a negative stride": (add_tensor(1, 0, 1, 1, 2, -1, -2, 0), "dims and strides of 0 or more"),
    "a quantized float tensor": (add_tensor(1, 0, 0, 0, -1, 1, 0, 0), "a quantized tensor of u8, i8 or i32"),
    "a zero point that overflows": (add_tensor(1, 4, 0, 0, -1, 1, -(1 << 63), 0), "zero points that the dtype holds"),
    "scales that are not there": (add_tensor(1, 4, 0, 1, 2, 1, 0, 3, 0, 0), "scales for the axis that they are along"),
    "channels by the billion": (add_tensor(1, 4, 0, 1, 2, 1, 0, 1 << 62), "scales for the axis that they are along"),
    "a field that is no string": (lambda e: e.tables["CLAS"][0].update(fields=e.append("INDX", 9999), field_count=1), "an index inside its table"),
    "a bundle that is no tuple": (lambda e: e.tables["BNDL"][0].update(args=e.tables["PROG"][0]["module"]), "a tuple of arguments"),
    "a bundle out of range": (set_row("BNDL", 0, outputs=5555), "a tuple of arguments"),
    "no module": (lambda e: e.tables["PROG"].clear(), "one module"),
    "two modules": (second_module, "one module"),
    "a module that is no object": (set_row("PROG", 0, module=0), "an object"),
    "much work in a small file": (shared_arguments, "complexity"),
}  # fmt: skip


def packed(**values: int) -> Change:
    """A weight that lies packed: 40 outputs of 10 inputs in 2 groups, as panel16."""

    def change(e: Edit) -> None:
        row = next(c for c in e.tables["CNST"] if c["groups"] == 2)
        row.update(values, layout=e.string(str(values["layout"])) if "layout" in values else row["layout"])

    return change


def packed_shape(*dims: int) -> Change:
    return lambda e: packed(dims=e.append("INTS", *dims), rank=len(dims))(e)


def packed_part(kind: str) -> Change:
    """The last tensor of the file lies in a container too."""

    def change(e: Edit) -> None:
        parts = [i for i, d in enumerate(e.tables["DATM"]) if d["kind"] == KINDS["tensor"]]
        at = next(i for i in parts if e.tables["CNST"][e.arrays["INTS"][e.tables["DATM"][i]["start"]]]["groups"])
        add_datum(kind, [0, at], type=f.NONE)(e)

    return change


def packed_reach(e: Edit) -> None:
    """One element more than there is unpacked, though packed there is more."""
    at = next(i for i, c in enumerate(e.tables["CNST"]) if c["groups"] == 2)
    add_tensor(at, 0, 400, 1, 1, 1, -2, 0)(e)


AS_PACKED = "a packed layout that can be undone, in as many bytes"
PACKED: dict[str, tuple[Change, str]] = {
    "other groups": (packed(groups=8), AS_PACKED),
    "groups that do not divide": (packed(groups=3), AS_PACKED),
    "a plain weight in groups": (lambda e: e.tables["CNST"][-1].update(groups=1, layout=e.string("plain")), AS_PACKED),
    "a transformed weight": (packed(layout="winograd4"), AS_PACKED),  # type: ignore[arg-type]
    "a layout of no name": (packed(layout="panels"), AS_PACKED),  # type: ignore[arg-type]
    "taps of many inputs": (packed(layout="taps"), AS_PACKED),  # type: ignore[arg-type]
    "a weight of integers": (packed(dtype=6), AS_PACKED),
    "a weight of another shape": (packed_shape(40, 11, 1, 1), AS_PACKED),
    "a weight of rank 1": (packed_shape(400), AS_PACKED),
    "a weight of nothing": (packed_shape(0, 1 << 40, 1 << 40, 1 << 40), AS_PACKED),
    "a weight of too few bytes": (packed(size=64), AS_PACKED),
    "a tensor outside of what is unpacked": (packed_reach, "a tensor inside its storage"),
    "a packed weight in a list": (packed_part("list"), "packed weights as attributes of objects only"),
    "a packed weight in a tuple": (packed_part("tuple"), "packed weights as attributes of objects only"),
    "a packed weight in a dict": (packed_part("dict"), "packed weights as attributes of objects only"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*LOAD, *PACKED])
def test_refused_at_load(name: str) -> None:
    change, message = LOAD[name] if name in LOAD else PACKED[name]
    edit = Edit(GOLDEN if name in LOAD else GOLDEN_PACKED)
    change(edit)
    data = edit.bytes()
    start = time.monotonic()
    for load in (penlight.load, read):
        with pytest.raises(penlight.LoadError) as caught:
            load(data)  # type: ignore[operator]
        assert message in str(caught.value) or (message == "a dtype code below 10" and "dtype" in str(caught.value))
    assert time.monotonic() - start < 5


def test_shared_parts_stay_shared() -> None:
    """2^60 numbers, were they written out: sixty lists in each other, each twice."""
    edit = Edit(GOLDEN)
    nested(60)(edit)
    model = penlight.load(edit.bytes())
    assert model(np.zeros((1, 3), np.float32), 0)[1] == "z"
    assert len(str(read(edit.bytes()))) < 10_000


def test_instructions_of_no_function() -> None:
    """Nothing checks them, and nothing may use them."""
    edit = Edit(GOLDEN)
    edit.tables["VMCD"].append({**first(edit, "planned"), "target": 1 << 30})
    assert penlight.load(edit.bytes())(np.zeros((1, 3), np.float32), 0)[1] == "z"


# --- code that is right, and wrong when it runs ---
RUN: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "an operator of no library": ("forward(self):\n r1 = aten::nothing.such()\n return(r1)", (), "an operator that this library has"),
    "a list where an int goes": ("forward(self, x):\n r2 = aten::add.int(r1, [1])\n return(r2)", (1,), "an int for b"),
    "too few arguments": ("forward(self, x):\n r2 = aten::add.int(r1)\n return(r2)", (1,), "all arguments without a default"),
    "too many arguments": ("forward(self, x):\n r2 = aten::neg.int(r1, 1, 2)\n return(r2)", (1,), "as many arguments as its schema has"),
    "more results than there are": ("forward(self, x):\n r2, r3 = aten::neg.int(r1)\n return(r2)", (1,), "as many results as it has"),
    "a branch on a string": ("forward(self, x):\n branch(r1) -> a\na:\n return(r1)", ("yes",), "a bool"),
    "a loop over strings": ("forward(self, x):\n r2 = move('a')\n r3 = move(True)\n loop(r1, r2, r3) -> a\na:\n return(r1)", ("b",), "an int count"),
    "unpacking too few": ("forward(self, x):\n r2, r3 = unpack(r1)\n return(r2)", ([1],), "2 elements to unpack, got 1"),
    "unpacking a number": ("forward(self, x):\n r2, r3 = unpack(r1)\n return(r2)", (1,), "2 elements to unpack, got int"),
    "an attribute of a number": ("forward(self, x):\n r2 = get_attr 0 (r1)\n return(r2)", (1,), "an object, got int"),
    "an attribute that is not there": ("forward(self):\n r1 = get_attr 7 (r0)\n return(r1)", (), "one that the object has"),
    "a method of a list": ("forward(self, x):\n r2 = call_method size (r1)\n return(r2)", ([],), "an object with a method size"),
    "a method with other arguments": ("forward(self):\n r1 = call_method forward (r0, 1)\n return(r1)", (), "as many arguments as the method has"),
    "a key that is a list": ("forward(self, x):\n r2 = dict(r1, 1)\n return(r2)", ([],), "keys that are numbers or strings"),
    "an endless loop": ("forward(self):\na:\n jump() -> a", (), "at most 1000000 steps"),
    "a loop to the end of numbers": (
        "forward(self):\n r1 = move(0)\n r2 = move(9223372036854775807)\n r3 = move(True)\na:\n loop(r1, r2, r3) -> b\n"
        " r3 = move(True)\n jump() -> a\nb:\n return(r1)", (), "at most 1000000 steps",
    ),
    "endless recursion": ("forward(self):\n r1 = call_method forward (r0)\n return(r1)", (), "at most 2000 calls inside each other"),
    "a function that calls itself": (
        f"forward(self):\n r1 = call {MODULE}.forward (r0)\n return(r1)", (), "at most 2000 calls inside each other",
    ),
    "a list that grows": ("forward(self, l):\na:\n r2 = aten::append.t(r1, 1.5)\n jump() -> a", ([],), "memory_limit"),
    "a list of lists": ("forward(self):\n r1 = list()\na:\n r1 = list(r1, r1)\n jump() -> a", (), "memory_limit"),
    "many lists": ("forward(self):\n r1 = list()\na:\n r2 = list(1, 2, 3)\n r3 = aten::append.t(r1, r2)\n jump() -> a", (), "memory_limit"),
    "a string that doubles": ("forward(self):\n r1 = move('ab')\na:\n r1 = aten::add.str(r1, r1)\n jump() -> a", (), "memory_limit"),
    "a list times a million": ("forward(self):\n r1 = aten::mul.left_t([1], 1000000)\n return(r1)", (), "memory_limit"),
    "a dict that grows": (
        "forward(self):\n r1 = dict()\n r2 = move(0)\na:\n r2 = aten::add.int(r2, 1)\n aten::_set_item.int(r1, r2, r2)\n jump() -> a",
        (), "memory_limit",
    ),
    "a tensor that doubles": ("forward(self, x):\na:\n r2 = list(r1, r1)\n r1 = aten::cat(r2)\n jump() -> a", (np.ones(4, np.float32),), "memory_limit"),
    "tensors that are kept": (
        "forward(self, x):\n r2 = list()\na:\n r3 = aten::clone(r1)\n r4 = aten::append.t(r2, r3)\n jump() -> a",
        (np.ones(4, np.float32),), "memory_limit",
    ),
    "objects with a million attributes": (
        "forward(self):\n r1 = list()\na:\n r2 = create __torch__.Box ()\n set_attr 1000000 (r2, 1)\n r3 = aten::append.t(r1, r2)\n jump() -> a",
        (), "memory_limit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUN)
def test_refused_when_it_runs(name: str) -> None:
    text, args, message = RUN[name]
    data = to_array(program(text, {"a": 1}, classes={"__torch__.Box": ["value"]}))
    model = penlight.Model(data, threads=1, memory_limit=1 << 19, max_steps=1_000_000)
    start = time.monotonic()
    for _ in range(2):  # an error leaves the module as it was
        with pytest.raises(penlight.RunError) as caught:
            model(*args)
        assert message in str(caught.value)
    assert time.monotonic() - start < 5


def test_a_sum_whose_terms_are_all_zero() -> None:
    """zeta adds up terms until they are too small to count: here all are, and there would be 10^18."""
    model = penlight.Model(
        to_array(program("forward(self, x):\n r2 = aten::special_zeta.other_scalar(r1, 2.0)\n return(r2)"))
    )
    assert model(np.array([4.6e18])) == 0


def test_deep_frames_with_many_registers() -> None:
    """2000 calls of a million registers would be 32 GB."""
    text = "forward(self):\n r999999 = call_method forward (r0)\n return(r999999)"
    model = penlight.Model(to_array(program(text)), max_steps=10_000_000)
    with pytest.raises(penlight.RunError, match="at most 4194304 registers"):
        model()


# --- values that contain themselves ---
CYCLE = """
forward(self):
  r1 = list(1, 2)
  r2 = aten::append.t(r1, r1)
  r3 = aten::append.t(r1, r1)
  return({result})
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("r4 = isinstance List[List[List[List[int]]]] (r1)", False),
        ("r4 = aten::len.t(r1)", 4),
        ("r4 = aten::__is__(r1, r1)", True),
        ("set_attr 0 (r0, r1)\n  r4 = move(5)", 5),
        ("r5 = dict('a', r1)\n  aten::_set_item.str(r5, 'b', r5)\n  r4 = aten::len.Dict_str(r5)", 2),
        ("r5 = tuple(r1)\n  r6 = aten::append.t(r1, r5)\n  r4 = move(6)", 6),
    ],
)
def test_a_list_that_contains_itself(line: str, expected: Any) -> None:
    text = CYCLE.replace("  return({result})", f"  {line}\n  return(r4)")
    for _ in range(3):
        model = penlight.Model(to_array(program(text, {"kept": None})), memory_limit=1 << 22, max_steps=100_000)
        for _ in range(5):
            assert model() == expected
        model.reset()


@pytest.mark.slow
def test_a_result_that_contains_itself() -> None:
    """It cannot be given to Python; nor can one of 2^60 parts."""
    model = penlight.Model(to_array(program(CYCLE.replace("{result}", "r1"))))
    with pytest.raises(penlight.RunError, match="one that contains itself"):
        model()
    doubling = "forward(self):\n r1 = move(1)\n" + " r1 = list(r1, r1)\n" * 60 + " return(r1)"
    with pytest.raises(penlight.RunError, match="4194304 parts|memory_limit"):
        penlight.Model(to_array(program(doubling)))()


def test_text_of_a_list_that_contains_itself_ends() -> None:
    text = CYCLE.replace("  return({result})", "  r4 = aten::format('{}', r1)\n  return(r4)")
    model = penlight.Model(to_array(program(text)), memory_limit=1 << 24)
    try:
        assert len(model()) < 1 << 24
    except penlight.RunError as e:
        assert "memory" in str(e)


def test_cycles_do_not_fill_the_memory() -> None:
    """Each run leaves a list that only itself holds: they are found and freed."""
    text = "forward(self):\n r1 = list()\n r2 = aten::append.t(r1, r1)\n return(1)"
    model = penlight.Model(to_array(program(text)), memory_limit=8 << 20)
    for _ in range(40_000):  # more than the limit, were they kept
        assert model() == 1
