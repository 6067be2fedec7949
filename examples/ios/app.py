"""What the iOS apps' make_model.py have in common: after the model and assets, the Xcode project; then what to do on a Mac.

Models, labels and photographs come from the Android apps' scripts, which make the same.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "android"), str(HERE)]
from xcode import write_project


def finish(app: Path) -> Callable[[Path], None]:
    """For an app: what to call with its model."""

    def after(model: Path) -> None:
        build = ["penlight", "build", "--model", str(model), "--target", "ios", "-o", str(app / "penlight")]
        print(f"{model}: {model.stat().st_size / 1e6:.1f} MB\nNow: {shlex.join(build)}")
        if model.is_relative_to(app):  # Xcode takes what lies there
            print(f"Then, on a Mac: open {shlex.quote(str(write_project(app).parent))}")

    return after
