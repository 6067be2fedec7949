"""The WebAssembly module in Node: models through the ES module against torch, every operator's samples, errors in words, memory."""

from __future__ import annotations

import functools
import json
import operator
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from penlight.build.generate import ROOT
from penlight.build.model_selection import selection_of_file
from penlight.build.selection import EVERYTHING
from penlight.build.toolchain import find_zig
from penlight.build.verify import verify
from penlight.file.reader import read
from penlight.file.writer import to_array
from tests import models
from tests.file.assemble import program
from tests.graphs import file_of
from tests.ops import test_integer_attention as attention
from tests.ops import test_integer_products as products
from tests.ops.recording import record_all
from tests.runtime import networks
from tests.web.node import HERE, built, module, node, run

GOLDEN = HERE.parent / "file/golden/v2.pen"
MOBILENET_BYTES = 202_000  # what it is, and 5 %


def check(got: np.ndarray, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    want = expected.numpy()
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    scale = float(np.abs(want).max()) if want.size and want.dtype.kind == "f" else 0.0
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mobilenet") / "mobilenet_v2.pen"
    penlight.optimize(models.build("mobilenet_v2"), models.example("mobilenet_v2", size=96)).save(file)
    return file


def test_mobilenet(mobilenet: Path) -> None:
    """Its module holds what it needs and no VM, takes the clock from outside and nothing else, and stays small."""
    made = built("mobilenet_v2", selection_of_file(read(mobilenet)))
    (x,) = models.example("mobilenet_v2", size=96)
    with torch.no_grad():
        expected = models.build("mobilenet_v2")(x)
    ((got,),) = run(made.path, mobilenet, [("forward", [x.numpy()])])
    check(got, expected)
    assert verify(made, mobilenet).calls == 1
    assert made.path.stat().st_size < MOBILENET_BYTES
    facts = json.loads(node(HERE / "module.mjs", made.path))
    assert facts["imports"] == ["wasi_snapshot_preview1.clock_time_get"]
    assert not [name for name in facts["exports"] if name.startswith(("pen_module", "pen_value"))]


@pytest.mark.slow
def test_integer_products(tmp_path: Path) -> None:
    """Convolutions, linear, matmul and attention of bytes: every bit."""
    cases = [products.convolution(case) for case in products.CASES]
    cases += [products.linear(*sizes, real) for sizes in products.LINEARS for real in (False, True)]
    cases += [products.matmul(case) for case in products.MATMULS]
    cases += [attention.as_here(case) for case in attention.CASES]
    files = [tmp_path / f"{i}.pen" for i in range(len(cases))]
    for file, (graph, _, _) in zip(files, cases, strict=True):
        file.write_bytes(file_of(graph).tobytes())
    chosen = functools.reduce(operator.or_, (selection_of_file(read(file)) for file in files))
    assert {"conv2d.q8.gemm", "linear.q8", "matmul.q8", "attention.q8"} <= (chosen.keys or set())
    built_module = module("integers", chosen)
    for file, (_, inputs, want) in zip(files, cases, strict=True):
        (got,) = run(built_module, file, [("forward", inputs)])
        np.testing.assert_array_equal(got[0], want)


@pytest.fixture(scope="module")
def network_module(cases: dict[str, tuple[Path, list[Path]]]) -> Path:
    return module(
        "networks", functools.reduce(operator.or_, (selection_of_file(read(file)) for file, _ in cases.values()))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_networks(name: str, cases: dict[str, tuple[Path, list[Path]]], network_module: Path) -> None:
    """Small networks of odd sizes, each at three of them, one after the other in one model."""
    calls = [networks.inputs(name, scale) for scale in (1, 2, 3, 1)]
    results = run(network_module, cases[name][0], [("forward", [x.numpy() for x in given]) for given in calls])
    for given, got in zip(calls, results, strict=True):
        with torch.no_grad():
            expected = networks.flat(networks.build(name)(*given))
        assert isinstance(got, list), got
        for y, want in zip(got, expected, strict=True):
            check(y, want, 1e-4)


def test_errors_and_memory(mobilenet: Path) -> None:
    path = module("mobilenet_v2", selection_of_file(read(mobilenet)))
    told = json.loads(node(HERE / "errors.mjs", path, mobilenet))
    said = told["messages"]
    for name, parts in {
        "few": ("argument: forward takes 1 inputs (", "f32[1, 3, 96, 96]", "got 0"),
        "short": ("input: ", "expected 27648 numbers for shape [1, 3, 96, 96], got 5"),
        "dtype": ("input: ", "expected f32", "got i32"),
        "named": ("input: ", "expected an array of i64, got Float32Array"),
        "shape": ("input: ", "expected size 96 in dim 2, got f32[1, 3, 48, 192]"),
        "kind": ("input: ", "expected a typed array", "got string"),
        "nothing": ("input: ", "expected a typed array", "got null"),
        "fraction": ("input: ", "whole numbers of 0 or more, got 0.5,6,96,96"),
        "negative": ("input: ", "whole numbers of 0 or more, got -1,-3,96,96"),
        "number": ("input: ", "expected a shape", "got 27648"),
        "method": ("argument: ", "one of forward, got backward"),
        "file": ("format: ", "expected a .pen file"),
        "cut": ("format: ",),
        "verify": ("checksum: ",),
        "limits": ("argument: maxSteps: expected 0 (no limit) or more, got -1",),
        "memory": ("memory: ", "1000"),
        "address": ("another error: CompileError",),
        "closed": ("argument: this model was closed",),
    }.items():
        assert all(part in said[name] for part in parts), (name, said[name])
    assert {s["key"] for s in told["steps"]} >= {"conv2d.f32.gemm", "linear.f32"}
    assert sum(s["milliseconds"] for s in told["steps"]) > 0
    assert told["same"]
    assert len(told["sizes"]) == 1


class Counting(torch.nn.Module):
    """State, a loop that data ends, every kind of value in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def forward(self, x: torch.Tensor, limit: float, names: list[str], size: tuple[int, bool] = (3, True)):
        self.runs += 1
        steps = 0
        while float(x.sum()) < limit:
            x = x * 2 + 1
            steps += 1
        table = {name: x[i] for i, name in enumerate(names)}
        return x.t(), table, (steps, self.runs, "☀ " + names[0], None, [0.5, float(size[0])], size[1], x > 3)


@pytest.mark.slow
def test_interpreted(tmp_path: Path) -> None:
    script = torch.jit.script(Counting())
    file = tmp_path / "counting.pen"
    penlight.optimize(script).save(file)
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])
    made = built("interpreted", selection_of_file(read(file)) | selection_of_file(read(GOLDEN)))
    results = run(
        made.path, file,
        [("forward", [x.numpy(), 30.0, ["a", "b"]]), ("forward", [x.numpy(), 90.5, ["b", "a"], [7, False]]), ("forward", [1])],
    )  # fmt: skip
    expected = script(x, 30.0, ["a", "b"]), script(x, 90.5, ["b", "a"], (7, False))
    for got, (turned, table, rest) in zip(results[:2], expected, strict=True):
        check(got[0], turned.contiguous())
        assert list(got[1]) == list(table)
        for name, row in table.items():
            check(got[1][name], row)
        assert got[2][:6] == [rest[0], rest[1], rest[2], None, rest[4], rest[5]]
        check(got[2][6].astype(bool), rest[6])
    assert "3 to 4" in results[2]["error"]
    (golden,) = run(made.path, GOLDEN, [("forward", [np.zeros((2, 3), np.float32), 3, "twice"])])
    assert golden[0][0]["text"] == "twice: 1"
    assert verify(made, GOLDEN).calls == 3  # two bundled inputs of VM code, and a planned method


@pytest.mark.slow
def test_results_without_end(tmp_path: Path) -> None:
    """Lists that contain themselves, or share their parts so that they are many, and a number that is expanded: errors in words."""
    doubled = "\n ".join(f"r{i} = list(r{i - 1}, r{i - 1})" for i in range(2, 42))
    text = f"""
    itself(self):
      r1 = list()
      r2 = aten::append.t(r1, r1)
      return(r1)
    many(self):
      r1 = list()
      {doubled}
      return(r41)
    expanded(self):
      r1 = aten::expand(k0, [1099511627776], False)
      return(r1)
    long(self):
      r1 = aten::zeros([100000], 6, None, None, None)
      return(0)
    few(self):
      r1 = list()
      r2 = list(r1, r1)
      return(r2)"""
    file = tmp_path / "endless.pen"
    file.write_bytes(to_array(program(text, constants=[np.float32(0.1).reshape(1)])).tobytes())
    path = module("endless", selection_of_file(read(file)))
    itself, many, expanded, few = run(path, file, [(name, []) for name in ("itself", "many", "expanded", "few")])
    assert "at most 200 levels" in itself["error"]
    assert "4194304 parts" in many["error"]
    assert "room for a result of 1099511627776 numbers" in expanded["error"]
    assert few == [[], []]
    few, long = run(path, file, [("few", []), ("long", [])], max_steps=1000)
    assert few == [[], []]
    assert "at most 1000 steps" in long["error"]
    whole = file.read_bytes()
    for damage in (b'"argumentz"', b'*arguments"'):
        file.write_bytes(whole.replace(b'"arguments"', damage, 1))
        with pytest.raises(AssertionError, match=r"damaged \.pen file: expected JSON that tells of the model"):
            run(path, file, [])


def test_another_models_module(mobilenet: Path) -> None:
    path = module("mobilenet_v2", selection_of_file(read(mobilenet)))
    with pytest.raises(
        AssertionError, match=r"needs 2 more: mul.f32, sigmoid.f32. Build one that has them: penlight build"
    ):
        run(path, GOLDEN, [])


@pytest.mark.slow
def test_samples(recording: Path, tmp_path: Path) -> None:
    """Every sample of every operator gives torch's result."""
    objects = sorted(built("everything", EVERYTHING).objects, key=lambda p: p.name != "platform_wasm.o")
    program = tmp_path / "samples.wasm"
    # All memory at once: Node 20 may crash where it collects garbage while a program under its WASI asks for more.
    flags = ["-target", "wasm32-wasi", "-O2", "-Wl,-z,stack-size=1048576", "-Wl,--initial-memory=1073741824"]
    flags += [f"-I{ROOT / 'runtime/include'}"]
    source = HERE.parent / "runtime/samples.c"
    command = [str(find_zig()), "cc", *flags, *map(str, objects), str(source), "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    # Node 20 may also crash as it ends, in its own collection of garbage, after the program has said how it went.
    said = node(HERE / "wasi.mjs", program, record_all(recording), "base", last_words=" samples on base, 0 wrong")
    assert int(said.split()[-6]) > 1900
