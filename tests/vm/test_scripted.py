"""Scripted models with everything TorchScript has, against torch: control flow on data, containers, strings, state, methods,
in-place operators and aliasing. Each is interpreted without example inputs, and again with them, where its straight lines are
planned: the results must be the same."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import penlight
from tests.vm.check import compare

TOLERANCE = 1e-5


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3), nn.ReLU()
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.features(x).mean([2, 3])
        if bool(y.sum() > 4):
            return self.head(y)
        if x.size(0) > 2:
            y = y * 2
        elif float(x.max()) < 0.5:
            y = y - 1
        return y


class Loops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(6, 6)

    def forward(self, x: Tensor, steps: int) -> tuple[Tensor, list[int], int]:
        state = torch.zeros(x.size(0), 6)
        seen: list[int] = []
        for i in range(steps):
            if i % 3 == 2:
                continue
            state = torch.tanh(self.cell(state) + x)
            seen.append(i)
            if bool(state.abs().max() > 0.98):
                break
        count = 0
        while bool(state.sum() > 0) and count < 50:
            state = state - 0.25
            count += 1
        return state, seen, count


class Pair(NamedTuple):
    low: Tensor
    count: int


class Containers(nn.Module):
    def forward(
        self, xs: list[Tensor], names: dict[str, int], note: str | None = None
    ) -> tuple[dict[str, Tensor], list[str], Pair, int | None]:
        result: dict[str, Tensor] = {}
        texts: list[str] = []
        for i, x in enumerate(xs):
            key = f"x{i}"
            result[key] = x.relu() * float(names.get(key, 1))
            texts.append(key.upper() + ":" + str(x.dim()))
        total = 0
        for key, value in names.items():
            if key.startswith("x") and value > 0:
                total += value
        maybe: int | None = None
        if note is not None:
            texts = texts + note.split(",")
            maybe = len(note)
        first = xs[0] if len(xs) > 0 else torch.zeros(2)
        texts.sort()
        return result, texts[::-1], Pair(first.min(), total), maybe


class InPlace(nn.Module):
    """Views and in-place operators, with everything that can be seen of them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x.clone()
        row = y[1]
        row.add_(10)  # through the view
        y[:, 0] = -1
        column = y.t()[2]
        column.mul_(2)
        z = y.view(-1)
        z[0] += 100
        x.sub_(1)  # the caller's tensor
        parts = [y, row]
        parts[1].zero_()
        w = y.transpose(0, 1).contiguous()
        w.fill_(3.0)
        return y, column + x.sum(), w


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.calls = 0
        self.history = torch.jit.Attribute([], list[float])

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total += x
        self.history.append(float(x.sum()))
        return self.total.clone()

    @torch.jit.export
    def mean(self, scale: float = 1.0) -> Tensor:
        if self.calls == 0:
            raise ValueError("no calls yet")
        return self.total / self.calls * scale

    @torch.jit.export
    def last(self, n: int) -> list[float]:
        return self.history[-n:]


class Checks(nn.Module):
    def forward(self, x: Tensor, kind: str) -> Tensor:
        assert x.dim() == 2, f"two dims, not {x.dim()}"
        if kind == "square":
            return x * x
        if kind in ["half", "third"]:
            return x / (2 if kind == "half" else 3)
        raise RuntimeError("kind " + kind + " is not known")


class Shapes(nn.Module):
    """Sizes and numbers that come out of data."""

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, int]:
        chosen = x[mask]
        n = int(chosen.sum().item()) % 4 + 1
        grown = torch.zeros(n, chosen.size(0))
        for i in range(n):
            grown[i] = chosen * float(i)
        index = torch.nonzero(mask)
        return grown, index, n


