"""One operator, one place: the declaration from which capture, passes, lowering, file, runtime and tests all derive.

An `Op` says its parameters, which aten calls become it, how it treats layouts, and its test samples. Its C++ files
(`<op>*.cc`: bind rule and kernels, found by scanning for PEN_BIND / PEN_KERNEL) are siblings of the Python file.
Importing this package needs neither torch nor numpy nor the built extension: converters and samples import lazily.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = {"tensor": "T", "tensor?": "T?", "tensor[]": "T[]", "int": "i", "int?": "i?", "int[]": "i[]", "float": "f",
         "float?": "f?", "float[]": "f[]", "bool": "b", "str": "s"}  # fmt: skip
_REQUIRED = object()
Shapes = Sequence[tuple[int, ...]]  # one per tensor parameter; None for an optional one that was left out


@dataclass(frozen=True)
class Param:
    name: str
    kind: str  # a key of KINDS; tensors are node inputs, the rest attributes
    default: Any = _REQUIRED

    @property
    def is_tensor(self) -> bool:
        return self.kind.startswith("tensor")

    @property
    def has_default(self) -> bool:
        return self.default is not _REQUIRED


def parse_schema(text: str) -> tuple[Param, ...]:
    """ "x: tensor, b: tensor?, stride: int[], act: str = ''" -> Params. Tensors first, at most one list, as the last."""
    params = []
    for part in filter(None, (p.strip() for p in re.split(r",(?![^(]*\))", text))):
        match = re.fullmatch(r"(\w+): ([\w?\[\]]+)(?: = (.+))?", part)
        if not match or match[2] not in KINDS:
            raise ValueError(
                f"schema part {part!r}: expected 'name: kind = default' with kind one of {', '.join(KINDS)}"
            )
        default = eval(match[3], {"inf": float("inf")}) if match[3] is not None else _REQUIRED
        params.append(Param(match[1], match[2], default))
    tensors = [p.is_tensor for p in params]
    if tensors != sorted(tensors, reverse=True) or any(p.kind == "tensor[]" for p in params[: sum(tensors) - 1]):
        raise ValueError(f"schema {text!r}: tensor parameters come first, a tensor list last among them")
    return tuple(params)


@dataclass
class Sample:
    """A test case: `fn(*inputs)` is what torch computes; the test captures it, runs it in Penlight and compares.
    Inputs are torch tensors (or nested containers of them). `dynamic`: torch.export dynamic_shapes, if any."""

    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    name: str = ""
    tolerance: float | None = None  # instead of the operator's own
    dynamic: Any = None


@dataclass(frozen=True)
class Selection:
    """The kernel that lowering chose for a node: its key, and the packed layouts that some inputs must have."""

    key: str
    packs: dict[int, str] = field(default_factory=dict)  # input index -> layout name (lower/prepack.py)


@dataclass
class Op:
    """See CONTRIBUTING.md for a walk through one.

    layout: what the operator wants of values of rank 4 and 5 (passes/layout.py):
      "channels"  inputs[0] and the output are nhwc (convolution, pooling, resizing)
      "follow"    any layout, the output has that of its inputs (elementwise, cat)
      "plain"     row-major in and out
      "view"      the output is a view of inputs[0] where strides allow; costs nothing then
      "turned"    row-major in; out too, or (any rank from 3) with the third dim from the last inside the second, for those who swap the two
    reads_any: for a channels or follow operator: whether this node takes inputs[0] as it lies, whatever its layout.
    fold: a numpy function (inputs..., **attrs) -> array(s) for constant folding, where that is worth having.
    sized_by_data: only a run tells how large dim 0 of its outputs is (Bind::output_at_most). In types that is a symbol, which
      the node defines; where it is used, lowering begins another stage (lower/regions.py).
    quantized: "" refuses them; "same" moves integers, whose scale and zero point are the result's (views, copies); "kernels" has kernels
      for them (keys "op.q8"), which are told by their types what integers stand for.
    takes_q8: node -> whether its attributes are such that integer kernels compute it; None: all are.
    takes_bytes: (node, its inputs as integers, the value that its result would be) -> whether its integer kernels take these
      (passes/integer.py); None: all of u8 with one scale.
    images: tensor parameters whose dim 0 counts images, as that of all results does: image i of a result follows from image i of each of
      these (and from the other parameters), by the same operations in the same order however many images there are. The planner may then
      let a batch through in turns (runtime/exec/turns.h). Joining images (cat along dim 0) changes how many there are, and is none of this:
      the planner asks for as many in each of these and in the results. Elementwise operators need not say it.
    work: (input shapes, output shape) -> multiply-adds, for operators whose time is arithmetic: convolutions and matrix
      products. As the definition has them, whatever the kernel saves: taps on padding and masked scores count, and
      Winograd does not count less. All others go through memory once, and a profile shows their bytes.
    """

    name: str
    schema: str
    layout: str = "plain"
    reads_any: Callable[[Any], bool] | None = None
    outputs: int = 1
    tolerance: float = 1e-5  # of max |y|, f32
    pure: bool = True
    nan: str = "propagate"
    doc: str = ""
    rule: Callable[..., Any] | None = None  # elementwise: the scalar rule (ops/elementwise/rules.py)
    dtypes: tuple[str, ...] = ("f32",)
    result: str = ""  # elementwise: dtype of the output where it is not that of the inputs ("bool")
    fold: Callable[..., Any] | None = None
    mixed: tuple[str, ...] = ()  # tensor parameters whose dtype is not the key's (indices, masks): bind checks them
    takes_q8: Callable[[Any], bool] | None = None
    takes_bytes: Callable[[Any, list[Any], Any], bool] | None = None
    quantized: str = ""  # what it does with quantized tensors: see above
    key_by: str = "dtype"  # second part of the kernel key: "dtype" of inputs[0], or its element "size" (b8 … b64)
    sized_by_data: bool = False
    images: tuple[str, ...] = ()
    work: Callable[[Shapes, tuple[int, ...]], int] | None = None
    select: Callable[[Any], Selection] | None = None  # Node -> kernel, where there are variants or packed weights
    converters: dict[str, Callable[..., Any]] = field(default_factory=dict)
    samplers: list[Callable[[], Iterator[Sample]]] = field(default_factory=list)
    module: str = ""

    def __post_init__(self) -> None:
        self.params = parse_schema(self.schema)
        self.tensors = tuple(p for p in self.params if p.is_tensor)
        self.attrs = tuple(p for p in self.params if not p.is_tensor)
        if self.name in OPS:
            raise ValueError(f"operator {self.name!r} is declared twice: in {OPS[self.name].module} and again")
        if self.layout not in ("channels", "follow", "plain", "view", "turned"):
            raise ValueError(
                f"operator {self.name!r}: layout {self.layout!r} is not channels, follow, plain, view or turned"
            )
        OPS[self.name] = self
        if not self.module:  # whoever imports it first, load_all or one that needs just this operator
            frame: Any = sys._getframe(1)
            while frame.f_globals.get("__name__") == __name__:
                frame = frame.f_back
            self.module = frame.f_globals["__name__"]

    def from_aten(self, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers a converter for aten overloads ("conv2d", "add.Tensor"; no suffix: the default overload).
        It is called as converter(g, *args) with every argument of the aten schema, in order, defaults filled; `g` is
        capture.emitter.Emitter. Tensors are Values, ints may be Dims, dtypes are names ("f32"). Returns the Value(s)."""

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                if name in ATEN or name in COMPOSITES:
                    other = ATEN.get(name) or COMPOSITES[name]
                    raise ValueError(f"aten::{name} is converted twice: by {other.__module__} and {fn.__module__}")
                ATEN[name] = self.converters[name] = fn
            return fn

        return register

    def samples(self, fn: Callable[[], Iterator[Sample]]) -> Callable[[], Iterator[Sample]]:
        """Registers a generator of test samples."""
        self.samplers.append(fn)
        self.module = fn.__module__  # it stands with the declaration, which may be imported before load_all
        return fn

    def inputs_of(self, inputs: Sequence[Any]) -> list[Param]:
        """The parameter that each of a node's inputs belongs to: a list takes the rest."""
        return [self.tensors[min(i, len(self.tensors) - 1)] for i in range(len(inputs))]

    def moves(self, index: int) -> bool:
        """Of an operator that moves integers unchanged ("same"): whether this input holds them, and is not indices. Views take x of any
        dtype, which makes it mixed too."""
        return index == 0 or self.tensors[min(index, len(self.tensors) - 1)].name not in self.mixed

    def compact_schema(self) -> str:
        """The schema as the runtime reads it: "x:T+ b:T? stride:i[]"."""

        def marks(name: str) -> str:
            return "+" * (name in self.images) + "*" * (name in self.mixed)

        return " ".join(f"{p.name}:{KINDS[p.kind]}{marks(p.name)}" for p in self.params)


