"""In-place calls without torch's functionalization, where it is plain that nobody can tell the difference.

`relu_(y)` on a fresh y is `relu(y)` if from then on y stands for the result. torch can rewrite every case, but it traces the
whole model again for that, which costs more than the export itself. So: if each tensor that is changed in place is fresh,
and nothing that may share its memory is looked at afterwards, the calls are converted as functional ones; else torch does it.

    y = conv2d(x, w)         roots: relu_ -> y
    z = relu_(y)             so the converted relu becomes the value of y and of z
    return y + z
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
import torch.fx
from torch._ops import OpOverload

# Composite operators may return their argument itself or a view of it without saying so (dropout in inference does);
# these always compute something new.
_FRESH_COMPOSITES = frozenset(
    """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d batch_norm instance_norm layer_norm
    group_norm max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d relu6 selu matmul linear softmax log_softmax scaled_dot_product_attention embedding
    upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d prelu""".split()  # noqa: SIM905
)


def is_in_place(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def updates_statistics(node: torch.fx.Node) -> bool:
    """In training, norms write running statistics, which their schemas do not say."""
    if not isinstance(node.target, OpOverload) or node.target._schema.name not in (
        "aten::batch_norm",
        "aten::instance_norm",
    ):
        return False
    return node.args[3] is not None and node.args[5] is True


def functional_form(op: OpOverload) -> OpOverload | None:
    """relu_ -> relu; None where there is no operator of that name that takes the same arguments."""
    namespace, _, name = op._schema.name.partition("::")
    written = [a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments]
    if not name.endswith("_") or name.endswith("__") or not written[0] or any(written[1:]):
        return None
    packet = getattr(getattr(torch.ops, namespace), name[:-1], None)
    same = getattr(packet, op._overloadname, None) if packet is not None else None
    if not isinstance(same, OpOverload):
        return None
    arguments = [[str(a.type) for a in o._schema.arguments] for o in (op, same)]
    return same if arguments[0] == arguments[1] else None


def _keeps_dtype(node: torch.fx.Node) -> bool:
    """Whether the functional form gives the dtype of what it changes: in place, f16 + f32 is f16; else it is f32."""
    if functional_form(node.target) is None:  # type: ignore[arg-type]
        return False
    values = [n.meta.get("val") for n in node.all_input_nodes]
    dtypes = {v.dtype for v in values if isinstance(v, torch.Tensor)}
    return len(dtypes) == 1 and torch.bool not in dtypes


def shared_memory(graph: torch.fx.Graph) -> Sharing:
    """Which nodes of a graph may show the same memory."""
    sharing = Sharing()
    for node in graph.nodes:
        for other in _may_share_memory(node):
            sharing.join(node, other)
        if is_in_place(node) and node.args and isinstance(node.args[0], torch.fx.Node):
            sharing.join(node, node.args[0])
    return sharing


def plan(
    module: torch.fx.GraphModule, known: Collection[torch.fx.Node] = ()
) -> dict[torch.fx.Node, torch.fx.Node] | None:
    """For each result of an in-place call, the node that it is another name of. None: not plainly safe. Calls among `known`
    are left out: those are carried out while capturing (constant_calls.py)."""
    nodes = list(module.graph.nodes)
    if any(map(updates_statistics, nodes)):
        return None
    nested = [m for m in module.modules() if isinstance(m, torch.fx.GraphModule) and m is not module]
    if not any(is_in_place(n) and n not in known for m in (module, *nested) for n in m.graph.nodes):
        return {}
    if nested:
        return None
    position = {n: i for i, n in enumerate(nodes)}
    last_use = {n: max((position[u] for u in n.users), default=-1) for n in nodes}
    roots: dict[torch.fx.Node, torch.fx.Node] = {}
    sharing = shared_memory(module.graph)
    for node in nodes:
        if is_in_place(node) and node not in known:
            target = node.args[0] if node.args else None
            if not isinstance(target, torch.fx.Node) or not _keeps_dtype(node):
                return None
            roots[node] = roots.get(target, target)
    for node, root in roots.items():
        for other in sharing.group(node):
            if other.op in ("placeholder", "get_attr"):
                return None
            is_alias = roots.get(other, other) is not root and position[other] < position[node]
            if is_alias and last_use[other] > position[node]:
                return None
    return roots


def _may_share_memory(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The arguments of whose memory the results may be views: those that the schema marks, or all where it cannot tell."""
    if node.op != "call_function" or isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return
    if isinstance(node.target, OpOverload):
        schema = node.target._schema
        if any(r.alias_info is not None for r in schema.returns):
            marked = [a for a, declared in zip(node.args, schema.arguments, strict=False) if declared.alias_info]
            yield from (n for n in node.all_input_nodes if n in marked)
            return
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(node.target.name(), "CompositeImplicitAutograd")
        if not composite or schema.name.partition("::")[2] in _FRESH_COMPOSITES:
            return
    yield from node.all_input_nodes


class Sharing:
    """Union-find over nodes."""

    def __init__(self) -> None:
        self._groups: dict[torch.fx.Node, list[torch.fx.Node]] = {}

    def group(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        return self._groups.setdefault(node, [node])

    def join(self, a: torch.fx.Node, b: torch.fx.Node) -> None:
        left, right = self.group(a), self.group(b)
        if left is not right:
            left.extend(right)
            for n in right:
                self._groups[n] = left
