"""Instructions per multiply-add of the NEON kernels, executed on emulated arm64 and armv7: python -m bench.instructions

The emulator logs every block of instructions that it runs; the difference between one run of a layer and two is one run
without loading and planning. Only what the kernel itself executes is counted, by the symbols of its object files: once
in whole tiles alone, once in all of it (edges, tiles cut by the map, the way to each tile). Beside it stands what the
register tile implies: one instruction for each vector that a whole tile loads, multiplies, clamps and stores. arm64 loads
two at once where they lie side by side, which pays for some of its loop control.

Products of bytes are counted for each instruction set of arm64, on a processor whose best it is.
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
    (0x0E20C000, 0xBFE0FC00, 8),  # smull, smull2 of 16 bits
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
    def conv(self) -> nn.Conv2d:
        module = self.module()
        return next(m for m in module.modules() if isinstance(m, nn.Conv2d))

    @property
    def depthwise(self) -> bool:
        return self.conv.groups > 1

    @property
    def sources(self) -> tuple[str, ...]:
        if self.isa:
            return ("conv2d_q8", "gemm_q8")
        return ("conv2d_depthwise", "depthwise") if self.depthwise else ("conv2d_gemm", "gemm")

    @property
    def multiply_adds(self) -> int:
        conv = self.conv
        return conv(torch.empty(self.shape)).numel() * conv.weight[0].numel()


def layer(size: int, channels: int, out: int, kernel: int = 1, stride: int = 1, depthwise: bool = False) -> Layer:
    kind = "depthwise" if depthwise else "conv"
    name = f"{kind} {kernel}x{kernel}/{stride}, {channels} -> {out}, {size}x{size}"
    groups = channels if depthwise else 1
    return Layer(
        name,
        lambda: nn.Sequential(nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups), nn.ReLU6()).eval(),
        (1, channels, size, size),
    )


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
    *(of_bytes(shape, isa) for isa in PROCESSORS for shape in (layer(14, 384, 96), layer(28, 64, 128, 3, 2))),
]


def implied(layer: Layer, target: str) -> float:
    """One instruction for each vector that a tile without edges starts with, loads, multiplies, clamps (twice) and
    stores, divided by its multiply-adds."""
    conv = layer.conv
    depth, width = conv.weight[0].numel(), conv.kernel_size[1]
    if layer.isa:
        return implied_of_bytes(layer, target)
    if layer.depthwise:  # 7 outputs side by side share the pixels of each row
        sums, reach = 7, 6 * conv.stride[1] + width
        loads = conv.kernel_size[0] * (width + reach)
    else:  # NEON multiplies by a lane: a row's vector serves four steps, each of which loads its columns
        rows, vectors = tile(target)
        sums, loads = rows * vectors, depth * (rows / LANES + vectors)
    return (sums + loads + depth * sums + 2 * sums + sums) / (sums * LANES * depth)


def implied_of_bytes(layer: Layer, target: str) -> float:
    """The same of bytes: columns of a vector are multiplied four steps at once. A vector of sums is made float, scaled and rounded;
    two are narrowed to 16 bits, moved by the zero point and narrowed again, four limited from both sides and stored."""
    depth = layer.conv.weight[0].numel()
    rows, vectors = tile(target, layer.isa)
    sums, fours = rows * vectors, depth / 4
    steps = {
        # two products of 16 bits and two sums of those; every row has four bytes repeated and made signed
        "base": fours * (vectors + 2 * rows + 4 * sums),
        # a row's vector serves four steps, and is made signed
        "dotprod": fours * (vectors + 2 * rows / 4 + sums),
        # eight steps of two rows and two columns; weights of two times four steps are zipped, a pair of rows is two loads
        "i8mm": fours / 2 * (2 * vectors + 2 * vectors + rows + sums),
    }[layer.isa]
    order = {"base": sums, "dotprod": 0, "i8mm": sums}[layer.isa]  # sums as they lie become columns
    return (sums + steps + order + 3 * sums + 2 * sums + 3 * sums / 4) / (sums * LANES * depth)


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
    conv = layer.conv
    shape, out = list(layer.shape), list(conv(torch.empty(layer.shape)).shape)
    weights = torch.randint(-127, 128, conv.weight.shape, dtype=torch.int8).numpy()
    stride, padding = conv.stride[0], conv.kernel_size[0] // 2
    text = f"""graph forward(%x: f32{shape}) {{
      @w: i8{list(weights.shape)} q(0.002, 0)
      @b: f32[{out[1]}]
      %q: u8{shape} q(0.02, 100) = quantize(%x, low=0, high=255)
      %xf: f32{shape} = dequantize(%q)
      %wf: f32{list(weights.shape)} = dequantize(@w)
      %c: f32{out} = conv2d(%xf, %wf, @b, none, stride=[{stride}, {stride}], padding={[padding] * 4}, dilation=[1, 1], groups=1, act="clamp", act_args=[0.0, 6.0])
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
        one, two = (
            executed(target, PROCESSORS.get(layer.isa, "max"), program, folder / "layer.pen", runs, folder)
            for runs in (1, 2)
        )
    own = set().union(*(symbols(target, source, layer.isa or "base") for source in layer.sources))
    run = {name: count + one.get(name, Count()).times(-1) for name, count in two.items() if name in own}
    rows, vectors = tile(target, layer.isa)
    whole = r"depthwise_reuse.*TileE0" if layer.depthwise else f"run_tiles?ILi{rows}ELi{vectors}E"
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
