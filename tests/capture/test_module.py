"""nn.Module and ExportedProgram: containers, constants, weights, dynamic shapes, source lines."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from penlight.capture import capture
from penlight.errors import CaptureError, InputError
from penlight.ir.graph import SymbolRange
from penlight.ir.types import TensorType
from tests.capture.check import assert_captures, captured, ops_of, run

Pair = namedtuple("Pair", "first second")


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(3))
        self.plain = torch.ones(2, 3)

    def forward(self, x: torch.Tensor, more: Any, none: None = None, flag: bool = True, *, scale: float = 2.0) -> Any:
        y = (x + more["a"][1]) * scale if flag else x
        return {
            "y": y,
            "twice": [y, y],
            "input": x,
            "none": none,
            "constants": (7, 0.5, "text", True),
            "pair": Pair(more["b"] * 2, self.table),
            "size": x.shape[0],
            "ordered": OrderedDict(plain=self.plain, literal=torch.tensor([1.0, 2.0])),
        }


def test_containers_constants_and_inputs_come_back_as_they_went() -> None:
    x = torch.randn(4, 3)
    inputs = (x, {"a": (x, x), "b": torch.arange(5)})  # the same tensor three times: still three inputs
    method = assert_captures(
        Containers(), inputs, (x + 1, {"a": (x * 2, x * 3), "b": torch.arange(5)}), kwargs={"scale": 3.0}
    )
    assert [v.name for v in method.graph.inputs] == ["x", "more_a_0", "more_a_1", "more_b"]
    result = run(method, inputs, {"scale": 3.0})
    assert list(result) == ["y", "twice", "input", "none", "constants", "pair", "size", "ordered"]
    assert result["twice"][0] is result["y"]
    assert result["input"] is x
    assert result["constants"] == (7, 0.5, "text", True)
    assert result["pair"]._fields == ("first", "second")
    assert isinstance(result["ordered"], OrderedDict)
    with pytest.raises(InputError, match="'scale' was 3.0"):
        run(method, inputs, {"scale": 2.0})


def test_sizes_in_the_result_follow_the_input() -> None:
    x, b = torch.randn(4, 3), Dim("rows")
    inputs = (x, {"a": (x, x), "b": torch.arange(5)})
    shapes = {"x": {0: b}, "more": {"a": (None, {0: b}), "b": None}}
    method = captured(Containers(), inputs, dynamic_shapes=shapes)
    assert method.output_spec["dict"]["size"] == {"dim": "rows"}
    assert run(method, (torch.randn(9, 3), {"a": (x, torch.randn(9, 3)), "b": torch.arange(5)}))["size"] == 9


def test_unused_inputs_stay_and_numpy_will_do() -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
            return x * 2

    method = captured(First(), (np.ones((2, 2), "f4"), np.ones(3, "i8")))
    assert [v.type for v in method.graph.inputs] == [TensorType("f32", (2, 2)), TensorType("i64", (3,))]
    assert method.input_spec == {"args": [0, 1], "kwargs": {}, "names": ["x", "unused"]}
    lone = captured(nn.ReLU(), torch.ones(3))
    assert len(lone.graph.inputs) == 1


def test_integer_and_bool_inputs() -> None:
    class Masked(nn.Module):
        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
            return torch.where(mask, ids * 2, ids), (ids > 1) & mask

    assert_captures(Masked(), (torch.arange(6).view(2, 3), torch.tensor([True, False, True])))


def test_shared_weights_are_one_constant_and_need_no_copy() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.out = nn.Linear(4, 10, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.out(self.embed(ids))
            return y

    module = Tied()
    method = assert_captures(module, (torch.tensor([1, 2, 3]),))
    (weight,) = [c for c in method.graph.constants.values() if c.shape == (10, 4)]
    assert len(weight.users) == 2
    assert weight.constant is not None
    assert weight.constant.ctypes.data == module.embed.weight.data_ptr()
    with pytest.raises(ValueError, match="read-only"):
        weight.constant[0] = 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool])
def test_weights_keep_their_dtype(dtype: torch.dtype) -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype).t())  # not contiguous

        def forward(self, x: torch.Tensor) -> Any:
            return x, self.w

    method = captured(Holder(), (torch.ones(1),))
    (w,) = method.graph.constants.values()
    assert w.name == "w"
    assert w.shape == (3, 2)
    assert w.constant is not None
    assert w.constant.flags.c_contiguous
    array = (
        torch.from_numpy(w.constant.view("int16").copy()).view(dtype)
        if w.dtype == "bf16"
        else torch.from_numpy(w.constant.copy())
    )
    assert torch.equal(array, Holder().w)


def test_only_used_weights_are_kept() -> None:
    method = captured(nn.BatchNorm2d(3), (torch.ones(1, 3, 2, 2),))
    assert set(method.graph.constants) == {"weight", "bias", "running_mean", "running_var"}


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        y = self.conv(image)
        y = F.interpolate(y, size=image.shape[-2:], mode="bilinear")
        return torch.cat([y, image], 1).flatten(2) * (image.shape[2] / 2) + image.shape[3]


def test_symbolic_sizes_reach_types_and_attributes() -> None:
    x = torch.randn(2, 3, 8, 9)
    others = [(torch.randn(n, 3, h, w),) for n, h, w in ((1, 8, 9), (3, 17, 5), (2, 2, 2))]
    shapes = {"image": {0: Dim("batch", max=64), 2: Dim.AUTO, 3: Dim.DYNAMIC}}
    method = assert_captures(Pyramid(), (x,), *others, dynamic_shapes=shapes)
    assert method.symbols == {"batch": SymbolRange(0, 64), "image_2": SymbolRange(), "image_3": SymbolRange()}
    resize = next(n for n in method.graph.nodes if n.op == "resize")
    assert str(resize.attrs["size"]) == "(image_2, image_3)"
    assert str(method.graph.nodes[0].output.type) == "f32[batch, 4, ((image_2 - 1) // 2) + 1, ((image_3 - 1) // 2) + 1]"


def test_auto_lets_every_size_vary() -> None:
    method = assert_captures(Pyramid(), (torch.randn(2, 3, 8, 9),), (torch.randn(5, 3, 4, 7),), dynamic_shapes="auto")
    assert str(method.graph.inputs[0].type) == "f32[image_0, 3, image_2, image_3]"  # the weights fix 3 channels
    single = captured(Pyramid(), (torch.randn(1, 3, 8, 9),), dynamic_shapes="auto")
    assert str(single.graph.inputs[0].type) == "f32[image_0, 3, image_2, image_3]"
    assert single.symbols["image_0"].hint == 1


def test_a_dim_may_be_an_expression_of_its_symbol() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(2, -1)

    method = captured(Halves(), (torch.randn(8, 3),), dynamic_shapes=({0: 2 * Dim("half")},))
    assert str(method.graph.inputs[0].type) == "f32[2 * half, 3]"
    assert str(method.graph.outputs[0].type) == "f32[2, 3 * half]"


def test_source_lines_name_the_users_code_and_the_layer() -> None:
    method = captured(Pyramid(), (torch.randn(2, 3, 8, 9),))
    line = next(i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "self.conv(image)" in text)
    assert method.graph.nodes[0].source == f"test_module.py:{line}, in forward: y = self.conv(image)  [conv]"
    assert all(node.source.startswith("test_module.py:") for node in method.graph.nodes)


def test_the_module_is_captured_in_eval_mode_and_left_as_it_was() -> None:
    module = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Dropout(0.5))
    module.train()
    module[1].eval()
    method = captured(module, (torch.randn(2, 3, 4, 4),))
    assert ops_of(method) == ["conv2d", "batch_norm"]
    assert [m.training for m in module.modules()] == [True, True, False, True]


def test_exported_programs_from_objects_and_files(tmp_path: Path) -> None:
    class Quiet(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():  # a graph of its own inside the exported one
                y = x * 2
            return y + x

    x = torch.randn(3, 4)
    exported = torch.export.export(Quiet(), (x,), dynamic_shapes=({0: Dim.AUTO},))
    torch.export.save(exported, tmp_path / "model.bin")  # told by its content
    for source in (exported, tmp_path / "model.bin", str(tmp_path / "model.bin")):
        method = captured(source)
        assert torch.equal(run(method, (torch.ones(7, 4),)), torch.full((7, 4), 3.0))
        assert method.graph.inputs[0].shape[1] == 4
    with pytest.raises(CaptureError, match="has its dynamic shapes already"):
        capture(exported, dynamic_shapes="auto")


def test_calls_without_a_converter_are_taken_apart() -> None:
    class Rare(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addcmul(x, x, x, value=0.5) + F.softmin(x, 1)

    assert_captures(Rare(), (torch.randn(3, 4),), dynamic_shapes=None)


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[2] % 2 == 1:
            x = F.pad(x, (0, 0, 0, 1))
        if x.shape[3] > 5:
            x = x + 1
        return x


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("prepare", [lambda m: m, torch.jit.script], ids=["module", "script"])
def test_decisions_by_size_are_not_lost(prepare: Any) -> None:
    """A graph for odd heights must not be run on even ones: torch checks that at each call, here it is settled before."""
    module, x = prepare(Decides()), torch.randn(2, 3, 9, 9)
    with pytest.raises(
        CaptureError, match=r"x_2 % 2 == 1\n.*test_module.py:\d+, in forward: if x.shape\[2\] % 2 == 1:"
    ):
        capture(module, (x,), dynamic_shapes={"x": {2: Dim.AUTO}})
    stated = captured(module, (x,), dynamic_shapes={"x": {2: 2 * Dim("half") + 1}})
    assert str(stated.graph.inputs[0].type) == "f32[2, 3, (2 * half) + 1, 9]"
    ranged = captured(module, (x,), dynamic_shapes={"x": {3: Dim.AUTO}})
    assert ranged.symbols == {"x_3": SymbolRange(6, None)}
    auto = captured(module, (x,), dynamic_shapes="auto")
    assert str(auto.graph.inputs[0].type) == "f32[x_0, x_1, 9, x_3]"
