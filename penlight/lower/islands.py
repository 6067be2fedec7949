"""Operators that a device lacks: all in one error, with their source lines, or islands in the graph that run on the CPU."""

from __future__ import annotations

from penlight.errors import DeviceError
from penlight.ir.graph import Node, Program
from penlight.lower.select import required_keys
from penlight.ops.devices import Device

MOST_LINES = 3  # of source, for each key


def missing_keys(node: Node, device: Device) -> list[str]:
    """Of the node itself, what is fused into it, and the packing of weights that are not constants, which must stay with it."""
    packs = [v.producer for v in node.inputs if v is not None and v.producer is not None and v.producer.op == "pack"]
    return [key for key in required_keys([node, *packs]) if not device.has(key)]


def is_missing(node: Node, device: Device) -> bool:
    return bool(missing_keys(node, device))


def refuse_missing(program: Program, device: Device) -> None:
    found: dict[str, dict[str, None]] = {}
    for method in program.methods.values():
        for node in method.graph.nodes:
            for key in missing_keys(node, device):
                found.setdefault(key, {})[node.source or node.op] = None
    if not found:
        return
    lines = [f"  {key}: {'; '.join([*sources][:MOST_LINES])}" for key, sources in sorted(found.items())]
    raise DeviceError(
        f"no {device.name.upper()} has these operators of the model:\n"
        + "\n".join(lines)
        + '\nWith fallback="cpu" they run on the CPU, with copies in between; backend="cpu" runs all of it there'
    )
