"""Tensors on a device: there and back, as inputs and outputs with no way through the host, between devices, and what a run reports."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from penlight import _runtime, tensor
from penlight.compat.vulkan import VulkanTensor
from tests.gpu.conftest import NAMES, device_of
from tests.runtime import native

DRIVERS = pytest.mark.parametrize("driver", NAMES)


class Block(torch.nn.Module):
    """Two inputs, two outputs, the second an input unchanged but for its sign."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.conv(x)) + y, -y


@pytest.fixture(scope="module")
def inputs() -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    return r.standard_normal((2, 3, 7, 9), np.float32), r.standard_normal((2, 5, 7, 9), np.float32)


@pytest.fixture(scope="module")
def block(inputs: tuple[np.ndarray, np.ndarray]) -> bytes:
    return penlight.optimize(Block().eval(), tuple(map(torch.from_numpy, inputs))).to_bytes()


@DRIVERS
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (), (0, 4), (1000, 77)])
def test_there_and_back(driver: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(1).standard_normal(shape) * 50).astype(dtype)
    t = penlight.Tensor(x).to(device_of(driver))
    assert (t.device, t.shape, NAMES[driver] in t.device_name) == (device_of(driver).lower(), shape, True)
    np.testing.assert_array_equal(t.cpu().numpy(), x)
    assert t.cpu().device == "cpu"
    turned = penlight.Tensor(x.T, t.device)  # columns first
    np.testing.assert_array_equal(turned.torch().numpy(), x.T)


def test_as_arrays() -> None:
    """numpy's own: what asks for a copy gets one, so a tensor never changes."""
    x = np.arange(4, dtype=np.float32)
    here, there = penlight.Tensor(x), penlight.Tensor(x, device_of("lavapipe"))
    np.array(here)[0] = 7
    np.testing.assert_array_equal(here.numpy(), [0, 1, 2, 3])
    assert np.shares_memory(np.asarray(here), x)
    assert np.asarray(there, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        there.__array__(copy=False)


def test_memory_comes_again() -> None:
    """Whatever other shapes there were before."""
    device = device_of("lavapipe").lower()
    for n in range(2 * tensor._SPARE_KINDS):
        penlight.Tensor(np.zeros(n + 1, np.float32), device)
    model = penlight.optimize(torch.nn.ReLU(), (torch.rand(99),)).on(device)
    x = penlight.Tensor(np.ones(99, np.float32), device)
    first = model(x).buffer
    assert model(x).buffer is first
    assert len(tensor._spare) <= tensor._SPARE_KINDS


@pytest.mark.parametrize("kind", [tensor.Tensor, VulkanTensor])
def test_copies(kind: type[penlight.Tensor]) -> None:
    """A copy shared the memory, which a result was given when that copy was gone: the tensor changed."""
    device = device_of("lavapipe").lower()
    model = penlight.optimize(torch.nn.ReLU(), (torch.rand(77),)).on(device)
    x = kind(np.ones(77, np.float32), device)
    for made in (copy.copy(x), copy.deepcopy([x])[0], pickle.loads(pickle.dumps(x))):
        assert (type(made), made.device, made.shape) == (kind, device, (77,))
        np.testing.assert_array_equal(made.torch().numpy(), np.ones(77))
    del made
    gc.collect()
    results = [model(kind(np.full(77, 7, np.float32), device)) for _ in range(3)]
    np.testing.assert_array_equal(x.torch().numpy(), np.ones(77))
    np.testing.assert_array_equal(results[2].torch().numpy(), np.full(77, 7))
    here = penlight.Tensor(np.ones(3))
    assert copy.copy(here) is here
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(here)).numpy(), np.ones(3))


