"""Dtypes by name, and which of two holds both: torch's promotion. The VM promotes by the same table (pen_dtypes.h)."""

from __future__ import annotations

# name -> (code in the file, numpy dtype). Codes are append-only: they are part of the .pen format.
DTYPES: dict[str, tuple[int, str]] = {
    "f32": (0, "float32"),
    "f16": (1, "float16"),
    "f64": (2, "float64"),
    "i8": (3, "int8"),
    "u8": (4, "uint8"),
    "i16": (5, "int16"),
    "i32": (6, "int32"),
    "i64": (7, "int64"),
    "bool": (8, "bool"),
    "bf16": (9, "uint16"),  # numpy has no bfloat16: its bits
}
_RISING = ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")


def category(dtype: str) -> int:
    """bool < integers < floats"""
    return 0 if dtype == "bool" else 2 if dtype in ("f16", "bf16", "f32", "f64") else 1


def joined(a: str, b: str) -> str:
    """The dtype of a result of both, where both are tensors with dims."""
    if {a, b} == {"f16", "bf16"}:
        return "f32"
    if {a, b} == {"u8", "i8"}:
        return "i16"
    return max(a, b, key=_RISING.index)


def cpp_header() -> str:
    code = {name: code for name, (code, _) in DTYPES.items()}
    rows = ", ".join("{" + ", ".join(str(code[joined(a, b)]) for b in DTYPES) + "}" for a in DTYPES)
    return f"""// Generated from penlight/ir/dtypes.py by penlight/build/generate.py. Do not edit.
#pragma once
#include <stdint.h>
namespace pen {{
constexpr uint8_t kJoinedDTypes[{len(DTYPES)}][{len(DTYPES)}] = {{{rows}}};
constexpr uint8_t kDTypeCategories[{len(DTYPES)}] = {{{", ".join(str(category(d)) for d in DTYPES)}}};
}}  // namespace pen
"""
