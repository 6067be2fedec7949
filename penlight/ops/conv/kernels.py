"""Which kernel computes a convolution, and how its weights lie: by the weight's shape alone. Lowering chooses by this table, and so does
the VM: the generator writes it as conv_kernels.h.

    direct     one group of up to 4 input channels: a pixel's values are fewer than a vector's lanes on every instruction set
    gemm       one group, or 16 and more outputs per group, a panel
    depthwise  one input and one output channel per group; by the kernel's width, so that a library holds the tiles that its models
               use: depthwise3, 5 and 7, depthwise_other, and depthwise, which has all of them, where the width is not known
    grouped    other small groups
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MANY = 2**63 - 1
PLAIN = ("conv2d", "conv3d")
ALL = (*PLAIN, "conv_transpose2d", "conv_transpose3d")
FEW_CHANNELS, PANEL = 4, 16


@dataclass(frozen=True)
class ConvKernel:
    """Bounds, both included. `inputs`, `outputs`: channels of a group. `width`: of the kernel, along a row."""

    variant: str
    layout: str
    ops: tuple[str, ...]
    groups: tuple[int, int] = (1, MANY)
    inputs: tuple[int, int] = (0, MANY)
    outputs: tuple[int, int] = (0, MANY)
    width: tuple[int, int] = (0, MANY)


def _depthwise(variant: str, *width: int) -> ConvKernel:
    return ConvKernel(variant, "taps", PLAIN, inputs=(1, 1), outputs=(1, 1), width=(width[0], width[-1]))


# The first one that fits; the last fits all.
KERNELS = (
    ConvKernel("direct", "panel16", ("conv2d",), groups=(1, 1), inputs=(0, FEW_CHANNELS)),
    ConvKernel("gemm", "panel16", ALL, groups=(1, 1)),
    ConvKernel("gemm", "panel16", ALL, outputs=(PANEL, MANY)),
    *(_depthwise(f"depthwise{width}", width) for width in (3, 5, 7)),
    _depthwise("depthwise_other", 0, MANY - 1),
    _depthwise("depthwise", MANY),
    ConvKernel("grouped", "grouped", ALL),
)


def choose(op: str, groups: int, inputs: int, outputs: int, width: int) -> ConvKernel:
    """`inputs`, `outputs`: channels of a group. They and `width` are MANY where they are not known."""

    def fits(k: ConvKernel) -> bool:
        bounds = ((k.groups, groups), (k.inputs, inputs), (k.outputs, outputs), (k.width, width))
        return op in k.ops and all(least <= n <= most for (least, most), n in bounds)

    return next(k for k in KERNELS if fits(k))


def bytes_layout(shape: Sequence[object], groups: int) -> str:
    """How weights of quantized bytes lie, by their shape: "taps" where every channel of a map is a group, which is conv2d.q8.depthwise. The
    VM has the same rule (ops/quantized/filter.h)."""
    return "taps" if len(shape) == 4 and tuple(shape[:2]) == (groups, 1) and groups > 1 else "quads16"


def cpp_header() -> str:
    """The names in a table of their own: a library without the VM chooses nothing, and has no use for the other."""
    names = [f'    {{"{k.variant}", "{k.layout}"}},' for k in KERNELS]
    choices = []
    for k in KERNELS:
        ops = ", ".join(str(op in k.ops).lower() for op in ALL)
        bounds = ", ".join(f"{{{least}, {most}}}" for least, most in (k.groups, k.inputs, k.outputs, k.width))
        choices.append(f"    {{{{{ops}}}, {bounds}}},")
    return "\n".join(
        [
            "// Generated from penlight/ops/conv/kernels.py by penlight/build/generate.py. Do not edit.",
            "#pragma once",
            "#include <stdint.h>",
            "namespace pen {",
            "struct ConvKernel {",
            "  char variant[16], layout[8];",
            "};",
            "constexpr ConvKernel kConvKernels[] = {",
            *names,
            "};",
            "struct ConvChoice {  // of the kernels, in the same order: the first that fits",
            f"  bool ops[4];  // {', '.join(ALL)}",
            "  struct {",
            "    int64_t least, most;",
            "  } groups, inputs, outputs, width;  // channels of a group; of the kernel, along a row",
            "};",
            "constexpr ConvChoice kConvChoices[] = {",
            *choices,
            "};",
            "}  // namespace pen",
            "",
        ]
    )