def test_the_last_spare_buffer_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken by another thread, after this one saw it."""

    class Taken(list[_runtime.Buffer]):
        def pop(self, *_: object) -> _runtime.Buffer:
            self.clear()
            return super().pop()

    device = device_of("lavapipe").lower()
    monkeypatch.setitem(tensor._spare, (device, "f32", (2,)), Taken([_runtime.Buffer()]))
    assert isinstance(tensor.result_buffer(None, device, "f32", (2,)), _runtime.Buffer)


@DRIVERS
@pytest.mark.parametrize("f16", [False, True])
def test_no_way_through_the_host(driver: str, f16: bool, block: bytes, inputs: tuple[np.ndarray, np.ndarray]) -> None:
    device = device_of(driver).lower()
    expected = penlight.load(block)(*inputs)
    model = penlight.load(block, device=device, f16=f16)
    x, y = (penlight.Tensor(array).to(device) for array in inputs)
    for _ in range(6):  # results of the last round are the next one's inputs, in memory that comes again
        first, second = model(x, y)
        report = model.device_report()
        assert (report["copies"], report["bytes_up"], report["bytes_down"]) == (0, 0, 0)
        assert report["dispatches"] > 0
        assert NAMES[driver] in report["device"]
        assert (first.device, second.device) == (device, device)
        np.testing.assert_allclose(first.numpy(), expected[0], rtol=1e-2 if f16 else 1e-4, atol=2e-2 if f16 else 1e-4)
        y = model(x, second)[1]  # the sign, twice
        np.testing.assert_allclose(y.numpy(), inputs[1], atol=2e-2 if f16 else 0)


@DRIVERS
def test_mixed_and_plain(driver: str, block: bytes, inputs: tuple[np.ndarray, np.ndarray]) -> None:
    device = device_of(driver).lower()
    expected = penlight.load(block)(*inputs)
    model = penlight.load(block, device=device)
    mixed = model(penlight.Tensor(inputs[0], device), inputs[1])
    assert model.device_report()["copies"] == 1
    assert model.device_report()["bytes_up"] == inputs[1].nbytes
    np.testing.assert_allclose(mixed[0].numpy(), expected[0], atol=1e-4)
    plain = model(*inputs)
    assert isinstance(plain[0], np.ndarray)
    assert model.device == device
    report = model.device_report()
    sizes = sum(a.nbytes for a in inputs), sum(a.nbytes for a in expected)
    assert (report["copies"], report["bytes_up"], report["bytes_down"]) == (4, *sizes)
    np.testing.assert_allclose(plain[1], expected[1], atol=0)
    there = [penlight.Tensor(array, device) for array in inputs]
    into = [np.empty_like(array) for array in expected]
    model.run_into(into, *there)
    assert model.device_report()["bytes_up"] == 0
    np.testing.assert_allclose(into[0], expected[0], atol=1e-4)
    with pytest.raises(penlight.RunError, match="never changes"):
        model.run_into(there, *there)
    model.prepare(*there)
    same = penlight.Tensor(inputs[1], device)
    with pytest.raises(penlight.RunError, match="rank 4"):
        model(same, penlight.Tensor(inputs[1][0], device))


def test_other_devices(block: bytes, inputs: tuple[np.ndarray, np.ndarray]) -> None:
    """A tensor of another device is copied, and counted."""
    devices = [device_of(driver).lower() for driver in NAMES]
    expected = penlight.load(block)(*inputs)
    given = penlight.Tensor(inputs[0], devices[0]), inputs[1]
    cpu, model = penlight.load(block), penlight.load(block, device=devices[1])
    for m, copies in ((cpu, 1), (model, 3)):
        first, _ = m(*given)
        assert (first.device, m.device_report()["copies"]) == (m.device, copies)
        assert m.device_report()["bytes_down"] == inputs[0].nbytes
        np.testing.assert_allclose(first.numpy(), expected[0], atol=1e-4)
    cpu(*inputs)
    assert cpu.device_report() == {"device": "cpu", "dispatches": 0, "copies": 0, "bytes_up": 0, "bytes_down": 0}


@DRIVERS
def test_shapes_that_change(driver: str) -> None:
    device = device_of(driver).lower()
    dim = torch.export.Dim("n", min=1, max=64)
    model = penlight.optimize(torch.nn.Linear(4, 3), (torch.rand(2, 4),), dynamic_shapes=({0: dim},))
    on = penlight.load(model.to_bytes(), device=device)
    for n in (3, 50, 3, 1, 50):
        x = np.random.default_rng(n).standard_normal((n, 4), np.float32)
        np.testing.assert_allclose(on(penlight.Tensor(x, device)).numpy(), model(x), atol=1e-5)


class Islands(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, _ = x.topk(3, dim=1)
        return torch.relu(values) * 2, x + 1


@DRIVERS
def test_parts_on_the_cpu(driver: str) -> None:
    """What the device lacks runs on the CPU, which fetches what lies on the device; that is counted."""
    device = device_of(driver).lower()
    assert "topk.f32" not in _runtime.backend_keys("vulkan"), "take another operator that GPUs lack"
    x = np.random.default_rng(2).standard_normal((4, 9), np.float32)
    model = penlight.optimize(Islands(), (torch.from_numpy(x),), backend="vulkan", fallback="cpu")
    expected, on = Islands()(torch.from_numpy(x)), model.on(device)
    for _ in range(3):
        got = on(penlight.Tensor(x, device))
        assert on.device_report()["copies"] > 0
        assert on.device_report()["bytes_down"] >= x.nbytes
        for a, b in zip(got, expected, strict=True):
            assert a.device == device
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
        for a, b in zip(on(x), expected, strict=True):
            np.testing.assert_allclose(a, b.numpy(), atol=1e-6)


def test_interpreted_methods() -> None:
    """VM code takes device tensors by way of the host; its planned parts run on the device."""
    device = device_of("lavapipe").lower()

    class Loop(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            for _ in range(n):
                x = torch.relu(x) * 2 + 1
            return x

    x = torch.randn(4, 5)
    model = penlight.optimize(torch.jit.script(Loop()), (x, 2), strict=False).on(device)
    y = model(penlight.Tensor(x, device), 3)
    assert y.device == device
    np.testing.assert_allclose(y.numpy(), Loop()(x, 3).numpy(), rtol=1e-6)
    assert set(model.device_report()) == {"device", "dispatches", "copies", "bytes_up", "bytes_down"}


class Turned(torch.nn.Module):
    """Reads its input in another order than it writes: a buffer that is both must not be written too early."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.flip(0)) * 2 + x.transpose(1, 2)


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
@DRIVERS
def test_from_c(driver: str, kind: str, tmp_path: Path) -> None:
    device = device_of(driver)
    penlight.optimize(Turned(), (torch.rand(3, 5, 5),)).save(tmp_path / "m.pen")
    program = native.program(kind, Path(__file__).parent / "buffers.c")
    # Drivers keep memory of their own for ever.
    done = native.run(
        [program, tmp_path / "m.pen", device], environment={"ASAN_OPTIONS": "detect_leaks=0"}, timeout=300
    )
    assert NAMES[driver] in done.stdout


