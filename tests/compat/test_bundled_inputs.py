"""Bundled inputs: on ScriptModules as torch has them, in compiled models with the results expected for them."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.bundled_inputs as original
from torch import nn

import penlight
from penlight.bundles import with_results
from penlight.compat import bundled_inputs as bi
from penlight.compat.lite import _load_for_lite_interpreter
from penlight.compat.mobile_optimizer import optimize_for_mobile


def scripted(module: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module.eval())


def layers() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))


def network() -> Any:
    return scripted(layers())


def reloaded(script: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.load(io.BytesIO(script.save_to_buffer()))


INPUTS = [(torch.zeros(1, 3, 8, 8),), (bi.bundle_randn(2, 3, 9, 9),), (bi.bundle_large_tensor(torch.rand(1, 3, 8, 8)),)]
ACCESSORS = {
    "get_all_bundled_inputs", "get_num_bundled_inputs", "get_bundled_inputs_functions_and_info",
    "get_all_bundled_inputs_for_forward",
}  # fmt: skip


def test_script_modules_are_torchs_affair() -> None:
    script = network()
    copied = bi.bundle_inputs(script, INPUTS, ["zeros", "noise", "large"])
    assert not hasattr(script, "get_all_bundled_inputs")
    assert copied.get_num_bundled_inputs() == 3
    script = reloaded(script)  # in place means: in its type, which all networks of this kind would share
    bi.augment_model_with_bundled_inputs(script, INPUTS[:1])
    assert script.get_num_bundled_inputs() == 1
    with pytest.raises(Exception, match="can only be augmented with bundled inputs once"):
        bi.augment_model_with_bundled_inputs(script, INPUTS[:1])


def check(model: Any, count: int) -> None:
    """A module or loaded model answers to PyTorch's accessors; what it computes is what is expected."""
    every = model.run_method("get_all_bundled_inputs")
    assert model.run_method("get_num_bundled_inputs") == len(every) == count
    info = model.run_method("get_bundled_inputs_functions_and_info")
    assert info["forward"]["get_inputs_function_name"] == ["get_all_bundled_inputs_for_forward"]
    for index, (args, call) in enumerate(zip(every, model.model.bundled_inputs(as_torch=True), strict=True)):
        torch.testing.assert_close(args[0], call.args[0], rtol=0, atol=0)
        scale = float(call.outputs.abs().max())
        assert 0 < call.absolute < 1e-3 * scale
        assert float((model(*args) - call.outputs).abs().max()) <= call.absolute
        assert torch.equal(model.run_method("run_on_bundled_input", index), model(*args))


def test_optimized_model_keeps_them(tmp_path: Path) -> None:
    script = bi.bundle_inputs(network(), INPUTS, ["zeros", "noise", "large"])
    made = optimize_for_mobile(script)
    assert set(dir(made)) >= ACCESSORS
    assert made.get_bundled_inputs_functions_and_info() == script.get_bundled_inputs_functions_and_info()
    made.run_method = lambda name, *args: getattr(made, name)(*args)  # what check calls
    made.model.save(tmp_path / "m.pen")
    check(_load_for_lite_interpreter(tmp_path / "m.pen"), 3)


def test_noise_is_drawn_once(tmp_path: Path) -> None:
    made = optimize_for_mobile(bi.bundle_inputs(network(), INPUTS))
    first, again = made.get_all_bundled_inputs(), made.get_all_bundled_inputs()
    assert all(torch.equal(a[0], b[0]) for a, b in zip(first, again, strict=True))
    first[0][0].fill_(7)  # a caller may write into what it got
    assert torch.equal(made.get_all_bundled_inputs()[0][0], torch.zeros(1, 3, 8, 8))


def test_bundling_into_a_compiled_model(tmp_path: Path) -> None:
    made = optimize_for_mobile(network())
    copied = bi.bundle_inputs(made, INPUTS, ["a", "b", "c"])
    assert not hasattr(made, "get_all_bundled_inputs")
    copied._save_for_lite_interpreter(tmp_path / "c.ptl")
    check(_load_for_lite_interpreter(tmp_path / "c.ptl"), 3)
    bi.augment_model_with_bundled_inputs(made, INPUTS[2:], info=["only"])
    assert made.get_bundled_inputs_functions_and_info()["forward"]["info"] == ["only"]
    made._save_for_lite_interpreter(tmp_path / "d.ptl")
    check(_load_for_lite_interpreter(tmp_path / "d.ptl"), 1)
    with pytest.raises(Exception, match="can only be augmented with bundled inputs once"):
        bi.augment_model_with_bundled_inputs(made, INPUTS[:1])


def test_errors_of_a_compiled_model() -> None:
    made = optimize_for_mobile(network())
    with pytest.raises(Exception, match="a tensor with storage size 192. You probably don't want to bundle this"):
        bi.augment_model_with_bundled_inputs(made, [(torch.rand(1, 3, 8, 8),)])
    with pytest.raises(Exception, match="inputs for forward must be specified"):
        bi.augment_model_with_bundled_inputs(made, [])
    with pytest.raises(TypeError, match="idx: 0 is not a Tuple or a List"):
        bi.augment_model_with_bundled_inputs(made, [torch.zeros(3)])  # type: ignore[list-item]
    with pytest.raises(Exception, match="at least 1 function"):
        bi.augment_many_model_functions_with_bundled_inputs(made, {})


def test_inflated_by_a_function() -> None:
    text = """
    def {}(self, value: torch.Tensor):
        return torch.ones([1, 3, 8, 8]) * value[0]
    """
    made = optimize_for_mobile(network())
    arg = bi.InflatableArg(value=torch.full((2,), 3.0), fmt_fn=text)
    bi.augment_model_with_bundled_inputs(made, [(arg,)])
    assert torch.equal(made.get_all_bundled_inputs()[0][0], torch.full((1, 3, 8, 8), 3.0))


def test_tolerance_is_measured() -> None:
    class Cancels(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1e6) - 1e6

    for prepared in (scripted, lambda module: module):  # ScriptModules, and modules
        (good,) = with_results(prepared(layers()), {"forward": [(torch.rand(1, 3, 8, 8),)]})
        (bad,) = with_results(prepared(Cancels()), {"forward": [(torch.rand(100),)]})
        assert good.absolute < 1e-4 * float(np.abs(good.outputs).max())
        assert bad.absolute > 0.03  # f32 has steps of 1/16 at 1e6


def test_same_names_as_torch() -> None:
    assert bi.InflatableArg is original.InflatableArg
    assert bi.MAX_RAW_TENSOR_SIZE == original.MAX_RAW_TENSOR_SIZE
    assert penlight.compat.bundle_randn is original.bundle_randn
