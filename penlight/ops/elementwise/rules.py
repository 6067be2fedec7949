"""`@elementwise` declares an operator from one scalar rule. Everything else about it is derived from the rule:

the schema (positional parameters are tensors, keyword-only ones float attributes), the C++ row functions, which serve
as kernels and as epilogues of conv2d and linear (build/elementwise.py), constant folding, the aten converter, the VM's
operators (overloads.py) and the test samples, with special values and odd layouts in each of them (samples.py).

    @elementwise(aten="leaky_relu")
    def leaky_relu(x: Term, *, negative_slope: float = 0.01) -> Term:
        "x above zero, negative_slope * x below"
        return select(x > 0, x, x * negative_slope)

A parameter named `condition` is a bool tensor; all the others have the operator's dtype.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise.expression import Term, evaluate
from penlight.ops.elementwise.samples import automatic_samples, special_samples
from penlight.ops.registry import OPS, Op, Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Node, Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

# A dtype without kernels of its own is computed in another one, and its result cast back. That is what torch does for
# the half floats; for the short integers it gives the same bits, as they wrap.
# Rules of special functions have f64 rows alone: whatever the model has is computed in f64.
CARRIERS = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "i16": "i32", "bool": "i32"}
FLOATS = ("f32", "f64")
INTEGERS = ("i64", "i32")
ARITHMETIC = (*FLOATS, *INTEGERS)
EVERY = (*ARITHMETIC, "bool")
SPECIAL = ("f64",)


@dataclass(frozen=True)
class Row:
    """One generated row function: its kernel key, and the dtypes of its inputs and of its output."""

    key: str
    inputs: tuple[str, ...]
    output: str
    loop: str = ""  # a loop of its own in runtime/cpu/elementwise.h, for every instruction set

    @property
    def symbol(self) -> str:
        return self.key.replace(".", "_")


class ElementwiseOp(Op):
    """An operator with a scalar rule. Called with Terms it gives the rule's Term, so rules can use each other."""

    on_vectors = True  # f32 rows are loops over vectors, else over numbers
    aten: tuple[str, ...] = ()
    names = of = on_bool = loops = ""
    exact = False
    forms: Mapping[str, str] = {}

    @property
    def has_condition(self) -> bool:
        return self.tensors[0].name == "condition"

    def __call__(self, *args: Any, **attrs: Any) -> Term:
        assert self.rule is not None
        result: Term = self.rule(*args, **attrs)
        return result

    def trace(self) -> Term:
        inputs = [Term("input", value=p.name, is_mask=p.name == "condition") for p in self.tensors]
        attrs = {p.name: Term("attr", value=p.name) for p in self.attrs if p.kind == "float"}
        result = self(*inputs, **attrs)
        if result.is_mask != (self.result == "bool"):
            raise TypeError(
                f"elementwise operator {self.name!r} gives a {'condition' if result.is_mask else 'number'}, but result={self.result!r}"
            )
        return result

    def rows(self) -> list[Row]:
        return [
            Row(
                f"{self.name}.{d}",
                tuple("bool" if p.name == "condition" else d for p in self.tensors),
                self.result or d,
            )
            for d in self.dtypes
            if d != "q8"  # has kernels of its own
        ]

    def fold_arrays(self, *arrays: np.ndarray, **attrs: float) -> np.ndarray:
        """Constant folding: the rule in numpy."""
        import numpy as np

        named = dict(zip((p.name for p in self.tensors), arrays, strict=True))
        result = evaluate(self.trace(), named, attrs)
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        typed = result.astype(np.bool_ if self.result == "bool" else arrays[-1].dtype)
        return np.array(np.broadcast_to(typed, shape), order="C")  # not ascontiguousarray: it makes rank 0 rank 1


