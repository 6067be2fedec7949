"""optimize_for_mobile and the lints: signatures, texts, and a result that computes, saves and loads."""

from __future__ import annotations

import inspect
import io
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.bundled_inputs
import torch.utils.mobile_optimizer as original
from torch import nn

import penlight
from penlight.compat.mobile_optimizer import (
    LintCode,
    MobileOptimizerType,
    generate_mobile_module_lints,
    optimize_for_mobile,
)
from tests.compat.models import MODELS, MobileNet2020


def scripted(module: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    return scripted(MobileNet2020().eval())


@pytest.fixture(scope="module")
def optimized(net: Any) -> Any:
    return optimize_for_mobile(net)


def test_signatures() -> None:
    for name in ("optimize_for_mobile", "generate_mobile_module_lints"):
        mine = inspect.signature({f.__name__: f for f in (optimize_for_mobile, generate_mobile_module_lints)}[name])
        theirs = inspect.signature(getattr(original, name))
        known = [p for p in mine.parameters.values() if p.name != "winograd_budget"]
        assert [(p.name, p.default, p.kind) for p in known] == [
            (p.name, p.default, p.kind) for p in theirs.parameters.values()
        ]
    assert inspect.signature(optimize_for_mobile).parameters["winograd_budget"].kind is inspect.Parameter.KEYWORD_ONLY
    assert {c.name: c.value for c in LintCode} == {c.name: c.value for c in original.LintCode}
    assert MobileOptimizerType is original.MobileOptimizerType


def test_errors(net: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^Got <class 'torch.nn.modules.linear.Linear'>, but ScriptModule is expected\.$"
    ):
        optimize_for_mobile(nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^Unknown backend, must be one of 'CPU', 'Vulkan' or 'Metal'$"):
        optimize_for_mobile(net, backend="cuda")
    with pytest.raises(AttributeError, match="^The following methods to preserve do not exist in script_module: a, b$"):
        optimize_for_mobile(net, preserved_methods=["a", "forward", b"b"])
    with pytest.raises(TypeError, match="but ScriptModule is expected"):
        generate_mobile_module_lints(nn.Linear(1, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(1, 3, 32, 32), (3, 3, 64, 48)])
def test_computes_as_the_module(net: Any, optimized: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    with torch.no_grad():
        expected = net(x)
    torch.testing.assert_close(optimized(x), expected)
    torch.testing.assert_close(optimized.forward(x), expected)
    torch.testing.assert_close(optimized.run_method("forward", x), expected)


def test_attributes(net: Any, optimized: Any) -> None:
    assert optimized.mobile_optimized is True
    assert not hasattr(optimized, "optimized_for_vulkan")
    assert not hasattr(optimized, "requires_backend_transfers")
    assert optimized.eval() is optimized
    assert "prepacked::conv2d_clamp_run" in str(optimized.graph)
    with pytest.raises(AttributeError, match="preserved_methods"):
        optimized.nothing  # noqa: B018
    with pytest.raises(RuntimeError, match="inference"):
        optimized.train()


@pytest.mark.parametrize("backend", ["Vulkan", "METAL"])
def test_other_backends_are_whole_files(net: Any, tmp_path: Path, backend: str) -> None:
    made = optimize_for_mobile(net, backend=backend)
    assert getattr(made, f"optimized_for_{backend.lower()}") is True
    assert getattr(made, "requires_backend_transfers", None) is (False if backend == "Vulkan" else None)
    made._save_for_lite_interpreter(str(tmp_path / "m.ptl"))
    loaded = penlight.load(tmp_path / "m.ptl")
    assert loaded.metadata["backend"] == backend.lower()
    assert {"aten::conv2d", "aten::batch_norm"} <= set(
        loaded.metadata["torch_operators"]
    )  # of the code that was compiled
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), net(x))


def test_saving(net: Any, optimized: Any, tmp_path: Path) -> None:
    x = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        expected = net(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(optimized, tmp_path / "a.pt")
        torch.jit.save(optimized, str(tmp_path / "b.pt"))
        buffer = io.BytesIO()
        torch.jit.save(optimized, buffer)
    optimized.save(str(tmp_path / "c.pt"))
    optimized._save_for_lite_interpreter(tmp_path / "d.ptl", _save_mobile_debug_info=True, _use_flatbuffer=True)
    for name in ("a.pt", "b.pt", "c.pt", "d.ptl"):
        torch.testing.assert_close(penlight.load(tmp_path / name)(x), expected)
    for data in (buffer.getvalue(), optimized.save_to_buffer(), optimized._save_to_buffer_for_lite_interpreter()):
        torch.testing.assert_close(penlight.load(data)(x), expected)


def test_extra_files(optimized: Any, tmp_path: Path) -> None:
    optimized._save_for_lite_interpreter(
        tmp_path / "e.ptl", _extra_files={"info.json": b"{}", "raw": b"\xff\x00", "text": "é"}
    )
    stored = penlight.load(tmp_path / "e.ptl").metadata["extra_files"]
    assert stored == {"info.json": "{}", "raw": {"base64": "/wA="}, "text": "é"}


def test_export_opnames(net: Any, optimized: Any) -> None:
    found = torch.jit.export_opnames(optimized)
    assert found == optimized.export_opnames()
    assert "prepacked::conv2d_clamp_run" in found
    blocked = optimize_for_mobile(net, {MobileOptimizerType.INSERT_FOLD_PREPACK_OPS})
    assert "aten::conv2d" in torch.jit.export_opnames(blocked)


def test_training_mode_is_evaluated_on_a_copy() -> None:
    script = scripted(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout(0.9)).train())
    made = optimize_for_mobile(script)
    assert script.training
    x = torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(made(x), script.eval()(x))


def test_lints() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Dropout())
    script = scripted(module)
    found = generate_mobile_module_lints(script)
    assert found == original.generate_mobile_module_lints(script)
    assert {lint["name"] for lint in found} == {"BUNDLED_INPUT", "REQUIRES_GRAD", "DROPOUT", "BATCHNORM"}
    bundled = scripted(nn.Sequential(nn.Conv2d(3, 4, 1)).eval().requires_grad_(False))
    bundled = torch.utils.bundled_inputs.bundle_inputs(bundled, [(torch.zeros(1, 3, 4, 4),)])
    assert generate_mobile_module_lints(bundled) == []
    assert generate_mobile_module_lints(optimize_for_mobile(bundled)) == []  # type: ignore[arg-type]


