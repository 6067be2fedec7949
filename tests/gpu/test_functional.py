"""Single operators on device tensors, by Penlight's names and by torch's under compat: they run where their tensors live, as torch computes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight import compat, functional
from penlight.model import Model
from tests.gpu.conftest import NAMES, device_of

R = np.random.default_rng(3)
CALLS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = {
    "add": (((2, 3), (3,)), {"alpha": 2}), "mul": (((2, 1, 4), (3, 1)), {}), "relu": (((5,),), {}), "softmax": (((3, 7),), {"dim": 1}),
    "conv2d": (((1, 3, 8, 9), (4, 3, 3, 3), (4,)), {"stride": 2, "padding": 1}), "linear": (((5, 6), (7, 6), (7,)), {}),
    "max_pool2d": (((1, 2, 7, 7),), {"kernel_size": 3}), "mean": (((3, 4, 5),), {"dim": (0, 2)}), "hardswish": (((33,),), {}),
    "permute": (((2, 3, 4),), {"dims": (2, 0, 1)}), "clamp": (((9,),), {"min": -0.5, "max": 0.25}),
}  # fmt: skip


@pytest.mark.parametrize("driver", [*NAMES, "cpu"])
@pytest.mark.parametrize("name", CALLS)
def test_operators(driver: str, name: str) -> None:
    device = "cpu" if driver == "cpu" else device_of(driver).lower()
    shapes, options = CALLS[name]
    arrays = [R.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = functional._torch_function(name)(*map(torch.from_numpy, arrays), **options)
    for again in (0, 1):  # other numbers, in the call that was kept
        given = [penlight.Tensor(a + again, device) for a in arrays]
        got = getattr(penlight.functional, name)(*given, **options)
        assert got.device == device
        if again:
            expected = functional._torch_function(name)(*(torch.from_numpy(a + 1) for a in arrays), **options)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_calls() -> None:
    device = device_of("lavapipe").lower()
    a, b = (penlight.Tensor(R.standard_normal((2, 3)).astype(np.float32), device) for _ in range(2))
    joined = penlight.functional.cat([a, b, a], dim=1)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([a.numpy(), b.numpy(), a.numpy()], 1))
    mixed = penlight.functional.sub(a, b.numpy())
    assert mixed.device == device
    assert isinstance(penlight.functional.relu(torch.rand(3)), torch.Tensor)
    kept = next(reversed(functional._calls))
    penlight.functional.relu(torch.rand(3))
    assert next(reversed(functional._calls)) == kept
    with pytest.raises(AttributeError, match="no_such_operator"):
        penlight.functional.no_such_operator(a)
    with pytest.raises(penlight.InputError, match="one device"):
        penlight.functional.add(a, penlight.Tensor(b, device_of("swiftshader")))
    names = dir(penlight.functional)
    assert {"add", "conv2d", "relu", "softmax"} <= set(names)
    for name in names:
        assert callable(getattr(penlight.functional, name))


def test_threads() -> None:
    """All compile their first call at once."""
    device = device_of("lavapipe")

    def call(n: int) -> bool:
        x = penlight.Tensor(np.full((n % 3 + 1, 5), -n, np.float32), device)
        return bool((penlight.functional.elu(x).numpy() < 0).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(1, 13)))


def test_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import penlight.functional; penlight.functional.add"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "penlight.functional.add needs torch" in done.stderr, done.stderr


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    device_of("lavapipe")
    monkeypatch.setenv("PENLIGHT_VULKAN_DEVICE", "llvmpipe")


@pytest.mark.usefixtures("installed", "chosen")
def test_the_way_of_document_001(tmp_path: Path) -> None:
    from torch.utils.mobile_optimizer import optimize_for_mobile

    assert torch.is_vulkan_available()
    x = torch.rand(2, 3)
    there = x.to(device="vulkan")
    assert there.is_vulkan
    assert (there.device.type, tuple(there.size())) == ("vulkan", (2, 3))
    assert torch.equal(there.cpu(), x)
    assert torch.equal(x.vulkan().to("cpu"), x)
    assert torch.equal(x.to(torch.float64), x.double())
    assert x.to("cpu") is x
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    script = optimize_for_mobile(torch.jit.script(module), backend="vulkan")
    script.save(str(tmp_path / "m.pt"))
    for loaded in (script, torch.jit.load(str(tmp_path / "m.pt"))):
        y = loaded(there)
        assert y.is_vulkan
        assert isinstance(y.cpu(), torch.Tensor)
        torch.testing.assert_close(y.cpu(), module(x).detach(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(loaded(x), module(x).detach(), atol=1e-5, rtol=1e-5)
    placed = torch.jit.load(str(tmp_path / "m.pt"), map_location="vulkan")
    torch.testing.assert_close(placed(x), module(x).detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("installed", "chosen")
def test_torch_functions_on_the_device() -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    a, b = x.vulkan(), y.vulkan()
    for got, expected in (
        (torch.relu(a), torch.relu(x)), (torch.nn.functional.hardswish(a), torch.nn.functional.hardswish(x)),
        (a + b, x + y), (2 - a * b, 2 - x * y), (-a, -x), (torch.add(a, b, alpha=3), x + 3 * y),
    ):  # fmt: skip
        assert got.is_vulkan
        torch.testing.assert_close(got.cpu(), expected)
    with pytest.raises(NotImplementedError, match="cpu"):
        a.to(torch.float64)


def test_a_cpu_model_takes_them(tmp_path: Path) -> None:
    device = device_of("lavapipe")
    model = penlight.optimize(torch.nn.ReLU(), (torch.rand(4),))
    x = np.array([-1, 2, -3, 4], np.float32)
    np.testing.assert_array_equal(model(penlight.Tensor(x, device)).numpy(), np.maximum(x, 0))
    assert isinstance(model.on(device), Model)
    np.testing.assert_array_equal(model.on(device)(x), np.maximum(x, 0))
