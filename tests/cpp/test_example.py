"""examples/cpp: CMake finds the package, both programs compile, and the cat is a cat."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import vulkan_drivers
from tests.runtime import native
from tests.tools.call import Penlight

EXAMPLE = native.ROOT / "examples/cpp"


def call(*command: object, **options: object) -> str:
    environment = {**os.environ, **vulkan_drivers.ENVIRONMENT, "PYTHONPATH": str(native.ROOT)}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return str(done.stdout)


def test_an_installed_package_is_found(tmp_path: Path) -> None:
    """As a wheel lays it out; and where there is no library, words say what to do."""
    home = tmp_path / "site/penlight"
    shutil.copytree(native.ROOT / "penlight/runtime/include", home / "runtime/include")
    shutil.copytree(native.ROOT / "bindings/cpp", home / "bindings/cpp")
    command = [native.tool("cmake"), "-S", EXAMPLE, f"-Dpenlight_DIR={home / 'bindings/cpp/cmake'}"]
    done = subprocess.run([*command, "-B", str(tmp_path / "without")], capture_output=True, text=True)
    assert (done.returncode, "no libpenlight in" in done.stderr) == (1, True)
    (home / "lib").mkdir()
    (home / "lib/libpenlight.so").symlink_to(native.build("plain") / "libpenlight.so")
    call(*command, "-B", tmp_path / "with")
    call(native.tool("cmake"), "--build", tmp_path / "with", "--target", "classify")
    assert call("sh", "-c", f"{tmp_path}/with/classify; true").startswith("classify model.pen")


@pytest.mark.slow
def test_example(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = Penlight(capsys)("--cmake-dir").out.strip()
    library = native.build("plain") / "libpenlight.a"
    call(
        native.tool("cmake"), "-S", EXAMPLE, "-B", tmp_path, f"-Dpenlight_DIR={folder}", f"-DPENLIGHT_LIBRARY={library}"
    )
    call(native.tool("cmake"), "--build", tmp_path)
    call(sys.executable, EXAMPLE / "make_assets.py", tmp_path)
    said = [
        call(tmp_path / name, "model.pen", "photo.bin", "labels.txt", cwd=tmp_path)
        for name in ("classify", "classify_torch")
    ]
    assert said[0] == said[1]
    assert "tiger cat" in said[0].split("\n")[0] or "tabby" in said[0].split("\n")[0]
