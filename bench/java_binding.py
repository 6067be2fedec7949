"""What the Java binding costs: `python -m bench.java_binding`.

calls   per second of a loop of Module.forward and of Session.runInto, against the same loop in C (bench/calls.c), and the bytes that Java
        allocates for a call; one thread
images  a bitmap of 224 x 224 and a camera's picture of 640 x 480 (turned by 0 and 90 degrees) to 3 x 224 x 224 floats: microseconds of
        TensorImageUtils and of straight loops in Java, in the form that PyTorch Mobile had; the goal is 5 times as fast
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import torch

import penlight
from tests import models
from tests.java import desktop

ROOT = Path(__file__).resolve().parents[1]


def java(*arguments: object) -> str:
    """What bench/java_programs/JavaBinding.java prints."""
    programs = desktop.compile_classes(
        [ROOT / "bench/java_programs/JavaBinding.java"], desktop.OUT / "bench", desktop.classes()
    )
    path = os.pathsep.join(map(str, [*desktop.classes(), programs]))
    command = ["java", f"-Djava.library.path={desktop.library()}", "-cp", path, "JavaBinding", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def calls(folder: Path, seconds: float) -> None:
    program = folder / "calls"
    include, library = ROOT / "penlight/runtime/include", desktop.library()
    link = [f"-L{library}", "-lpenlight", f"-Wl,-rpath,{library}"]
    subprocess.run(["gcc", "-O2", f"-I{include}", ROOT / "bench/calls.c", "-o", program, *link], check=True)
    small = torch.nn.Linear(8, 8)
    penlight.optimize(small, (torch.zeros(1, 8),)).save(folder / "linear 8x8.pen")
    name = "mobilenet_v2"
    penlight.optimize(models.build(name), models.example(name)).save(folder / f"{name}.pen")
    print(f"{'':16}{'C':>12}{'forward':>12}{'runInto':>12}   bytes allocated by Java: forward, runInto")
    for path in (folder / "linear 8x8.pen", folder / f"{name}.pen"):
        plain = float(subprocess.run([program, path, str(seconds)], capture_output=True, text=True, check=True).stdout)
        words = java("calls", path, seconds).split()
        found = dict(zip(words[::2], map(float, words[1::2]), strict=True))
        speeds = f"{plain:12,.0f}{found['forward']:12,.0f}{found['into']:12,.0f}"
        print(f"{path.stem:16}{speeds}   {found['forward_bytes']:.0f}, {found['into_bytes']:.0f}")


def images(seconds: float) -> None:
    print(f"{'':28}{'Java':>10}{'ours':>10}   times as fast (microseconds)")
    for line in java("images", seconds).splitlines():
        what, order, plain, ours = line.split()
        print(f"{what + ' ' + order:28}{float(plain):10,.1f}{float(ours):10,.1f}{float(plain) / float(ours):10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["calls", "images"], help="default: both")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each number")
    chosen = parser.parse_args()
    if chosen.what != "images":
        with tempfile.TemporaryDirectory() as folder:
            calls(Path(folder), chosen.seconds)
    if chosen.what != "calls":
        images(chosen.seconds)


if __name__ == "__main__":
    main()
