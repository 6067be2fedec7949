"""penlight.hpp: every kind of value in and out, nested, of planned methods and of VM code, gives what torch gives; and mistakes are words."""

# ruff: noqa: UP006, UP035, UP045 (TorchScript reads these types)
from __future__ import annotations

import os
import subprocess
from collections import namedtuple
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest
import torch

import penlight
from penlight.build.library import build_library
from penlight.build.model_selection import selection_of_models
from penlight.build.targets import TARGETS
from penlight.file.writer import to_array
from penlight.ir.parse import parse_graph
from tests import vulkan_drivers
from tests.cpp import compilers, words
from tests.file.assemble import program
from tests.graphs import file_of
from tests.runtime import native

pytestmark = pytest.mark.slow  # it compiles

HERE = Path(__file__).parent
Point = namedtuple("Point", "x y")


class Nested(torch.nn.Module):
    def forward(self, pair: Any, boxes: Any, scale: float, point: Any, *, mask: Any = None, name: str = "a") -> Any:
        x = pair[0] * scale + pair[1]["bias"] + boxes[0].sum() + point.x - point.y
        x = x if mask is None else x * mask
        sizes = (x.shape[0], x.shape[1] // 2, None, scale, name, True)
        return (
            {"out": x, "sizes": sizes, "list": [x.int(), {"deep": (x,)}]},
            {1: x * 2, 7: boxes[1] > 0},
            Point(x.sum(), point),
        )


class Script(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(
        self, x: torch.Tensor, named: Dict[str, List[torch.Tensor]], flag: bool, times: int, scale: float, word: str, none: Optional[int] = None,
        pair: Tuple[int, str] = (3, "p"),
    ) -> Tuple[Dict[int, torch.Tensor], Dict[str, Tuple[float, bool]], List[List[int]], Optional[str], List[torch.Tensor], int, str]:  # fmt: skip
        self.calls += 1
        for i in range(times):
            if float(x.sum()) > 100:
                break
            x = x * scale + named["a"][i % len(named["a"])]
        kept = word + "!" if flag else None
        return (
            {times: x.t(), -1: x.long()},
            {word: (scale / 3, flag)},
            [[times, 2], [times]],
            kept,
            [x, x > 1],
            self.calls,
            pair[1] + str(pair[0]),
        )


def values(x: int = 3) -> dict[str, torch.Tensor]:
    torch.manual_seed(x)
    return {
        "x": torch.randn(x, 4),
        "bias": torch.randn(4),
        "a": torch.randn(2, 2),
        "b": torch.randn(5),
        "mask": torch.rand(x, 4),
    }


def nested_arguments(x: int = 3) -> tuple[Any, ...]:
    v = values(x)
    return (v["x"], {"bias": v["bias"]}), [v["a"], v["b"]], 0.1, Point(torch.tensor(1.5), torch.tensor(0.25))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    arguments, mask = nested_arguments(), values()["mask"]
    rows = torch.export.Dim("rows", min=2, max=64)
    shapes = {
        "pair": ({0: rows}, {"bias": None}),
        "boxes": [None, None],
        "scale": None,
        "point": Point(None, None),
        "mask": {0: rows},
        "name": None,
    }
    made = {
        "nested": penlight.optimize(Nested(), arguments, kwargs={"mask": mask, "name": "a"}, dynamic_shapes=shapes),
        "script": penlight.optimize(torch.jit.script(Script())),
        "complex": penlight.optimize(Complex(), (torch.randn(2, 8), torch.randn(3, dtype=torch.complex64))),
        "plain": penlight.optimize(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),), backend="vulkan"),
    }
    for name, model in made.items():
        model.save(folder / f"{name}.pen")
    return {name: folder / f"{name}.pen" for name in made}


class Complex(torch.nn.Module):
    def forward(self, x: torch.Tensor, z: torch.Tensor) -> Any:
        return torch.fft.rfft(x), z.conj(), x.argmax().item()


