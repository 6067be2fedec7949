"""Instructions per multiply-add of the NEON kernels, executed on emulated arm64 and armv7: python -m bench.instructions

The emulator logs every block of instructions that it runs; the difference between one run of a layer and two is one run
without loading and planning. Only what the kernel itself executes is counted, by the symbols of its object files: once
in whole tiles alone, once in all of it (edges, tiles cut by the map, the way to each tile). Beside it stands what the
register tile implies: one instruction for each vector that a whole tile loads, multiplies, clamps and stores. arm64 loads
two at once where they lie side by side, which pays for some of its loop control.

Products of bytes are counted for each instruction set of arm64, on a processor whose best it is. What the arithmetic implies is the same:
an instruction for each vector that is loaded, brought into the order that its multiply-adds need, multiplied and made a result.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

import penlight
from penlight.ir.parse import parse_graph
from penlight.tools.screen import screen, table
from tests.graphs import file_of
from tests.runtime import native

LANES = 4
BLOCK = re.compile(r"^IN: (.*)\n((?:0x.*\n)+)", re.MULTILINE)
MULTIPLY_ADD = re.compile(r"\b(?:v?fmla|vmla|vfma)")
CODE = re.compile(r"^0x\w+:\s+(\w{8})\b", re.MULTILINE)
# Of bytes: (code, bits of it that count, multiply-adds). The emulator does not know the names of all.
PRODUCTS = (
    (0x0E20C000, 0xBFE0FC00, 8),  # smull, smull2 to 16 bits
    (0x0E20A000, 0xBFE0FC00, 8),  # smlsl, smlsl2 to 16 bits
    (0x0E608000, 0xBFE0FC00, 4),  # smlal, smlal2 to 32 bits
    (0x4E809400, 0xFFE0FC00, 16),  # sdot
    (0x4F80E000, 0xFFC0F400, 16),  # sdot by a lane
    (0x4F00F000, 0xFFC0F400, 16),  # sudot by a lane
    (0x4E80AC00, 0xFFE0FC00, 32),  # usmmla
)
# Instruction sets of arm64 and a processor whose best each is.
PROCESSORS = {"base": "cortex-a53", "dotprod": "cortex-a76", "i8mm": "max"}
EXECUTED = re.compile(r"^Trace \d+: \S+ \[\w+/(\w+)/", re.MULTILINE)


@dataclass(frozen=True)
class Layer:
    name: str
    module: Callable[[], nn.Module]
    shape: tuple[int, ...]
    isa: str = ""  # of products of bytes; "": floats

    @property
    def operator(self) -> nn.Conv2d | nn.Linear:
        module = self.module()
        return next(m for m in module.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))

    @property
    def conv(self) -> nn.Conv2d:
        operator = self.operator
        assert isinstance(operator, nn.Conv2d)
        return operator

    @property
    def linear(self) -> bool:
        return isinstance(self.operator, nn.Linear)

    @property
    def depthwise(self) -> bool:
        return not self.linear and self.conv.groups > 1

    @property
    def sources(self) -> tuple[str, ...]:
        kind = "linear" if self.linear else "depthwise" if self.depthwise else "conv"
        return {
            ("conv", False): ("conv2d_gemm", "gemm"),
            ("conv", True): ("conv2d_q8", "gemm_q8"),
            ("linear", False): ("linear", "gemm"),
            ("linear", True): ("linear_q8", "gemm_q8"),
            ("depthwise", False): ("conv2d_depthwise", "depthwise"),
            ("depthwise", True): ("conv2d_q8_depthwise", "depthwise_q8"),
        }[kind, bool(self.isa)]

    @property
    def multiply_adds(self) -> int:
        operator = self.operator
        return operator(torch.empty(self.shape)).numel() * operator.weight[0].numel()

    def tile(self, target: str) -> tuple[int, int]:
        """Rows and vectors of the tile that most of a product goes through."""
        rows, vectors = tile(target, self.isa)
        return min(rows, self.shape[0]) if self.linear else rows, vectors


def layer(size: int, channels: int, out: int, kernel: int = 1, stride: int = 1, depthwise: bool = False) -> Layer:
    kind = "depthwise" if depthwise else "conv"
    name = f"{kind} {kernel}x{kernel}/{stride}, {channels} -> {out}, {size}x{size}"
    groups = channels if depthwise else 1
    return Layer(
        name,
        lambda: nn.Sequential(nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups), nn.ReLU6()).eval(),
        (1, channels, size, size),
    )


def linear(rows: int, depth: int, columns: int) -> Layer:
    name = f"linear {rows} x {depth} -> {columns}"
    return Layer(name, lambda: nn.Sequential(nn.Linear(depth, columns), nn.ReLU6()).eval(), (rows, depth))


def of_bytes(layer: Layer, isa: str) -> Layer:
    return replace(layer, name=f"{layer.name}, bytes", isa=isa)


LAYERS = [
    layer(28, 64, 192),
    layer(28, 192, 32),
    layer(14, 384, 96),
    layer(7, 160, 960),
    layer(28, 64, 128, 3, 2),  # a 3x3 that steps by 1 may go another way (Winograd)
    *(layer(56, 48, 48, kernel, stride, True) for kernel in (3, 5) for stride in (1, 2)),
    *(layer(14, 384, 384, kernel, 1, True) for kernel in (3, 5)),
    *(
        of_bytes(shape, isa)
        for isa in PROCESSORS
        for shape in (
            layer(14, 64, 96), layer(14, 384, 96), layer(28, 64, 128, 3, 2), layer(14, 128, 64, 3), linear(1, 1024, 64), linear(197, 192, 64),
        )
    ),
    *(of_bytes(layer(28, 64, 64, 3, stride, True), isa) for isa in ("base", "dotprod") for stride in (1, 2)),
]  # fmt: skip


def implied(layer: Layer, target: str) -> float:
    """One instruction for each vector that a tile without edges starts with, loads, multiplies, clamps (twice) and
    stores, divided by its multiply-adds."""
    depth = layer.operator.weight[0].numel()
    if layer.isa:
        return (implied_of_depthwise_bytes if layer.depthwise else implied_of_bytes)(layer, target)
    if layer.depthwise:  # 7 outputs side by side share the pixels of each row
        conv = layer.conv
        width = conv.kernel_size[1]
        sums, reach = 7, 6 * conv.stride[1] + width
        loads = conv.kernel_size[0] * (width + reach)
    else:  # NEON multiplies by a lane: a row's vector serves four steps, each of which loads its columns
        rows, vectors = layer.tile(target)
        sums, loads = rows * vectors, depth * (rows / LANES + vectors)
    return (sums + loads + depth * sums + 2 * sums + sums) / (sums * LANES * depth)


def implied_of_bytes(layer: Layer, target: str) -> float:
    """The same of bytes: columns of a vector are multiplied four steps at once. A vector of sums is made float, scaled and rounded;
    two are narrowed to 16 bits, moved by the zero point and narrowed again, four limited from both sides and stored."""
    depth = layer.operator.weight[0].numel()
    rows, vectors = layer.tile(target)
    sums, fours = rows * vectors, depth / 4
    # eight steps: four products of 16 bits and two sums of those; every row has eight bytes made signed, and each four of them repeated
    base = fours / 2 * (2 * vectors + 4 * rows + 6 * sums)
    # a row's vector serves four steps, and is made signed
    dotprod = fours * (vectors + 2 * rows / 4 + sums)
    # a row alone: the same, but for signs
    lanes = fours * (vectors + rows / 4 + sums)
    # eight steps of two rows and two columns; weights of two times four steps are zipped, a pair of rows is two loads
    matrix = fours / 2 * (2 * vectors + 2 * vectors + rows + sums)
    steps = {"base": base, "dotprod": dotprod, "i8mm": lanes if rows == 1 else matrix}[layer.isa]
    order = 0 if layer.isa == "dotprod" or (layer.isa, rows) == ("i8mm", 1) else sums  # sums as they lie become columns
    return (sums + steps + order + results_of_bytes(sums)) / (sums * LANES * depth)


def results_of_bytes(sums: int) -> float:
    """See above."""
    return 3 * sums + 2 * sums + 3 * sums / 4


def implied_of_depthwise_bytes(layer: Layer, target: str) -> float:
    """Sixteen channels of an output: four vectors of sums, and as many new columns as it is away from the one before it."""
    conv = layer.conv
    (height, width), taps, sums = conv.kernel_size, conv.weight[0].numel(), 4
    # rows are loaded, made signed, and interleaved by twos and fours; or each is loaded and made 16 bits wide
    column, products = (2 * height + 8, sums * width) if layer.isa == "dotprod" else (3 * height, sums * taps)
    return (sums + conv.stride[1] * column + products + results_of_bytes(sums)) / (16 * taps)


def symbols(target: str, source: str, isa: str = "base") -> set[str]:
    file = next((native.build(target) / f"CMakeFiles/pen_kernels_{isa}.dir").rglob(f"{source}.cc.o"))
    out = subprocess.run(["nm", file], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.split()[-2] in "tT"}


def tile(target: str, isa: str = "") -> tuple[int, int]:
    """Rows and vectors of the largest tile that was compiled: of floats, or of bytes for an instruction set."""
    names = symbols(target, "gemm_q8", isa) if isa else symbols(target, "gemm")
    found = re.findall(r"run_tiles?ILi(\d+)ELi(\d+)", "\n".join(names))
    return max((int(rows), int(vectors)) for rows, vectors in found)


@dataclass(frozen=True)
class Count:
    instructions: int = 0
    multiply_adds: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.instructions + other.instructions, self.multiply_adds + other.multiply_adds)

    def times(self, factor: int) -> Count:
        return Count(self.instructions * factor, self.multiply_adds * factor)


def multiply_adds(lines: str) -> int:
    """Of a block of instructions."""
    found = LANES * len(MULTIPLY_ADD.findall(lines))
    codes = [int(code, 16) for code in CODE.findall(lines)]
    return found + sum(count for word in codes for code, counts, count in PRODUCTS if word & counts == code)


def executed(target: str, cpu: str, program: Path, file: Path, runs: int, folder: Path) -> dict[str, Count]:
    """symbol -> what a whole process executed."""
    log = folder / "log"
    emulator, *rest = native.emulated(target, program, cpu)
    subprocess.run([emulator, "-d", "in_asm,exec,nochain", "-D", log, *rest, file, str(runs)], check=True)
    text = log.read_text()
    blocks = {}
    for name, lines in BLOCK.findall(text):
        found = Count(lines.count("\n"), multiply_adds(lines))
        blocks[int(lines[: lines.index(":")], 16)] = (name, found)
    counts: dict[str, Count] = {}
    for address, times in Counter(EXECUTED.findall(text)).items():
        name, found = blocks[int(address, 16)]
        counts[name] = counts.get(name, Count()) + found.times(times)
    return counts


def file_of_bytes(layer: Layer) -> bytes:
    """The layer between quantize and dequantize."""
    operator = layer.operator
    shape, out = list(layer.shape), list(operator(torch.empty(layer.shape)).shape)
    weights = torch.randint(-127, 128, operator.weight.shape, dtype=torch.int8).numpy()
    act = 'act="clamp", act_args=[0.0, 6.0]'
    if isinstance(operator, nn.Conv2d):
        stride, padding = list(operator.stride), [operator.kernel_size[0] // 2] * 4
        sizes = f"stride={stride}, padding={padding}, dilation=[1, 1], groups={operator.groups}, {act}"
        call = f"conv2d(%xf, %wf, @b, none, {sizes})"
    else:
        call = f"linear(%xf, %wf, @b, none, {act})"
    text = f"""graph forward(%x: f32{shape}) {{
      @w: i8{list(weights.shape)} q(0.002, 0)
      @b: f32[{out[1]}]
      %q: u8{shape} q(0.02, 100) = quantize(%x, low=0, high=255)
      %xf: f32{shape} = dequantize(%q)
      %wf: f32{list(weights.shape)} = dequantize(@w)
      %c: f32{out} = {call}
      %y: u8{out} q(0.05, 0) = quantize(%c, low=0, high=255)
      %z: f32{out} = dequantize(%y)
      return %z
    }}"""
    return file_of(parse_graph(text, {"w": weights, "b": torch.zeros(out[1]).numpy()})).tobytes()


def measure(layer: Layer, target: str) -> tuple[float, float]:
    """Instructions per multiply-add: in whole tiles, and in all of the layer."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if layer.isa:
            (folder / "layer.pen").write_bytes(file_of_bytes(layer))
        else:
            penlight.optimize(layer.module(), (torch.zeros(layer.shape),)).save(folder / "layer.pen")
        program = native.program(target, Path(__file__).parent / "instructions.c")
        processor = PROCESSORS.get(layer.isa, "max") if target == "arm64" else "max"
        one, two = (executed(target, processor, program, folder / "layer.pen", runs, folder) for runs in (1, 2))
    own = set().union(*(symbols(target, source, layer.isa or "base") for source in layer.sources))
    run = {name: count + one.get(name, Count()).times(-1) for name, count in two.items() if name in own}
    rows, vectors = layer.tile(target)
    whole = f"run_tiles?ILi{rows}ELi{vectors}E"
    if layer.depthwise:
        whole = "depthwise_ring" if layer.isa else r"depthwise_reuse.*TileE0"
    tiles = sum((count for name, count in run.items() if re.search(whole, name)), Count())
    everything = sum(count.instructions for count in run.values()) / layer.multiply_adds
    return tiles.instructions / max(tiles.multiply_adds, 1), everything


def main() -> None:
    columns = ("implied", "whole tiles", "ratio", "layer", "ratio ")
    shown = table("NEON instructions per multiply-add", "layer", "target", *columns, right=columns)
    for target in native.TARGETS:
        for layer in (each for each in LAYERS if not each.isa or target == "arm64"):
            expected, (tiles, everything) = implied(layer, target), measure(layer, target)
            inner = (f"{tiles:.3f}", f"{tiles / expected:.2f}") if tiles else ("none", "")
            shown.add_row(
                layer.name,
                f"{target} {layer.isa}",
                f"{expected:.3f}",
                *inner,
                f"{everything:.3f}",
                f"{everything / expected:.2f}",
            )
    screen().print(shown)


if __name__ == "__main__":
    main()
