"""Files that are wrong in one chosen way, each with what the runtime must say: structure that lies, arithmetic that
overflows, tables that describe endless work. Made from the zoo (zoo.py) and the small program (small.py)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penlight.file import format as f
from tests.file.edit import Edit
from tests.file.small import small_file
from tests.file.zoo import write_zoo


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


def _set_text(edit: Edit, key: str, attr: str, text: str) -> None:
    edit.attr(edit.node(key), attr).update(kind=f.ATTR_KINDS["str"], start=edit.string(text))


def _set_ints(edit: Edit, key: str, attr: str, *values: int) -> None:
    edit.attr(edit.node(key), attr).update(
        kind=f.ATTR_KINDS["ints"], start=edit.append("INTS", *values), count=len(values)
    )


def _set_int(edit: Edit, key: str, attr: str, value: int) -> None:
    edit.attr(edit.node(key), attr).update(kind=f.ATTR_KINDS["int"], start=edit.append("INTS", value))


def _set_floats(edit: Edit, key: str, attr: str, *values: float) -> None:
    edit.attr(edit.node(key), attr).update(
        kind=f.ATTR_KINDS["floats"], start=edit.append("FLTS", *values), count=len(values)
    )


# --- activations: a name in the file chooses a function ---


@hostile("small", "elementwise operator")
def activation_of_two_operands(edit: Edit) -> None:
    _set_text(edit, "conv2d.f32.direct", "act", "add")


@hostile("small", "elementwise operator")
def activation_of_another_dtype(edit: Edit) -> None:
    _set_text(edit, "conv2d.f32.depthwise3", "act", "cast.i64")  # "cast.i64.f32" is a kernel


@hostile("small", "elementwise operator")
def activation_with_another_result(edit: Edit) -> None:
    _set_text(edit, "linear", "act", "isnan")


@hostile("small", "elementwise operator")
def activation_that_is_no_row_function(edit: Edit) -> None:
    _set_text(edit, "linear", "act", "softmax")


# --- arithmetic ---


@hostile("shapes", "64 TB")
def expand_beyond_counting(edit: Edit) -> None:
    big = 1 << 40
    _set_ints(edit, "expand", "shape", big, big, 6, 8)
    for v in edit.tables["VALS"]:
        if v["name"] == edit.tables["VALS"][edit.arrays["INDX"][edit.node("expand")["outputs"]]]["name"]:
            v["rank"] = 4


@hostile("shapes", "padding that leaves")
def pad_overflow(edit: Edit) -> None:
    _set_ints(edit, "pad", "padding", (1 << 63) - 1, (1 << 63) - 1, 0, 0)


@hostile("shapes", "64 bits")
def arange_overflow(edit: Edit) -> None:
    _set_int(edit, "arange", "start", -(1 << 62))
    _set_int(edit, "arange", "end", (1 << 63) - 1)


@hostile("shapes", "step")
def arange_step_zero(edit: Edit) -> None:
    _set_int(edit, "arange", "step", 0)


@hostile("pools", "half the window")
def pool_padding_overflow(edit: Edit) -> None:
    _set_ints(edit, "avg_pool2d", "padding", (1 << 63) - 1, 1 << 62, 0, 0)


@hostile("pools", "1 or more")
def pool_kernel_of_nothing(edit: Edit) -> None:
    _set_ints(edit, "max_pool2d", "kernel", 0, 0)


@hostile("pools", "scales from")
def resize_by_almost_nothing(edit: Edit) -> None:
    """1 / factor is infinite, and so would be places in the image."""
    edit.attr(edit.node("resize_nearest"), "scales").update(start=edit.append("FLTS", 1e-320, 1e-320), count=2)
    for node in edit.tables["NODE"]:
        if edit.name(node["key"]).startswith("resize_") and edit.attr(node, "scales")["count"] == 2:
            edit.attr(node, "scales")["start"] = edit.append("FLTS", 1e-320, 1e-300)


@hostile("pools", "sides from 1")
def resize_to_nothing(edit: Edit) -> None:
    _set_ints(edit, "resize", "size", 0, 0)


@hostile("convolutions", "stride")
def stride_zero(edit: Edit) -> None:
    _set_ints(edit, "conv2d.f32.", "stride", 0, 1)


@hostile("convolutions", "padded image at least as large")
def dilation_beyond_the_image(edit: Edit) -> None:
    _set_ints(edit, "conv2d.f32.", "dilation", 1 << 23, 1 << 23)


@hostile("convolutions", "bytes")
def weights_shorter_than_their_layout(edit: Edit) -> None:
    packed = next(c for c in edit.tables["CNST"] if edit.name(c["layout"]) == "panel16")
    packed["size"] = 64


@hostile("convolutions", "panel16")
def weights_in_another_layout(edit: Edit) -> None:
    for c in edit.tables["CNST"]:
        if edit.name(c["layout"]) == "panel16":
            c["layout"] = edit.string("taps")


@hostile("convolutions", "groups")
def groups_zero(edit: Edit) -> None:
    _set_int(edit, "conv2d.f32.grouped", "groups", 0)


@hostile("matrices", "dims of 0 or more")
def constant_of_overflowing_size(edit: Edit) -> None:
    edit.tables["CNST"][0].update(dims=edit.append("INTS", 1 << 40, 1 << 40), rank=2)


@hostile("matrices", "64 TB")
def constant_that_is_empty_and_endless(edit: Edit) -> None:
    constant = next(
        i for i, c in enumerate(edit.tables["CNST"]) if edit.name(c["layout"]) == "plain" and c["rank"] == 1
    )
    edit.tables["CNST"][constant].update(dims=edit.append("INTS", 0, 1 << 40, 1 << 40), rank=3, size=0)
    for v in edit.tables["VALS"]:
        if v["constant"] == constant:
            v.update(rank=3, dims=0)


# --- tables that share storage: small files, endless work ---


@hostile("shapes", "16 million steps")
def a_million_long_strings(edit: Edit) -> None:
    edit.text += b"a" * 200_000 + b"\0"
    edit.tables["STRS"] += [{"offset": len(edit.text) - 200_001, "size": 200_000}] * 1000


@hostile("shapes", "1048576 values")
def nodes_that_share_their_inputs(edit: Edit) -> None:
    node = dict(edit.node("cat"))
    node.update(inputs=edit.append("INDX", *([edit.arrays["INDX"][node["inputs"]]] * 4096)), input_count=4096)
    first = len(edit.tables["NODE"])
    edit.tables["NODE"] += [dict(node) for _ in range(300)]
    region = edit.tables["REGN"][0]
    for i, row in enumerate(edit.tables["NODE"][first:]):
        value = dict(edit.tables["VALS"][region["values"]], constant=f.NONE)
        edit.tables["VALS"].append(value)
        row["outputs"] = edit.append("INDX", region["value_count"] + i)
        row["output_count"] = 1
    region["value_count"] += 300
    edit.tables["NODE"] = edit.tables["NODE"][:first] + edit.tables["NODE"][first:]
    region["node_count"] = len(edit.tables["NODE"])


@hostile("shapes", "1048576 values")
def endless_registers(edit: Edit) -> None:
    edit.arrays["INDX"] += [0] * 1_100_000
    edit.tables["METH"][0]["registers"] = 1_100_000


@hostile("shapes", "tables below 256 MB")
def records_of_one_byte(edit: Edit) -> None:
    """A table of 7 million bytes, read as that many records of 40."""
    edit.meta = b"{}" + b" " * 7_000_000 + b"\0"


def _tiny_records(name: str, entry: dict[str, Any]) -> None:
    if name == "METH":
        entry.update(record_size=1, offset=entry["offset"], count=7_000_000)


HOSTILE["records_of_one_byte"] = Hostile(
    "shapes", HOSTILE["records_of_one_byte"].change, "tables below 256 MB", _tiny_records
)


@hostile("shapes", "one result")
def expression_that_leaves_two(edit: Edit) -> None:
    edit.tables["EXPR"][0].update(start=len(edit.tables["STEP"]), count=2)
    edit.tables["STEP"] += [{"op": 0, "reserved0": 0, "arg": 1}] * 2


@hostile("shapes", "depth of at most 32")
def expression_that_is_deep(edit: Edit) -> None:
    edit.tables["EXPR"][0].update(start=len(edit.tables["STEP"]), count=81)
    edit.tables["STEP"] += [{"op": 0, "reserved0": 0, "arg": 1}] * 41 + [{"op": 2, "reserved0": 0, "arg": 0}] * 40


@hostile("shapes", "division by zero")
def expression_that_divides_by_zero(edit: Edit) -> None:
    for e in edit.tables["EXPR"]:
        e.update(start=len(edit.tables["STEP"]), count=3)
    edit.tables["STEP"] += [
        {"op": 0, "reserved0": 0, "arg": 1},
        {"op": 0, "reserved0": 0, "arg": 0},
        {"op": 5, "reserved0": 0, "arg": 0},
    ]


@hostile("shapes", "overflow")
def expression_that_overflows(edit: Edit) -> None:
    for e in edit.tables["EXPR"]:
        e.update(start=len(edit.tables["STEP"]), count=3)
    edit.tables["STEP"] += [
        {"op": 0, "reserved0": 0, "arg": 1 << 62},
        {"op": 0, "reserved0": 0, "arg": 2},
        {"op": 4, "reserved0": 0, "arg": 0},
    ]


# --- structure ---


@hostile("shapes", "")
def a_region_that_nobody_runs(edit: Edit) -> None:
    """It covers the same nodes and lies about its values: profiles must not look there."""
    edit.tables["REGN"].append(dict(edit.tables["REGN"][0], values=0xFFFFFFF0, value_count=5))


@hostile("shapes", "run by one instruction")
def a_region_that_runs_twice(edit: Edit) -> None:
    method = edit.tables["METH"][0]
    code = edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]
    method.update(code=len(edit.tables["CODE"]), code_count=3)
    edit.tables["CODE"] += [dict(code[0]), dict(code[0]), dict(code[1])]


@hostile("shapes", "return as the last instruction")
def code_after_the_return(edit: Edit) -> None:
    method = edit.tables["METH"][0]
    method.update(code=len(edit.tables["CODE"]), code_count=2)
    edit.tables["CODE"] += [dict(edit.tables["CODE"][1], arg_count=0), dict(edit.tables["CODE"][0])]


@hostile("shapes", "computed before")
def a_node_that_reads_its_own_result(edit: Edit) -> None:
    node = edit.node("pad")
    edit.arrays["INDX"][node["inputs"]] = edit.arrays["INDX"][node["outputs"]]


@hostile("shapes", "nothing else computes")
def a_value_computed_twice(edit: Edit) -> None:
    edit.node("copy")["outputs"] = edit.node("pad")["outputs"]


@hostile("shapes", "result of its own")
def an_output_returned_twice(edit: Edit) -> None:
    region = edit.tables["REGN"][0]
    edit.arrays["INDX"][region["outputs"] + 5] = edit.arrays["INDX"][region["outputs"]]
    for p in edit.tables["PORT"]:
        p.update(rank=2) if edit.name(p["name"]) == "out5" else None


@hostile("shapes", "")
def an_unused_method(edit: Edit) -> None:
    edit.tables["METH"].append(
        dict(
            edit.tables["METH"][0],
            name=edit.string("other"),
            code=len(edit.tables["CODE"]),
            code_count=1,
            output_count=0,
            output_spec=edit.string('{"tuple": []}'),
        )
    )
    edit.tables["CODE"].append({"op": 1, "target": 0, "args": 0, "arg_count": 0, "results": 0, "result_count": 0})


@hostile("shapes", "attribute")
def an_attribute_of_another_kind(edit: Edit) -> None:
    edit.attr(edit.node("pad"), "padding").update(kind=f.ATTR_KINDS["float"], start=0)


@hostile("shapes", "ends in a zero byte")
def metadata_without_an_end(edit: Edit) -> None:
    edit.meta = b'{"a": 1}'


@hostile("shapes", "dtype")
def an_index_tensor_of_floats(edit: Edit) -> None:
    """embedding reads i64 or i32 indices; here they are the f32 input."""
    edit.arrays["INDX"][edit.node("embedding")["inputs"] + 1] = edit.arrays["INDX"][edit.tables["REGN"][0]["inputs"]]


@hostile("matrices", "a view, a packed one")
def a_packed_result(edit: Edit) -> None:
    """`pack` writes more bytes than the shape has elements: it may not be an output."""
    region, method = edit.tables["REGN"][0], edit.tables["METH"][0]
    node = dict(edit.tables["NODE"][-1])
    source = edit.arrays["INDX"][region["inputs"] + 1]  # %m: f32[s, s]
    value = dict(edit.tables["VALS"][region["values"] + source], name=edit.string("packed"), constant=f.NONE)
    edit.tables["VALS"].append(value)
    result = region["value_count"]
    region["value_count"] += 1
    attrs = len(edit.tables["ATTR"])
    edit.tables["ATTR"] += [
        {
            "name": edit.string("layout"),
            "kind": f.ATTR_KINDS["str"],
            "reserved0": 0,
            "reserved1": 0,
            "start": edit.string("panel16"),
            "count": 0,
        },
        {
            "name": edit.string("groups"),
            "kind": f.ATTR_KINDS["int"],
            "reserved0": 0,
            "reserved1": 0,
            "start": edit.append("INTS", 1),
            "count": 0,
        },
    ]
    node.update(
        key=edit.string("pack.f32"),
        inputs=edit.append("INDX", source),
        input_count=1,
        outputs=edit.append("INDX", result),
        output_count=1,
        attrs=attrs,
        attr_count=2,
    )
    edit.tables["NODE"].append(node)
    region["node_count"] += 1
    edit.arrays["INDX"][region["outputs"]] = result
    edit.tables["PORT"][method["outputs"]].update(rank=2, dims=value["dims"])


# --- stages: sizes that data decide ---


def _instructions(edit: Edit, op: str) -> list[dict[str, Any]]:
    method = edit.tables["METH"][0]
    code = edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]
    return [row for row in code if row["op"] == f.INSTRUCTIONS[op]]


def _refer(edit: Edit, key: str, attr: str, op: str, arg: int) -> None:
    """The attribute becomes a dim expression of this one step."""
    edit.tables["EXPR"].append({"start": len(edit.tables["STEP"]), "count": 1})
    edit.tables["STEP"].append({"op": f.STEP_OPS[op], "reserved0": 0, "arg": arg})
    _set_int(edit, key, attr, f.EXPR_BASE + len(edit.tables["EXPR"]) - 1)


def _result(edit: Edit, name: str) -> int:
    """The register that holds the value of this name."""
    for instruction in _instructions(edit, "region"):
        region = edit.tables["REGN"][instruction["target"]]
        for i in range(region["output_count"]):
            value = edit.tables["VALS"][region["values"] + edit.arrays["INDX"][region["outputs"] + i]]
            if edit.name(value["name"]) == name:
                return int(edit.arrays["INDX"][instruction["results"] + i])
    raise KeyError(name)


@hostile("data", "earlier stage's result")
def a_size_that_is_not_known_yet(edit: Edit) -> None:
    """select runs in the stage in which nonzero finds that size."""
    _refer(edit, "select", "index", "register_dim", _result(edit, "2") * 256)


@hostile("data", "earlier stage's result")
def a_number_that_is_not_known_yet(edit: Edit) -> None:
    _refer(edit, "select", "index", "register_value", _result(edit, "5"))


@hostile("data", "earlier stage's result")
def a_number_in_an_input(edit: Edit) -> None:
    """It may be a pointer to anything at bind: only results of regions are read."""
    _refer(edit, "slice", "end", "register_value", 1)


@hostile("data", "earlier stage's result")
def a_number_in_a_tensor_of_many(edit: Edit) -> None:
    _refer(edit, "slice", "end", "register_value", _result(edit, "2"))


@hostile("data", "earlier stage's result")
def a_dim_beyond_the_rank(edit: Edit) -> None:
    _refer(edit, "slice", "end", "register_dim", _result(edit, "2") * 256 + 2)


@hostile("data", "earlier stage's result")
def a_register_that_does_not_exist(edit: Edit) -> None:
    _refer(edit, "slice", "end", "register_dim", 1 << 40)


@hostile("data", "earlier stage's result")
def stages_that_were_joined(edit: Edit) -> None:
    """All regions in one stage, as if sizes were known."""
    method = edit.tables["METH"][0]
    code = edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]
    kept = [dict(row) for row in code if row["op"] != f.INSTRUCTIONS["stage"]]
    method.update(code=len(edit.tables["CODE"]), code_count=len(kept))
    edit.tables["CODE"] += kept


@hostile("data", "only this stage's run tells")
def a_result_that_is_read_too_early(edit: Edit) -> None:
    found = edit.arrays["INDX"][edit.node("masked_select")["outputs"]]
    edit.arrays["INDX"][edit.node("exp")["inputs"]] = found


@hostile("data", "stage without registers")
def a_stage_with_registers(edit: Edit) -> None:
    _instructions(edit, "stage")[0].update(arg_count=1)


@hostile("data", "4096 stages")
def endless_stages(edit: Edit) -> None:
    method = edit.tables["METH"][0]
    code = [dict(r) for r in edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]]
    stage = _instructions(edit, "stage")[0]
    method.update(code=len(edit.tables["CODE"]), code_count=len(code) + 4096)
    edit.tables["CODE"] += [*code[:1], *(dict(stage) for _ in range(4096)), *code[1:]]


@hostile("data", "")
def stages_of_nothing(edit: Edit) -> None:
    method = edit.tables["METH"][0]
    code = [dict(r) for r in edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]]
    stage = _instructions(edit, "stage")[0]
    method.update(code=len(edit.tables["CODE"]), code_count=len(code) + 4)
    edit.tables["CODE"] += [dict(stage), dict(stage), *code[:-1], dict(stage), dict(stage), code[-1]]


@hostile("data", "four numbers")
def boxes_of_three(edit: Edit) -> None:
    edit.arrays["INDX"][edit.node("nms")["inputs"]] = edit.arrays["INDX"][edit.node("sort")["outputs"]]


# --- quantized tensors: what integers stand for, and what kernels of bytes read in place ---


def _value(edit: Edit, key: str, input: int) -> dict[str, Any]:
    """The value that the first node with a key reads as input so-and-so; -1: the one that it gives. Regions count theirs from their first."""
    node = edit.node(key)
    index = edit.tables["NODE"].index(node)
    region = next(r for r in edit.tables["REGN"] if r["nodes"] <= index < r["nodes"] + r["node_count"])
    place = edit.arrays["INDX"][node["outputs"] if input < 0 else node["inputs"] + input]
    return edit.tables["VALS"][region["values"] + place]


def _quant(edit: Edit, key: str, input: int) -> dict[str, Any]:
    return edit.tables["QUNT"][_value(edit, key, input)["quant"] - 1]


def _constant(edit: Edit, key: str, input: int) -> dict[str, Any]:
    return edit.tables["CNST"][_value(edit, key, input)["constant"]]


def _wrong_scale(name: str, scale: float) -> None:
    def change(edit: Edit) -> None:
        edit.arrays["FLTS"][_quant(edit, "add.q8", 0)["scales"]] = scale

    change.__name__ = f"a_scale_that_is_{name}"
    hostile("integers", "a finite scale above 0")(change)


for _name, _scale in (("nan", math.nan), ("infinite", math.inf), ("zero", 0.0), ("negative", -0.1)):
    _wrong_scale(_name, _scale)


def _odd_scale(name: str, scale: float, error: str) -> None:
    def change(edit: Edit) -> None:
        for row in edit.tables["QUNT"]:
            if row["axis"] == f.NONE and edit.arrays["FLTS"][row["scales"]] != 1.0:
                edit.arrays["FLTS"][row["scales"]] = scale

    change.__name__ = f"scales_that_are_all_{name}"
    hostile("integers", error)(change)


for _name, _scale, _error in (
    ("tiny", 1e-300, ""), ("small", 1e-30, ""), ("large", 1e30, "finite numbers"), ("huge", 1e300, "finite numbers"),
):  # fmt: skip
    _odd_scale(_name, _scale, _error)


@hostile("integers", "")
def scales_of_weights_that_are_no_numbers(edit: Edit) -> None:
    """They lie with the weights: they change numbers, and nothing else."""
    c = edit.tables["CNST"][_quant(edit, "conv2d.q8.gemm", 1)["scales"]]
    data = bytearray(edit.data)
    data[c["offset"] : c["offset"] + c["size"]] = struct.pack("<5f", math.nan, -1.0, math.inf, 0.0, 1e38) * 4
    edit.data = bytes(data)


@hostile("integers", "a dim below 8 as axis")
def scales_along_a_dim_that_no_tensor_has(edit: Edit) -> None:
    _quant(edit, "conv2d.q8.gemm", 1)["axis"] = 8


@hostile("integers", "a scale for each place along a dim")
def scales_along_a_dim_of_another_size(edit: Edit) -> None:
    _quant(edit, "conv2d.q8.gemm", 1)["axis"] = 1


@hostile("integers", "a scale for each place along a dim")
def scales_beyond_the_rank(edit: Edit) -> None:
    _quant(edit, "conv2d.q8.gemm", 1)["axis"] = 5


@hostile("integers", "as many plain scales of f32 as it says")
def more_scales_than_there_are(edit: Edit) -> None:
    _quant(edit, "conv2d.q8.gemm", 1)["count"] = 4000


@hostile("integers", "as many plain scales of f32 as it says")
def scales_that_are_weights(edit: Edit) -> None:
    _quant(edit, "conv2d.q8.gemm", 1)["scales"] = _value(edit, "conv2d.q8.gemm", 1)["constant"]


@hostile("integers", "scales that exist")
def scales_that_do_not_exist(edit: Edit) -> None:
    _quant(edit, "conv2d.q8.gemm", 1)["scales"] = 4000


@hostile("integers", "QUNT")
def zero_points_that_do_not_exist(edit: Edit) -> None:
    _quant(edit, "add.q8", 0)["zeros"] = 1 << 30


@hostile("integers", "a zero point for all or for each scale")
def more_zero_points_than_scales(edit: Edit) -> None:
    _quant(edit, "add.q8", 0).update(zeros=0, zero_count=2)


@hostile("integers", "zero points that the dtype holds")
def a_zero_point_beyond_u8(edit: Edit) -> None:
    _quant(edit, "add.q8", 0)["zeros"] = edit.append("INTS", 256)


@hostile("integers", "zero points that the dtype holds")
def a_zero_point_below_u8(edit: Edit) -> None:
    _quant(edit, "add.q8", 0)["zeros"] = edit.append("INTS", -1)


@hostile("integers", "scales along a dim of a constant")
def an_activation_with_a_scale_for_each_channel(edit: Edit) -> None:
    _value(edit, "add.q8", 0)["quant"] = _value(edit, "conv2d.q8.gemm", 1)["quant"]


@hostile("integers", "a quantization that exists")
def a_quantization_that_does_not_exist(edit: Edit) -> None:
    _value(edit, "add.q8", 0)["quant"] = 4000


@hostile("integers", "u8, i8 or i32 as dtype")
def floats_that_stand_for_integers(edit: Edit) -> None:
    _value(edit, "quantize.f32", 0)["quant"] = _value(edit, "add.q8", 0)["quant"]


def _without_quant(key: str, input: int, error: str) -> None:
    def change(edit: Edit) -> None:
        _value(edit, key, input)["quant"] = 0

    change.__name__ = f"{key.replace('.', '_')}_that_knows_nothing_of_{'its_result' if input < 0 else f'input_{input}'}"
    hostile("integers", error)(change)


for _key, _input, _error in (
    ("conv2d.q8.gemm", 1, "quantized weights of i8"),
    ("conv2d.q8.depthwise", 1, "quantized weights of i8"),
    ("linear.q8", 1, "quantized weights of i8"),
    ("quantize.f32", -1, "u8 or i8 as result|integers whose scale is known"),
    ("conv2d.q8.gemm", -1, "u8 with one scale"),
    ("lookup.q8", 0, "u8 with one scale"),
    ("lookup.q8", -1, "u8 with one scale"),
    ("add.q8", 1, "u8 with one scale"),
    ("mul.q8", -1, "u8 with one scale"),
    ("mean.q8", 0, "u8 with one scale"),
    ("mean.q8", -1, "u8 with one scale"),
    ("resize.q8", 0, "u8 with one scale"),
    ("resize.q8", -1, "u8 with one scale"),
    ("adaptive_avg_pool2d.q8", 0, "u8 with one scale"),
    ("adaptive_avg_pool2d.q8", -1, "u8 with one scale"),
    ("quantize_dynamic.f32", -1, "u8 in steps"),
):
    _without_quant(_key, _input, _error.rpartition("|")[2])


def _other_layout(key: str, layout: str) -> None:
    def change(edit: Edit) -> None:
        _constant(edit, key, 1)["layout"] = edit.string(layout)

    change.__name__ = f"{key.replace('.', '_')}_with_weights_of_{layout}"
    hostile("integers", "layout")(change)


for _key, _layout in (
    ("conv2d.q8.gemm", "taps"), ("conv2d.q8.gemm", "panel16"), ("conv2d.q8.depthwise", "quads16"), ("linear.q8", "taps"),
):  # fmt: skip
    _other_layout(_key, _layout)


@hostile("integers", "as many bytes as its packed layout takes")
def weights_that_end_within(edit: Edit) -> None:
    _constant(edit, "conv2d.q8.depthwise", 1)["size"] -= 64


@hostile("integers", "one number of i32 for every column")
def fewer_columns_than_outputs(edit: Edit) -> None:
    c = _constant(edit, "conv2d.q8.gemm", 2)
    c.update(dims=edit.append("INTS", 1, 16), size=16 * 4)
    _value(edit, "conv2d.q8.gemm", 2)["dims"] = c["dims"]


@hostile("integers", "two numbers of i32 for every column")
def columns_without_a_bias(edit: Edit) -> None:
    """f32 results have one more row."""
    edit.node("linear.q8")["inputs"] = edit.append(
        "INDX", *(edit.arrays["INDX"][edit.node("linear.q8")["inputs"] + i] for i in range(4))
    )
    c = _constant(edit, "linear.q8", 2)
    c.update(dims=edit.append("INTS", 1, 16), size=16 * 4)
    _value(edit, "linear.q8", 2)["dims"] = c["dims"]


@hostile("integers", "a table of 256 numbers of u8")
def a_table_that_is_too_short(edit: Edit) -> None:
    c = _constant(edit, "lookup.q8", 1)
    c.update(dims=edit.append("INTS", 255), size=255)
    _value(edit, "lookup.q8", 1)["dims"] = c["dims"]


@hostile("integers", "limits that the result can hold")
def a_byte_above_255(edit: Edit) -> None:
    _set_int(edit, "quantize.f32", "high", 256)


@hostile("integers", "limits that the result can hold")
def limits_the_wrong_way_round(edit: Edit) -> None:
    _set_int(edit, "quantize.f32", "low", 255)
    _set_int(edit, "quantize.f32", "high", 0)


@hostile("integers", "a highest level from 1 to 255")
def no_levels_at_all(edit: Edit) -> None:
    _set_int(edit, "quantize_dynamic.f32", "high", 0)


@hostile("integers", "torch, pt2e or fixed as rule")
def a_rule_that_does_not_exist(edit: Edit) -> None:
    _set_text(edit, "quantize_dynamic.f32", "rule", "any")


@hostile("integers", "clamp as the activation of integers")
def an_activation_that_integers_lack(edit: Edit) -> None:
    _set_text(edit, "conv2d.q8.depthwise", "act", "silu")


@hostile("integers", "in layout f16_")
def integers_that_are_stored_as_halves(edit: Edit) -> None:
    _constant(edit, "lookup.q8", 1)["layout"] = edit.string("f16_plain")


@hostile("small", "as many bytes as")
def half_the_bytes_that_halves_need(edit: Edit) -> None:
    _constant(edit, "linear", 1)["layout"] = edit.string("f16_panel16")
    _constant(edit, "linear", 1)["size"] //= 4


@hostile("state", "a dim for every index tensor")
def indices_from_the_last_number_on(edit: Edit) -> None:
    _set_int(edit, "index_put", "at", 2**63 - 1)


# --- state ---


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
    _refer(edit, "arange", "end", "register_value", edit.tables["METH"][0]["input_count"] + 1)


def write_hostile(folder: Path) -> dict[str, Path]:
    """name -> file, for all of them."""
    seeds = {p.stem: p.read_bytes() for p in write_zoo(folder)} | {"small": small_file()}
    paths = {}
    for name, case in HOSTILE.items():
        edit = Edit(seeds[case.seed])
        case.change(edit)
        paths[name] = folder / f"hostile-{name}.pen"
        paths[name].write_bytes(edit.bytes(case.section))
    return paths
