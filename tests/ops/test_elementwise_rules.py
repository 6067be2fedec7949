"""The elementwise machinery: tracing, what it refuses, NaN policies, and constant folding against torch's operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from penlight.ops import registry
from penlight.ops.elementwise.expression import Term, exp, select, show
from penlight.ops.elementwise.overloads import schemas
from penlight.ops.elementwise.rules import ElementwiseOp, elementwise

OPS = {name: op for name, op in registry.load_all().items() if isinstance(op, ElementwiseOp)}
SPECIAL = [n for n, op in sorted(OPS.items()) if op.fold is None]  # computed in C++ only
RULES = [n for n in sorted(OPS) if n != "cast" and n not in SPECIAL]


@pytest.fixture
def declare() -> Any:
    """`elementwise`, with what it declared forgotten afterwards."""
    before, aten = dict(registry.OPS), dict(registry.ATEN)
    yield elementwise
    registry.OPS.clear()
    registry.OPS.update(before)
    registry.ATEN.clear()
    registry.ATEN.update(aten)


def test_a_rule_is_traced_into_primitives() -> None:
    hardswish = OPS["hardswish"]
    assert show(hardswish.trace()) == "mul(x, clamp(add(mul(x, 0.16666666666666666), 0.5), 0, 1))"
    assert hardswish.schema == "x: tensor"
    assert OPS["elu"].compact_schema() == "x:T alpha:f scale:f input_scale:f"
    assert OPS["where"].compact_schema() == "condition:T* a:T b:T"


def test_rules_use_each_other(declare: Callable[..., Any]) -> None:
    @declare(oracle=lambda torch, x: x)
    def silu_of_exp(x: Term) -> Term:
        return OPS["silu"](exp(x))  # type: ignore[no-any-return]

    assert show(silu_of_exp.trace()) == "div(exp(x), add(exp(neg(exp(x))), 1))"


def test_operators_outside_of_aten(declare: Callable[..., Any]) -> None:
    """Converter and samples look where the name says; no operators of aten come from it."""
    library = torch.library.Library("penlight_rules", "FRAGMENT")
    library.define("opposite(Tensor x) -> Tensor")
    library.impl("opposite", torch.neg, "CPU")

    @declare(aten="penlight_rules::opposite", dtypes=("f32",))
    def opposite(x: Term) -> Term:
        return 0.0 - x

    assert "penlight_rules::opposite" in registry.ATEN
    assert not list(schemas(opposite))
    (sampler,) = opposite.samplers
    (sample,) = (s for s in sampler() if s.name == "channels last")
    assert torch.equal(sample.fn(*sample.inputs), -sample.inputs[0])


def test_branching_is_refused(declare: Callable[..., Any]) -> None:
    @declare(oracle=lambda torch, x: x)
    def branching(x: Term) -> Term:
        return x if x > 0 else -x

    with pytest.raises(TypeError, match="select"):
        branching.trace()


def test_kinds_are_checked(declare: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="select takes mvv"):
        select(Term("input", value="x"), 1, 2)

    @declare(oracle=lambda torch, x: x)
    def positive_part(x: Term) -> Term:
        return x > 0

    with pytest.raises(TypeError, match="condition"):
        positive_part.trace()
    with pytest.raises(TypeError, match="default"):

        @declare()
        def no_default(x: Term, *, scale: float) -> Term:
            return x * scale


def samples_of(name: str) -> list[registry.Sample]:
    return [s for sampler in OPS[name].samplers for s in sampler()]


@pytest.mark.parametrize("name", RULES)
def test_nan_policy(name: str) -> None:
    """What the operator says of NaN is what its rule does, for NaN in any operand."""
    op = OPS[name]
    if "f32" not in op.dtypes:
        pytest.skip("integers only")
    defaults = {p.name: float(p.default) if p.has_default else 0.3 for p in op.attrs}
    for i, parameter in enumerate(op.tensors):
        if parameter.name == "condition":
            continue
        arrays = [
            np.array([True]) if p.name == "condition" else np.array([math.nan if i == j else 1], np.float32)
            for j, p in enumerate(op.tensors)
        ]
        (got,) = op.fold_arrays(*arrays, **defaults)
        if name in ("where", "prelu", "pow") and i == len(op.tensors) - 1:
            continue  # the operand that is not chosen; pow(1, NaN) is 1
        if op.nan in ("the other operand", "its sign counts", "propagate, but inf wins", "its sign", "a number"):
            continue  # compared with torch, below
        if op.nan == "counts as true":
            assert got == op.fold_arrays(*(np.nan_to_num(a, nan=1) for a in arrays))
            continue
        expected: Any = {"propagate": math.nan, "zero": 0, "false": False, "true": True}[op.nan]
        assert np.array_equal(got, expected, equal_nan=op.nan == "propagate"), f"{name}: operand {i}: {got}"


def leaves(x: Any) -> list[torch.Tensor]:
    return [x] if isinstance(x, torch.Tensor) else [t for y in x for t in leaves(y)]


@pytest.mark.parametrize("name", RULES)
def test_folding_equals_torch(name: str) -> None:
    """The numpy evaluation on the special values and broadcasts of the operator's own samples."""
    op = OPS[name]
    if name == "bitwise_not":
        pytest.skip("has neither special values nor broadcasts")
    defaults = {p.name: float(p.default) if p.has_default else 0.3 for p in op.attrs}
    defaults |= {  # their oracles have bounds
        "clamp": {"lo": -0.5, "hi": 2.0},
        "threshold": {"threshold": 0.1, "value": -2.0},
        "nan_to_num": {"nan": 0.5, "posinf": 7.0, "neginf": -8.0},
    }.get(name, {})
    checked = 0
    for sample in samples_of(name):
        if sample.name != "special values" and not sample.name.endswith("broadcasting"):
            continue
        for group, expected in zip(sample.inputs, leaves(sample.fn(*sample.inputs)), strict=True):
            got = op.fold_arrays(*(t.numpy() for t in group), **defaults)
            want = expected.numpy()
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6, err_msg=f"{name}: {sample.name}")
            checked += 1
    assert checked


def test_special_values_are_in_every_float_sample_set() -> None:
    for name in RULES:
        if "f32" in OPS[name].dtypes:
            assert "special values" in {s.name for s in samples_of(name)}, name
    for name in SPECIAL:
        assert "numbers" in {s.name for s in samples_of(name)}, name


@pytest.mark.parametrize("source", ["f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool"])
@pytest.mark.parametrize("target", ["f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool"])
def test_folded_casts_equal_torch(source: str, target: str) -> None:
    names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64", "bool": "bool"}  # fmt: skip
    x = torch.tensor([0.0, 1.0, 2.5, 99.9, 3.14159, 1.00390625, 64.25]).to(getattr(torch, names[source]))
    want = x.to(getattr(torch, names[target]))
    as_array = lambda t: (t.view(torch.uint16) if t.dtype == torch.bfloat16 else t).numpy()  # noqa: E731
    assert OPS["cast"].fold is not None
    np.testing.assert_array_equal(OPS["cast"].fold(as_array(x), to=target), as_array(want))
