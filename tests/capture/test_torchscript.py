"""TorchScript: scripted, traced, from files; control flow on shapes is followed, on data it is refused; lines are kept."""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035 (TorchScript reads these)

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import penlight
from penlight.capture import capture
from penlight.errors import CaptureError, UnsupportedError
from tests.capture.check import assert_captures, captured, ops_of, run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.conv(x)), inplace=True)
        y += x
        return y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block(3)
        self.again = self.block  # shared
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:  # noqa: UP006
        features = self.again(self.block(x))
        pooled = torch.cat([features.mean([2, 3]), features.amax([2, 3])], dim=1)
        small = F.interpolate(features, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return {"scores": self.head(self.dropout(pooled)), "map": small}


def net() -> Net:
    torch.manual_seed(1)
    module = Net()
    module.block.norm.running_mean.normal_()
    return module.eval()


IMAGE = torch.randn(2, 3, 8, 10, generator=torch.Generator().manual_seed(3))
OTHER = torch.randn(3, 3, 5, 7, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("kind", ["script", "trace"])
@pytest.mark.parametrize("stored", [False, True], ids=["object", "file"])
def test_a_network(kind: str, stored: bool, tmp_path: Path) -> None:
    module = net()
    script: Any = torch.jit.script(module) if kind == "script" else torch.jit.trace(module, (IMAGE,), strict=False)
    source: Any = script
    if stored:
        script.save(tmp_path / "net.bin")  # told by its content
        source = tmp_path / "net.bin"
    method = assert_captures(
        module, (IMAGE,), (OTHER,), source=source, dynamic_shapes={"x": {0: Dim("n"), 2: Dim.AUTO, 3: Dim.AUTO}}
    )
    assert str(method.graph.inputs[0].type) == "f32[n, 3, x_2, x_3]"
    convs = [n for n in method.graph.nodes if n.op == "conv2d"]
    assert convs[0].inputs[1] is convs[1].inputs[1]  # one block, one weight
    assert "block.conv.weight" in method.graph.constants
    line = line_of("y = F.relu(self.norm(self.conv(x)), inplace=True)")
    code = (
        ": y = F.relu(self.norm(self.conv(x)), inplace=True)" if kind == "script" else ""
    )  # a trace knows numbers only
    assert convs[0].source.startswith(f"test_torchscript.py:{line}, in forward{code}")
    assert convs[0].source.endswith("[block.conv]")
    assert all(n.source.startswith("test_torchscript.py:") for n in method.graph.nodes)


def test_a_module_in_training_mode_is_captured_for_inference() -> None:
    module = net().train()
    script = torch.jit.script(module)
    method = captured(script, (IMAGE,))
    assert script.training
    with torch.no_grad():
        expected = module.eval()(IMAGE)
    torch.testing.assert_close(torch.as_tensor(run(method, (IMAGE,))["scores"]), expected["scores"])
    assert "batch_norm" not in ops_of(method)  # in the weights


class Result(NamedTuple):
    total: torch.Tensor
    count: int


class Python(nn.Module):
    """Lists, dicts, strings, optionals, loops and ifs that shapes and constants decide."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = [1.0, 2.0, 4.0]
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.offsets = {"a": torch.ones(4)}
        self.mode = "sum"

    def helper(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            x = x * 2
        return x

    def forward(
        self,
        x: torch.Tensor,
        extra: Optional[List[torch.Tensor]] = None,  # noqa: UP006, UP045
        times: int = 2,
    ) -> Tuple[Result, Dict[str, List[torch.Tensor]]]:  # noqa: UP006
        assert x.dim() == 2, f"expected rank 2, got {x.dim()}"
        for layer in self.layers:
            x = layer(x)
        parts: List[torch.Tensor] = []  # noqa: UP006
        for i, scale in enumerate(self.scales):
            if i % 2 == 0 and scale > 0.5:
                parts.append(x * scale)
        names = {"n": len(parts), "rows": x.size(0) * 2 - x.size(0)}
        while len(parts) < 4:
            parts.append(torch.zeros_like(parts[-1]))
        if extra is not None:
            parts += extra
        total = torch.stack(parts).sum(0) if self.mode == "sum" else x
        total = self.helper(total, times) + self.offsets["a"]
        with torch.no_grad():
            total = total.view(names["rows"], -1)
        if x.shape[0] >= 1 and "%s" % "x" in {"x": 1}:  # noqa: UP031
            total = total[:, : max(x.shape[1] // 2, 1)]
        return Result(total, min(3, len(parts), times)), {"parts": parts[:2]}


def test_python_in_torchscript() -> None:
    module = Python()
    x = torch.randn(3, 4)
    method = assert_captures(
        module, (x,), (torch.randn(5, 4),), source=torch.jit.script(module), dynamic_shapes={"x": {0: Dim.AUTO}}
    )
    result = run(method, (x,))
    assert type(result[0]).__name__ == "Result"
    assert result[0]._fields == ("total", "count")


@pytest.mark.parametrize(("args", "kwargs"), [((3,), {}), ((), {"times": 1}), ((2,), {"extra": None})])
def test_lists_and_numbers_are_interpreted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Code may look at them, so they are not made constants: other values give other results."""
    script = torch.jit.script(Python())
    x = torch.randn(3, 4)
    given = (x, [x, x + 1], *args) if args and not kwargs else (x,)
    named = kwargs if not (args and kwargs) else {**kwargs, "times": args[0]}
    program = capture(script, given, kwargs=named)
    assert program.script is not None
    assert "which code may look at" in program.metadata["interpreted"]
    model = penlight.optimize(script, given, kwargs=named)
    for call in (given, (x, None, 2), (x, [x * 3], 4)):
        result, parts = model(*call)
        expected, expected_parts = script(*call)
        torch.testing.assert_close(result.total, expected.total)
        assert result.count == expected.count
        torch.testing.assert_close(parts, expected_parts)


def test_examples_on_which_the_model_itself_fails_are_an_error() -> None:
    with pytest.raises(CaptureError, match="fails on the example inputs") as caught:
        capture(torch.jit.script(Python()), (torch.randn(1, 3, 4),))
    assert "expected rank 2, got 3" in str(caught.value)
    assert "test_torchscript.py" in str(caught.value)


class Arithmetic(nn.Module):
    """Shape arithmetic that a trace records on rank-0 tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        y = x.reshape(n, c * h // 2, -1).transpose(1, 2)
        return y.reshape(n, h * w // (h // 2), (c * h) // 2) * (w + 1) - h


def test_shape_arithmetic_in_a_trace() -> None:
    x = torch.randn(2, 3, 4, 6)
    traced = torch.jit.trace(Arithmetic(), (x,))
    assert "NumToTensor" in str(traced.graph)
    method = captured(traced, (x,), dynamic_shapes="auto")
    assert torch.allclose(run(method, (x,)), Arithmetic()(x))


def test_a_trace_may_bring_its_inputs() -> None:
    traced = torch.jit.trace(net(), (IMAGE,), strict=False)
    program = capture(traced)
    assert str(program.methods["forward"].graph.inputs[0].type) == "f32[x_0, 3, x_2, x_3]"
    assert program.metadata["planned_for"] == "float32[2, 3, 8, 10] (traced)"


def test_bundled_inputs_are_examples_too() -> None:
    from torch.utils.bundled_inputs import augment_model_with_bundled_inputs, bundle_randn

    script = torch.jit.script(net())
    augment_model_with_bundled_inputs(script, [(bundle_randn(1, 3, 6, 6),)])
    model = penlight.optimize(script)
    assert model.metadata["planned_for"] == "float32[1, 3, 6, 6] (bundled)"
    assert [tuple(b.args[0].shape) for b in model.bundled_inputs()] == [(1, 3, 6, 6)]


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = x + 1
        return x


class Loops(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(x[0])):
            x = x + 1
        return x


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Exotic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.to_sparse()
        return torch.relu(y.to_dense())


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Branches(), ["an `if` depends on the values of a tensor", "if bool(x.sum() > 0):"]),
        (Loops(), ["loop depends on the values of a tensor", "for _ in range(int(x[0])):"]),
        (Counts(), ["sets its attribute 'calls'", "self.calls += 1"]),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_what_depends_on_data_is_interpreted(module: nn.Module, words: list[str], capfd: Any) -> None:
    """And the file says why, with the line."""
    script = torch.jit.script(module)
    model = penlight.optimize(script, (torch.randn(4),))
    for word in words:
        assert word in model.metadata["interpreted"]
    assert f"test_torchscript.py:{line_of(words[1])}, in forward" in model.metadata["interpreted"]
    for x in (torch.tensor([3.0, 1.0]), torch.tensor([-3.0, 1.0]), torch.tensor([0.0])):
        torch.testing.assert_close(model(x), script(x))
    assert capfd.readouterr() == ("", "")


def test_unsupported_operators_are_named_with_their_lines() -> None:
    with pytest.raises(UnsupportedError) as caught:
        penlight.optimize(torch.jit.script(Exotic()), (torch.randn(4, 4),))
    assert {"aten::to_sparse", "aten::to_dense"} <= {c.op for c in caught.value.calls}
    code = "y = x.to_sparse()"
    assert f"test_torchscript.py:{line_of(code)}, in forward: {code}" in str(caught.value)


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


def kind_of(a: Any) -> int:
    if isinstance(a, list[str]):
        return 1
    if isinstance(a, list[int]):
        return 2
    if isinstance(a, tuple[int, float]):
        return 3
    if isinstance(a, tuple[int, int]):
        return 4
    if isinstance(a, dict[str, int]):
        return 5
    if isinstance(a, dict[int, int]):
        return 6
    if isinstance(a, Pair):
        return 7
    if isinstance(a, int):
        return 8
    return 0


class Kinds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = [
            kind_of([1]), kind_of(["a"]), kind_of((1, 2.0)), kind_of((1, 2)), kind_of({"a": 1}), kind_of({1: 1}), kind_of(Pair(x, 1)),
            kind_of(x.size(0)), kind_of([1.0]), kind_of((1, "a")), kind_of((1, 2, 3)), kind_of(True),
        ]  # fmt: skip
        return torch.tensor(found) + x.sum().to(torch.int64)


def test_containers_are_asked_what_is_in_them(tmp_path: Path) -> None:
    """To Python a list is a list: a plan took the way for List[str]."""
    script = torch.jit.script(Kinds())
    script.save(tmp_path / "kinds.pt")
    for options in ({}, {"plan": False}):
        model = penlight.optimize(tmp_path / "kinds.pt", (torch.zeros(3),), **options)
        torch.testing.assert_close(model(torch.zeros(3)), script(torch.zeros(3)))
    assert penlight.optimize(tmp_path / "kinds.pt", (torch.zeros(3),)).planned_methods == ["forward"]
