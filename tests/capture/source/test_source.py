"""TorchScript files read without torch: each gives what torch gives for the module that was saved."""

import re
import subprocess
import sys
import zipfile
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.jit
from torch import Tensor, nn

import penlight
from penlight.capture.source import SourceProgram
from penlight.compile import compile_model
from penlight.errors import CaptureError
from penlight.file.writer import to_array
from penlight.model import Model
from penlight.ops.dynamic.nms import nms_in_python
from penlight.torchvision import declare_operators
from tests.capture.lite import legacy
from tests.capture.lite.test_run import compare as compare_calls
from tests.vm.check import compare
from tests.vm.test_scripted import CASES, run

LEGACY = {case.source.stem: case for case in legacy.cases()}


def model_of(path: Path, args: Any = None) -> Model:
    program = SourceProgram(path)
    return Model(to_array(compile_model(program, args, methods=program.methods, plan=args is not None)))


@pytest.mark.parametrize("name", LEGACY)
def test_files_of_the_original(name: str) -> None:
    compare_calls(LEGACY[name], model_of(LEGACY[name].source))


@pytest.mark.parametrize("planned", [False, True], ids=["interpreted", "planned"])
def test_packed_weights_of_the_original_open_by_path(planned: bool) -> None:
    """torch.jit.load does not know XNNPACK's classes."""
    case = LEGACY["net_xnnpack"]
    with pytest.raises(RuntimeError, match="Unknown type name"):
        torch.jit.load(str(case.source))
    inputs = tuple(torch.tensor(a) for a in case.calls[1].args) if planned else None
    model = penlight.optimize(str(case.source), inputs, dynamic_shapes="auto" if planned else None)
    compare_calls(case, model)


@pytest.mark.parametrize("by_torch", [False, True], ids=["source", "torch"])
def test_frozen_modules(by_torch: bool, tmp_path: Path) -> None:
    """They have no attribute `training`, and their weights are constants."""
    module, calls = CASES["branches"]
    script = torch.jit.freeze(torch.jit.script(module.eval()))
    script.save(str(tmp_path / "m.pt"))
    model = penlight.optimize(str(tmp_path / "m.pt")) if by_torch else model_of(tmp_path / "m.pt")
    for args in calls:
        compare(run(model, args), run(script, args), 1e-5, "frozen")


@pytest.mark.parametrize("planned", [False, True], ids=["interpreted", "planned"])
@pytest.mark.parametrize("name", CASES)
def test_scripted_models(name: str, planned: bool, tmp_path: Path) -> None:
    module, calls = CASES[name]
    script = torch.jit.script(module.eval())
    script.save(str(tmp_path / "m.pt"))
    model = model_of(tmp_path / "m.pt", calls[0] if planned else None)
    for args in calls:
        compare(run(model, args), run(script, args), 1e-5, name)


class Colour(Enum):
    RED = "r"
    BLUE = "b"


@torch.jit.script
class Sum:
    def __init__(self, start: int) -> None:
        self.count = start
        self.items: list[Tensor] = []

    def add(self, x: Tensor) -> None:
        self.items.append(x)
        self.count += 1

    def total(self) -> Tensor:
        total = self.items[0]
        for i in range(1, len(self.items)):
            total = total + self.items[i]
        return total * self.count


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Other(nn.Module):
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((4,), 3.0))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale


def later(x: Tensor, n: int) -> Tensor:
    return x.sin() + n


