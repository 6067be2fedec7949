"""./dev itself, with tools that only say that they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

DEV = Path(__file__).resolve().parents[1] / "dev"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with ./dev and nothing else, and an environment outside of it that is set up."""
    tree, venv = tmp_path / "tree", tmp_path / "elsewhere"
    tree.mkdir()
    (venv / "bin").mkdir(parents=True)
    (venv / "lib/python3.11/site-packages").mkdir(parents=True)
    (tree / "dev").write_bytes(DEV.read_bytes())
    (tree / "dev").chmod(0o755)
    for name in ("requirements.txt", "requirements-nodeps.txt"):
        (tree / name).write_text("")
    (venv / ".penlight-4294967295").write_text("")  # the checksum of nothing
    for name in ("python", "ruff", "clang-format", "mypy"):
        tool = venv / "bin" / name
        tool.write_text(f'#!/bin/sh\necho "{name} $1" >> {tmp_path}/called\n[ "{name} $1" != "$FAILS" ]\n')
        tool.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    return tree


def dev(tree: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tree / "dev", *words], cwd="/", env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("words", "status"), [((), 0), (("help",), 0), (("tset",), 2)])
def test_help(words: tuple[str, ...], status: int) -> None:
    done = dev(DEV.parent, *words)
    first, *lines = done.stdout.splitlines()
    assert (done.returncode, first.split()[0]) == (status, "Everything")
    assert {line.split()[1] for line in lines} >= {
        "demo",
        "test",
        "build",
        "lint",
        "size",
        "bench",
        "load",
        "setup",
        "wheel",
        "fuzz",
    }
    assert all(line.startswith("  ./dev ") for line in lines)
    assert status == 0 or "./dev tset: there is no such command" in done.stderr


@pytest.mark.parametrize("fails", ["", "ruff check", "ruff format", "clang-format --dry-run", "mypy "])
def test_lint_runs_all_its_tools(tree: Path, fails: str) -> None:
    """Also when one fails, which is said; in an environment that an absolute path names."""
    done = dev(tree, "lint", PENLIGHT_VENV=str(tree.parent / "elsewhere"), FAILS=fails)
    called = (tree.parent / "called").read_text().splitlines()
    assert called == ["ruff check", "ruff format", "clang-format --dry-run", "mypy "]
    assert done.returncode == bool(fails)
    assert not fails or f"not clean: {fails.removesuffix(' --dry-run').strip()}" in done.stderr


def test_setup_makes_the_command(tree: Path) -> None:
    venv = tree.parent / "elsewhere"
    assert dev(tree, "setup", PENLIGHT_VENV=str(venv)).returncode == 0
    assert (venv / "lib/python3.11/site-packages/penlight.pth").read_text() == f"{tree}\n"
    assert (venv / "bin/penlight").read_text().startswith(f"#!{venv}/bin/python\n")
    assert os.access(venv / "bin/penlight", os.X_OK)
