"""torch's schemas of the operators that a rule stands for, from its declaration: the VM's operators come from these.

    @elementwise(aten=("mul.Tensor", "mul.Scalar"), forms={"mul.Tensor_out": "mul.out"}, …)
    def mul(a: Term, b: Term) -> Term:

is aten::mul.Tensor(Tensor self, Tensor other) -> Tensor and mul.Scalar(Tensor self, Scalar other), mul_.Tensor and mul_.Scalar,
which write into self, and mul.out and mul.Scalar_out. A test compares all of them with torch's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penlight.ops.elementwise.rules import ElementwiseOp

NAMES = {"x": "self", "a": "self", "b": "other"}  # torch's, of a rule's tensors
NUMBERS = {"Scalar": (-1,), "Tensor_Scalar": (1,), "Scalar_Other": (1,), "other_scalar": (1,), "n_scalar": (1,),
           "Scalar_Tensor": (0,), "Scalar_Self": (0,), "self_scalar": (0,), "x_scalar": (0,),
           "ScalarSelf": (1,), "ScalarOther": (2,)}  # fmt: skip


def schemas(op: ElementwiseOp) -> Iterator[str]:
    """Those of all its aten overloads, with the in-place and out= forms of each."""
    for name in op.aten:
        if "::" in name:  # of another namespace: no forms are known; what TorchScript calls of it needs a PEN_OP
            continue
        base, _, overload = name.partition(".")
        tensors = op.names.split() or [NAMES.get(p.name, p.name) for p in op.tensors]
        count = len(op.tensors)
        numbers = {i % count for i in NUMBERS.get(overload, ())}
        if overload == "Scalar" and op.has_condition:
            numbers = {1, 2}
        given = [t if t == "*" else f"{'Scalar' if i in numbers else 'Tensor'} {t}" for i, t in enumerate(tensors)]
        given += [f"Scalar {p.name}" + (f"={_number(p.default)}" if p.has_default else "") for p in op.attrs]
        arguments = ", ".join(given)
        dot = overload and f".{overload}"
        forms = {name: f"({arguments}) -> Tensor"}
        if 0 not in numbers and not op.has_condition and not base.startswith("special_"):
            in_place = f"__i{base[2:]}" if base.startswith("__") else f"{base}_"
            forms[in_place + dot] = f"({arguments.replace('Tensor ', 'Tensor(a!) ', 1)}) -> Tensor(a!)"
        if not base.startswith("__") or base.endswith("shift__"):
            star = "" if "*" in tensors else "*, "
            forms[f"{base}.{overload and overload + '_'}out"] = f"({arguments}, {star}Tensor(a!) out) -> Tensor(a!)"
        for form, signature in forms.items():
            if own := op.forms.get(form, form):
                yield f"aten::{own}{signature}"


def _number(value: float) -> str:
    """As torch writes it: 1, 0.01."""
    return str(int(value)) if value == int(value) else repr(value)
