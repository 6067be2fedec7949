"""The whole runtime on arm64 and armv7: cross-compiled by zig without any platform headers but musl's, run by qemu on the
same samples and networks as here. NEON is the base instruction set there; arm64 has two more, for products of bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

from penlight.file.reader import read
from tests.graphs import compiled, file_of
from tests.ops import test_dynamic_products as dynamic
from tests.ops import test_integer_attention as attention
from tests.ops import test_integer_products as products
from tests.ops import test_quantized_depthwise as maps
from tests.ops.recording import record_all
from tests.ops.test_dynamic_recurrent import relu_layer
from tests.runtime import native
from tests.runtime.case import case_bytes

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "file/golden/v2.pen"
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("target", native.TARGETS)]


def test_networks(target: str, cases: dict[str, tuple[Path, list[Path]]]) -> None:
    program = native.program(target, HERE / "replay.c")
    for model, files in cases.values():
        native.run([*native.emulated(target, program), model, *files], timeout=300)


def test_vm_code(target: str) -> None:
    """The golden file of VM code, through the C interface."""
    program = native.program(target, HERE / "module.c")
    assert native.run([*native.emulated(target, program), GOLDEN]).stdout == "all well\n"


def test_samples(target: str, recording: Path) -> None:
    """Every sample of every operator gives torch's result."""
    program = native.program(target, HERE / "samples.c")
    native.run(
        [*native.emulated(target, program), record_all(recording, subnormals=target != "armv7"), "base"], timeout=300
    )


# Processors that the emulator has, and the instruction sets that are theirs, best first.
PROCESSORS = {
    "arm64": {"cortex-a53": ["base"], "cortex-a76": ["dotprod", "base"], "max": ["i8mm", "dotprod", "base"]},
    "armv7": {"cortex-a15": ["base"]},
}


def test_best_set_is_chosen(target: str) -> None:
    program = native.program(target, HERE / "isas.c")
    for cpu, isas in PROCESSORS[target].items():
        assert native.run(native.emulated(target, program, cpu)).stdout.split() == isas, cpu


def test_integer_products(target: str, tmp_path: Path) -> None:
    """Every bit of a result in bytes, by every instruction set."""
    single = [products.convolution(case) for case in products.CASES]
    single += [products.linear(*sizes, real) for sizes in products.LINEARS for real in (False, True)]
    single += [products.matmul(case) for case in products.MATMULS]
    single += [maps.depthwise(case) for case in maps.CASES if case.act != "silu"]  # which is not exact
    for case in dynamic.CONVOLUTIONS:
        graph, x, _ = dynamic.convolution(case)  # whose numbers are near: every bit is as here
        single.append((graph, (x,), compiled(graph.copy())(x)[0]))
    single += [attention.as_here(case) for case in attention.CASES]
    cases = [*((graph, inputs, [want]) for graph, inputs, want in single), relu_layer()]
    recorded, keys = b"", set()
    for i, (graph, inputs, want) in enumerate(cases):
        name, file = f"{i}: {graph.nodes[-1]}".encode()[:100], file_of(graph).tobytes()
        keys |= set(read(file).keys)
        given, expected = (
            [torch.from_numpy(v).contiguous() for v in values] for values in (inputs, [w.astype("f4") for w in want])
        )
        recorded += struct.pack("<i", len(name)) + name + b"\0" + struct.pack("<q", len(file)) + file
        recorded += case_bytes(given, expected, tolerance=0)
    assert {
        "conv2d.q8.gemm",
        "linear.q8",
        "matmul.q8",
        "attention.q8",
        "rnn_dynamic.i8",
        "columns_dynamic.i32",
        maps.KEY,
    } <= keys
    (tmp_path / "products").write_bytes(recorded)
    program = native.program(target, HERE / "samples.c")
    for cpu, isas in PROCESSORS[target].items():
        native.run([*native.emulated(target, program, cpu), tmp_path / "products", isas[0]])
