"""Methods of several stages: sizes that only data tell. The numbers are torch's for any data, whatever plans are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from tests.runtime import networks


class Call(nn.Module):
    def __init__(self, fn: Callable[..., object]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.fn(*inputs)


def compiled(fn: Callable[..., object], *examples: torch.Tensor, dynamic: Any = None, **options: Any) -> penlight.Model:
    model = penlight.optimize(Call(fn), examples, dynamic_shapes=dynamic and (dynamic,))
    return penlight.Model(np.frombuffer(model._bytes, np.uint8), threads=1, **options) if options else model


def check(model: penlight.Model, fn: Callable[..., Any], *inputs: torch.Tensor) -> None:
    expected, got = networks.flat(fn(*inputs)), networks.flat(model(*inputs))
    for want, have in zip(expected, got, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-5)
        else:
            assert type(have) is type(want)
            assert have == pytest.approx(want)


def chain(x: torch.Tensor) -> Any:
    """Three stages; values of the first are read in all of them, as views too."""
    body = x * 2 + 1
    rows = torch.nonzero(x[:, 0] > 0)[:, 0]
    kept = body.T[:, rows].T
    again = kept[kept[:, 1] > 0]
    return again @ body.T, rows, x.sum(), kept.shape[0] + again.shape[0], body


@pytest.mark.parametrize("plans", [1, 2, 8])
def test_any_data_with_few_plans(plans: int) -> None:
    x = torch.randn(9, 5)
    model = compiled(chain, x, dynamic=({0: torch.export.Dim("n", min=2, max=99)},), plan_cache=plans)
    for seed in range(12):
        torch.manual_seed(seed)
        check(model, chain, torch.randn(2 + seed % 4, 5))
    check(model, chain, -torch.ones(4, 5))
    check(model, chain, torch.ones(4, 5))
    assert model._session("forward").plan_count <= 3 * plans


def test_the_same_sizes_are_planned_once() -> None:
    x = torch.randn(9, 5)
    model = compiled(chain, x)
    model(x)
    count = model._session("forward").plan_count
    for scale in (0.5, 2.0):
        check(model, chain, x * scale)  # other rows are kept in the last stage, no others in the second
    check(model, chain, x)
    assert model._session("forward").plan_count <= count + 2


def test_the_number_of_stages_is_the_depth_of_sizes() -> None:
    """Six sizes that do not depend on each other are found in one stage."""

    def fn(x: torch.Tensor) -> Any:
        a, b, c = x[x > 0], torch.nonzero(x < 0), torch.unique(x)
        n, m, k = x[0, 0].long().abs().item(), x[0, 1].long().abs().item(), x[0, 2].long().abs().item()
        return a * 2, b + 1, c.exp(), torch.zeros(n), torch.ones(m), torch.arange(k)

    from penlight.file.reader import read

    model = compiled(fn, torch.randn(4, 5) * 5)
    file = read(model._bytes)  # type: ignore[arg-type]
    assert [i.op for i in file.method().code].count("stage") == 1
    check(model, fn, torch.randn(4, 5) * 9)


def test_code_without_such_sizes_has_one_stage() -> None:
    from penlight.file.reader import read

    file = read(compiled(lambda x: x.exp().sum(0), torch.randn(4, 5))._bytes)  # type: ignore[arg-type]
    assert [i.op for i in file.method().code] == ["region", "return"]


def test_threads_give_the_same_bits() -> None:
    torch.manual_seed(3)
    x = torch.randn(300, 200)

    def fn(x: torch.Tensor) -> Any:
        values, inverse, counts = torch.unique((x * 8).round(), return_inverse=True, return_counts=True)
        return torch.nonzero(x > 0.5), x[x > 1] * 3, values, inverse, counts

    model = compiled(fn, x)
    check(model, fn, x)
    results = []
    for threads in (1, 2, 3):
        again = penlight.Model(np.frombuffer(model._bytes, np.uint8), threads=threads)  # type: ignore[arg-type]
        results.append([r.numpy().tobytes() for r in again(x)])
    assert results[0] == results[1] == results[2]


def test_results_before_and_after_sizes_are_known() -> None:
    """The first can be written into a caller's array, the second cannot."""
    x = np.arange(-3, 3, dtype=np.float32)
    model = compiled(lambda x: (x * 2, torch.nonzero(x > 0), x[x > 0] + 1), torch.from_numpy(x))
    doubled, places, more = model(x)
    assert isinstance(places, np.ndarray)
    assert (doubled == x * 2).all()
    assert (places == [[4], [5]]).all()
    assert (more == [2.0, 3.0]).all()
    with pytest.raises(penlight.RunError, match="size depends on the data"):
        model.run_into([doubled, places, more], x)
    session = model._session("forward")
    model.prepare(x)
    assert [(shape, fixed) for _, shape, fixed in session.output_shapes()] == [
        ((6,), True), ((-1, -1), False), ((-1,), False)
    ]  # fmt: skip
    problem = session.run([doubled, places])
    assert "known before the run" in problem["message"]
    assert "pen_session_output" in problem["message"]
    assert session.run([doubled, None, None]) is None
    assert [shape for _, shape, _ in session.output_shapes()] == [(6,), (2, 1), (2,)]
    assert session.run([doubled]) is None  # straight on, without prepare


