"""aten operators that Penlight leaves out on purpose, with the reason and what to write instead. Errors and the table of Core
ATen operators (docs/OPERATORS.md) take both from here. What is merely missing is not listed: the nearest operator that
runs is looked up by name.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from penlight.ops import registry


@dataclass(frozen=True)
class Refusal:
    pattern: str  # of the name with its overload
    reason: str
    instead: str = ""
    is_final: bool = False  # no way to functionalize or decompose helps: torch may not even survive trying


REFUSALS = (
    Refusal(
        r".*_backward(\..+)?", "a gradient: Penlight runs inference", "export the forward pass, under torch.no_grad()"
    ),
    Refusal(
        r"(_?to_sparse|_?sparse|.*_sparse|_?coalesce|_?indices|_?values|crow_indices|col_indices|sspaddmm|hspmm).*",
        "sparse tensors have no place in a mobile runtime's memory plan",
        "use dense tensors (.to_dense()), or index_add and gather over the indices",
        is_final=True,
    ),
    Refusal(r"resize_", "changes the size of a tensor in place: functionalized, it is aten::resize, which is composed"),
    Refusal(r".*\.(\w+_)?out", "writes into a tensor that the caller passes", "use the form without out="),
    Refusal(
        r"sym_(size|stride|numel|storage_offset|is_contiguous)(\..+)?",
        "a size: capture computes it from the shapes, no kernel is needed",
    ),
    Refusal(
        r"_local_scalar_dense|item", "a number read from a tensor: capture turns it into a symbol, no kernel is needed"
    ),
    Refusal(r"(_?nested_.*|_jagged.*)", "nested tensors", "pad to one size, with a mask"),
    Refusal(
        r"_?fused_moving_avg_obs.*",
        "fake quantization that still watches ranges: the model is trained for quantization, but not quantized yet",
        "torch.ao.quantization.convert(model.eval()), or convert_fx, and give its result",
    ),
    Refusal(r"(_?cudnn|cuda|_?mkldnn|mkldnn|miopen|_?mps|xpu).*", "an operator of another device", "export on the CPU"),
)


def refusal(name: str) -> Refusal | None:
    """Why the aten operator `name` ("sort", "add.out", with or without "aten::") is left out, if it is."""
    bare = name.removeprefix("aten::")
    return next((r for r in REFUSALS if re.fullmatch(r.pattern, bare)), None)


def nearest(name: str) -> str:
    """What to try instead of `name`: the supported aten operator with the most similar name; "" where none is similar."""
    bare = name.rpartition("::")[2].partition(".")[0]
    known = sorted({n.partition(".")[0] for n in (*registry.ATEN, *registry.COMPOSITES) if "::" not in n})
    close = difflib.get_close_matches(bare, set(known) - {bare}, 1, 0.6)
    return f"perhaps aten::{close[0]}, the nearest name that runs" if close else ""
