"""Calls that the weights alone determine are computed by torch while capturing: standardised weights, tables of position
biases, masks of shifted windows. What they call then needs no kernel, costs nothing in a run, and is exact.

In-place calls are computed too, in order and on the same memory, so that views see them as in torch; never on a weight.
Views, and what makes tensors from nothing (zeros, arange), are computed and also converted to nodes: where another node uses one, it
is cheaper than its numbers in the file; where none does, it is removed later.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree

from penlight.capture.export.counts import Counts
from penlight.capture.export.mutation import is_in_place, shared_memory
from penlight.capture.export.tensors import described
from penlight.errors import CaptureError, PenlightError

MAX_GROWTH = 4
MAX_GROWN_BYTES = 1 << 20
# These look only at the dtype and shape of their first argument.
_OF_A_KIND = {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"}
_TO_INTEGERS = "fake_quantize"  # the weights are to stay integers, which are smaller
_UNDEFINED = ("empty", "new_empty")  # their numbers are whatever the memory holds


class Known:
    """Which nodes of a graph the weights determine, and their numbers as far as they were computed."""

    def __init__(self, graph: torch.fx.Graph, weights: Iterable[torch.fx.Node]) -> None:
        self.tensors: dict[torch.fx.Node, Any] = {}
        self._sizes = FakeTensorMode(allow_fallback_kernels=False)
        self._sharing = shared_memory(graph)
        self._changed: set[torch.fx.Node] = set()
        self.nodes = self._determined(graph, set(weights))

    def _determined(self, graph: torch.fx.Graph, weights: set[torch.fx.Node]) -> set[torch.fx.Node]:
        in_place = [n for n in graph.nodes if is_in_place(n)]
        self._changed = {other for n in in_place for other in self._sharing.group(n)}
        refused: set[torch.fx.Node] = set()
        while True:
            found = set(weights)
            for node in graph.nodes:
                if node not in refused and _is_computable(node) and all(n in found for n in _read(node)):
                    found.add(node)
            # memory that is also changed with numbers of the run, or that is a weight's own, is not known
            spoilt = {
                other
                for n in in_place
                for other in self._sharing.group(n)
                if n not in found or any(o.op != "call_function" for o in self._sharing.group(n))
            }
            if not spoilt & (found - weights):
                return found - weights
            refused |= spoilt

    def compute(self, node: torch.fx.Node, weight: Callable[[torch.fx.Node], torch.Tensor]) -> Any:
        """Carries the call out. `weight` gives the numbers of the nodes that are weights."""
        read = _read(node)
        values = {n: self.tensors[n] if n in self.tensors else weight(n) for n in read}
        values.update((n, _stand_in(n.meta["val"])) for n in node.all_input_nodes if n not in read)
        args, kwargs = pytree.tree_map(
            lambda x: values.get(x, x) if isinstance(x, torch.fx.Node) else x, (node.args, node.kwargs)
        )
        assert callable(node.target)
        try:
            with torch.no_grad(), Counts():
                if isinstance(node.target, OpOverload):
                    self._check_sizes(node, args, kwargs)
                self.tensors[node] = node.target(*args, **kwargs)
        except PenlightError:
            raise
        except Exception as e:  # of a program from a file, torch's operators meet any arguments
            raise CaptureError(f"{node.target}, of weights alone, fails: {type(e).__name__}: {str(e)[:300]}") from e
        return self.tensors[node]

    def _check_sizes(self, node: torch.fx.Node, args: Any, kwargs: Any) -> None:
        """What a program says of sizes may come from a file, and be anything: before memory is taken, torch tells which they are."""
        try:
            fakes = pytree.tree_map_only(torch.Tensor, self._sizes.from_tensor, (args, kwargs))
            with self._sizes:
                made = node.target(*fakes[0], **fakes[1])  # type: ignore[operator]
        except (UnsupportedOperatorException, UnsupportedFakeTensorException):
            # torch has no rule for it. Of tensors alone it makes no more than in proportion to them.
            if any(isinstance(x, (int, float)) for x in pytree.tree_leaves((args, kwargs))):
                raise
            return
        got, said = (", ".join(map(described, pytree.tree_leaves(x))) for x in (made, node.meta["val"]))
        if got != said:
            raise CaptureError(f"{node.target}: expected {said}, as the exported program says, got {got}")

    def snapshot(self, node: torch.fx.Node) -> Any:
        """The numbers as they are now."""
        value = self.tensors[node]
        if node not in self._changed:
            return value
        return pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, value)

    def is_converted_too(self, node: torch.fx.Node) -> bool:
        if node in self._changed or not isinstance(node.target, OpOverload):
            return False
        return not _read(node) or any(r.alias_info is not None for r in node.target._schema.returns)


def _read(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The arguments whose numbers matter."""
    return node.all_input_nodes[1:] if _name(node) in _OF_A_KIND else node.all_input_nodes


def _name(node: torch.fx.Node) -> str:
    return node.target._schema.name.removeprefix("aten::") if isinstance(node.target, OpOverload) else ""


def _stand_in(val: torch.Tensor) -> torch.Tensor:
    return torch.empty([n if isinstance(n, int) else 0 for n in val.shape], dtype=val.dtype)


def _is_computable(node: torch.fx.Node) -> bool:
    """Whether its sizes are fixed and reasonable, and its numbers the same in every run."""
    op, val = node.target, node.meta.get("val")
    if node.op != "call_function" or not _is_static(val):
        return False
    if op is operator.getitem:
        return True
    if not isinstance(op, OpOverload) or op.namespace != "aten" or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    if _name(node).startswith((*_UNDEFINED, _TO_INTEGERS)):
        return False
    if not any("Tensor" in str(r.type) for r in op._schema.returns):  # it prints, or sets a seed
        return False
    before, after = _bytes([n.meta.get("val") for n in node.all_input_nodes]), _bytes(val)
    return after <= MAX_GROWN_BYTES or after <= MAX_GROWTH * before


def _is_static(val: Any) -> bool:
    if isinstance(val, (list, tuple)):
        return bool(val) and all(map(_is_static, val))
    return isinstance(val, torch.Tensor) and not val.is_complex() and all(isinstance(n, int) for n in val.shape)


def _bytes(val: Any) -> int:
    if isinstance(val, (list, tuple)):
        return sum(map(_bytes, val))
    return val.numel() * val.element_size() if _is_static(val) else 0