def test_results_stay_when_the_model_runs_again() -> None:
    """Large ones are the session's memory, handed over; small ones of much planned memory are copies."""
    model = compiled(lambda x: (x[x > 0], torch.nonzero(x > 1), x * 2), torch.randn(50, 60))
    torch.manual_seed(0)
    inputs = [torch.randn(50, 60) + shift for shift in (0, 3, -3, 1)]
    results = [model(x) for x in inputs]
    for x, (positive, places, doubled) in zip(inputs, results, strict=True):
        assert torch.equal(positive, x[x > 0])
        assert torch.equal(places, torch.nonzero(x > 1))
        assert torch.equal(doubled, x * 2)
    positive += 1.0  # it is the caller's
    session = model._session("forward")
    model.prepare(inputs[1])
    assert session.take_output(0) is None  # nothing to take before a run
    session.run([])
    assert session.take_output(0) is not None
    assert session.take_output(0) is None  # taken already


def test_a_run_that_fails_half_way() -> None:
    """An index of the second stage is out of range; the next run is as if nothing had been."""

    def fn(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return table[x[x > 0].long()]

    table = torch.randn(5, 3)
    model = compiled(fn, torch.tensor([1.0, 0.0, 4.0]), table)
    with pytest.raises(penlight.RunError, match="indices from -5 to 4"):
        model(torch.tensor([1.0, 0.0, 7.0]), table)
    check(model, fn, torch.tensor([3.0, 2.0, 0.0]), table)


def test_the_profile_has_the_steps_of_all_stages() -> None:
    x = torch.randn(9, 5)
    model = compiled(chain, x)
    steps = model.profile(x, runs=3)
    operators = [step.key.partition(".")[0] for step in steps]
    assert "nonzero" in operators
    assert "masked_select" in operators
    assert "matmul" in operators
    assert operators.index("nonzero") < operators.index("masked_select") < operators.index("matmul")
    assert model.arena_bytes() >= model.live_bytes()
    assert steps[operators.index("masked_select")].inputs[0] == (int((x[:, 0] > 0).sum()), 5)


def test_sizes_that_do_not_fit_are_told() -> None:
    """torch assumes that both have as many elements; here they have not."""
    model = compiled(lambda x, y: x[x > 0] + y[y > 0], torch.ones(4), torch.ones(4))
    with pytest.raises(penlight.RunError, match="add"):
        model(torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0]))


def test_an_memory_limit_holds_in_every_stage() -> None:
    def fn(n: torch.Tensor) -> torch.Tensor:
        return torch.zeros(n.item(), 1000).exp().sum()

    model = compiled(fn, torch.tensor(3), memory_limit=1 << 20)
    check(model, fn, torch.tensor(5))
    with pytest.raises(penlight.RunError, match="memory_limit"):
        model(torch.tensor(1 << 30))
    with pytest.raises(penlight.RunError, match="sizes of 0 or more"):
        model(torch.tensor(-1))
    check(model, fn, torch.tensor(7))


class TestDetector:
    """Boxes, a threshold and nms: as many results as there are in the image."""

    def test_images(self) -> None:
        module, model = networks.build("detector"), networks.compile("detector")
        found = []
        for seed in range(8):
            torch.manual_seed(seed)
            image = torch.randn(1, 3, 24 + 8 * (seed % 3), 32) * (0.5 + seed)
            with torch.no_grad():
                expected = module(image)
            got = model(image)
            assert got.keys() == expected.keys()
            for name in expected:
                torch.testing.assert_close(got[name], expected[name], rtol=1e-4, atol=1e-4)
            found.append(len(got["scores"]))
        assert len(set(found)) > 3
        assert max(found) > 5

    def test_no_detections(self) -> None:
        module, model = networks.build("detector"), networks.compile("detector")
        with torch.no_grad():
            module.head.bias[4] -= 50.0  # type: ignore[union-attr,operator,index]
            image = torch.randn(1, 3, 32, 32)
            expected = module(image)
        again = penlight.optimize(module, (image,))
        got = again(image)
        assert got["boxes"].shape == (0, 4) == expected["boxes"].shape
        assert got["labels"].shape == (0,)
        assert got["labels"].dtype == torch.int64
        assert len(model(image)["boxes"]) >= 0
