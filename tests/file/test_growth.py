"""Files that grow: loading, running and reading results take time in proportion, whatever the file was made of.

Not how long anything takes but how it grows is looked at: eight times the size takes about eight times as long where it is linear, and
sixty-four times where it is not."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.file.writer import to_array
from penlight.ir.graph import Method, Program
from penlight.ir.parse import parse_graph
from penlight.ir.values import ScriptObject
from penlight.lower import lower
from tests.file.assemble import program

TIMES = 8


def growth(work: Callable[[Any], None], small: Any, large: Any) -> float:
    """How much longer the large one takes: the best of a few, of this process's own time."""

    def best(given: Any, runs: int) -> float:
        taken = []
        for _ in range(runs):
            start = time.process_time()
            work(given)
            taken.append(time.process_time() - start)
        return min(taken)

    return best(large, 2) / max(best(small, 5), 1e-3)


def functions(count: int) -> np.ndarray:
    return to_array(program("\n".join(f"m{i}(self):\n return(r0)" for i in range(count))))


def planned(count: int) -> np.ndarray:
    graph = parse_graph("graph g(%x: f32[2]) {\n  %y: f32[2] = relu(%x)\n  return %y\n}")
    inputs = {"args": [0], "kwargs": {}, "names": ["x"]}
    made = Program({f"m{i}": Method(copy.deepcopy(graph), inputs, {"tuple": [0]}) for i in range(count)})
    lower(made)
    return to_array(made)


def keys(count: int, kind: str) -> dict[Any, int]:
    if kind == "strings":
        return {f"key {i}": i for i in range(count)}
    if kind == "large integers":  # of which many are one double
        return {2**62 + i: i for i in range(count)}
    if kind == "one place":  # of a table of 2^20 places, by the hash that dicts had: FNV's and a product have inverses
        inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
        made: dict[Any, int] = {}
        for i in range(count):
            mixed = i << 20
            bits = ((mixed ^ (mixed >> 32)) * inverse ^ 14695981039346656037) % 2**64
            number = float(np.array(bits, np.uint64).view(np.float64))
            if number == number:
                made[number] = i
        return made
    return {float(i): i for i in range(count)}


@pytest.mark.parametrize("what", ["load", "load and run"])
def test_many_functions(what: str) -> None:
    def work(data: np.ndarray) -> None:
        model = penlight.Model(data, threads=1)
        if what == "load and run":
            model.run_method("m7")

    assert growth(work, functions(250), functions(250 * TIMES)) < 3 * TIMES


def test_many_planned_methods() -> None:
    """Each is asked for by name when a file is loaded: to look through all of them took a second for 5 MB."""
    small, large = 500, 500 * TIMES
    models = {n: penlight.Model(planned(n), threads=1) for n in (small, large)}

    def ask(count: int) -> None:
        handle = models[count]._handle
        assert all(len(handle.inputs(name)) == 1 for name in handle.methods)
        assert handle.inputs("m") == []

    assert growth(ask, small, large) < 3 * TIMES


@pytest.mark.parametrize("kind", ["strings", "large integers", "one place", "floats"])
def test_large_dicts(kind: str) -> None:
    """In a file, and as a result."""

    def made(count: int) -> penlight.Model:
        return penlight.Model(
            to_array(program("forward(self):\n return(k0)", constants=[keys(count, kind)])), threads=1
        )

    small, large = 5_000, 5_000 * TIMES
    models = {n: made(n) for n in (small, large)}
    assert growth(lambda n: models[n](), small, large) < 3 * TIMES
    assert len(models[large]()) >= 0.9 * large
    images = {n: to_array(program("forward(self):\n return(k0)", constants=[keys(n, kind)])) for n in (small, large)}
    assert growth(lambda n: penlight.Model(images[n], threads=1), small, large) < 3 * TIMES


def test_a_dict_with_gaps_keeps_its_order() -> None:
    text = """forward(self):
      r1 = aten::Delete.Dict_int(k0, 3)
      r2 = aten::Delete.Dict_int(k0, 0)
      return(k0)"""
    text = text.replace("r1 = ", "").replace("r2 = ", "")
    model = penlight.Model(to_array(program(text, constants=[{i: i * i for i in range(10)}])), threads=1)
    result = model()
    assert list(result.items()) == [(i, i * i) for i in range(10) if i not in (0, 3)]


def test_keys_that_equal_each_other() -> None:
    """As in Python: 1, 1.0 and True are one key, and NaN is none."""
    text = """forward(self, d, k):
      r3 = aten::__contains__.int(r1, r2)
      return(r3)"""
    model = penlight.Model(to_array(program(text)), threads=1)
    held = {1: "a", 0: "b", 2**53: "c", 2**63 - 1: "d", -(2**63): "e"}
    for key in (1, 0, 2**53, 2**63 - 1, -(2**63), 2, 2**53 + 1):
        assert model(held, key) == (key in held)


def test_an_object_of_many_fields() -> None:
    fields = {f"f{i}": i for i in range(3)}
    model = penlight.Model(
        to_array(
            program(
                "forward(self):\n return(k0)",
                constants=[ScriptObject("__torch__.P", fields)],
                classes={"__torch__.P": list(fields)},
            )
        ),
        threads=1,
    )
    assert vars(model()) == fields
