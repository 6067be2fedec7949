"""Elementwise rules to GLSL: from the Terms that the CPU's kernels come from (elementwise.py), a shader for each module and number of
inputs, which has its rules as cases of a switch over a specialization constant: the driver keeps the one that is asked for.

    float rule(float a, float b, float c) {
      switch (RULE) {
        case 0: { float t0 = p_mul(a, 0.5); … return …; }

The same text serves for activations inside of other shaders (`activate`). Primitives are functions of runtime/gpu/math.glsl, and of
whole.glsl for one shader that has the rules on i64, i32 and bool, and casts. What GLSL lacks stays with the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from penlight.ops.elementwise.expression import SPECIAL, Term, show
from penlight.ops.elementwise.rules import ElementwiseOp, Row
from penlight.ops.registry import Op

MISSING = {
    *SPECIAL,
    "lgamma",
    "nextafter",
    "gcd",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bit_not",
    "shift_left",
    "shift_right",
}
WHOLE = "elementwise_whole"
WHOLE_DTYPES = ("i64", "i32", "bool")
CAST_DTYPES = ("f32", *WHOLE_DTYPES, "u8", "i8")
WHOLE_MISSING = {*SPECIAL, "attr", "gcd", "pow"}
DIVISIONS = {"trunc_divide", "floor_divide", "fmod", "remainder"}
INPUTS = "abc"
MOST_NUMBERS = 4
# Unary operators that conv2d, linear and others do by themselves, in the order of their numbers, from 1.
ACTIVATIONS = (
    "clamp",
    "relu",
    "hardswish",
    "hardsigmoid",
    "silu",
    "sigmoid",
    "gelu",
    "gelu_tanh",
    "tanh",
    "leaky_relu",
    "elu",
)


class Rule(NamedTuple):
    """Where a key is computed."""

    shader: str
    number: int


def _name(op: ElementwiseOp) -> str:
    kind = ("c" if op.has_condition else "") + ("b" if op.result == "bool" else "")
    return f"elementwise_{op.module.rpartition('.')[2]}_{len(op.tensors)}{kind}"


def _row(op: ElementwiseOp) -> Row | None:
    return next(
        (r for r in op.rows() if r.key == f"{op.name}.f32" and not r.loop and r.output in ("f32", "bool")), None
    )


def _can(t: Term, missing: set[str] = MISSING) -> bool:
    return t.op not in missing and all(_can(a, missing) for a in t.args)


def _groups(ops: Mapping[str, Op]) -> dict[str, list[ElementwiseOp]]:
    groups: dict[str, list[ElementwiseOp]] = {}
    for _, op in sorted(ops.items()):
        fits = (
            isinstance(op, ElementwiseOp)
            and _row(op)
            and len(op.tensors) <= len(INPUTS)
            and len(op.attrs) <= MOST_NUMBERS
        )
        if fits and isinstance(op, ElementwiseOp) and op.rule is not None and _can(op.trace()):
            groups.setdefault(_name(op), []).append(op)
    return groups


def _whole(ops: Mapping[str, Op]) -> list[ElementwiseOp]:
    """Operators on whole numbers. Casts are the first: a rule that gives back what it gets."""
    found = [
        op
        for _, op in sorted(ops.items())
        if isinstance(op, ElementwiseOp)
        and set(op.dtypes) & set(WHOLE_DTYPES)
        and op.rule is not None
        and (_can(op.trace(), WHOLE_MISSING | DIVISIONS) or (_can(op.trace(), WHOLE_MISSING) and _divides(op)))
    ]
    return sorted(found, key=lambda op: op.name != "cast")


def elementwise_rules(ops: Mapping[str, Op]) -> dict[str, Rule]:
    """By kernel key."""
    rules = {f"{op.name}.f32": Rule(name, i) for name, group in _groups(ops).items() for i, op in enumerate(group)}
    for i, op in enumerate(_whole(ops)):
        dtypes = CAST_DTYPES if op.name == "cast" else WHOLE_DTYPES
        for row in op.rows():
            if {*row.inputs, row.output} <= set(dtypes):
                rules[row.key] = Rule(WHOLE, i)
    return rules


def elementwise_shaders(ops: Mapping[str, Op]) -> dict[str, str]:
    """Source by name."""
    return {name: _shader(group) for name, group in _groups(ops).items()} | {WHOLE: _whole_shader(_whole(ops))}


def _cases(group: list[ElementwiseOp], type: str) -> list[str]:
    lines = [f"{type} rule({type} a, {type} b, {type} c) {{", "  switch (RULE) {"]
    for i, op in enumerate(group):
        named = {p.name: letter for p, letter in zip(op.tensors, INPUTS, strict=False)}
        numbers = {p.name: f"args[{j}]" for j, p in enumerate(op.attrs)}
        lines += [f"    case {i}: {{  // {op.name}", *_body(op.trace(), named, numbers, type), "    }"]
    return [*lines, "  }", f"  return {type}(0);", "}"]


def _push(inputs: int) -> str:
    strides = ", ".join(f"x{i}_strides[4]" for i in range(inputs))
    places = ", ".join(f"x{i}_at" for i in range(inputs))
    return f"layout(push_constant) uniform Push {{ uint n; uint dims[4]; uint {strides}; uint y_strides[4]; uint {places}; uint y_at; float args[4]; }};"


def _divides(op: ElementwiseOp) -> bool:
    """Its two inputs, and nothing else (whole.glsl)."""
    root = op.trace()
    return root.op in DIVISIONS and [str(a.value) for a in root.args] == [p.name for p in op.tensors]


def _whole_shader(group: list[ElementwiseOp]) -> str:
    return "\n".join([
        "#version 450",
        "#extension GL_GOOGLE_include_directive : require",
        '#include "gpu.glsl"',
        '#include "whole.glsl"',
        *(f"layout(constant_id = {i}) const uint {name} = 0;" for i, name in enumerate(("RULE", "INPUTS", "FIRST", "OTHERS", "OUT"))),
        _push(3),
        *(f"READ_ANY({i}, x{i});" for i in range(3)),
        "WRITE_ANY(3, y);",
        "bool p_both(bool a, bool b) { return a && b; }",
        "bool p_either(bool a, bool b) { return a || b; }",
        f"const bool DIVIDES = {' || '.join(f'RULE == {i}' for i, op in enumerate(group) if _divides(op))};",
        *_cases(group, "uvec2"),
        '#include "elementwise_whole.glsl"',
        "",
    ])  # fmt: skip


def _shader(group: list[ElementwiseOp]) -> str:
    first = group[0]
    lines = [
        "#version 450",
        "#extension GL_GOOGLE_include_directive : require",
        f"#define INPUTS {len(first.tensors)}",
        *(["#define CONDITION"] if first.has_condition else []),
        *(["#define TRUTH"] if first.result == "bool" else []),
        '#include "elementwise.glsl"',
        *_cases(group, "float"),
    ]
    # What shaders.py looks for stands in the text itself, not in what it includes.
    buffers = [
        f"{'READ_BYTES' if first.has_condition and i == 0 else 'READ'}({i}, x{i});" for i in range(len(first.tensors))
    ]
    buffers.append(f"{'WRITE_WORDS' if first.result == 'bool' else 'WRITE'}({len(first.tensors)}, y);")
    head = [
        "layout(constant_id = 0) const uint RULE = 0;",
        "layout(constant_id = 1) const uint DENSE = 0;  // all operands lie alike, without gaps, at multiples of four",
        _push(len(first.tensors)),
        *buffers,
    ]
    at = lines.index('#include "elementwise.glsl"')
    return "\n".join(
        [
            *lines[:at],
            '#include "gpu.glsl"',
            '#include "math.glsl"',
            *head,
            *lines[at + 1 :],
            '#include "elementwise.glsl"',
            "",
        ]
    )


def activations_source(ops: Mapping[str, Op]) -> str:
    lines = [
        "// Generated by penlight/ops/elementwise/glsl.py. Activations that shaders do by themselves, by number; 0: none.",
        "float activate(uint act, float a, vec4 args) {",
        "  switch (act) {",
    ]
    for i, name in enumerate(ACTIVATIONS):
        op = ops[name]
        assert isinstance(op, ElementwiseOp)
        numbers = {p.name: f"args[{j}]" for j, p in enumerate(op.attrs)}
        lines += [f"    case {i + 1}: {{  // {name}", *_body(op.trace(), {op.tensors[0].name: "a"}, numbers), "    }"]
    return "\n".join([*lines, "  }", "  return a;", "}", ""])


def _body(root: Term, inputs: Mapping[str, str], numbers: Mapping[str, str], type: str = "float") -> list[str]:
    names: dict[str, str] = {}
    lines: list[str] = []

    def expression(t: Term) -> str:
        if t.op == "input":
            return f"({inputs[str(t.value)]} != {type}(0))" if t.is_mask else inputs[str(t.value)]
        if t.op == "attr":
            return numbers[str(t.value)]
        if t.op == "const":
            return _literal(float(t.value)) if type == "float" else _whole_literal(int(t.value))
        text = show(t)
        if text not in names:
            call = f"p_{t.op}({', '.join(expression(a) for a in t.args)})"
            if type == "float" and t.op == "mul" and t.args[1].op == "const" and t.args[1].value == 0:
                call = f"p_none_of({expression(t.args[0])})"
            names[text] = f"t{len(names)}"
            lines.append(f"      {'bool' if t.is_mask else type} {names[text]} = {call};")
        return names[text]

    result = expression(root)
    return [*lines, f"      return {f'{type}({result})' if root.is_mask else result};"]


def _whole_literal(value: int) -> str:
    return f"uvec2({value & 0xFFFFFFFF}u, {value >> 32 & 0xFFFFFFFF}u)"


def _literal(value: float) -> str:
    if math.isnan(value):
        return "uintBitsToFloat(0x7fc00000u)"
    if math.isinf(value):
        return f"uintBitsToFloat(0x{'ff' if value < 0 else '7f'}800000u)"
    text = repr(value)
    return text if any(c in text for c in ".e") else f"{text}.0"
