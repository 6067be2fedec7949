"""Chooses a kernel key for every node, by the operator's own `select` or by dtype or element size.

    %y = conv2d(%x, @w, @b, none) {groups=1, …}   ->   the same, kernel = "conv2d.f32.gemm", @w to be packed as panel16

The key depends on the graph only, never on the machine: what a file needs is the same everywhere.
"""

from __future__ import annotations

from penlight.ir.graph import Graph, Node
from penlight.ir.types import itemsize
from penlight.ops import registry
from penlight.ops.registry import Selection


def selection(node: Node) -> Selection:
    op = registry.get(node.op)
    if op.select is not None:
        return op.select(node)
    typed = next((v for v in node.inputs if v is not None), None) or node.outputs[0]
    suffix = f"b{8 * itemsize(typed.dtype)}" if op.key_by == "size" else typed.dtype
    if typed.tensor.quant is not None and "q8" in op.dtypes:
        suffix = "q8"
    return Selection(f"{node.op}.{suffix}")


def select_kernels(graph: Graph) -> None:
    for node in list(graph.nodes):
        chosen = selection(node)
        node.kernel = chosen.key
        for index, layout in chosen.packs.items():
            weight = node.inputs[index]
            if weight is None:
                raise ValueError(f"{node!r}: kernel {chosen.key} packs input {index}, which is left out")
            if weight.is_constant or weight.layout == layout:
                continue
            groups = node.attrs.get("groups", 1)
            pack = graph.node(
                "pack",
                [weight],
                {"layout": layout, "groups": groups},
                weight.type,
                name=f"{weight.name}_{layout}",
                source=node.source,
            )
            pack.kernel = f"pack.{weight.dtype}"
            pack.output.layout = "plain"
            graph.insert_before(node, pack)
            node.set_input(index, pack.output)


IN_REGISTERS = {"relu", "clamp"}  # activations that every matrix kernel does by itself (runtime/cpu/epilogue.h)


def required_keys(nodes: list[Node]) -> list[str]:
    """Every kernel that these nodes need: their own, and the activations fused into them."""
    keys = set()
    for node in nodes:
        keys.add(node.kernel)
        for act in ("act", "act2"):
            if node.attrs.get(act) and node.attrs[act] not in IN_REGISTERS:
                keys.add(f"{node.attrs[act]}.f32")
    return sorted(keys)