class Everything(nn.Module):
    """What the other models have not: classes, enums, interfaces, forks, early returns, constants of all kinds."""

    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = Double()
        self.layers = nn.ModuleList([nn.Linear(4, 4), Other()])
        self.named = nn.ModuleDict({"a": Double(), "b": Other()})
        self.table = {"a": 1, "b": 2}
        self.colour = Colour.RED
        self.limits = (1.5, -2, "x")
        self.weird = "naïve – ∞"

    def early(self, x: Tensor, n: int) -> Tensor:
        for i in range(n):
            if bool(x.sum() > 10):
                return x * 2
            if i == 3:
                break
            x = x + 1
        return x

    def forward(
        self, x: Tensor, n: int = 2, mode: str = "a", extra: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor], list[int], str, list[list[float]]]:
        total = Sum(n)
        for layer in self.layers:
            x = torch.relu(layer(x))
            total.add(x)
        future = torch.jit.fork(later, x, n)
        i = 0
        previous, current = 0, 1
        while i < n and bool(x.sum() > -100):
            previous, current = current, previous + current
            x = x + i
            i += 1
        x = x + extra if extra is not None else x - 1
        for name, module in self.named.items():
            if name in self.table:
                x = module(x) * self.table[name]
        text = f"{mode}-{previous}-{current}" + self.weird + self.colour.name + self.colour.value
        if self.colour == Colour.BLUE:
            text = text.upper()
        if mode not in self.table:
            raise KeyError("no " + mode)
        parts = torch.split(x, [1, 3], dim=1)
        first, second = parts[0], parts[1]
        second[:, :1] = 0.5
        index = torch.tensor([0, 0, 2]) if x.size(0) > 2 else torch.tensor([0])
        values, places = x[index].max(dim=1)
        rows: list[list[float]] = self.early(x, n).tolist()
        numbers = [[float("inf"), -float("inf")], rows[0]]
        found = {"first": first, "values": values, "sum": total.total() + torch.jit.wait(future)}
        sizes = [size * 2 for size in x.shape] + [int(places[0]), len(text), n // 2, n % 2, int(n**2 / 3)]
        if isinstance(self.limits[1], int):
            sizes.append(self.limits[1])
        return self.step(x).clamp(-50.0, 50.0), found, sizes, text, numbers


SEEDED = torch.Generator().manual_seed(
    0
)  # the sums are compared with limits: the inputs are not to differ from run to run
EVERYTHING = [
    (torch.randn(3, 4, generator=SEEDED),),
    (torch.randn(1, 4, generator=SEEDED), 0),
    (torch.randn(3, 4, generator=SEEDED), 5, "b", torch.randn(4, generator=SEEDED)),
    (torch.ones(2, 4), 3),
]


@pytest.mark.filterwarnings("ignore")
def test_everything(tmp_path: Path) -> None:
    script = torch.jit.script(Everything().eval())
    script.save(str(tmp_path / "m.pt"))
    model = model_of(tmp_path / "m.pt")
    for args in EVERYTHING:
        compare(run(model, args), run(script, args), 1e-5, "everything")
    with pytest.raises(penlight.RunError, match="no c"):
        model(EVERYTHING[0][0], 1, "c")


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.inner(x, x, x)


LAYERS = {
    "attention": Attention,
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "lstm": lambda: nn.Sequential(nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)),
    "gru": lambda: nn.Sequential(nn.GRU(8, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("kind", ["pt", "ptl"])
def test_layers(name: str, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    script, x = torch.jit.script(LAYERS[name]().eval()), torch.randn(2, 5, 8)
    path = tmp_path / f"m.{kind}"
    if kind == "pt":
        script.save(str(path))
        model = model_of(path)
    else:
        script._save_for_lite_interpreter(str(path))
        model = penlight.optimize(str(path))
    compare(run(model, (x,)), run(script, (x,)), 1e-5, name)


class Detector(nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> Tensor:
        corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs()], 1)
        return corners[torch.ops.torchvision.nms(corners, scores, 0.4)]


@pytest.mark.slow
def test_detectors_need_no_extension(tmp_path: Path) -> None:
    """Where nobody has declared torchvision's operators, torch.jit.load knows no nms."""
    declare_operators()
    torch.jit.script(Detector()).save(str(tmp_path / "m.pt"))
    boxes, scores = torch.rand(30, 4), torch.rand(30)
    torch.save((boxes, scores), tmp_path / "inputs.pt")
    code = """if True:
        import sys, torch, penlight
        folder = sys.argv[1]
        try:
            torch.jit.load(folder + "/m.pt")
            raise SystemExit("torch knows nms here")
        except RuntimeError:
            pass
        inputs = torch.load(folder + "/inputs.pt")
        torch.save([penlight.optimize(folder + "/m.pt", args)(*inputs) for args in (None, inputs)], folder + "/outputs.pt")
    """
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    expected = corners[nms_in_python(corners, scores, 0.4)]
    for found in torch.load(tmp_path / "outputs.pt"):
        torch.testing.assert_close(found, expected)


def test_source_lines_are_those_of_the_model(tmp_path: Path) -> None:
    torch.jit.script(Everything().eval()).save(str(tmp_path / "m.pt"))
    (forward,) = (f for f in SourceProgram(tmp_path / "m.pt").script().functions.values() if f.method == "forward")
    linear = next(a for a in forward.code if a.target == "aten::linear")
    assert re.fullmatch(r"test_source.py:\d+, in forward: x = torch.relu\(layer\(x\)\)  \[layers.0\]", linear.source)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (
            "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return import os",
            "no TorchScript source text",
        ),
        ("class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return y", "'y' is used before"),
        ("class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return eval(x)", "'eval' is called"),
        (
            "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return (self).forward(x)",
            "nested more than 100",
        ),
        (
            "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return torch.relu(1)",
            r"no form of aten::relu takes \(int\)",
        ),
        ("class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return self.w", "has no attribute 'w'"),
        (
            "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return __torch__.os.system(x)",
            "nothing of the name",
        ),
        (
            "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return lambda: x",
            "Lambda is no expression",
        ),
        ("class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    import os", "Import is no statement"),
        (
            "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return " + "-" * 100_000 + "1",
            "no TorchScript source text",
        ),
        ("class N(Module):\n  pass", "for which the file has no code"),
    ],
)
def test_broken_code_is_an_error_in_words(code: str, problem: str, tmp_path: Path) -> None:
    torch.jit.script(Double()).save(str(tmp_path / "m.pt"))
    with (
        zipfile.ZipFile(tmp_path / "m.pt") as source,
        zipfile.ZipFile(tmp_path / "n.pt", "w", zipfile.ZIP_STORED) as target,
    ):
        for item in source.infolist():
            content = source.read(item)
            if item.filename.endswith("code/__torch__/tests/capture/source/test_source.py"):
                content = code.replace("class M", "class Double").encode()
            target.writestr(item.filename, content)
    with pytest.raises(CaptureError, match=problem):
        SourceProgram(tmp_path / "n.pt").script()


class Casts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.t()


class CastsNothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cuda"):
            y = x @ x.t()
        with torch.cpu.amp.autocast(enabled=False):
            return y + x @ x.t()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_autocast_is_not_passed_over(tmp_path: Path) -> None:
    """torch's compiler casts inside, the code does not say so: the result was f32, where torch gives bf16."""
    x = torch.rand(2, 3)
    torch.jit.script(Casts()).save(tmp_path / "casts.pt")
    for options in ({}, {"plan": False}):
        with pytest.raises(CaptureError, match=r"torch\.autocast on the CPU"):
            penlight.optimize(tmp_path / "casts.pt", (x,), **options)
    script = torch.jit.script(CastsNothing())
    script.save(tmp_path / "casts_nothing.pt")
    torch.testing.assert_close(penlight.optimize(tmp_path / "casts_nothing.pt", (x,))(x), script(x))