def test_traced_and_loaded_models(tmp_path: Path) -> None:
    module = MobileNet2020().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(module, torch.rand(1, 3, 32, 32)).save(tmp_path / "t.pt")
        loaded = torch.jit.load(tmp_path / "t.pt")  # which has forgotten the shapes of the trace
    made = optimize_for_mobile(loaded)
    x = torch.rand(2, 3, 64, 32)
    with torch.no_grad():
        torch.testing.assert_close(made(x), module(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear_relu", "conv1d", "conv3d", "transposed_relu", "circular"])
def test_inputs_are_guessed(name: str) -> None:
    module, example = MODELS[name]()
    made = optimize_for_mobile(scripted(module.eval()))
    with torch.no_grad():
        torch.testing.assert_close(made(*example), module(*example))


def test_preserved_methods_and_control_flow(tmp_path: Path) -> None:
    module, (x,) = MODELS["branch"]()
    script = scripted(module.eval())
    made = optimize_for_mobile(script, preserved_methods=[b"other"])
    made._save_for_lite_interpreter(tmp_path / "m.ptl")
    loaded = penlight.load(tmp_path / "m.ptl")
    assert set(loaded.methods) == {"forward", "other"}
    for sign in (1, -1):
        with torch.no_grad():
            torch.testing.assert_close(made(sign * x), script(sign * x))
            torch.testing.assert_close(made.other(x, 3), script.other(x, 3))
            torch.testing.assert_close(loaded.run_method("other", x, 3), script.other(x, 3))
    with pytest.raises(AttributeError, match="preserved_methods"):
        optimize_for_mobile(script).other  # noqa: B018


def test_values_of_all_kinds_and_state() -> None:
    class Tally(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total = 0
            self.words = torch.jit.Attribute([], list[str])

        def forward(self, x: dict[str, torch.Tensor], scale: float | None = None) -> tuple[torch.Tensor, list[str]]:
            self.total += len(x)
            out = torch.zeros(2)
            for key in x:
                out = out + x[key].sum(0)
                self.words.append(key)
            return out if scale is None else out * scale, self.words

        @torch.jit.export
        def count(self) -> int:
            return self.total

    script = scripted(Tally())
    seen: list[str] = []
    made = optimize_for_mobile(script, preserved_methods=["count"])
    for given in ({"a": torch.rand(3, 2)}, {"b": torch.rand(1, 2), "c": torch.rand(2, 2)}):
        seen += given
        out, words = made(given, 0.5)
        torch.testing.assert_close(out, sum(x.sum(0) for x in given.values()) * 0.5)
        assert words == seen
    assert made.count() == 3
    assert script.count() == 0  # the original has not moved


def test_without_forward() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.version = "v1"

        @torch.jit.export
        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.layer(x))

    script = scripted(Encoder().eval())
    made = optimize_for_mobile(script, preserved_methods=["encode", "version"])
    x = torch.rand(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(made.encode(x), script.encode(x))
    assert made.version == "v1"
    assert torch.jit.export_opnames(made) == ["aten::relu", "prepacked::linear_clamp_run"]
    with pytest.raises(NotImplementedError, match="it has encode"):
        made(x)


def test_quantized() -> None:
    module = nn.Sequential(
        torch.ao.quantization.QuantStub(), nn.Conv2d(3, 8, 3), nn.ReLU(), torch.ao.quantization.DeQuantStub()
    ).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.ao.quantization.fuse_modules(module, [["1", "2"]])
        module.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack")  # type: ignore[assignment]
        torch.ao.quantization.prepare(module, inplace=True)
        module(torch.randn(4, 3, 16, 16))
        torch.ao.quantization.convert(module, inplace=True)
    script = scripted(module)
    made = optimize_for_mobile(script)
    x = torch.randn(2, 3, 16, 16)
    step = float(module[1].scale)
    assert float((made(x) - module(x)).abs().max()) <= 1.001 * step
    assert "quantized::conv2d_relu.new" in torch.jit.export_opnames(made)


def _in_place(call: Any) -> Any:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        call(y)
        return y

    return run


NUMBERS: dict[str, Any] = {
    "x + 0.5": lambda x: x + 0.5, "x - 2": lambda x: x - 2, "x * 0.1": lambda x: x * 0.1, "x / 3": lambda x: x / 3,
    "x // 2": lambda x: x // 2, "1 + x": lambda x: 1 + x, "1 - x": lambda x: 1 - x, "0.1 * x": lambda x: 0.1 * x,
    "2 / x": lambda x: 2 / x, "7 // x": lambda x: 7 // x, "x % 2": lambda x: x % 2, "7 % x": lambda x: 7 % x, "x ** 2": lambda x: x**2,
    "alpha": lambda x: torch.add(x, 0.5, alpha=2), "sizes": lambda x: x.view(x.shape[0] * 2, x.shape[1] // 2) / x.shape[0],
    "x > 0.5": lambda x: x > 0.5, "x += 2": _in_place(lambda y: y.__iadd__(2)), "x -= 2": _in_place(lambda y: y.__isub__(2)),
    "x *= 3": _in_place(lambda y: y.__imul__(3)), "x /= 0.7": _in_place(lambda y: y.__itruediv__(0.7)),
    "x //= 2": _in_place(lambda y: y.__ifloordiv__(2)), "x[0] = 0.5": _in_place(lambda y: y.__setitem__(0, 0.5)),
    "where": lambda x: torch.where(x > 3, x, 0.5), "clamp": lambda x: x.clamp(2, 5.5),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
def test_a_trace_with_numbers(name: str) -> None:
    """In memory, a trace has the numbers of Python as constants that are no tensors yet."""

    class Calls(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return NUMBERS[name](x)  # type: ignore[no-any-return]

    for dtype in (torch.float32, torch.float64, torch.int64, torch.float16):
        x = (torch.rand(6, 4) * 9 + 1).to(dtype)
        if dtype is torch.int64 and name == "x /= 0.7":  # torch refuses
            continue
        expected = Calls()(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(Calls(), (x,))
        torch.testing.assert_close(optimize_for_mobile(traced)(x), expected)
        torch.testing.assert_close(penlight.optimize(traced)(x), expected)
        torch.testing.assert_close(penlight.optimize(traced, (x,))(x), expected)
