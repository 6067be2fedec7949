"""The generated row functions themselves, without the runtime: compiled per instruction set, called through ctypes on
dense, broadcast and strided rows of many lengths, compared with the rule's numpy evaluation and, in place, with itself.
"""

from __future__ import annotations

import ctypes
import pathlib
import platform
import shutil
import subprocess

import numpy as np
import pytest

from penlight.build.elementwise import elementwise_entries, emit_elementwise, float_literal
from penlight.build.generate import ROOT
from penlight.ir.types import numpy_dtype
from penlight.ops import registry
from penlight.ops.elementwise.rules import ElementwiseOp
from tests.runtime.simd.test_simd import FLAGS, X86, cpu_has

pytestmark = pytest.mark.slow  # it compiles

LENGTHS = (0, 1, 3, 7, 8, 15, 16, 17, 33, 257, 600)
OPS = {name: op for name, op in registry.load_all().items() if isinstance(op, ElementwiseOp)}


@pytest.fixture(scope="module", params=X86)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ctypes.CDLL]:
    isa = request.param
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or platform.machine() != "x86_64" or not cpu_has(isa):
        pytest.skip(f"needs a C++ compiler and an x86-64 CPU with {isa}")
    folder = tmp_path_factory.mktemp(isa)
    sources = [str(ROOT / "runtime/cpu/special.cc")]
    for name, text in emit_elementwise(OPS).items():
        (folder / name).write_text(text)
        sources.append(str(folder / name))
    flags = [f for f in FLAGS if f != "-O2"] + [
        "-O1",
        "-fPIC",
        "-shared",
        f"-DPEN_ISA={isa}",
        "-DPEN_ISA_BASE=1",
        *X86[isa],
    ]
    subprocess.run([compiler, *flags, *sources, "-o", str(folder / "rows.so"), "-lm"], check=True)
    return isa, ctypes.CDLL(str(folder / "rows.so"))


def call(
    library: tuple[str, ctypes.CDLL],
    symbol: str,
    out: np.ndarray,
    inputs: list[np.ndarray],
    steps: list[int],
    args: list[float],
) -> None:
    isa, code = library
    function = getattr(code, f"_ZN3pen{len(isa)}{isa}{len(symbol)}{symbol}EPvPKPKvPKllPKd")
    pointers = (ctypes.c_void_p * len(inputs))(*(x.ctypes.data for x in inputs))
    function(
        ctypes.c_void_p(out.ctypes.data),
        pointers,
        (ctypes.c_int64 * len(steps))(*steps),
        ctypes.c_int64(out.size),
        (ctypes.c_double * max(1, len(args)))(*args),
    )


def numbers(rng: np.random.Generator, dtype: str, n: int) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype.startswith("i"):
        return rng.integers(1, 9, n).astype(numpy_dtype(dtype))
    return (rng.standard_normal(n) * 3).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("name", [n for n, op in sorted(OPS.items()) if n != "cast" and op.fold])
def test_rows(library: tuple[str, ctypes.CDLL], name: str) -> None:
    op = OPS[name]
    rng = np.random.default_rng(7)
    defaults = {p.name: float(p.default) if p.has_default else 0.3 for p in op.attrs}
    for row in op.rows():
        exact = row.inputs[-1] == "f64" and name not in ("lgamma", "erfinv")  # of which numpy's side has f32
        near = 1e-12 if exact else 3e-6
        for n in LENGTHS:
            for steps in {(1,) * 3, (1, 0, 1), (0, 1, 1), (3, 1, 0), (0, 2, 5)}:
                used = list(steps[: len(row.inputs)])
                memory = [numbers(rng, d, max(1, n) * max(1, s) + 3) for d, s in zip(row.inputs, used, strict=True)]
                views = [
                    m[: max(1, n) * s : s] if s else np.broadcast_to(m[:1], (max(1, n),))
                    for m, s in zip(memory, used, strict=True)
                ]
                expected = op.fold_arrays(*(v[:n] for v in views), **defaults)
                padded = np.full(n + 2, 77).astype(numpy_dtype(row.output))
                call(library, row.symbol, padded[:n], memory, used, list(defaults.values()))
                np.testing.assert_allclose(padded[:n], expected, rtol=near, atol=near, err_msg=f"{row.key} {n} {steps}")
                assert (padded[n:] == np.array(77).astype(padded.dtype)).all(), f"{row.key} wrote past its {n} elements"
        if row.output == row.inputs[0] and name not in ("where",):  # an epilogue: in place
            x = numbers(rng, row.inputs[0], 100)
            others = [numbers(rng, d, 100) for d in row.inputs[1:]]
            expected = op.fold_arrays(x, *others, **defaults)
            call(library, row.symbol, x, [x, *others], [1] * len(row.inputs), list(defaults.values()))
            np.testing.assert_allclose(x, expected, rtol=near, atol=near, err_msg=f"{row.key} in place")


def test_half_conversions_are_exact(library: tuple[str, ctypes.CDLL]) -> None:
    """All 65,536 halves to f32 and back; f32 values around every rounding boundary against numpy."""
    halves = np.arange(65536, dtype=np.uint16)
    floats = np.empty(65536, np.float32)
    call(library, "cast_f16_f32", floats, [halves], [1], [])
    np.testing.assert_array_equal(floats, halves.view(np.float16).astype(np.float32))
    back = np.empty(65536, np.uint16)
    call(library, "cast_f32_f16", back, [floats], [1], [])
    ordinary = ~np.isnan(floats)
    np.testing.assert_array_equal(back[ordinary], halves[ordinary])
    with np.errstate(over="ignore"):
        finite = floats[np.isfinite(floats)]
        near = np.concatenate(
            [np.nextafter((finite[:-1] + finite[1:]) / 2, t).astype(np.float32) for t in (-np.inf, np.inf)]
        )
        near = np.concatenate(
            [near, (finite[:-1] + finite[1:]) / 2, np.float32([1e-8, 2.9802322e-8, 65519.996, 65520, 1e30])]
        )
        got = np.empty(near.size, np.uint16)
        call(library, "cast_f32_f16", got, [near], [1], [])
        np.testing.assert_array_equal(got, near.astype(np.float16).view(np.uint16))


def test_every_declared_row_is_emitted_once() -> None:
    sources = "\n".join(emit_elementwise(OPS).values())
    entries = elementwise_entries(OPS)
    assert len({e.key for e in entries}) == len(entries)
    for entry in entries:
        assert sources.count(f"void {entry.symbol}(") == 2, entry.symbol  # declared and defined


def test_generation_repeats_exactly() -> None:
    assert emit_elementwise(OPS) == emit_elementwise(dict(reversed(OPS.items())))


def test_needs_no_numpy() -> None:
    """The generator runs in an isolated build."""
    code = "import sys; sys.modules['numpy'] = None; sys.modules['torch'] = None\nimport penlight.build.elementwise as b, penlight.ops.registry as r\nb.emit_elementwise(r.load_all())"
    import sys

    subprocess.run([sys.executable, "-c", code], check=True, cwd=pathlib.Path(__file__).parents[2])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1 / 6, "0.16666666666666666"), (1, "1.0"), (1e20, "1e+20"), (float("-inf"), "-__builtin_inf()")],
)
def test_float_literal(value: float, text: str) -> None:
    assert float_literal(value) == text
