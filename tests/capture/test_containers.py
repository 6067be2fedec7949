"""Specs of arguments and results: JSON round trip, flattening by Python's rules, errors in words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from penlight.errors import CaptureError, InputError
from penlight.ir.containers import flatten, from_treespec, leaf_names, unflatten

Point = namedtuple("Point", "x y")
A, B, C = (np.full((2,), i) for i in range(3))
SPEC = {
    "args": [0, {"dict": {"boxes": {"list": [1, 2]}, "mode": {"const": "fast"}}}],
    "kwargs": {"scale": {"const": 0.5}, "mask": {"none": True}},
    "names": ["image", "hints", "scale", "mask"],
}
HINTS = {"boxes": [B, C], "mode": "fast"}


@dataclass
class Detection:
    boxes: Any
    scores: Any


torch.export.register_dataclass(Detection)


@pytest.mark.parametrize(
    "value",
    [
        1,
        (1, [2, {"a": 3, "b": ()}]),
        Point(1, (2, 3)),
        OrderedDict(b=1, a=2),
        {3: 1, "x": 2},
        {"z": 1, "a": [2, None]},
    ],
    ids=str,
)
def test_unflatten_gives_back_what_torch_flattened(value: Any) -> None:
    leaves, treespec = pytree.tree_flatten(value)
    spec = json.loads(json.dumps(from_treespec(treespec, list(range(len(leaves))))))
    back = unflatten(spec, leaves)
    assert back == value
    assert type(back).__name__ == type(value).__name__


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Detection(1, 2), {"boxes": 1, "scores": 2}),
        (defaultdict(list, a=1, b=2), {"a": 1, "b": 2}),
        (torch.Size([4, 5]), (4, 5)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_has_no_form_of_its_own_becomes_the_nearest_one(value: Any, expected: Any) -> None:
    leaves, treespec = pytree.tree_flatten(value)
    assert unflatten(from_treespec(treespec, list(range(len(leaves)))), leaves) == expected


def test_results_with_field_names_keep_them() -> None:
    leaves, treespec = pytree.tree_flatten(torch.max(torch.eye(2), 1))
    result = unflatten(from_treespec(treespec, [0, 1]), leaves)
    assert result._fields == ("values", "indices")
    assert result.values is leaves[0]


def test_constants_and_sizes_come_back() -> None:
    spec = {"tuple": [{"none": True}, {"const": 7}, {"const": "hi"}, {"dim": "n * 2 + 1"}, 0, 0]}
    assert unflatten(spec, ["t"], {"n": 5}) == (None, 7, "hi", 11, "t", "t")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((A, HINTS), {"scale": 0.5, "mask": None}),
        ((A, HINTS), {}),  # constants may be left out: there is only one choice
        ((A,), {"hints": HINTS}),
        ((), {"hints": HINTS, "image": A}),
        ((A, HINTS, 0.5), {}),  # keywords of the captured call, now in their positions
        ((A, {"mode": "fast", "boxes": (B, C)}, 0.5, None), {}),
    ],
)
def test_arguments_bind_as_in_python(args: Any, kwargs: Any) -> None:
    assert [x is y for x, y in zip(flatten(SPEC, args, kwargs), (A, B, C), strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, ["'image' is missing", "image: tensor", "hints: dict(boxes: list(tensor, tensor), mode: 'fast')"]),
        ((A,), {}, ["'hints' is missing"]),
        ((A, HINTS, 0.5, None, 1), {}, ["5 positional"]),
        ((A, HINTS), {"image": A}, ["given twice: image"]),
        ((A, HINTS), {"size": 3}, ["no argument named 'size'"]),
        ((3, HINTS), {}, ["'image' must be a tensor", "int 3"]),
        ((A, HINTS), {"scale": 2.0}, ["'scale' was 0.5", "fixed", "float 2.0"]),
        ((A, HINTS), {"mask": A}, ["'mask' was None", "ndarray"]),
        ((A, {**HINTS, "mode": "slow"}), {}, ["'hints.mode' was 'fast'", "str 'slow'"]),
        ((A, {"boxes": [B, C]}), {}, ["'hints' must have the keys boxes, mode", "missing: mode"]),
        ((A, {**HINTS, "extra": 1}), {}, ["unknown: extra"]),
        ((A, {**HINTS, "boxes": [B]}), {}, ["'hints.boxes' must be a list of 2", "a list of 1"]),
        ((A, [B, C]), {}, ["'hints' must be a dict", "a list of 2"]),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else None,
)
def test_errors_say_where_and_what(args: Any, kwargs: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        flatten(SPEC, args, kwargs)
    for word in words:
        assert word in str(caught.value)


def test_one_is_not_true() -> None:
    spec = {"args": [{"const": True}], "kwargs": {}, "names": ["flag"]}
    assert flatten(spec, (True,)) == []
    with pytest.raises(InputError, match="flag"):
        flatten(spec, (1,))


def test_a_dataclass_may_be_passed_where_a_dict_was_captured() -> None:
    spec = {"args": [{"dict": {"boxes": 0, "scores": 1}}], "kwargs": {}, "names": ["d"]}
    leaves = flatten(spec, (Detection(A, B),))
    assert leaves[0] is A
    assert leaves[1] is B


def test_leaf_names_are_readable() -> None:
    assert leaf_names(SPEC) == ["image", "hints.boxes[0]", "hints.boxes[1]"]
    assert leaf_names({"dict": {"out": 0, "aux": {"tuple": [1]}}}) == ["out", "aux[0]"]
    assert leaf_names(0) == [""]


def test_keys_that_json_cannot_keep_are_refused() -> None:
    _, treespec = pytree.tree_flatten({(1, 2): 3})
    with pytest.raises(CaptureError, match="no names"):
        from_treespec(treespec, [0])


def test_containers_need_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import penlight.ir.containers, penlight.ops.emitter, penlight.model"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
