"""install() and uninstall()."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.jit.mobile
import torch.utils.bundled_inputs
import torch.utils.mobile_optimizer

import penlight
from penlight import compat
from penlight.compat import bundled_inputs, lite, mobile_optimizer


def test_install_and_uninstall() -> None:
    before = torch.utils.mobile_optimizer.optimize_for_mobile
    loader = torch.jit.mobile._load_for_lite_interpreter
    assert before is not mobile_optimizer.optimize_for_mobile
    try:
        compat.install()
        compat.install()
        assert torch.utils.mobile_optimizer.optimize_for_mobile is mobile_optimizer.optimize_for_mobile
        assert torch.utils.mobile_optimizer.LintCode is mobile_optimizer.LintCode
        assert torch.utils.bundled_inputs.bundle_inputs is bundled_inputs.bundle_inputs
        assert torch.jit.mobile._load_for_lite_interpreter is lite._load_for_lite_interpreter
        assert torch.is_vulkan_available() is penlight.is_vulkan_available()
    finally:
        compat.uninstall()
    assert torch.utils.mobile_optimizer.optimize_for_mobile is before
    assert torch.jit.mobile._load_for_lite_interpreter is loader
    compat.uninstall()  # nothing left to undo


def test_names_that_torch_has_dropped_come_back() -> None:
    old = torch.is_vulkan_available
    del torch.is_vulkan_available
    try:
        compat.install()
        assert torch.is_vulkan_available() is penlight.is_vulkan_available()
        compat.uninstall()
        assert not hasattr(torch, "is_vulkan_available")
    finally:
        compat.uninstall()
        torch.is_vulkan_available = old


def test_importing_changes_nothing_and_needs_no_torch() -> None:
    code = "import sys, penlight; penlight.compat.install; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_names_are_there() -> None:
    for name in compat.__all__:
        assert getattr(compat, name) is not None
    assert compat._load_for_lite_interpreter is lite._load_for_lite_interpreter


LEAVES_MODELS_BEHIND = """
import penlight.compat, torch
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.conv(x) if x.sum() > 0 else x
module = Scale().eval()
{extra}
x = torch.rand(2, 3, 8, 8)
model = penlight.optimize(torch.nn.Conv2d(3, 4, 3).eval(), (x,))
y, cycle = model(x), [model]
cycle.append(cycle)
"""
SCRIPTED = "script = penlight.compat.optimize_for_mobile(torch.jit.script(module)); z = script(torch.rand(1, 3, 8, 8))"
TRACED = "script = penlight.compat.optimize_for_mobile(torch.jit.trace(module.conv, torch.rand(1, 3, 8, 8)))"


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "leaks"), [(SCRIPTED, None), (TRACED, "1")], ids=["torch's leaks", "ours"])
def test_the_end_of_a_script_is_silent(tmp_path: Path, extra: str, leaks: str | None) -> None:
    """torch.jit.script keeps the globals of a script alive past its end, so models in them cannot go. Without it, all do."""
    path = tmp_path / "script.py"
    path.write_text(LEAVES_MODELS_BEHIND.format(extra=extra))
    environment = {**os.environ, **({"PENLIGHT_LEAKS": leaks} if leaks else {})}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, env=environment, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