def elementwise(
    *,
    aten: str | Sequence[str] = (),
    nan: str = "propagate",
    dtypes: tuple[str, ...] = ("f32",),
    result: str = "",
    tolerance: float = 1e-5,
    oracle: Callable[..., Any] | None = None,
    avoid: tuple[float, ...] = (),
    on_vectors: bool = True,
    of: str = "",
    on_bool: str = "",
    exact: bool = False,
    names: str = "",
    forms: Mapping[str, str] | None = None,
    q8: bool = False,
    loops: str = "",
) -> Callable[[Callable[..., Term]], ElementwiseOp]:
    """Declares the decorated rule as an operator.

    aten: overloads whose arguments are the tensors, then the attributes; the first is what tests compare with, unless
    `oracle(torch, *tensors)` is given. avoid: values that torch refuses or gets wrong, kept out of the samples; ints
    of integer samples, floats of float samples. nan: "propagate", or a word for what becomes of NaN. on_vectors: False
    for what is computed number by number, in f32 too.

    What torch takes: of: "" (a rule for floats makes floats of integers), "floats", "numbers" (all but bools), "wholes"
    (integers are given back as they are: roundings), "counts" (bools become i64), "alike" (floats of
    one dtype), "quotients" (floats, and integers not by each other). q8: there is a kernel for quantized bytes (*_q8.cc). on_bool: the operator that it is on bool tensors. exact: numbers are
    not rounded to the tensor's half float first. In the VM alone: names: torch's for the tensors, where they are not self and
    other, and * where the rest goes by name; forms: what torch calls a form ("mul.Tensor_out": "mul.out"), "" for one that it
    lacks, or that a PEN_OP has because it takes more.

    loops: the tensor whose number says how many steps an element may take: a run asks its caller more often, and the VM counts them.
    """
    names_of_aten = (aten,) if isinstance(aten, str) else tuple(aten)

    def declare(rule: Callable[..., Term]) -> ElementwiseOp:
        parameters = inspect.signature(rule).parameters.values()
        tensors = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        attrs = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        if oracle is None and any(p.default is p.empty for p in attrs):
            raise TypeError(f"attributes of rule {rule.__name__!r} need a default, for its samples, or an oracle")
        op = ElementwiseOp(
            rule.__name__,
            ", ".join([f"{t}: tensor" for t in tensors] + [_attr_schema(p) for p in attrs]),
            layout="follow",
            tolerance=tolerance,
            nan=nan,
            doc=inspect.getdoc(rule) or "",
            rule=rule,
            dtypes=(*dtypes, "q8") if q8 else dtypes,
            quantized="kernels" if q8 else "",
            takes_bytes=_all_bytes if q8 else None,
            result=result,
            mixed=tuple(t for t in tensors if t == "condition"),
            module=rule.__module__,
        )
        op.fold = op.fold_arrays if dtypes != SPECIAL else None
        op.on_vectors, op.aten, op.of, op.on_bool, op.exact = on_vectors, names_of_aten, of, on_bool, exact
        op.names, op.forms, op.loops = names, forms or {}, loops
        if "condition" in tensors:  # the dtype is that of the values, not of the first input
            op.select = lambda node: Selection(f"{op.name}.{_dtype(node, -1)}")

        def convert(g: Emitter, *args: Any) -> Value:
            values: dict[str, Any] = dict(zip((p.name for p in attrs), map(float, args[len(tensors) :]), strict=True))
            if of == "wholes" and args[0].dtype not in FLOATS:
                return args[0]  # type: ignore[no-any-return]
            used = OPS[on_bool] if on_bool and g.out.dtype == "bool" else op
            return apply(g, used, *args[: len(tensors)], **values)

        if names_of_aten:
            op.from_aten(*names_of_aten)(convert)
        defaults = [p.default for p in attrs]
        torch_call = oracle or (lambda torch, *xs: _aten(torch, names_of_aten[0])(*xs, *defaults))

        @op.samples
        def automatic() -> Iterator[Sample]:
            arity = len(tensors)
            if not op.fold:
                return special_samples(arity, torch_call, avoid)
            return automatic_samples(dtypes, arity, torch_call, avoid, condition="condition" in tensors)

        op.module = rule.__module__  # not that of the samples
        return op

    return declare


def apply(g: Emitter, op: Op, *operands: Any, type: TensorType | None = None, **attrs: Any) -> Value:
    """Emits `op` on operands (Values, Python numbers, symbolic ints) as torch computes it: promoted and cast to one
    dtype. type: what torch says it gives, where that is not the whole call's type."""
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType

    type = type or g.out
    values = [x for x, p in zip(operands, op.tensors, strict=True) if p.name != "condition"]
    dtype = compute_dtype(g, op, g.promote(*values))
    if dtype in FLOATS and not op.result and type.dtype not in FLOATS:
        g.fail(f"{op.name} of {type.dtype} tensors, which it computes as floats")
    if dtype == "f64" and type.dtype == "f32":  # integers: their f32, as in torch
        operands = tuple(g.cast(x, "f32") if isinstance(x, Value) and x.dtype[0] in "iu" else x for x in operands)
    inputs = [
        g.as_tensor(x, "bool" if p.name == "condition" else dtype) for x, p in zip(operands, op.tensors, strict=True)
    ]
    y = g.emit(op.name, *inputs, type=TensorType(op.result or dtype, type.shape), **attrs)
    return g.cast(y, type.dtype)


def compute_dtype(g: Emitter, op: Op, dtype: str) -> str:
    """The dtype that `op` computes in, where torch's promotion says `dtype`."""
    if dtype in op.dtypes:
        return dtype
    if CARRIERS.get(dtype) in op.dtypes:
        return CARRIERS[dtype]
    if set(op.dtypes) <= set(FLOATS):  # exp, sin, true division: integers become floats
        if dtype != "f64" and "f32" in op.dtypes:
            return "f32"
        if "f64" in op.dtypes:
            return "f64"
    g.fail(f"{op.name} has no kernel for {dtype} tensors (it has {', '.join(op.dtypes)})")
    raise AssertionError("fail() returned")


def _dtype(node: Node, index: int) -> str:
    value = node.inputs[index]
    assert value is not None
    return value.dtype


def _all_bytes(node: Node, inputs: list[Value | None], result: Value) -> bool:
    """Constants too, which may be i8 or have a scale for each channel."""
    types = [v.tensor for v in inputs if v is not None]
    return all(t.dtype == "u8" and t.quant is not None and t.quant.axis is None for t in types)


def _attr_schema(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f" = {float(parameter.default)!r}"
    return f"{parameter.name}: float{default}"


def _aten(torch: Any, name: str) -> Any:
    space, _, name = name.rpartition("::")
    base, _, overload = name.partition(".")
    return getattr(getattr(getattr(torch.ops, space or "aten"), base), overload or "default")
