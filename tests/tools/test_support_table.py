"""The generated operator table: complete, and made of what is really built (test_spec.py compares the committed text)."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from penlight.ops import registry
from penlight.ops.refused import refusal
from penlight.tools.support_table import core_aten, kernel_keys, support_table


def test_every_operator_and_overload_is_listed() -> None:
    text = support_table()
    for name, op in registry.load_all().items():
        assert f"| `{name}` |" in text, name
        for overload in op.converters:
            assert f"`{overload}`" in text, overload


def test_the_same_on_every_run() -> None:
    assert support_table() == support_table()


def test_kernels_are_those_of_the_built_runtime() -> None:
    runtime = pytest.importorskip("penlight._runtime", reason="the runtime is not built")
    keys = {f"{name}.{rest}" for name, all_of_it in kernel_keys(registry.load_all()).items() for rest in all_of_it}
    assert keys == set(runtime.kernel_keys())


def test_all_of_core_aten_is_claimed_or_has_its_reason() -> None:
    registry.load_all()
    known = {*registry.ATEN, *registry.COMPOSITES, *registry.COMPLEX}
    assert [name for name in core_aten() if name not in known and refusal(name) is None] == []


def test_operators_know_their_folder_whoever_imports_them_first() -> None:
    """One that was imported before all others had none, and the table could not be written in that process."""
    code = "import penlight.ops.quantized.dynamic; from penlight.ops import registry; print({o.module for o in registry.load_all().values()})"
    modules = ast.literal_eval(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )
    assert [m for m in modules if not m.startswith("penlight.ops.")] == []
