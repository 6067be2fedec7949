"""One way in: a script gives the same graph from memory and from either kind of file, and the same bytes from every caller."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import nn

import penlight
from penlight.capture import capture
from penlight.compat.mobile_optimizer import optimize_for_mobile
from penlight.errors import CaptureError, InputError, InterpretedWarning, RunError, UnsupportedError
from penlight.file.writer import to_array
from penlight.ir.graph import Program
from penlight.ir.text import print_program
from tests.compat.models import MODELS
from tests.models import randomise
from tests.tools.call import Penlight
from tests.vm.check import compare

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
IMAGE = (torch.rand(2, 3, 64, 64),)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.attention(x, x, x)[0])


def torchvision_model(name: str) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def make() -> tuple[nn.Module, tuple[Any, ...]]:
        module = getattr(torchvision.models, name)(weights=None)
        randomise(module)
        return module, IMAGE

    return make


SMALL = {**MODELS, "attention": lambda: (Attention().eval(), (torch.rand(2, 5, 8),))}
LARGE = {
    name: torchvision_model(name)
    for name in (
        "mobilenet_v2",
        "mobilenet_v3_small",
        "resnet18",
        "squeezenet1_1",
        "shufflenet_v2_x0_5",
        "googlenet",
        "mnasnet0_5",
    )
}


def scripted(name: str) -> tuple[Any, tuple[Any, ...]]:
    module, inputs = {**SMALL, **LARGE}[name]()
    return torch.jit.script(module.eval()), inputs


def saved(script: Any, folder: Path) -> tuple[Path, Path]:
    script.save(folder / "m.pt")
    script._save_for_lite_interpreter(str(folder / "m.ptl"))
    return folder / "m.pt", folder / "m.ptl"


def text_of(source: Any, inputs: tuple[Any, ...]) -> str:
    """Without source lines, which not every file has."""
    text = print_program(Program(capture(source, inputs, methods=["forward"]).methods))
    return re.sub(r"\s+# .*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_the_same_graph_from_memory_and_from_files(name: str, tmp_path: Path) -> None:
    script, inputs = scripted(name)
    pt, ptl = saved(script, tmp_path)
    expected = text_of(script, inputs)
    assert "return" in expected
    assert text_of(pt, inputs) == expected
    assert text_of(ptl, inputs) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet", "branch", "words", "attention"])
def test_the_same_bytes_from_every_caller(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, _ = scripted(name)
    path, _ = saved(script, tmp_path)
    by_api = penlight.optimize(path, metadata={"name": "m"}).to_bytes()
    done = Penlight(capsys)("optimize", path, "-o", tmp_path / "m.pen")
    assert done.code == 0, done.err
    assert (tmp_path / "m.pen").read_bytes() == by_api
    loaded = torch.jit.load(path)
    assert penlight.optimize(loaded, metadata={"name": "m"}).to_bytes() == by_api
    program = optimize_for_mobile(loaded)._program
    program.metadata["name"] = "m"  # by default that of the class
    assert to_array(program).tobytes() == by_api


class Exotic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = x.to_sparse().to_dense()
        return x + 1


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Remembers(nn.Module):
    """State that is empty at first."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.empty(0))
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.linear(x)) + (self.last if self.last.numel() else x)
        self.last = torch.relu(self.linear(y)) * 2 - y
        return y


class Checked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert(x.shape[1] == 4, f"expected 4 columns, got {x.shape[1]} in {x.shape[0]} rows")
        return x + 1


def test_the_message_of_a_check_that_holds_does_not_keep_a_model_from_being_planned() -> None:
    model = penlight.optimize(torch.jit.script(Checked()), (torch.rand(3, 4),), dynamic_shapes="auto")
    assert model.planned_methods == ["forward"]
    torch.testing.assert_close(model(torch.zeros(5, 4)), torch.ones(5, 4))


def test_state_that_is_empty_at_first() -> None:
    script = torch.jit.script(Remembers())
    model = penlight.optimize(script, (torch.ones(2, 3),))
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(model(torch.ones(2, 3)), script(torch.ones(2, 3)))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift

    @torch.jit.export
    def change(self, scale: float) -> None:
        self.scale = scale
        self.shift += 1


