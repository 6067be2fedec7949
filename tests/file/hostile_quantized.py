"""Hostile files of quantized tensors: what integers stand for, and what kernels of bytes read in place (hostile.py)."""

from __future__ import annotations

import math
import struct

from penlight.file import format as f
from tests.file.edit import Edit
from tests.file.hostile_edits import constant_of, hostile, quant_of, set_int, set_text, value_of


def _wrong_scale(name: str, scale: float) -> None:
    def change(edit: Edit) -> None:
        edit.arrays["FLTS"][quant_of(edit, "add.q8", 0)["scales"]] = scale

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
    c = edit.tables["CNST"][quant_of(edit, "conv2d.q8.gemm", 1)["scales"]]
    data = bytearray(edit.data)
    data[c["offset"] : c["offset"] + c["size"]] = struct.pack("<5f", math.nan, -1.0, math.inf, 0.0, 1e38) * 4
    edit.data = bytes(data)


@hostile("integers", "a dim below 8 as axis")
def scales_along_a_dim_that_no_tensor_has(edit: Edit) -> None:
    quant_of(edit, "conv2d.q8.gemm", 1)["axis"] = 8


@hostile("integers", "a scale for each place along a dim")
def scales_along_a_dim_of_another_size(edit: Edit) -> None:
    quant_of(edit, "conv2d.q8.gemm", 1)["axis"] = 1


@hostile("integers", "a scale for each place along a dim")
def scales_beyond_the_rank(edit: Edit) -> None:
    quant_of(edit, "conv2d.q8.gemm", 1)["axis"] = 5


@hostile("integers", "as many plain scales of f32 as it says")
def more_scales_than_there_are(edit: Edit) -> None:
    quant_of(edit, "conv2d.q8.gemm", 1)["count"] = 4000


@hostile("integers", "as many plain scales of f32 as it says")
def scales_that_are_weights(edit: Edit) -> None:
    quant_of(edit, "conv2d.q8.gemm", 1)["scales"] = value_of(edit, "conv2d.q8.gemm", 1)["constant"]


@hostile("integers", "scales that exist")
def scales_that_do_not_exist(edit: Edit) -> None:
    quant_of(edit, "conv2d.q8.gemm", 1)["scales"] = 4000


@hostile("integers", "QUNT")
def zero_points_that_do_not_exist(edit: Edit) -> None:
    quant_of(edit, "add.q8", 0)["zeros"] = 1 << 30


@hostile("integers", "a zero point for all or for each scale")
def more_zero_points_than_scales(edit: Edit) -> None:
    quant_of(edit, "add.q8", 0).update(zeros=0, zero_count=2)


@hostile("integers", "zero points that the dtype holds")
def a_zero_point_beyond_u8(edit: Edit) -> None:
    quant_of(edit, "add.q8", 0)["zeros"] = edit.append("INTS", 256)


@hostile("integers", "zero points that the dtype holds")
def a_zero_point_below_u8(edit: Edit) -> None:
    quant_of(edit, "add.q8", 0)["zeros"] = edit.append("INTS", -1)


@hostile("integers", "scales along a dim of a constant")
def an_activation_with_a_scale_for_each_channel(edit: Edit) -> None:
    value_of(edit, "add.q8", 0)["quant"] = value_of(edit, "conv2d.q8.gemm", 1)["quant"]


@hostile("integers", "a quantization that exists")
def a_quantization_that_does_not_exist(edit: Edit) -> None:
    value_of(edit, "add.q8", 0)["quant"] = 4000


@hostile("integers", "u8, i8 or i32 as dtype")
def floats_that_stand_for_integers(edit: Edit) -> None:
    value_of(edit, "quantize.f32", 0)["quant"] = value_of(edit, "add.q8", 0)["quant"]


def _without_quant(key: str, input: int, error: str) -> None:
    def change(edit: Edit) -> None:
        value_of(edit, key, input)["quant"] = 0

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
        constant_of(edit, key, 1)["layout"] = edit.string(layout)

    change.__name__ = f"{key.replace('.', '_')}_with_weights_of_{layout}"
    hostile("integers", "layout")(change)


for _key, _layout in (
    ("conv2d.q8.gemm", "taps"), ("conv2d.q8.gemm", "panel16"), ("conv2d.q8.depthwise", "quads16"), ("linear.q8", "taps"),
):  # fmt: skip
    _other_layout(_key, _layout)


@hostile("integers", "as many bytes as its packed layout takes")
def weights_that_end_within(edit: Edit) -> None:
    constant_of(edit, "conv2d.q8.depthwise", 1)["size"] -= 64


@hostile("integers", "one number of i32 for every column")
def fewer_columns_than_outputs(edit: Edit) -> None:
    c = constant_of(edit, "conv2d.q8.gemm", 2)
    c.update(dims=edit.append("INTS", 1, 16), size=16 * 4)
    value_of(edit, "conv2d.q8.gemm", 2)["dims"] = c["dims"]


@hostile("integers", "two numbers of i32 for every column")
def columns_without_a_bias(edit: Edit) -> None:
    """f32 results have one more row."""
    edit.node("linear.q8")["inputs"] = edit.append(
        "INDX", *(edit.arrays["INDX"][edit.node("linear.q8")["inputs"] + i] for i in range(4))
    )
    c = constant_of(edit, "linear.q8", 2)
    c.update(dims=edit.append("INTS", 1, 16), size=16 * 4)
    value_of(edit, "linear.q8", 2)["dims"] = c["dims"]


@hostile("integers", "a table of 256 numbers of u8")
def a_table_that_is_too_short(edit: Edit) -> None:
    c = constant_of(edit, "lookup.q8", 1)
    c.update(dims=edit.append("INTS", 255), size=255)
    value_of(edit, "lookup.q8", 1)["dims"] = c["dims"]


@hostile("integers", "limits that the result can hold")
def a_byte_above_255(edit: Edit) -> None:
    set_int(edit, "quantize.f32", "high", 256)


@hostile("integers", "limits that the result can hold")
def limits_the_wrong_way_round(edit: Edit) -> None:
    set_int(edit, "quantize.f32", "low", 255)
    set_int(edit, "quantize.f32", "high", 0)


@hostile("integers", "a highest level from 1 to 255")
def no_levels_at_all(edit: Edit) -> None:
    set_int(edit, "quantize_dynamic.f32", "high", 0)


@hostile("integers", "torch, pt2e or fixed as rule")
def a_rule_that_does_not_exist(edit: Edit) -> None:
    set_text(edit, "quantize_dynamic.f32", "rule", "any")


@hostile("integers", "clamp as the activation of integers")
def an_activation_that_integers_lack(edit: Edit) -> None:
    set_text(edit, "conv2d.q8.depthwise", "act", "silu")


@hostile("integers", "in layout f16_")
def integers_that_are_stored_as_halves(edit: Edit) -> None:
    constant_of(edit, "lookup.q8", 1)["layout"] = edit.string("f16_plain")


@hostile("small", "as many bytes as")
def half_the_bytes_that_halves_need(edit: Edit) -> None:
    constant_of(edit, "linear", 1)["layout"] = edit.string("f16_panel16")
    constant_of(edit, "linear", 1)["size"] //= 4


@hostile("state", "a dim for every index tensor")
def indices_from_the_last_number_on(edit: Edit) -> None:
    set_int(edit, "index_put", "at", 2**63 - 1)
