"""Weights that a plan and VM code share: the file holds them once, packed as the plan's kernels read them, and code that is
interpreted all the same finds every number in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight.file import format as f
from penlight.file.contents import TensorDatum
from penlight.file.reader import read
from penlight.file.writer import to_array
from penlight.ir.graph import Program
from penlight.lower.prepack import PACKERS, UNPACKERS, turn
from tests.file.assemble import program
from tests.file.edit import Edit
from tests.file.golden.packed import expected, packed_program, tensor, weights

GOLDEN = Path(__file__).parent / "golden/v2_packed.pen"


@pytest.fixture(params=["golden", "written"])
def data(request: pytest.FixtureRequest) -> np.ndarray:
    return np.fromfile(GOLDEN, np.uint8) if request.param == "golden" else to_array(packed_program())


def test_each_weight_is_there_once(data: np.ndarray) -> None:
    pen = read(data)
    plain = sum(array.nbytes for array in weights().values())
    assert len({c.offset for c in pen.constants}) == 7
    assert {c.layout for c in pen.constants} == {"plain", "panel16", "panel16t", "taps", "grouped"}
    assert plain <= pen.weight_bytes < 2 * plain  # tails of panels: the numbers here are few
    assert pen.module is not None
    for name, array in weights().items():
        if name != "b":
            held = pen.module.items[name]
            assert isinstance(held, TensorDatum)
            np.testing.assert_array_equal(held.array, array)


def test_plan_and_code_agree(data: np.ndarray) -> None:
    """Five images do not fit the plan."""
    model = penlight.Model(data)
    for n in (2, 5, 2):
        x = np.random.default_rng(n).standard_normal((n, 3, 6, 6)).astype(np.float32)
        np.testing.assert_allclose(model(x), expected(x), rtol=1e-4, atol=1e-4)


def test_the_numbers_of_weights(data: np.ndarray) -> None:
    """Bit for bit, through views, after a write into one, and after a reset."""
    model, arrays = penlight.Model(data), weights()
    for factor in (1, 2, 1):
        if factor == 2:
            model.run_method("double")
        *whole, turned = model.run_method("weights")
        e = arrays["e"] * np.float32(factor)
        for found, array in zip(whole, (*[arrays[n] for n in "abcd"], e, arrays["f"], arrays["g"]), strict=True):
            np.testing.assert_array_equal(found, array)
        np.testing.assert_array_equal(turned, e[:, 3:].T)
        if factor == 2:
            model.reset()


def test_state_from_outside(data: np.ndarray) -> None:
    """What nothing has read so far is unpacked for whoever looks."""
    state = penlight.Model(data).run_method("state")
    np.testing.assert_array_equal(state.c, weights()["c"])
    with pytest.raises(MemoryError):
        penlight.Model(data, memory_limit=6000).run_method("state")


def test_unpacked_weights_count_as_memory() -> None:
    """Planned, nothing is unpacked; interpreted, a weight that is larger than the limit is an error that says so."""
    arrays = {"w": np.ones((300, 300), np.float32)}
    made = parse(arrays)
    text = "forward(self, x):\n r2 = planned map(r1) -> done\n r3 = get_attr 0 (r0)\n r2 = aten::linear(r1, r3)\ndone:\n return(r2)"
    made.script = program(text, {"w": tensor(arrays["w"], "w")}).script
    assert made.script is not None
    model = penlight.Model(to_array(made), memory_limit=1 << 18, threads=1)
    np.testing.assert_array_equal(model(np.ones((2, 300), np.float32)), np.full((2, 300), 300))
    with pytest.raises(penlight.RunError, match="memory_limit"):
        model(np.ones((5, 300), np.float32))
    np.testing.assert_array_equal(model(np.ones((2, 300), np.float32)), np.full((2, 300), 300))


def parse(arrays: dict[str, np.ndarray]) -> Program:
    from penlight.ir.parse import parse_program
    from penlight.lower import lower

    text = (
        'program {}\n\nmethod map\nsymbols n: 1..4\ninputs {"args": [0]}\noutputs 0\ngraph map(%x: f32[n, 300]) {\n  @w: f32[300, 300]\n'
        '  %y: f32[n, 300] = linear(%x, @w, none, none, act="", act_args=[])\n  return %y\n}\n'
    )
    return lower(parse_program(text, arrays))


def test_equal_state_is_not_shared_state() -> None:
    """Two tensors of the same numbers: their bytes are shared, a write into one leaves the other alone."""
    zeros = np.zeros(100, np.float32)
    text = "forward(self):\n r1 = get_attr 0 (r0)\n r2 = aten::add_.Scalar(r1, 1)\n r3 = get_attr 1 (r0)\n r4 = tuple(r1, r3)\n return(r4)"
    data = to_array(program(text, {"a": tensor(zeros), "b": tensor(zeros)}))
    assert read(data).weight_bytes == zeros.nbytes
    a, b = penlight.Model(data)()
    assert a.sum() == 100
    assert b.sum() == 0


def test_tensors_in_lists_stay_plain() -> None:
    made = packed_program()
    assert made.script is not None
    made.script.module.attributes["e"] = [made.script.module.attributes["e"]]
    pen = read(to_array(made))
    assert pen.module is not None
    assert pen.module.items["e"][0].constant.layout == "plain"
    np.testing.assert_array_equal(penlight.Model(to_array(made)).run_method("state").e[0], weights()["e"])


@pytest.mark.parametrize("layout", UNPACKERS)
@pytest.mark.parametrize(
    ("shape", "groups"),
    [((1, 1), 1), ((20, 1), 5), ((16, 1), 1), ((20, 1, 3, 3), 20), ((40, 1, 3, 3), 2), ((48, 3, 2, 1), 2), ((30, 2, 1, 2, 3), 5), ((20, 3), 1)],
)  # fmt: skip
def test_unpacking_undoes_packing(layout: str, shape: tuple[int, ...], groups: int) -> None:
    if layout == "taps":
        shape = (shape[0], 1, *shape[2:])
    w = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    stored = PACKERS[layout.removesuffix("t")](w, groups).reshape(-1)
    if layout.endswith("t"):
        w = turn(w, groups)
    np.testing.assert_array_equal(UNPACKERS[layout](stored, w.shape, groups), w)


class Branch(nn.Module):
    """Asks for numbers, so that its code stays behind the plans."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        for parameter in self.parameters():
            parameter.data.uniform_(-1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        if bool(y.sum() > 1e9):
            y = y * 2
        return y  # type: ignore[no-any-return]


class Product(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.rand(3, 24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)) @ self.w


REARRANGED: dict[str, Callable[[], nn.Module]] = {
    "a flatten that moves into the linear": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 24)),
    "a transposed convolution": lambda: nn.ConvTranspose2d(3, 20, 3, stride=2),
    "a transposed convolution in groups": lambda: nn.Sequential(nn.Conv2d(3, 8, 1), nn.ConvTranspose2d(8, 40, 3, groups=2)),
    "one of few outputs in a group": lambda: nn.Sequential(nn.Conv2d(3, 8, 1), nn.ConvTranspose2d(8, 6, 3, groups=2)),
    "one dimension": lambda: nn.Sequential(nn.Flatten(2), nn.ConvTranspose1d(3, 20, 4), nn.Conv1d(20, 5, 3)),
    "a product": Product,
    "a batch norm": lambda: nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
}  # fmt: skip