def test_what_one_method_changes_is_no_constant_of_another() -> None:
    script = torch.jit.script(Scaled())
    with pytest.warns(InterpretedWarning, match="reads its attribute"):
        model = penlight.optimize(script, (torch.ones(3),), methods=["forward", "change"])
    alone = penlight.optimize(script, (torch.ones(3),))
    assert alone.planned_methods == ["forward"]
    torch.testing.assert_close(model(torch.ones(3)), alone(torch.ones(3)))
    model.change(5.0)
    torch.testing.assert_close(model(torch.ones(3)), torch.full((3,), 6.0))


@torch.jit.script
class Box:
    def __init__(self, n: int) -> None:
        self.n = n


class Shares(nn.Module):
    """Memory with several names: what is written under one is read under another, in a part that is planned."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.linear = nn.Linear(3, 3)
        both = torch.ones(2, 3)
        self.register_buffer("rows", both)
        self.register_buffer("row", both[0])
        self.register_buffer("last", torch.zeros(3))
        self.one, self.other = Box(1), Box(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 1e6):
            return x
        y = self.linear((self.linear(x * self.row).relu() + 1).sigmoid() * self.row) * self.other.n
        if self.how == "view":
            self.rows.add_(1)
        elif self.how == "attribute":
            self.last = self.row
            self.last.add_(1)
        else:
            self.one = self.other
            self.one.n += 5
        return y


class Turns(nn.Module):
    """A variable that is a tensor and None in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        last: torch.Tensor | None = None
        for _ in range(int(x.abs().max())):
            if last is None:
                y = self.linear((self.linear(x).relu() + 1).sigmoid() * 3) + 1
                last = y
            else:
                y = self.linear((self.linear(last).relu() - 1).sigmoid() * 3) - 1
                last = None
            x = x + y
        return x, last


class Twice(nn.Module):
    """A result that is there more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor], dict[str, torch.Tensor]]:
        y = self.linear(x)
        return y, [y, x, y], {"y": y}


@torch.jit.interface
class Gives(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[empty-body]
        pass


class Weight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w


class Lends(nn.Module):
    """A weight that another module gives, by an interface."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.weight = nn.Linear(3, 3), Weight()
        self.lent = self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear((self.linear(x * self.weight.w).relu() + 1).sigmoid()) * self.weight.w
        self.lent.forward(x).add_(1)
        return y


Lends.__annotations__["lent"] = Gives  # torch does not look up names


