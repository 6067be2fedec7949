"""Selections as YAML: what we write is read by PyTorch's own torchgen, merged by it, and read back; PyTorch's files are read here."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from torchgen.selective_build.selector import SelectiveBuilder, combine_selective_builders

from penlight.build.operator_kernels import selection_of_operators
from penlight.build.selection import EVERYTHING, Selection
from penlight.build.trace import Trace
from penlight.build.yaml_file import YamlError, selection_of_yaml, write_yaml

PLANNED = Selection(frozenset({"conv2d.f32.gemm", "copy.b32", "permute.view"}), frozenset(), vm=False)
WITH_VM = Selection(frozenset({"add.i64"}), frozenset({"aten::add.Tensor", "prim::TupleIndex"}), vm=True)
BARE_VM = Selection(frozenset(), frozenset(), vm=True)
STATELESS = Selection(frozenset({"add.i64"}), frozenset(), vm=False, halves=False, state=False, turns=False)


def trace(chosen: Selection, roots: set[str], reached: set[str] = frozenset()) -> Trace:  # type: ignore[assignment]
    return Trace(chosen, chosen, frozenset(roots), frozenset(reached), frozenset({"Conv2dOpContext"}))


@pytest.mark.parametrize("chosen", [PLANNED, WITH_VM, BARE_VM, PLANNED | WITH_VM, STATELESS, STATELESS | PLANNED])
def test_round_trip(tmp_path: Path, chosen: Selection) -> None:
    path = tmp_path / "ops.yaml"
    write_yaml(path, trace(chosen, {"aten::conv2d"}, {"aten::conv2d", "aten::abs"}))
    assert selection_of_yaml(path) == chosen
    builder = SelectiveBuilder.from_yaml_path(str(path))
    assert builder.is_root_operator("aten::conv2d")
    assert builder.is_operator_selected("aten::abs")
    assert not builder.is_root_operator("aten::abs")
    assert not builder.is_operator_selected_for_training("aten::conv2d")
    assert not builder.is_operator_selected("aten::conv2d.padding")
    assert builder.is_kernel_dtype_selected("add_stub", "Float")  # torch's own kernels: all
    assert builder.custom_classes == {"Conv2dOpContext"}


def test_torchgen_merges_them(tmp_path: Path) -> None:
    builders = []
    for name, chosen in {"a": PLANNED, "b": WITH_VM}.items():
        write_yaml(tmp_path / name, trace(chosen, {"aten::relu"}))
        builders.append(SelectiveBuilder.from_yaml_path(str(tmp_path / name)))
    merged = tmp_path / "merged.yaml"
    merged.write_text(yaml.safe_dump(combine_selective_builders(*builders).to_dict()))
    assert selection_of_yaml(merged) == PLANNED | WITH_VM


def test_everything_has_no_list(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text("old")
    with pytest.raises(YamlError, match="penlight build --all"):
        write_yaml(path, trace(EVERYTHING, set()))
    assert [p.name for p in tmp_path.iterdir()] == ["ops.yaml"]
    assert path.read_text() == "old"


# As PyTorch's tracer writes it, its mistake of an empty map included.
TORCH = """include_all_non_op_selectives: false
build_features: []
operators:
  aten::add.Tensor:
    is_used_for_training: false
    is_root_operator: true
    include_all_overloads: false
  prim::ListUnpack:
    is_used_for_training: false
    is_root_operator: true
    include_all_overloads: false
  aten::mkldnn_convolution:
    is_used_for_training: false
    is_root_operator: false
    include_all_overloads: false
kernel_metadata: []
custom_classes: []
"""
LISTS = {
    TORCH: {"aten::add.Tensor"},
    TORCH.replace("[]", ""): {"aten::add.Tensor"},
    "- aten::add.Tensor\n- aten::relu\n": {"aten::add.Tensor", "aten::relu"},
    "- aten::lerp\n": {"aten::lerp.Scalar", "aten::lerp.Tensor"},  # there is no aten::lerp itself
    "operators:\n  aten::relu:\n": {"aten::relu", "aten::relu.out"},  # all overloads unless it says otherwise
    "operators:\n  aten::relu: {include_all_overloads: false}\nkernel_metadata: {copy_kernel: [Bool]}\n": {
        "aten::relu"
    },
}


@pytest.mark.parametrize(("text", "expected"), LISTS.items())
def test_operator_lists(tmp_path: Path, text: str, expected: set[str]) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(text)
    chosen = selection_of_yaml(path)
    assert chosen.vm
    assert expected <= (chosen.operators or set())
    assert chosen.operators != EVERYTHING.operators
    assert not chosen.has_operator("aten::sub.Tensor")
    assert not chosen.has_key("erf.f32")
    assert chosen.has_key("add.i64") == ("aten::add.Tensor" in expected)
    assert chosen == selection_of_operators(expected | (chosen.operators or set()))


def test_all(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text("include_all_operators: true\n")
    assert selection_of_yaml(path) == EVERYTHING


WRONG = {
    "- aten::nothing_such\n- aten::relu\n- mine::other\n": r"2 of 3 operators are not there.*\n  aten::nothing_such\n  mine::other$",
    "operators: {aten::nothing_such: {}}": "aten::nothing_such",
    "- relu\n- 3\n": "expected operators such as aten::add.Tensor, got relu, 3",
    "root_operators: {}\nmodel: 1\n": "unknown keys: root_operators, model; there are include_all",
    "operators: {aten::relu: {root: true}}": "operators: aten::relu: unknown keys: root",
    "operators: {aten::relu: [1]}": "operators: aten::relu: expected a map, got a list",
    "operators: [aten::relu]": "operators: expected a map, got a list",
    "include_all_operators: 1": "include_all_operators: expected true or false, got text",
    "kernel_metadata: {'penlight::kernel::gone.f32': [], 'penlight::operator::aten::gone': []}": "has no aten::gone, gone.f32. Trace",
    "operators: {}": "it names no operators",
    "": "got nothing",
    "text": "got text",
    "a: [": "not YAML: while parsing",
    "a: !!python/object:os.system x": "not YAML: could not determine a constructor",
    "[" * 5000: "not YAML: maximum recursion",
    "- 2026-99-99": "expected operators such as aten::add.Tensor, got 2026-99-99",
    "- 0x" + "f" * 10_000: "got 0xfff",
    "- 1" + ":59" * 4000: "got 1:59:59",
    "- 1" + ":59" * 4000 + ".5": "got 1:59:59",
    "- &a0 [x]\n" + "".join(f"- &a{i + 1} [*a{i}, *a{i}, *a{i}]\n" for i in range(25)): "got a list, a list",
    "a: &a0 {x: 1}\n"
    + "".join(f"b{i}: &a{i + 1} {{<<: [*a{i}, *a{i}, *a{i}]}}\n" for i in range(25)): "not YAML: could not",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=range(len(WRONG)))
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(text)
    with pytest.raises(YamlError, match=message) as caught:
        selection_of_yaml(path)
    assert str(caught.value).startswith(str(path))
