"""torch.export → Program: an ExportedProgram's graph of aten calls becomes a Graph of Penlight's operators.

In-place calls are made functional (mutation.py, or torch where that is not plain), calls without a converter are taken apart
by torch's decompositions and tried again, and what is left over is reported in one error. Symbolic sizes become Dims in
types and attributes: no node computes a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from penlight.capture.export import mutation, size_decisions
from penlight.capture.export.aten_calls import aten_name
from penlight.capture.export.constant_calls import Known
from penlight.capture.export.conversion import Conversion
from penlight.capture.export.counts import Counts
from penlight.capture.export.memory_format import channels_last_results
from penlight.capture.export.recurrence import free_steps
from penlight.capture.export.state import changed_buffers, refuse_shared
from penlight.capture.quiet import quiet
from penlight.errors import CaptureError, PenlightError, UnsupportedError
from penlight.ir.graph import Program
from penlight.ops import registry
from penlight.ops.refused import refusal


def capture_exported(
    ep: ExportedProgram,
    dim_names: Mapping[tuple[int, int], str] | None = None,
    decided: Mapping[Any, str] | None = None,
) -> Program:
    """The Program of an exported model. `dim_names` gives (flat input, dim) the names that the user gave them; `decided`
    the source lines of conditions on sizes that held in TorchScript code."""
    registry.load_all()
    # operators that torch is asked to take apart, besides those without a converter
    apart: set[Any] = {n.target for n in ep.graph.nodes if mutation.updates_statistics(n)}
    report: UnsupportedError | None = None
    current, retraced = ep, False
    while True:
        known = Known(current.graph, _weights(current))
        roots = mutation.plan(current.graph_module, known.nodes)
        if roots is not None or retraced:
            conversion = Conversion(current, roots or {}, known, dim_names or {})
            conversion.run()
            if not conversion.unsupported:
                size_decisions.check_decisions(ep, conversion.symbols, decided or {})
                method = conversion.method()
                size_decisions.raise_least(ep, conversion.symbols, decided or {}, method.symbols)
                formats = channels_last_results(ep)
                if formats:
                    leaves = conversion.outputs  # those that are no tensors have specs of another kind
                    method.input_spec["channels_last"] = [
                        [leaves[i] for i in each if isinstance(leaves[i], int)] for each in formats
                    ]
                return Program({"forward": method})
            if retraced and report is None:  # later rounds take apart basic operators too, whose names tell a user less
                report = UnsupportedError(list(conversion.unsupported.values()))
            more = {op for op in conversion.failed if _decompositions([op])} - apart
            if report is not None and not more:
                raise report
            apart |= more
            if any((why := refusal(call.op)) and why.is_final for call in conversion.unsupported.values()):
                raise UnsupportedError(list(conversion.unsupported.values()))
        current, retraced = _decompose(ep, apart), True


def _weights(ep: ExportedProgram) -> list[torch.fx.Node]:
    """The placeholders of parameters, buffers and constants; those that the model changes are none."""
    changed = set(changed_buffers(ep).values())
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    placeholders = [n for n in ep.graph.nodes if n.op == "placeholder"]
    specs = zip(placeholders, ep.graph_signature.input_specs, strict=True)
    return [n for n, spec in specs if spec.kind in kinds and spec.target not in changed]


def _decompositions(ops: Sequence[OpOverload]) -> dict[Any, Callable[..., Any]]:
    """How our composites, or else torch, take these operators apart, as far as they can."""
    default = torch.export.default_decompositions()
    known = {op: default[op] for op in ops if op in default}
    known.update({op: registry.COMPOSITES[aten_name(op)] for op in ops if aten_name(op) in registry.COMPOSITES})
    rest = [op for op in ops if op not in known]
    return {**torch._decomp.get_decompositions(rest), **known} if rest else known


def _composites() -> dict[Any, Callable[..., Any]]:
    """Ours, by overload. Those of a torch that lacks the overload are left out."""
    table = {}
    for name, fn in registry.COMPOSITES.items():
        namespace, _, rest = name.rpartition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace or "aten"), base, None)
        op = getattr(packet, overload or "default", None)
        if op is not None:
            table[op] = fn
    return table


def _is_converted(name: str) -> bool:
    return name in registry.ATEN or name in registry.COMPLEX or name.partition(".")[0] in registry.COMPLEX


def _decompose(ep: ExportedProgram, apart: set[OpOverload]) -> ExportedProgram:
    """Functional, with everything decomposed that has no converter, and the operators in `apart`."""
    default = torch.export.default_decompositions()
    table = {op: fn for op, fn in default.items() if not isinstance(op, OpOverload) or not _is_converted(aten_name(op))}
    table.update(_composites())
    table.update(_decompositions(list(apart)))
    try:
        with quiet(), torch.no_grad(), free_steps(), Counts():
            return ep.run_decompositions(table)
    except PenlightError:
        raise
    except Exception as e:
        tensors = [*ep.state_dict.items(), *ep.constants.items()]
        refuse_shared((n, t) for n, t in tensors if isinstance(t, torch.Tensor))
        raise CaptureError(f"torch could not make the model functional: {type(e).__name__}: {e}") from e
