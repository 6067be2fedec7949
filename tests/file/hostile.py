"""Files that are wrong in one chosen way, each with what the runtime must say: structure that lies, arithmetic that
overflows, tables that describe endless work; of quantized tensors in hostile_quantized.py, with state in hostile_state.py. Made from the
zoo (zoo.py) and the small program (small.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penlight.file import format as f
from tests.file import hostile_quantized, hostile_state  # noqa: F401  they add theirs to HOSTILE
from tests.file.edit import Edit
from tests.file.hostile_edits import HOSTILE, Hostile, hostile, instructions, refer, result, set_int, set_ints, set_text
from tests.file.small import small_file
from tests.file.zoo import write_zoo

# --- activations: a name in the file chooses a function ---


@hostile("small", "elementwise operator")
def activation_of_two_operands(edit: Edit) -> None:
    set_text(edit, "conv2d.f32.direct", "act", "add")


@hostile("small", "elementwise operator")
def activation_of_another_dtype(edit: Edit) -> None:
    set_text(edit, "conv2d.f32.depthwise3", "act", "cast.i64")  # "cast.i64.f32" is a kernel


@hostile("small", "elementwise operator")
def activation_with_another_result(edit: Edit) -> None:
    set_text(edit, "linear", "act", "isnan")


@hostile("small", "elementwise operator")
def activation_that_is_no_row_function(edit: Edit) -> None:
    set_text(edit, "linear", "act", "softmax")


# --- arithmetic ---


@hostile("shapes", "64 TB")
def expand_beyond_counting(edit: Edit) -> None:
    big = 1 << 40
    set_ints(edit, "expand", "shape", big, big, 6, 8)
    for v in edit.tables["VALS"]:
        if v["name"] == edit.tables["VALS"][edit.arrays["INDX"][edit.node("expand")["outputs"]]]["name"]:
            v["rank"] = 4


@hostile("shapes", "padding that leaves")
def pad_overflow(edit: Edit) -> None:
    set_ints(edit, "pad", "padding", (1 << 63) - 1, (1 << 63) - 1, 0, 0)


@hostile("shapes", "64 bits")
def arange_overflow(edit: Edit) -> None:
    set_int(edit, "arange", "start", -(1 << 62))
    set_int(edit, "arange", "end", (1 << 63) - 1)


@hostile("shapes", "step")
def arange_step_zero(edit: Edit) -> None:
    set_int(edit, "arange", "step", 0)


@hostile("pools", "half the window")
def pool_padding_overflow(edit: Edit) -> None:
    set_ints(edit, "avg_pool2d", "padding", (1 << 63) - 1, 1 << 62, 0, 0)


@hostile("pools", "1 or more")
def pool_kernel_of_nothing(edit: Edit) -> None:
    set_ints(edit, "max_pool2d", "kernel", 0, 0)


@hostile("pools", "scales from")
def resize_by_almost_nothing(edit: Edit) -> None:
    """1 / factor is infinite, and so would be places in the image."""
    edit.attr(edit.node("resize_nearest"), "scales").update(start=edit.append("FLTS", 1e-320, 1e-320), count=2)
    for node in edit.tables["NODE"]:
        if edit.name(node["key"]).startswith("resize_") and edit.attr(node, "scales")["count"] == 2:
            edit.attr(node, "scales")["start"] = edit.append("FLTS", 1e-320, 1e-300)


@hostile("pools", "sides from 1")
def resize_to_nothing(edit: Edit) -> None:
    set_ints(edit, "resize", "size", 0, 0)


@hostile("convolutions", "stride")
def stride_zero(edit: Edit) -> None:
    set_ints(edit, "conv2d.f32.", "stride", 0, 1)


@hostile("convolutions", "padded image at least as large")
def dilation_beyond_the_image(edit: Edit) -> None:
    set_ints(edit, "conv2d.f32.", "dilation", 1 << 23, 1 << 23)


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
    set_int(edit, "conv2d.f32.grouped", "groups", 0)


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


@hostile("data", "earlier stage's result")
def a_size_that_is_not_known_yet(edit: Edit) -> None:
    """select runs in the stage in which nonzero finds that size."""
    refer(edit, "select", "index", "register_dim", result(edit, "2") * 256)


@hostile("data", "earlier stage's result")
def a_number_that_is_not_known_yet(edit: Edit) -> None:
    refer(edit, "select", "index", "register_value", result(edit, "5"))


@hostile("data", "earlier stage's result")
def a_number_in_an_input(edit: Edit) -> None:
    """It may be a pointer to anything at bind: only results of regions are read."""
    refer(edit, "slice", "end", "register_value", 1)


@hostile("data", "earlier stage's result")
def a_number_in_a_tensor_of_many(edit: Edit) -> None:
    refer(edit, "slice", "end", "register_value", result(edit, "2"))


@hostile("data", "earlier stage's result")
def a_dim_beyond_the_rank(edit: Edit) -> None:
    refer(edit, "slice", "end", "register_dim", result(edit, "2") * 256 + 2)


@hostile("data", "earlier stage's result")
def a_register_that_does_not_exist(edit: Edit) -> None:
    refer(edit, "slice", "end", "register_dim", 1 << 40)


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
    instructions(edit, "stage")[0].update(arg_count=1)


@hostile("data", "4096 stages")
def endless_stages(edit: Edit) -> None:
    method = edit.tables["METH"][0]
    code = [dict(r) for r in edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]]
    stage = instructions(edit, "stage")[0]
    method.update(code=len(edit.tables["CODE"]), code_count=len(code) + 4096)
    edit.tables["CODE"] += [*code[:1], *(dict(stage) for _ in range(4096)), *code[1:]]


@hostile("data", "")
def stages_of_nothing(edit: Edit) -> None:
    method = edit.tables["METH"][0]
    code = [dict(r) for r in edit.tables["CODE"][method["code"] : method["code"] + method["code_count"]]]
    stage = instructions(edit, "stage")[0]
    method.update(code=len(edit.tables["CODE"]), code_count=len(code) + 4)
    edit.tables["CODE"] += [dict(stage), dict(stage), *code[:-1], dict(stage), dict(stage), code[-1]]


@hostile("data", "four numbers")
def boxes_of_three(edit: Edit) -> None:
    edit.arrays["INDX"][edit.node("nms")["inputs"]] = edit.arrays["INDX"][edit.node("sort")["outputs"]]


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