@pytest.mark.parametrize("name", REARRANGED)
def test_weights_that_passes_rearrange(name: str) -> None:
    torch.manual_seed(4)
    module = Branch(REARRANGED[name]()).eval()
    file = penlight.optimize(torch.jit.script(module), (torch.rand(2, 3, 8, 8),), winograd_budget=0).to_bytes()
    pen, x = read(file), torch.rand(2, 3, 8, 8)
    assert pen.methods
    numbers = sum(p.numel() for p in module.parameters() if p.numel() >= 64)
    stored = sum(np.prod(w.shape) // {"u8": 4}.get(w.dtype, 1) for w in pen.weights if w.size >= 256)
    assert stored == numbers
    for data in (file, interpreted(file)):
        torch.testing.assert_close(penlight.load(data)(x), module(x).detach(), rtol=1e-4, atol=1e-4)


def interpreted(file: bytes) -> bytes:
    """The same file, its plans never taken."""
    edit = Edit(file)
    for row in edit.tables["VMCD"]:
        if row["op"] == f.VM_INSTRUCTIONS["planned"]:
            row.update(op=f.VM_INSTRUCTIONS["drop"], target=0, arg_count=0, result_count=0)
    return edit.bytes()


class Many(nn.Module):
    """Layers that Winograd suits, in a plan of their own for each branch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return self.layers(x)  # type: ignore[no-any-return]
        return self.layers(-x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("budget", [0.3, 1.0])
def test_winograd_budget_of_the_whole_file(budget: float) -> None:
    """What VM code holds stays beside what is transformed for it, and counts; what two plans share counts once."""
    module = torch.jit.script(Many().eval())
    weights = sum(p.numel() * 4 for p in module.parameters())
    x = torch.rand(1, 64, 56, 56)
    least, grown = (read(penlight.optimize(module, (x,), winograd_budget=b).to_bytes()) for b in (0, budget))
    assert least.size < 1.02 * weights + least.tables_size
    assert any("winograd" in key for key in grown.keys)
    assert grown.weight_bytes <= least.weight_bytes + budget * weights