@pytest.mark.parametrize("kind", ["object", "pt", "ptl"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "make", [*(functools.partial(Shares, how) for how in ("view", "attribute", "object")), Turns, Twice, Lends]
)
def test_names_for_one_value(make: Callable[[], nn.Module], given: bool, kind: str, tmp_path: Path) -> None:
    script = torch.jit.script(make().eval().requires_grad_(False))
    source = dict(zip(("object", "pt", "ptl"), (script, *saved(script, tmp_path)), strict=True))[kind]
    x = torch.full((2, 3), 4.0)
    model = penlight.optimize(source, (x,) if given else None)
    for call in range(3):
        compare(model(x), script(x), 1e-5, f"call {call}")


@pytest.mark.parametrize("kind", ["object", "pt", "ptl"])
def test_operators_that_are_missing_are_one_error_at_compile_time(kind: str, tmp_path: Path) -> None:
    script = torch.jit.script(Exotic())
    source = dict(zip(("object", "pt", "ptl"), (script, *saved(script, tmp_path)), strict=True))[kind]
    with pytest.raises(UnsupportedError) as caught:
        penlight.optimize(source)
    assert {"aten::to_sparse", "aten::to_dense"} <= {c.op.partition(".")[0] for c in caught.value.calls}
    if kind != "ptl":  # which has lines only if it was saved with them
        assert "x = x.to_sparse().to_dense()" in str(caught.value)
    model = penlight.optimize(source, allow_missing=True)
    assert len(model.missing_operators) >= 2
    torch.testing.assert_close(model(-torch.ones(2)), torch.zeros(2))


def test_interpretation_is_told_and_may_be_refused() -> None:
    script = torch.jit.script(Counts())
    with pytest.warns(InterpretedWarning, match="keeps state: it sets its attribute 'calls'"):
        penlight.optimize(script, (torch.ones(2),))
    with pytest.raises(CaptureError, match=r"strict=True.*\n.*keeps state"):
        penlight.optimize(script, (torch.ones(2),), strict=True)
    script, inputs = scripted("conv_relu")
    assert penlight.optimize(script, inputs, strict=True).planned_methods == ["forward"]


def test_wrong_examples_leave_the_old_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, _ = scripted("conv_relu")
    path, _ = saved(script, tmp_path)
    target = tmp_path / "m.pen"
    target.write_bytes(b"old")
    done = Penlight(capsys)("optimize", path, "-o", target, "--shape", "1,7,4,4")
    assert done.code != 0
    assert "fails on the example inputs" in " ".join(done.err.split())
    assert target.read_bytes() == b"old"


class OfOne(nn.Module):
    """Fixes the batch by its code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(3, -1) if x.shape[0] == 1 else x.reshape(2, -1)


class Rows(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.softmax(1) @ y.transpose(1, 2)).flatten(1)


@pytest.mark.parametrize("way", ["module", "script"])
def test_a_batch_of_one_is_free_where_the_model_allows_it(way: str) -> None:
    said: list[str] = []

    def optimized(module: nn.Module, *args: torch.Tensor) -> penlight.Model:
        return penlight.optimize(
            torch.jit.script(module) if way == "script" else module, args, dynamic_shapes="auto", progress=said.append
        )

    model = optimized(Rows(), torch.rand(1, 5, 4), torch.rand(1, 3, 4))
    for n in (1, 2, 7):
        x, y = torch.rand(n, 6, 4), torch.rand(n, 2, 4)
        torch.testing.assert_close(model(x, y), Rows()(x, y))
    model = optimized(OfOne(), torch.rand(1, 6))
    assert model.inputs()[0].shape[0] == 1
    assert any("sizes that the model's code fixes: x: dim 0 = 1" in line for line in said)
    x = torch.rand(1, 9)
    torch.testing.assert_close(model(x), OfOne()(x))


class Squeezed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze(0) + 1


class ByCount(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 1 else x * 3


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("way", ["module", "script"])
@pytest.mark.parametrize("make", [Squeezed, ByCount])
def test_one_is_a_size_like_others_or_refused(make: Callable[[], nn.Module], way: str, first: int) -> None:
    """torch takes free sizes for 2 or more, and what it captured may not hold for 1."""
    module = make()
    source = torch.jit.script(module) if way == "script" else module
    model = penlight.optimize(source, (torch.rand(first, 4),), dynamic_shapes="auto")
    for n in (1, 3):
        x = torch.rand(n, 4)
        if n == first:
            torch.testing.assert_close(model(x), module(x))
        else:
            with pytest.raises(RunError, match="expected size"):
                model(x)


class Defaults(nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 0.5, shift: float = 0.0) -> torch.Tensor:
        return x * scale + shift


def test_an_argument_by_name_is_not_lost() -> None:
    model = penlight.optimize(torch.jit.script(Defaults()), plan=False)
    torch.testing.assert_close(model(torch.ones(2), shift=1.0, scale=2.0), torch.full((2,), 3.0))
    with pytest.raises(InputError, match="'shift' comes after 'scale'"):
        model(torch.ones(2), shift=1.0)


class Tells(nn.Module):
    """Results that follow from sizes and data in ways that no shape tells."""

    def forward(self, x: torch.Tensor) -> tuple[str, torch.Tensor, torch.Tensor, int]:
        n = x.size(0)
        y = x if str(n) == "3" else -x
        return f"{n} rows", y, torch.tensor([n / 2, 1.0]), int(x.sum())


def test_text_and_numbers_of_sizes_and_data() -> None:
    script = torch.jit.script(Tells())
    model = penlight.optimize(script, (torch.ones(2, 4),), dynamic_shapes="auto")
    for n in (2, 3, 5):
        compare(model(torch.ones(n, 4)), script(torch.ones(n, 4)), 0.0, f"{n} rows")
    halves = torch.jit.script(Halves())
    planned = penlight.optimize(halves, (torch.ones(2, 4),), dynamic_shapes="auto")
    assert planned.planned_methods == ["forward"]
    torch.testing.assert_close(planned(torch.ones(5, 4)), halves(torch.ones(5, 4)))


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([x.size(0) / 2, 1.0]).sum()


class PlusCount(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + x.size(0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int16, torch.uint8])
def test_sizes_as_numbers_of_every_dtype(dtype: torch.dtype) -> None:
    model = penlight.optimize(torch.jit.script(PlusCount()), (torch.ones(2, 4, dtype=dtype),), dynamic_shapes="auto")
    x = torch.ones(5, 4, dtype=dtype)
    torch.testing.assert_close(model(x), x * 2 + 5)