class NoGrad(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
            if bool(y.sum() > 0):
                y = y + 1
        return y


def r(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


CASES: dict[str, tuple[nn.Module, list[tuple[Any, ...]]]] = {
    "branches": (Branches(), [(r(2, 3, 9, 9),), (r(2, 3, 9, 9) * 9,), (r(4, 3, 8, 11, seed=1) - 2,), (r(1, 3, 9, 9) - 3,)]),
    "loops": (Loops(), [(r(2, 6), 5), (r(3, 6, seed=1) * 5, 7), (r(1, 6), 0), (r(2, 6) + 3, 40)]),
    "containers": (Containers(), [
        ([r(3), r(2, 2)], {"x0": 2, "x1": -1, "y": 3}, "b,a"), ([], {}, None), ([r(1), r(0)], {"y": 1}),
        ([r(2, 3, 4)], {"x0": 7}, ""),
    ]),
    "in place": (InPlace(), [(r(3, 4),), (r(5, 3, seed=2),)]),
    "checks": (Checks(), [(r(2, 2), "square"), (r(2, 3), "half"), (r(1, 3), "third")]),
    "shapes": (Shapes(), [(r(6), r(6) > 0), (r(5, seed=1), r(5) > 9), (r(7, seed=3), r(7, seed=4) > -0.5)]),
    "no grad": (NoGrad(), [(r(3),), (r(3) - 5,)]),
}  # fmt: skip


def run(model: Any, args: tuple[Any, ...]) -> Any:
    """The result, and the arguments as the call left them."""
    given = copy.deepcopy(args)
    with torch.no_grad():
        return [model(*given), *given]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("planned", [False, True], ids=["interpreted", "planned"])
def test_equals_torch(name: str, planned: bool) -> None:
    module, calls = CASES[name]
    script = torch.jit.script(module.eval())
    model = penlight.optimize(script, calls[0] if planned else None, plan=planned)
    assert not model.missing_operators
    for args in calls:
        compare(run(model, args), run(script, args), TOLERANCE, name)


def test_example_inputs_stay_as_they_are() -> None:
    module, ((x,), *_) = CASES["in place"]
    before = x.clone()
    penlight.optimize(torch.jit.script(module), (x,))
    assert torch.equal(x, before)


def test_saved_and_loaded(tmp_path: Any) -> None:
    module, calls = CASES["containers"]
    penlight.optimize(torch.jit.script(module)).save(tmp_path / "m.pen")
    model = penlight.load(tmp_path / "m.pen", verify=True)
    compare(run(model, calls[0]), run(torch.jit.script(module), calls[0]), TOLERANCE, "loaded")


def test_state_lives_from_call_to_call() -> None:
    script = torch.jit.script(Counter().eval())
    model = penlight.optimize(script, methods=["forward", "mean", "last"])
    assert model.methods == ["forward", "mean", "last"]
    with pytest.raises(penlight.RunError, match="no calls yet"):
        model.run_method("mean")
    for i in range(3):
        x = r(3, seed=i)
        compare(model(x), script(x), TOLERANCE, "forward")
    torch.testing.assert_close(torch.as_tensor(model.run_method("mean", 2.0)), script.mean(2.0))
    assert model.run_method("last", 2) == pytest.approx(script.last(2))
    model.reset()
    compare(model(torch.ones(3)), torch.ones(3), 0.0, "after reset")
    assert model.run_method("last", 5) == [3.0]


def test_exceptions_say_what_the_model_says() -> None:
    model = penlight.optimize(torch.jit.script(Checks()))
    with pytest.raises(penlight.RunError, match="two dims, not 1") as caught:
        model(r(3), "square")
    assert caught.value.status == "raised"
    with pytest.raises(penlight.RunError, match="kind cube is not known"):
        model(r(3, 3), "cube")


def test_wrong_arguments_in_words() -> None:
    model = penlight.optimize(torch.jit.script(Loops()))
    with pytest.raises(penlight.InputError, match="steps"):
        model(r(2, 6), 1, 2)
    with pytest.raises(penlight.InputError, match="argument 'steps' is missing"):
        model(r(2, 6))
    with pytest.raises(penlight.PenlightError):
        model(r(2, 6), "three")
    with pytest.raises(penlight.InputError, match="object"):
        model(object(), 3)


def test_keyword_arguments_and_defaults() -> None:
    script = torch.jit.script(Containers())
    model = penlight.optimize(script)
    args = ([r(3)], {"x0": 2})
    compare(model(*args), script(*args), TOLERANCE, "default")
    compare(model(args[0], names=args[1], note="n"), script(*args, "n"), TOLERANCE, "keywords")


def test_max_steps_end_what_does_not_end(tmp_path: Any) -> None:
    class Endless(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            while bool(x.sum() > -1):
                x = x.abs()
            return x

    penlight.optimize(torch.jit.script(Endless())).save(tmp_path / "endless.pen")
    model = penlight.load(tmp_path / "endless.pen", max_steps=10_000)
    with pytest.raises(penlight.RunError, match="at most 10000 steps") as caught:
        model(r(3))
    assert caught.value.status == "limit"
    compare(model(torch.tensor([-3.0])), torch.tensor([-3.0]), 0.0, "still usable")


def test_numpy_in_numpy_out() -> None:
    script = torch.jit.script(Branches().eval())
    model = penlight.optimize(script)
    x = r(2, 3, 9, 9)
    got = model(x.numpy())
    assert type(got).__module__ == "numpy"
    compare(torch.from_numpy(got), script(x).detach(), TOLERANCE, "numpy")


class Learner(nn.Module):
    """Changes its weights in place: what is planned must not keep the old ones."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))
        self.items = nn.ParameterList([nn.Parameter(torch.ones(4))])

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(torch.relu(x @ self.weight) @ self.weight) + x
        if bool(y.sum() > -100):
            w = self.weight
            w.mul_(2.0)
        return torch.sigmoid(torch.relu(y @ self.weight) @ self.weight)


def test_weights_that_change() -> None:
    module = Learner().eval().requires_grad_(False)
    script = torch.jit.script(copy.deepcopy(module))
    model = penlight.optimize(torch.jit.script(module), (r(3, 4),))
    for i in range(3):
        x = r(3, 4, seed=i)
        compare(model(x), script(x).detach(), TOLERANCE, f"call {i}")


def test_straight_lines_are_planned() -> None:
    """With example inputs, the convolutions of a branching model run as one planned region, at other sizes too."""
    script = torch.jit.script(Branches().eval())
    model = penlight.optimize(script, (r(2, 3, 9, 9),))
    planned = [n for n in model._handle.methods if n.startswith("~")]
    assert planned, "nothing was planned"
    assert model.metadata["interpreted"]
    for shape in ((2, 3, 9, 9), (5, 3, 12, 10), (1, 3, 9, 9)):  # the last one is for the fallback: a batch of 1
        x = r(*shape)
        compare(model(x), script(x).detach(), TOLERANCE, str(shape))
