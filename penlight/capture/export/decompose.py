"""One call taken apart, as the operator's composite or torch's own decomposition says, without tracing the whole model again.

In: a node of an exported graph. Out: a graph of the calls that it is made of, whose placeholders are the node's tensors in order.
Sizes are the SymInts of the export itself, so the shapes are in the same symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from penlight.capture.export.aten_calls import aten_name
from penlight.capture.export.counts import Counts
from penlight.capture.export.mutation import is_in_place
from penlight.capture.quiet import quiet
from penlight.ops import registry

_KEPT = ("stack_trace", "nn_module_stack", "custom", "source_fn_stack")


@lru_cache(maxsize=4096)
def decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """How our composite, or else torch, takes an operator apart."""
    composite = registry.COMPOSITES.get(aten_name(op))
    if composite is not None:
        return composite
    found = _torch_table().get(op) or torch._decomp.get_decompositions([op]).get(op)
    if found is None and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"):
        found = op.decompose
    return found  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _torch_table() -> dict[Any, Any]:
    return dict(torch.export.default_decompositions().items())


def taken_apart(
    node: torch.fx.Node, op: OpOverload, value_of: Callable[[torch.fx.Node], Any]
) -> torch.fx.GraphModule | None:
    """None where there is no rule, or where it does not give a plain graph. `value_of`: a node's number or SymInt, where
    it is no tensor."""
    rule = decomposition(op)
    if rule is None or node.meta.get("unbacked_bindings"):
        return None
    tensors = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    if any(isinstance(x, torch.fx.Node) and x not in tensors and not _is_number(value_of(x)) for x in leaves):
        return None
    fakes = [n.meta["val"] for n in tensors]
    mode = torch._guards.detect_fake_mode(fakes)
    if mode is None:
        return None

    def call(*values: torch.Tensor) -> Any:
        by_node = dict(zip(tensors, values, strict=True))
        filled = [(by_node[x] if x in by_node else value_of(x)) if isinstance(x, torch.fx.Node) else x for x in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return rule(*args, **kwargs)

    for pre_dispatch in (True, False):  # first in large pieces, which may have converters
        try:
            with quiet(), torch.no_grad(), mode, Counts():
                made = make_fx(call, pre_dispatch=pre_dispatch, _allow_non_fake_inputs=True)(*fakes)
        except Exception:  # torch may still do it when it traces the model anew
            return None
        calls = [n for n in made.graph.nodes if n.op == "call_function"]
        if any(is_in_place(n) for n in calls):
            return None
        if [n.target for n in calls if n.target is not operator.getitem] != [op]:  # else it is back where it began
            break
    else:
        return None
    origin = node.meta.get("from_node") or [SimpleNamespace(target=str(node.target), name=node.name)]
    for n in calls:
        n.meta.update({key: node.meta[key] for key in _KEPT if key in node.meta}, from_node=origin)
    return made


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))