@pytest.fixture(scope="module", params=[*compilers.COMPILERS, "asan"])
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ["-fno-rtti", "-fno-exceptions"]
    if request.param == "asan":
        flags += native.FLAGS["asan"]
    name = "g++" if request.param == "asan" else request.param
    return compilers.program(name, HERE / "values.cc", tmp_path_factory.mktemp("runner") / "values", flags)


def run(
    runner: Path, model: Path, *calls: tuple[Any, ...], options: tuple[str, ...] = (), method: str = "forward"
) -> list[str]:
    text = "".join(f"{method} {words.several(call)}\n" for call in calls)
    done = native_run([runner, model, *options], text)
    return done.splitlines()


def native_run(command: list[Any], text: str) -> str:
    environment = {**os.environ, **vulkan_drivers.ENVIRONMENT, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        list(map(str, command)), input=text, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        if expected.is_complex():
            assert got[0] == "complex"
            got = got[1]["real"] + 1j * got[1]["imag"]
        assert got.dtype == expected.numpy().dtype
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-5)
    elif hasattr(expected, "_fields"):
        assert got[0] == type(expected).__name__
        same(list(got[1].items()), list(expected._asdict().items()))
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        same(list(got.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            same(g, e)
    else:
        assert type(got) is type(expected)
        assert got == expected


def test_planned(runner: Path, models: dict[str, Path]) -> None:
    for rows in (3, 7):
        arguments, mask = nested_arguments(rows), values(rows)["mask"]
        expected = Nested()(*arguments, mask=mask, name="a")
        for call in ((*arguments, mask, "a"), (*arguments, mask)):
            same(words.read(run(runner, models["nested"], call)[0]), expected)


def test_interpreted_with_state(runner: Path, models: dict[str, Path]) -> None:
    v, module = values(), torch.jit.script(Script())
    x = torch.randn(2, 5).t()[:4].t().contiguous()
    calls = [
        (v["x"], {"a": [v["bias"], v["x"]], "ü": []}, True, 3, 0.3, "wörd\n"),
        (x, {"a": [v["bias"]]}, False, 0, 1e300, "", None, (2, "q")),
    ]
    lines = run(runner, models["script"], *calls)
    for line, call in zip(lines, calls, strict=True):
        same(words.read(line), module(*call))


def test_complex_tensors_and_numbers_out_of_the_data(runner: Path, models: dict[str, Path]) -> None:
    call = (torch.randn(2, 8), torch.randn(3, dtype=torch.complex64))
    expected = Complex()(*call)
    same(words.read(run(runner, models["complex"], call)[0]), (expected[0], expected[1].resolve_conj(), expected[2]))


@pytest.mark.parametrize("options", [("cpu",), ("vulkan",), ("vulkan", "kept there")])
def test_devices(runner: Path, models: dict[str, Path], options: tuple[str, ...]) -> None:
    if options[0] == "vulkan" and not penlight.is_vulkan_available():
        pytest.skip("there is no Vulkan device")
    x = torch.randn(2, 4)
    got = words.read(run(runner, models["plain"], (x,), options=options)[0])
    np.testing.assert_allclose(got, penlight.load(models["plain"])(x), rtol=1e-5, atol=1e-6)


def test_mistakes(runner: Path, models: dict[str, Path], tmp_path: Path) -> None:
    arguments, mask = nested_arguments(), values()["mask"]
    pair, boxes, scale, point = arguments
    bad = {
        "argument 'pair' must be a tuple of 2, got tensor f32 (3, 4)": (pair[0], boxes, scale, point, mask),
        "argument 'pair[1]' must be a dict(bias: tensor), got a dict of 1": ((pair[0], {"no": pair[0]}), boxes, scale, point, mask),
        "argument 'boxes[1]' must be a tensor, got int 3": (pair, [boxes[0], 3], scale, point, mask),
        "argument 'scale' was number when the model was captured and is fixed to that, got float 0.5": (pair, boxes, 0.5, point, mask),
        "got 9 arguments": (pair, boxes, scale, point, mask, "a", 1, 2, 3),
        "argument 'mask' is missing; takes (pair: tuple(tensor, dict(bias: tensor)), boxes: list(tensor, tensor), scale: number": arguments,
        "argument 'boxes' is missing": (pair,),
        "expected f32": ((pair[0].double(), pair[1]), boxes, scale, point, mask),
    }  # fmt: skip
    for line, expected in zip(run(runner, models["nested"], *bad.values()), bad, strict=True):
        assert line.startswith("E ")
        assert expected in line
    assert "no_such" in run(runner, models["nested"], (), method="no_such")[0]
    assert "expected one that this library has: cpu" in native_run([runner, models["script"], "toaster"], "")
    (tmp_path / "old.ptl").write_bytes(b"PK\x03\x04" + bytes(200))
    assert "convert it with penlight optimize" in native_run([runner, tmp_path / "old.ptl"], "")


@pytest.mark.parametrize("compiler", compilers.COMPILERS)
def test_torch_names(compiler: str, models: dict[str, Path], tmp_path: Path) -> None:
    program = compilers.program(compiler, HERE / "torch_surface.cc", tmp_path / "surface")
    assert native_run([program, models["script"]], "") == "all well\n"


@pytest.mark.slow
def test_a_library_without_vm_and_devices(models: dict[str, Path], tmp_path: Path) -> None:
    """One program for all libraries: names that this one lacks are weak, and what needs them is an error in words."""
    chosen = selection_of_models([models["plain"]])
    assert not chosen.vm
    library = build_library(TARGETS["host"], chosen, tmp_path, jobs=2)
    flags = [f"-Wl,-rpath,{library.path.parent}", "-fno-rtti", "-fno-exceptions"]
    program = compilers.program("g++", HERE / "values.cc", tmp_path / "values", flags, library.path)
    x = torch.randn(2, 4)
    got = words.read(run(program, models["plain"], (x,))[0])
    np.testing.assert_allclose(got, penlight.load(models["plain"])(x), rtol=1e-5, atol=1e-6)
    assert "E " in native_run([program, models["script"]], "")
    assert "expected one that this library has: cpu" in native_run([program, models["plain"], "vulkan"], "")


def test_results_without_end(tmp_path: Path) -> None:
    """Lists that contain themselves, or share their parts so that they are many: an error in words, where the stack ran over."""
    doubled = "\n ".join(f"r{i} = list(r{i - 1}, r{i - 1})" for i in range(2, 42))
    texts = {
        "itself": "forward(self):\n r1 = list()\n r2 = aten::append.t(r1, r1)\n return(r1)",
        "many": f"forward(self):\n r1 = list()\n {doubled}\n return(r41)",
        "few": "forward(self):\n r1 = list()\n r2 = list(r1, r1)\n return(r2)",
        "copies": "forward(self):\n r1 = aten::zeros([1000000], 6, None, None, None)\n r2 = list(r1)\n"
        " r3 = aten::mul.left_t(r2, 50)\n return(r3)",
    }
    paths = [tmp_path / f"{name}.pen" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_bytes(to_array(program(text)).tobytes())
    include = native.ROOT / "bindings/cpp/include"
    planned = tmp_path / "planned.pen"
    planned.write_bytes(
        file_of(parse_graph("graph g(%x: f32[2]) {\n  %y: f32[2] = relu(%x)\n  return %y\n}")).tobytes()
    )
    built = native.program("plain", HERE / "nested.cc", flags=[f"-I{include}"])
    output, deep, itself, many, few, copies = native.run([built, planned, *paths], timeout=60).stdout.splitlines()
    assert output == "5 output 7: expected one of a method that was prepared or run, got another"  # it had no words
    assert deep == "an argument: expected at most 200 levels, got more"
    assert "at most 200 levels" in itself
    assert "contains itself" in itself
    assert "4194304 parts" in many
    assert "list" in few.lower()
    assert copies == "a result: expected at most as many bytes as memory_limit says, got more"