OPS: dict[str, Op] = {}
ATEN: dict[str, Callable[..., Any]] = {}  # aten overload -> converter
COMPOSITES: dict[str, Callable[..., Any]] = {}  # aten overload -> the same in other torch calls
COMPLEX: dict[str, Callable[..., Any]] = {}  # aten operator or overload -> converter of calls that have complex tensors


def on_complex(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a converter for aten operators ("mul": all its overloads) where an argument or the result is complex: called
    like other converters, with capture.complex.ComplexValue for complex tensors."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in COMPLEX:
                raise ValueError(
                    f"aten::{name} on complex tensors is converted twice, the second time by {fn.__module__}"
                )
            COMPLEX[name] = fn
        return fn

    return register


def composite(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers how to write aten overloads ("addbmm", "round.decimals") with other torch functions. Capture hands it to
    torch as a decomposition, before torch's own: called with the call's arguments (fake tensors), it imports torch itself
    and returns what the overload returns. For operators that gain nothing from a kernel of their own."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in ATEN or name in COMPOSITES:
                raise ValueError(f"aten::{name} is converted or composed twice, the second time by {fn.__module__}")
            COMPOSITES[name] = fn
        return fn

    return register


def load_all() -> dict[str, Op]:
    """Imports every module in the folders of penlight.ops once, so that all operators are declared. (What lies beside the folders is
    for them, and may need numpy, which an isolated build does not have.)"""
    import penlight.ops as package

    if not _loaded:
        for info in sorted(pkgutil.walk_packages(package.__path__, "penlight.ops."), key=lambda i: i.name):
            if info.name.count(".") == 2 and not info.ispkg:
                continue
            importlib.import_module(info.name)
        _loaded.append(True)
    return OPS


_loaded: list[bool] = []


def get(name: str) -> Op:
    try:
        return load_all()[name]
    except KeyError:
        raise KeyError(f"no operator {name!r} is declared under penlight/ops") from None
