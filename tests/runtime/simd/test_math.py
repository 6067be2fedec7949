"""Errors of the vector functions under each instruction set (math_test.cc): a sweep over the floats, one in 1021."""

from __future__ import annotations

import pathlib

import pytest

from tests.runtime.simd.test_simd import X86, check_arm, check_wasm, check_x86

SOURCE = pathlib.Path(__file__).parent / "math_test.cc"


@pytest.mark.parametrize(
    "isa",
    [
        pytest.param(isa, marks=[pytest.mark.slow] if isa in ("sse4", "avx2", "avxvnni", "avx512") else [])
        for isa in X86
    ],
)
def test_x86(isa: str, tmp_path: pathlib.Path) -> None:
    check_x86(SOURCE, isa, tmp_path, "1021")


def test_neon(tmp_path: pathlib.Path) -> None:
    check_arm(SOURCE, "arm64", tmp_path, "65521")


@pytest.mark.slow
def test_wasm(tmp_path: pathlib.Path) -> None:
    check_wasm(SOURCE, tmp_path, "65521")
