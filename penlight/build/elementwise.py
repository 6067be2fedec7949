"""Elementwise rules to C++: a struct per rule, a template over V (f32 vectors) and plain numbers, and a row function
per dtype that instantiates a loop of runtime/cpu/elementwise.h with it. One file per declaring Python module, compiled
once per instruction set (rows that do not run on vectors: in the base set only). Needs neither numpy nor torch: it runs in an isolated build.

    struct HardswishRule {
      PEN_INLINE explicit HardswishRule(const double*) {}
      template <class T>
      PEN_INLINE auto operator()(T x) const {
        auto t0 = mul(x, splat<T>(0.16666666666666666));
        …
    void hardswish_f32(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
      vector_row1<HardswishRule>(out, in, steps, n, args);
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from penlight.build.selection import EVERYTHING, Selection
from penlight.ops.elementwise.expression import SPECIAL, Term, show
from penlight.ops.elementwise.rules import ElementwiseOp, Row
from penlight.ops.registry import Op

ROW_PARAMETERS = "void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args"
STORAGE = {"f32": "F32", "f64": "F64", "f16": "F16", "bf16": "BF16", "i8": "I8", "u8": "U8", "i16": "I16", "i32": "I32",
           "i64": "I64", "bool": "Bool"}  # fmt: skip


class Entry(NamedTuple):
    """A row function as the registry lists it; `symbol` is in namespace pen::PEN_ISA."""

    key: str
    symbol: str
    dtype: str  # of the inputs, conditions aside
    result: str
    per_isa: bool  # else in the base set only
    loops: int  # which input, from 1 on, says how many steps an element takes; 0: all take about as long


def elementwise_entries(ops: Mapping[str, Op]) -> list[Entry]:
    return [
        Entry(
            r.key,
            r.symbol,
            r.inputs[-1],
            r.output,
            _is_per_isa(op, r),
            [p.name for p in op.tensors].index(op.loops) + 1 if op.loops else 0,
        )
        for op in _rules(ops)
        for r in op.rows()
    ]


def emit_elementwise(ops: Mapping[str, Op], chosen: Selection = EVERYTHING) -> dict[str, str]:
    """File name -> C++ source, for the rows that are chosen."""
    by_module: dict[str, list[ElementwiseOp]] = {}
    for op in _rules(ops):
        if any(chosen.has_key(row.key) for row in op.rows()):
            by_module.setdefault(op.module, []).append(op)
    return {
        f"elementwise_{module.rpartition('.')[2]}.cc": _file(module, members, chosen)
        for module, members in sorted(by_module.items())
    }


def _rules(ops: Mapping[str, Op]) -> list[ElementwiseOp]:
    return [op for _, op in sorted(ops.items()) if isinstance(op, ElementwiseOp)]


def _file(module: str, ops: list[ElementwiseOp], chosen: Selection) -> str:
    lines = [
        f"// Generated from {module.replace('.', '/')}.py by penlight/build/elementwise.py: change the rules, not this.",
        '#include "penlight/runtime/cpu/elementwise.h"',
        '#include "penlight/runtime/cpu/special.h"',
        "",
        "namespace pen {",
        "namespace PEN_ISA {",
    ]
    for op in ops:
        lines += ["", *_rule(op)]
        for row in filter(lambda row: chosen.has_key(row.key), op.rows()):
            lines += _row(op, row) if _is_per_isa(op, row) else ["#if defined(PEN_ISA_BASE)", *_row(op, row), "#endif"]
    return "\n".join([*lines, "", "}  // namespace PEN_ISA", "}  // namespace pen", ""])


def _struct(op: Op) -> str:
    return "".join(part.capitalize() for part in op.name.split("_")) + "Rule"


def _rule(op: ElementwiseOp) -> list[str]:
    """The struct: attributes are members, as stores through `out` may not change them."""
    attrs = [p.name for p in op.attrs if p.kind == "float"]
    values = [p.name for p in op.tensors if p.name != "condition"]
    parameters = ", ".join(f"{'Mask' if p.name == 'condition' else 'T'} {p.name}" for p in op.tensors)
    body, result = _statements(op.trace(), whole_numbers=any(d.startswith("i") for d in op.dtypes))
    reads = ", ".join(f"{a}_(args[{i}])" for i, a in enumerate(attrs))
    summary = [f"// {op.name}: {op.doc.splitlines()[0]}"] if op.doc else []
    return [
        *summary,
        f"struct {_struct(op)} {{",
        f"  PEN_INLINE explicit {_struct(op)}(const double*{' args' if attrs else ''}){' : ' + reads if attrs else ''} {{}}",
        f"  template <{'class Mask, ' if len(values) < len(op.tensors) else ''}class T>",
        f"  PEN_INLINE auto operator()({parameters}) const {{",
        *(f"    {line}" for line in body),
        f"    return {result};",
        "  }",
        *(f"  const double {a}_;" for a in attrs),
        "};",
    ]


def _statements(root: Term, *, whole_numbers: bool) -> tuple[list[str], str]:
    """Statements that compute every term once, and the expression of the last."""
    names: dict[str, str] = {}
    lines: list[str] = []

    def expression(t: Term) -> str:
        if t.op == "input":
            return str(t.value)
        if t.op == "attr":
            return f"splat<T>({t.value}_)"
        if t.op == "const":
            if whole_numbers and float(t.value) != math.floor(float(t.value)):
                raise ValueError(f"a rule for integers uses the constant {t.value}")
            return f"splat<T>({float_literal(float(t.value))})"
        text = show(t)
        if text not in names:
            call = _call(t, [expression(a) for a in t.args])
            names[text] = f"t{len(names)}"
            lines.append(f"auto {names[text]} = {call};")
        return names[text]

    result = expression(root)
    if lines and lines[-1].startswith(f"auto {result} = "):
        return lines[:-1], lines[-1].removeprefix(f"auto {result} = ").removesuffix(";")
    return lines, result


def _call(t: Term, args: list[str]) -> str:
    """max and min give their second argument when either is NaN: with a number first, that is `maximum`, and cheaper."""
    if t.op in ("maximum", "minimum"):
        numbers = [a.op == "const" and not math.isnan(float(a.value)) for a in t.args]
        if any(numbers):
            return f"{t.op[:3]}({', '.join(args if numbers[0] else reversed(args))})"
    return f"{'special::' if t.op in SPECIAL else ''}{t.op}({', '.join(args)})"


def _is_vector(op: ElementwiseOp, row: Row) -> bool:
    return op.on_vectors and row.output == "f32" and set(row.inputs) == {"f32"}


def _is_per_isa(op: ElementwiseOp, row: Row) -> bool:
    """What vectors compute. Plain loops gain nothing from wider sets."""
    return bool(row.loop) or _is_vector(op, row) or _is_chunked(op, row)


CHEAP = frozenset(
    """input attr const add sub mul div neg abs maximum minimum clamp copysign signbit isnan lt le gt ge eq ne both either
    negate select bit_and bit_or bit_xor bit_not shift_left shift_right""".split()  # noqa: SIM905
)


# What masks, images, halves and indices are made of; others are not worth the code.
CHUNKED = {"f32", "u8", "bool", "bf16", "i64"}
CHUNKED_F64 = {"add", "sub", "mul", "div"}


def _is_cheap(t: Term) -> bool:
    """Whether a compiler finds a vector form for all of it."""
    return t.op in CHEAP and all(map(_is_cheap, t.args))


# These have an instruction too, though not as numbers in every dtype.
BRIEF = CHEAP | {"sqrt", "floor", "ceil", "round", "trunc"}


def _is_long(t: Term) -> bool:
    """Whether it takes so many instructions that one copy of them is enough (long_row1 in runtime/cpu/elementwise.h). A power is
    faster where its exponent is one number, of which much can be found out before the loop."""
    return t.op != "pow" and (t.op not in BRIEF or any(map(_is_long, t.args)))


def _is_chunked(op: ElementwiseOp, row: Row) -> bool:
    dtypes = {*row.inputs, row.output}
    return (dtypes <= CHUNKED and _is_cheap(op.trace())) or (dtypes == {"f64"} and op.name in CHUNKED_F64)


def _row(op: ElementwiseOp, row: Row) -> list[str]:
    arity = len(row.inputs)
    if row.loop:
        loop = row.loop
    elif _is_vector(op, row):
        loop = f"{'long' if _is_long(op.trace()) else 'vector'}_row{arity}<{_struct(op)}>"
    else:
        storage = [
            "Condition" if p.name == "condition" else STORAGE[d] for p, d in zip(op.tensors, row.inputs, strict=True)
        ]
        if row.inputs == ("bool",) and row.output != "bool":
            storage = ["Truth"]
        kind = "chunk" if _is_chunked(op, row) else "number"
        loop = f"{kind}_row{arity}<{', '.join([_struct(op), STORAGE[row.output], *storage])}>"
    small = (
        "" if _is_per_isa(op, row) else "PEN_SMALL "
    )  # numbers one by one: hundreds of such functions, and no loop to unroll
    return [
        f"{small}void {row.symbol}({ROW_PARAMETERS});",
        f"{small}void {row.symbol}({ROW_PARAMETERS}) {{",
        f"  {loop}(out, in, steps, n, args);",
        "}",
    ]


def float_literal(value: float) -> str:
    """`value` in C++, a double: each dtype rounds it for itself."""
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf()"
    return repr(float(value))
