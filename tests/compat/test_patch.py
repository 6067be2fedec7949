"""install() and uninstall()."""

from __future__ import annotations

import subprocess
import sys

import torch
import torch.jit.mobile
import torch.utils.bundled_inputs
import torch.utils.mobile_optimizer

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
        assert torch.is_vulkan_available() is False
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
        assert torch.is_vulkan_available() is False
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
