"""Instructions per multiply-add of the NEON kernels, executed on emulated arm64 and armv7: python -m bench.instructions

The emulator logs every block of instructions that it runs; the difference between one run of a layer and two is one run
without loading and planning. Only what the kernel itself executes is counted, by the symbols of its object files: once
in whole tiles alone, once in all of it (edges, tiles cut by the map, the way to each tile). Beside it stands what the
register tile implies: one instruction for each vector that a whole tile loads, multiplies, clamps and stores. arm64 loads
two at once where they lie side by side, which pays for some of its loop control.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import penlight
from penlight.tools.screen import screen, table
from tests.runtime import native

LANES = 4
BLOCK = re.compile(r"^IN: (.*)\n((?:0x.*\n)+)", re.MULTILINE)
MULTIPLY_ADD = re.compile(r"\b(?:v?fmla|vmla|vfma)")
EXECUTED = re.compile(r"^Trace \d+: \S+ \[\w+/(\w+)/", re.MULTILINE)


@dataclass(frozen=True)
class Layer:
    name: str
    module: Callable[[], nn.Module]
    shape: tuple[int, ...]

    @property
    def conv(self) -> nn.Conv2d:
        module = self.module()
        return next(m for m in module.modules() if isinstance(m, nn.Conv2d))

    @property
    def depthwise(self) -> bool:
        return self.conv.groups > 1

    @property
    def sources(self) -> tuple[str, ...]:
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


LAYERS = [
    layer(28, 64, 192),
    layer(28, 192, 32),
    layer(14, 384, 96),
    layer(7, 160, 960),
    layer(28, 64, 128, 3, 2),  # a 3x3 that steps by 1 may go another way (Winograd)
    *(layer(56, 48, 48, kernel, stride, True) for kernel in (3, 5) for stride in (1, 2)),
    *(layer(14, 384, 384, kernel, 1, True) for kernel in (3, 5)),
]


def implied(layer: Layer, target: str) -> float:
    """One instruction for each vector that a tile without edges starts with, loads, multiplies, clamps (twice) and
    stores, divided by its multiply-adds."""
    conv = layer.conv
    depth, width = conv.weight[0].numel(), conv.kernel_size[1]
    if layer.depthwise:  # 7 outputs side by side share the pixels of each row
        sums, reach = 7, 6 * conv.stride[1] + width
        loads = conv.kernel_size[0] * (width + reach)
    else:  # NEON multiplies by a lane: a row's vector serves four steps, each of which loads its columns
        rows, vectors = tile(target)
        sums, loads = rows * vectors, depth * (rows / LANES + vectors)
    return (sums + loads + depth * sums + 2 * sums + sums) / (sums * LANES * depth)


def object_file(target: str, source: str) -> Path:
    return next((native.build(target) / "CMakeFiles/pen_kernels_base.dir").rglob(f"{source}.cc.o"))


def symbols(target: str, source: str) -> set[str]:
    out = subprocess.run(["nm", object_file(target, source)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.split()[-2] in "tT"}


def tile(target: str) -> tuple[int, int]:
    """Rows and vectors of the largest tile that was compiled."""
    found = re.findall(r"run_tileILi(\d+)ELi(\d+)", "\n".join(symbols(target, "gemm")))
    return max((int(rows), int(vectors)) for rows, vectors in found)


@dataclass(frozen=True)
class Count:
    instructions: int = 0
    multiply_adds: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.instructions + other.instructions, self.multiply_adds + other.multiply_adds)

    def times(self, factor: int) -> Count:
        return Count(self.instructions * factor, self.multiply_adds * factor)


def executed(target: str, program: Path, file: Path, runs: int, folder: Path) -> dict[str, Count]:
    """symbol -> what a whole process executed."""
    log = folder / "log"
    emulator, *rest = native.emulated(target, program)
    subprocess.run([emulator, "-d", "in_asm,exec,nochain", "-D", log, *rest, file, str(runs)], check=True)
    text = log.read_text()
    blocks = {}
    for name, lines in BLOCK.findall(text):
        found = Count(lines.count("\n"), LANES * len(MULTIPLY_ADD.findall(lines)))
        blocks[int(lines[: lines.index(":")], 16)] = (name, found)
    counts: dict[str, Count] = {}
    for address, times in Counter(EXECUTED.findall(text)).items():
        name, found = blocks[int(address, 16)]
        counts[name] = counts.get(name, Count()) + found.times(times)
    return counts


def measure(layer: Layer, target: str) -> tuple[float, float]:
    """Instructions per multiply-add: in whole tiles, and in all of the layer."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        penlight.optimize(layer.module(), (torch.zeros(layer.shape),)).save(folder / "layer.pen")
        program = native.program(target, Path(__file__).parent / "instructions.c")
        one, two = (executed(target, program, folder / "layer.pen", runs, folder) for runs in (1, 2))
    own = set().union(*(symbols(target, source) for source in layer.sources))
    run = {name: count + one.get(name, Count()).times(-1) for name, count in two.items() if name in own}
    rows, vectors = tile(target)
    whole = r"depthwise_reuse.*TileE0" if layer.depthwise else f"run_tileILi{rows}ELi{vectors}E"
    tiles = sum((count for name, count in run.items() if re.search(whole, name)), Count())
    everything = sum(count.instructions for count in run.values()) / layer.multiply_adds
    return tiles.instructions / max(tiles.multiply_adds, 1), everything


def main() -> None:
    columns = ("implied", "whole tiles", "ratio", "layer", "ratio ")
    shown = table("NEON instructions per multiply-add", "layer", "target", *columns, right=columns)
    for target in native.TARGETS:
        for layer in LAYERS:
            expected, (tiles, everything) = implied(layer, target), measure(layer, target)
            inner = (f"{tiles:.3f}", f"{tiles / expected:.2f}") if tiles else ("none", "")
            shown.add_row(
                layer.name, target, f"{expected:.3f}", *inner, f"{everything:.3f}", f"{everything / expected:.2f}"
            )
    screen().print(shown)


if __name__ == "__main__":
    main()
