"""Plain torch code on real tensors, taken down while it runs: every aten call goes to torch, for the numbers, and to its
operator's converter, for the graph. So a case of a few calls costs a millisecond to capture, where torch.export takes a
second; passes, lowering, file and runtime after it are those of any model.

Inference mode shows whole calls (conv2d, lstm.input), before torch takes them apart. Sizes that only a run tells are symbols
in results, so such calls come last.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from penlight.capture.export.aten_calls import arguments, aten_name
from penlight.capture.export.tensors import DTYPE_NAMES
from penlight.file.writer import to_array
from penlight.ir.dims import symbol
from penlight.ir.graph import Graph, Method, Program
from penlight.ir.types import TensorType
from penlight.lower import lower
from penlight.ops import complex_values as pairs
from penlight.ops import registry
from penlight.ops.emitter import Emitter, add_constant
from penlight.passes import optimize
from penlight.torchvision import declare_operators

# Which dim of which result only a run tells.
_FIRST, _FIRST_AND_THIRD = {0: 0}, {0: 0, 2: 0}
SIZED: dict[str, dict[int, int]] = {
    "nonzero": _FIRST,
    "masked_select": _FIRST,
    "bincount": _FIRST,
    "torchvision::nms": _FIRST,
    "repeat_interleave.self_Tensor": _FIRST,
    "_unique2": _FIRST_AND_THIRD,
    "unique_dim": _FIRST_AND_THIRD,
    "unique_consecutive": _FIRST_AND_THIRD,
}


declare_operators()  # torchvision's


class Refused(Exception):
    """torch itself does not take these arguments: not a case."""


class Tape(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        registry.load_all()
        self.graph = Graph()
        self.emitter = Emitter(self.graph)
        self.values: dict[int, Any] = {}  # id of a tensor -> its Value
        self.kept: list[torch.Tensor] = []  # so that no id is used twice
        self.given: list[torch.Tensor] = []  # the inputs
        self.calls: list[str] = []

    def input(self, x: torch.Tensor) -> torch.Tensor:
        """x as an input of the graph. Tensors that are not become constants."""
        self.given.append(x)
        self._keep(x, self._parts(x, lambda part: self.graph.add_input(f"x{len(self.graph.inputs)}", _type(part))))
        return x

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, aten_name(op)
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if not any(id(x) in self.values for x in tensors):
            return op(*args, **kwargs)  # how a tensor is drawn, not what is computed with it
        converter, rule = registry.ATEN.get(name), pairs.rule(name)
        if converter is None and rule is None:
            with self:
                made = registry.COMPOSITES.get(name, op.decompose)(*args, **kwargs)
            assert made is not NotImplemented, f"{name} has no converter, and torch does not take it apart"
            return made
        plain = pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, (args, kwargs))
        try:  # of tensors whose elements share memory, torch's own results are not always right (select_scatter)
            result = op(*plain[0], **plain[1])
        except (RuntimeError, IndexError, ValueError, NotImplementedError) as e:
            raise Refused(f"{name}: {e}") from e
        self.calls.append(f"{name}({', '.join(map(_show, (*args, *kwargs.values())))})")
        g = self.emitter
        g.out, g.new_symbols = self._out(name, args, result)
        g.halves = (None, None)
        node = SimpleNamespace(meta={"val": result}, args=[SimpleNamespace(meta={"val": x}) for x in args])
        g.node = node
        given = arguments(op, args, kwargs, self._value)
        made = pairs.convert(g, name, converter, given) if pairs.is_complex([g.out, *given]) else converter(g, *given)  # type: ignore[misc]
        for x, value in zip(*([v] if not isinstance(v, (list, tuple)) else v for v in (result, made)), strict=False):
            if value is not None:
                self._keep(x, value)
        return result

    def _out(self, name: str, args: Any, result: Any) -> tuple[Any, frozenset[str]]:
        several = isinstance(result, (list, tuple))
        types = [_type(x) for x in (result if several else [result])]
        unknown = symbol("u0")
        masks = name == "index.Tensor" and any(x is not None and x.dtype == torch.bool for x in args[1])
        sized = {0: next(i for i, x in enumerate(args[1]) if x is not None)} if masks else SIZED.get(name, {})
        for i, dim in sized.items():
            if name == "unique_dim" and i == 0:
                dim = args[1] % result[0].dim()
            elif name == "repeat_interleave.self_Tensor":
                dim = args[2] if len(args) > 2 and args[2] is not None else 0
            elif name == "unique_consecutive" and i == 0 and len(args) > 3 and args[3] is not None:
                dim = args[3] % result[0].dim()
            if i < len(types):
                shape = list(types[i].shape)
                shape[dim] = unknown
                types[i] = TensorType(types[i].dtype, tuple(shape))
        return tuple(types) if several else types[0], frozenset({"u0"} if sized else ())

    def _value(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if id(x) not in self.values:
            self._keep(x, self._parts(x, lambda part: add_constant(self.graph, np.array(part.numpy(), order="C"))))
        return self.values[id(x)]

    def _parts(self, x: torch.Tensor, make: Callable[[torch.Tensor], Any]) -> Any:
        if not x.is_complex():
            return make(x)
        return pairs.ComplexValue(*(make(torch.view_as_real(x)[..., i]) for i in (0, 1)))

    def _keep(self, x: torch.Tensor, value: Any) -> None:
        self.kept.append(x)
        self.values[id(x)] = value

    def file(self, results: list[torch.Tensor]) -> np.ndarray:
        """The .pen file that computes these tensors from the inputs, both flat."""
        leaves: list[Any] = []
        for x in results:
            value = self.values[id(x)]
            parts = list(value.parts) if x.is_complex() else [value]
            self.graph.outputs += parts
            end = len(self.graph.outputs)
            leaves.append({"complex": [end - 2, end - 1]} if x.is_complex() else end - 1)
        given: list[Any] = []
        count = 0
        for x in self.given:
            given.append({"complex": [count, count + 1]} if x.is_complex() else count)
            count += 1 + x.is_complex()
        self.graph.prune_constants()
        spec = {"args": given, "kwargs": {}, "names": [f"x{i}" for i in range(len(given))]}
        program = Program({"forward": Method(self.graph, spec, {"list": leaves})})
        self.ops = {node.op for node in self.graph.walk()}
        optimize(program)
        lower(program)
        nodes = [node for node in self.graph.walk() if node.kernel]
        self.ops |= {node.op for node in nodes}
        self.keys = {node.kernel for node in nodes}
        return to_array(program)


def _type(x: torch.Tensor) -> Any:
    return pairs.ComplexType(tuple(x.shape)) if x.is_complex() else TensorType(DTYPE_NAMES[x.dtype], tuple(x.shape))


def _show(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)} strides {list(x.stride())}"
    return f"[{', '.join(map(_show, x))}]" if isinstance(x, (list, tuple)) else repr(x)
