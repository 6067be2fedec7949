"""Values as text: what str(x), "{}".format(x) and "%s" % x give in TorchScript, byte for byte."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.vm.check import OperatorError, run
from tests.vm.scripted import same

FLOATS = [0.1, 1.0, -0.0, 0.0, -3.0, 1e-5, 1e10, 1e15, 1e18, 9e18, 1e19, 123456789.5, 1 / 3, 1e22, 5e-324, 1e300, -2.5e-7,
          math.inf, -math.inf, math.nan]  # fmt: skip


@pytest.mark.parametrize("value", FLOATS)
def test_floats(value: float) -> None:
    same("aten::str", "x: float", "str(x)", value)
    same("aten::format", "s: str, x: float", "s.format(x)", "<{}>", value)


def test_random_floats() -> None:
    bits = np.random.default_rng(5).integers(0, 2**63, 300, dtype=np.uint64)
    for value in bits.view(np.float64):
        same("aten::str", "x: float", "str(x)", float(value))


CONTAINERS: list[tuple[str, Any]] = [
    ("int", 7),
    ("bool", True),
    ("str", "it's"),
    ("Optional[int]", None),
    ("List[int]", []),
    ("List[float]", [1.0, 0.5]),
    ("List[str]", ["a", "b'c\n", "é"]),
    ("List[List[int]]", [[1], [2, 3], []]),
    ("List[Optional[int]]", [None, 1]),
    ("Dict[str, int]", {"a": 1, "b": 2}),
    ("Dict[int, float]", {1: 2.0}),
    ("Dict[str, int]", {}),
    ("Tuple[int, str]", (1, "x")),
    ("Tuple[int]", (1,)),
    ("List[Tuple[int, bool]]", [(1, True), (2, False)]),
]


@pytest.mark.parametrize(("kind", "value"), CONTAINERS)
def test_containers(kind: str, value: Any) -> None:
    if kind != "str":  # str("a") is no call
        same("aten::str", f"x: {kind}", "str(x)", value)
    same("aten::format", f"s: str, x: {kind}", "s.format(x)", "<{}>", value)


def test_format() -> None:
    for text in ("", "{}", "{}{}", "a {} b {}", "{ {} }", "{{}} {}", "{}}{", "{0}"):
        same("aten::format", "s: str, x: int, y: str", "s.format(x, y)", text, 1, "q")
    assert "Too few arguments" in same("aten::format", "s: str, x: int", "s.format(x)", "{} {}", 1)


@pytest.mark.parametrize("value", [1.5, -2.0, 1e30, 1e300, 0.1, 1e-7, 8388608.5, math.inf])
def test_percent_floats(value: float) -> None:
    for spec in "deEfFs":
        same("aten::percentFormat", "s: str, x: float", "s % x", f"<%{spec}>", value)
    same(
        "aten::percentFormat",
        "s: str, x: float, y: float",
        "s % (x, y)",
        "%f %s",
        value,
        value,
        call=("%f %s", (value, value)),
    )


def test_percent() -> None:
    same("aten::percentFormat", "s: str, x: int", "s % x", "%d%% of %%", 42)
    same("aten::percentFormat", "s: str, x: int", "s % x", "%e", 42)
    same("aten::percentFormat", "s: str, x: int", "s % x", "%c", 65)
    same("aten::percentFormat", "s: str, x: str", "s % x", "%s %%", "q")
    same("aten::percentFormat", "s: str, x: List[int]", "s % x", "%s", [1, 2])
    for text, words in (
        ("%d %d", "Too few"), ("none", "Too many"), ("%q", "is not supported"), ("100%", "Incomplete"), ("%", "Incomplete"),
    ):  # fmt: skip
        assert words in same("aten::percentFormat", "s: str, x: int", "s % x", text, 1).split("|")[1]
    for spec in "dief":
        assert (
            "requires a number" in same("aten::percentFormat", "s: str, x: str", "s % x", f"%{spec}", "a").split("|")[1]
        )
    assert "requires an int or char" in same("aten::percentFormat", "s: str, x: str", "s % x", "%c", "ab").split("|")[1]
    with pytest.raises(OperatorError, match="a value or a tuple"):
        run("aten::percentFormat", "%d")


def _tensors() -> list[torch.Tensor]:
    torch.manual_seed(1)
    quantized = torch.quantize_per_tensor(torch.rand(2, 3), 0.1, 5, torch.quint8)
    channels = torch.quantize_per_channel(
        torch.rand(2, 2), torch.tensor([0.1, 0.2]), torch.tensor([0, 100]), 0, torch.qint8
    )
    return [
        torch.tensor(1.5), torch.tensor(3), torch.tensor(1e10), torch.tensor(1 / 3), torch.tensor(1e16), torch.tensor(1e-5), torch.tensor(True),
        torch.tensor(math.nan), torch.tensor(-1e-300, dtype=torch.float64),
        torch.arange(3), torch.rand(2, 3), torch.rand(2, 2, 2) * 1000, torch.tensor([True, False]), torch.tensor([]), torch.zeros(0, 3),
        torch.zeros(2, 0, 3), torch.rand(2, 30), torch.tensor([1e-5, 1e5]), torch.tensor([math.nan, 1, math.inf]), torch.tensor([math.nan]),
        torch.arange(4).double() / 3, torch.rand(2, 2) * 1e7, torch.rand(2, 2) * 1e-7, torch.rand(3) * 1e7, torch.rand(2, 2, 15) * 1e7,
        torch.rand(2, 3, 2, 15), torch.rand(2, 20) * 1e7, torch.tensor([1e12, 1]), torch.tensor([-100.5, 1]), torch.tensor([-1e5, 0.5]),
        torch.arange(30).view(1, 30) * 1000, torch.rand(2).half(), torch.rand(2).bfloat16(), torch.ones(2).byte(), torch.rand(3, 4).t(),
        torch.tensor([1e-200, 1e200], dtype=torch.float64), torch.tensor([0.0, -0.0, 1.0]), torch.tensor([[-5, 10]], dtype=torch.int8),
        torch.randn(5) * 1e5, torch.randn(5) * 1e4, torch.randn(3, 3) * 1e-2, torch.zeros(3), quantized, channels,
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(_tensors())))
def test_tensors(number: int) -> None:
    tensor = _tensors()[number]
    same("aten::str", "x: Tensor", "str(x)", tensor)
    same("aten::format", "s: str, x: List[Tensor]", "s.format(x)", "<{}>", [tensor, tensor])


def test_random_tensors() -> None:
    torch.manual_seed(2)
    for i in range(150):
        shape = [int(n) for n in torch.randint(1, 5, (i % 4 + 1,))]
        same(
            "aten::str",
            "x: Tensor",
            "str(x)",
            torch.randn(shape, dtype=torch.float64) * 10.0 ** int(torch.randint(-12, 13, ())),
        )


def test_deep_and_large() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert "..." in run("aten::str", deep)
    small: Any = ["x" * 10000] * 1000
    with pytest.raises(OperatorError, match="at most 256 MiB"):
        run("aten::str", [small] * 30)
