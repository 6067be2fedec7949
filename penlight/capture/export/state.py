"""Buffers that a model writes into: key/value caches, running statistics, counters. They are its state, which a session keeps.

torch makes such a model functional: the buffer comes in as an argument, its next value goes out as one more result
(BUFFER_MUTATION). Both become the last inputs and outputs of the graph (ir/graph.py, Method.states).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from penlight.errors import CaptureError
from penlight.ir.graph import Value
from penlight.ir.types import TensorType
from penlight.ops.emitter import Emitter

STATE_OUTPUTS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
NOT_CONVERTED = (
    "the model is prepared for quantization, or trained for it, but not quantized yet: it watches the ranges of its numbers when it runs."
    " Calibrate or train it, then give what torch.ao.quantization.convert(model.eval()), convert_fx or convert_pt2e makes of it"
)
# Of operators that give back their first input with some elements replaced: the input that the new elements are in.
_REPLACES = {"as_strided_scatter": 1, "index_put": 1, "scatter": 2, "masked_scatter": 2}


def changed_buffers(ep: ExportedProgram) -> dict[str, str]:
    """By the name of the result that is its next value: each buffer (or parameter) that the model changes."""
    specs = ep.graph_signature.output_specs
    return {str(s.arg.name): str(s.target) for s in specs if s.kind in STATE_OUTPUTS}


def refuse_mutation(ep: ExportedProgram) -> None:
    specs = ep.graph_signature.output_specs
    if any(
        "activation_post_process" in str(s.target) or "fake_quant" in str(s.target)
        for s in specs
        if s.kind in STATE_OUTPUTS
    ):
        raise CaptureError(NOT_CONVERTED)
    written = [str(s.target) for s in specs if s.kind == OutputKind.USER_INPUT_MUTATION]
    if written:
        raise CaptureError(
            f"the model changes its input in place: {', '.join(written)}. A captured model cannot write into its inputs, which are its caller's:"
            " clone an input before changing it, and return what it becomes, or keep it in a buffer (register_buffer), which stays from call to call"
        )


def refuse_complex(name: str, tensor: torch.Tensor) -> None:
    if tensor.is_complex():
        raise CaptureError(
            f"the model changes its buffer {name}, of complex numbers; a state is of real ones: keep torch.view_as_real of it"
        )


def refuse_shared(tensors: Iterable[tuple[str, torch.Tensor]], changed: Collection[str] | None = None) -> None:
    """torch.export knows a buffer by its name: a write into one would not be seen by another that shows the same memory. `changed`: those
    that are written; None: some are, it is not known which."""
    seen: dict[int, str] = {}
    for name, tensor in tensors:
        if tensor.layout is not torch.strided or tensor.numel() == 0:
            continue
        first = seen.setdefault(tensor.untyped_storage().data_ptr(), name)
        if first != name and (changed is None or first in changed or name in changed):
            raise CaptureError(
                f"the model's {first} and {name} share their memory, and it changes one of them; clone one, so that each has its own"
            )


def rounded(g: Emitter, value: Value, before: Value, half: str) -> Value:
    """What torch stores in a buffer of halves, which is kept in f32 here. Where only some elements of the buffer were replaced, the
    others are rounded already: a large cache is not gone through."""
    replaced = []
    at = value
    while (
        at is not before
        and at.producer is not None
        and at.producer.op in _REPLACES
        and not at.producer.attrs.get("reduce")
    ):
        replaced.append(at.producer)
        at = at.producer.inputs[0]  # type: ignore[assignment]
    if at is not before:
        return g.cast(g.cast(value, half), value.dtype)
    for node in replaced:
        i = _REPLACES[node.op]
        new = node.inputs[i]
        assert new is not None
        for dtype in (half, new.dtype):
            cast = g.graph.node(
                "cast", [new], {"to": dtype}, TensorType(dtype, new.shape), name="cast", source=node.source
            )
            new = g.graph.insert_before(node, cast).output
        node.set_input(i, new)
    return value