def test_wrong_tensors() -> None:
    device = device_of("lavapipe")
    with pytest.raises(penlight.InputError, match="bfloat16"):
        penlight.Tensor(torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(penlight.InputError, match="complex64"):
        penlight.Tensor(np.ones(2, np.complex64))
    with pytest.raises(penlight.RunError, match="There are: 0 "):
        penlight.Tensor(np.ones(2)).to("vulkan:99")
    buffer = _runtime.Buffer()
    assert buffer.create(device, 0, [2, 3]) is None
    assert "24 bytes" in buffer.upload(np.zeros(5, np.float32))["message"]
    assert "0 or more" in _runtime.Buffer().create(device, 0, [2, -3])["message"]
    assert "memory of its own" in _runtime.Buffer().create("cpu", 0, [2])["message"]


def test_devices_are_listed() -> None:
    for driver in NAMES:
        device_of(driver)
    assert penlight.is_vulkan_available()
    listed = {driver: d for d in penlight.vulkan_devices() for driver, name in NAMES.items() if name in d["name"]}
    assert listed["lavapipe"]["f16_storage"]
    assert not listed["swiftshader"]["f16_storage"]
    assert listed["swiftshader"]["subgroup_size"] == 4
    for d in listed.values():
        assert (d["type"], d["unfit"]) == ("CPU", "")
        assert d["api"].startswith("1.")
        assert d["memory_bytes"] > 1 << 20
        assert d["shared_bytes"] >= 16384


def test_no_device(block: bytes, tmp_path: Path) -> None:
    """Never an exception; and who asks for a device is told what is missing."""
    device_of("lavapipe")
    (path := tmp_path / "m.pen").write_bytes(block)
    code = f"""
import penlight
assert not penlight.is_vulkan_available() and penlight.vulkan_devices() == []
try:
    penlight.load({str(path)!r}, device="vulkan")
except penlight.PenlightError as e:
    print(e)
"""
    nowhere = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    ran = subprocess.run([sys.executable, "-c", code], env=os.environ | nowhere, capture_output=True, text=True)
    assert ran.stdout.startswith("Vulkan: expected a driver"), ran.stdout + ran.stderr


def test_pipelines_are_kept(block: bytes, tmp_path: Path) -> None:
    """On disk, after the first run: an app may be ended at any time."""
    device = device_of("lavapipe")
    (path := tmp_path / "m.pen").write_bytes(block)
    code = f"""
import os, numpy, penlight
m = penlight.load({str(path)!r}, device={device!r})
m(numpy.ones((2, 3, 7, 9), numpy.float32), numpy.ones((2, 5, 7, 9), numpy.float32))
os._exit(0)
"""
    environment = os.environ | {"PENLIGHT_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    (file,) = (tmp_path / "cache").iterdir()
    before = file.stat()
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert file.stat().st_ino == before.st_ino  # nothing new: not written again
