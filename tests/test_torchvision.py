"""torchvision without its C++ part imports, runs and exports after `import penlight`; a whole one is not touched."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WHOLE = {  # a torchvision as it is where the C++ part loads
    "__init__.py": "from . import extension\n",
    "extension.py": """import torch
library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.impl("nms", lambda dets, scores, iou_threshold: scores + iou_threshold, "CPU")
def _has_ops():
    return True
""",
}


def python(code: str, *path: Path) -> str:
    """In a process of its own, which has imported nothing yet."""
    lines = [f"import sys; sys.path[:0] = {[str(p) for p in (*path, ROOT)]!r}", code]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_without_its_operators() -> None:
    code = """
import penlight
assert not {"torch", "torchvision"} & set(sys.modules), "import penlight is cheap"
import torch, torchvision
boxes = torch.tensor([[0.0, 0, 9, 9], [0, 0, 9, 8], [20, 0, 29, 9]])
scores = torch.tensor([0.5, 0.9, 0.1])
print(torchvision.ops.nms(boxes, scores, 0.5).tolist(), torchvision.ops.roi_pool(torch.ones(1, 2, 4, 4), [boxes], 1).shape)
image, rois = torch.rand(2, 3, 9, 9), torch.cat([torch.arange(150.0)[:, None] % 2, torch.rand(150, 2) * 4, torch.rand(150, 2) * 4 + 4], 1)
compiler, torch.compile = torch.compile, None  # which would take half a minute
found = torchvision.ops.roi_align(image, rois, (2, 3), 0.7, 2, True)
print((found - torch.ops.torchvision.roi_align(image, rois, 0.7, 2, 3, 2, True)).abs().max() < 1e-6)
torch.compile = compiler
class Boxes(torch.nn.Module):
    def forward(self, boxes, scores):
        return torchvision.ops.nms(boxes, scores, 0.5)
print(penlight.optimize(Boxes(), (boxes, scores))(boxes, scores).tolist(), torch.jit.script(torchvision.ops.nms)(boxes, scores, 0.5).tolist())
"""
    assert python(code) == "[1, 2] torch.Size([3, 2, 1, 1])\ntensor(True)\n[1, 2] [1, 2]\n"


@pytest.mark.slow
def test_a_whole_one_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    for name, text in WHOLE.items():
        (tmp_path / "torchvision" / name).write_text(text)
    code = """
import penlight, torchvision, torch
from penlight.torchvision import declare_operators
print(torchvision.extension._has_ops.__module__, torch.ops.torchvision.nms(torch.ones(1, 4), torch.ones(1), 0.5).item())
print(hasattr(torch.ops.torchvision, "qnms"))
declare_operators()
print(torch.ops.torchvision.nms(torch.ones(1, 4), torch.ones(1), 0.5).item(), hasattr(torch.ops.torchvision, "roi_pool"))
"""
    assert python(code, tmp_path) == "torchvision.extension 1.5\nFalse\n1.5 True\n"


def test_without_torchvision() -> None:
    code = """
import penlight, torch
from penlight.torchvision import declare_operators
sys.modules["torchvision"] = None
declare_operators()
print(torch.ops.torchvision.nms(torch.ones(1, 4), torch.ones(1), 0.5).tolist())
"""
    assert python(code) == "[0]\n"
