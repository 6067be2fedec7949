"""Batch norms in register code: folded where nothing else reads what the convolution gives, with the bits that the pass on graphs
gives, so that a plan and the code behind it share their weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from penlight.capture import capture
from penlight.capture.lite.read import read
from penlight.capture.lite.registers import to_script
from penlight.capture.script.fold_batch_norm import fold_batch_norm
from penlight.capture.script.freeze import freeze
from penlight.capture.script.torchscript import script_of
from penlight.file.writer import to_array
from penlight.ir.graph import Program
from penlight.ir.script import Script
from penlight.ir.values import ScriptTensor
from penlight.model import Model
from penlight.passes.pipeline import optimize
from tests.file.assemble import assemble
from tests.file.golden.packed import tensor


def norm(channels: int, dims: int, affine: bool = True) -> nn.Module:
    made: Any = getattr(nn, f"BatchNorm{dims}d")(channels, affine=affine)
    for t in (made.running_var, *([made.weight] if affine else [])):
        t.data.uniform_(0.5, 2)
    for t in (made.running_mean, *([made.bias] if affine else [])):
        t.data.normal_()
    return made  # type: ignore[no-any-return]


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "conv1d": lambda: (nn.Sequential(nn.Conv1d(3, 8, 3), norm(8, 1)), (2, 3, 9)),
    "conv2d": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), norm(8, 2), nn.ReLU()), (2, 3, 9, 9)),
    "conv2d without an affine part": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), norm(8, 2, False)), (2, 3, 9, 9)),
    "conv2d in groups": lambda: (nn.Sequential(nn.Conv2d(4, 8, 3, groups=2, padding="same"), norm(8, 2)), (2, 4, 9, 9)),
    "conv2d, channels last": lambda: (nn.Sequential(nn.Conv2d(4, 8, 3), norm(8, 2)).to(memory_format=torch.channels_last), (2, 4, 9, 9)),
    "conv3d": lambda: (nn.Sequential(nn.Conv3d(2, 4, 2), norm(4, 3)), (1, 2, 4, 5, 6)),
    "conv_transpose1d": lambda: (nn.Sequential(nn.ConvTranspose1d(6, 8, 3, bias=False), norm(8, 1)), (2, 6, 5)),
    "conv_transpose2d in groups": lambda: (nn.Sequential(nn.ConvTranspose2d(6, 8, 3, groups=2), norm(8, 2)), (2, 6, 5, 6)),
}  # fmt: skip


def scripts(module: nn.Module, x: torch.Tensor, folder: Path) -> dict[str, Script]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced, scripted = torch.jit.trace(module, x), torch.jit.script(module)
        traced._save_for_lite_interpreter(str(folder / "traced.ptl"))
    return {
        "traced": script_of(traced, ["forward"]),
        "scripted": script_of(scripted, ["forward"]),
        "traced .ptl": to_script(read(folder / "traced.ptl")),
    }


def in_any_order(arrays: Iterable[np.ndarray]) -> list[bytes]:
    """Graphs have weights of transposed convolutions the other way round."""
    return sorted(np.sort(array, None).tobytes() for array in arrays)


@pytest.mark.parametrize("name", MODELS)
def test_same_numbers_as_the_graph(name: str, tmp_path: Path) -> None:
    torch.manual_seed(5)
    module, shape = MODELS[name]()
    module.eval()
    x = torch.rand(shape)
    program = capture(module, (x,))
    optimize(program)
    constants = [v.constant for v in program.methods["forward"].graph.constants.values() if v.constant is not None]
    for source, script in scripts(module, x, tmp_path).items():
        freeze(script)
        assert fold_batch_norm(script) == 1, source
        assert not any("batch_norm" in op for op in script.operators)
        held = [script.constants[i] for i in script.used_constants]
        tensors = [t for t in held if isinstance(t, ScriptTensor) and len(t.shape) > 0]
        assert in_any_order(t.array() for t in tensors) == in_any_order(constants)
        got, expected = Model(to_array(Program({}, {}, script)))(x), module(x).detach()
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        assert got.stride() == expected.stride()


CONV = "aten::conv2d(r1, k0, None, [1, 1], [0, 0], [1, 1], 1)"
NORM = "k1, k1, k1, k2, False, 0.1, 1e-5, True)"
CODE: dict[str, tuple[int, str]] = {
    "in a line": (1, f"r2 = {CONV}\n r3 = aten::batch_norm(r2, {NORM}\n return(r3)"),
    "through moves": (1, f"r2 = {CONV}\n r3 = move(r2)\n drop(r2)\n r4 = move(r3)\n r5 = aten::batch_norm(r4, {NORM}\n return(r5)"),
    "behind a question for its rank": (
        1, f"r2 = {CONV}\n r3 = aten::dim(r2)\n r3 = aten::eq.int(r3, 4)\n branch(r3) -> a\n jump() -> a\na:\n"
        f" r2 = aten::batch_norm(r2, {NORM}\n return(r2)",
    ),
    "read by another": (0, f"r2 = {CONV}\n r3 = aten::batch_norm(r2, {NORM}\n r4 = tuple(r2, r3)\n return(r4)"),
    "read by another through a move": (0, f"r2 = {CONV}\n r4 = move(r2)\n r3 = aten::batch_norm(r2, {NORM}\n r5 = tuple(r4, r3)\n return(r5)"),
    "normalized twice": (0, f"r2 = {CONV}\n r3 = aten::batch_norm(r2, {NORM}\n r4 = aten::batch_norm(r2, {NORM}\n r5 = tuple(r4, r3)\n return(r5)"),
    "written in place between": (0, f"r2 = {CONV}\n r3 = aten::relu_(r2)\n r4 = aten::batch_norm(r2, {NORM}\n return(r4)"),
    "one of two convolutions": (
        0, f"r2 = {CONV}\n r3 = aten::dim(r2)\n r3 = aten::eq.int(r3, 4)\n branch(r3) -> a\n r2 = {CONV}\na:\n"
        f" r4 = aten::batch_norm(r2, {NORM}\n return(r4)",
    ),
    "in training": (0, f"r2 = {CONV}\n r3 = aten::batch_norm(r2, {NORM.replace('False', 'True')}\n return(r3)"),
    "a weight that is written": (0, f"r2 = {CONV}\n r3 = aten::batch_norm(r2, {NORM}\n r4 = aten::mul_.Scalar(k0, 2)\n return(r3)"),
    "statistics that others see": (0, f"r2 = {CONV}\n r3 = aten::batch_norm(r2, {NORM}\n r4 = tuple(r3, k2)\n return(r4)"),
    "a weight that is computed": (0, f"r4 = aten::mul.Scalar(k0, 1)\n r2 = {CONV.replace('k0', 'r4')}\n r3 = aten::batch_norm(r2, {NORM}\n return(r3)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CODE)
def test_only_where_nobody_can_tell(name: str) -> None:
    """Either way, the same result."""
    count, text = CODE[name]
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((8, 3, 1, 1), (8,))] + [
        np.linspace(1, 2, 8).astype(np.float32)
    ]
    made = [assemble(f"forward(self, x):\n {text}", constants=[tensor(a) for a in arrays]) for _ in range(2)]
    assert fold_batch_norm(made[1]) == count
    x = rng.standard_normal((2, 3, 4, 4)).astype(np.float32)
    before, after = (Model(to_array(Program({}, {}, script)))(x.copy()) for script in made)
    for a, b in zip(*((y if isinstance(y, tuple) else (y,)) for y in (before, after)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
