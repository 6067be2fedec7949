"""What a user gives to calibrate with, as flat inputs of the graph; what is wrong with it is told in words.

A batch is one input, a tuple or list of them, or a dict of named ones: torch tensors or numpy arrays. Where the model takes one image at a
time and batches have many, they are taken apart.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from penlight.errors import CalibrationWarning, InputError, QuantizationError
from penlight.ir import containers
from penlight.ir.containers import settled
from penlight.ir.graph import Method
from penlight.ir.types import DTYPES, TensorType

MOST_BATCHES = 512  # after that, calibration takes time and finds nothing new


class Call(NamedTuple):
    """A batch as arguments of a call, and its number among all that were given: some may be passed over."""

    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def read_calls(batches: Iterable[Any], most: int = MOST_BATCHES) -> list[Call]:
    """Each batch as arguments of a call, of the first `most` that are not empty; a warning for those that are."""
    if isinstance(batches, (str, bytes, Mapping)) or not isinstance(batches, Iterable):
        raise QuantizationError(
            f"batches: expected a list, a DataLoader or another iterable of calibration batches, got {type(batches).__name__}"
        )
    if hasattr(batches, "shape"):
        raise QuantizationError(
            f"batches: expected an iterable of batches, got one tensor of shape {list(batches.shape)}: put it into a list, [x]"
        )
    calls: list[Call] = []
    empty: list[Call] = []
    for number, batch in enumerate(islice(batches, MOST_BATCHES)):
        settled(batch)
        call = _call(number, batch)
        (empty if _is_empty(call) else calls).append(call)
        if len(calls) == most:
            break
    if empty and not calls:
        shapes = ", ".join(str(list(x.shape)) for x in _arrays((empty[0].args, empty[0].kwargs)))
        raise QuantizationError(
            f"batches: none of {len(empty)} has any numbers in it; in batch {empty[0].number} inputs have the shape {shapes}. Expected inputs like"
            " those that the model will see"
        )
    if empty:
        warnings.warn(
            CalibrationWarning(
                f"{len(empty)} of {len(empty) + len(calls)} calibration batches have no numbers in them, and are passed over: the first is"
                f" batch {empty[0].number}"
            ),
            stacklevel=4,
        )
    return calls


def _call(number: int, batch: Any) -> Call:
    if batch is None or isinstance(batch, (str, bytes, os.PathLike)):
        what = "None" if batch is None else f"{type(batch).__name__} {str(batch)[:80]!r}"
        raise QuantizationError(
            f"calibration batch {number}: expected tensors or arrays (one, a tuple of them, or a dict of named ones), got {what}"
            f"{'' if batch is None else '; read it, and prepare it as the model takes it'}"
        )
    if isinstance(batch, Mapping):
        return Call(number, (), dict(batch))
    return Call(number, tuple(batch) if isinstance(batch, (tuple, list)) else (batch,), {})


def _is_empty(call: Call) -> bool:
    """Nothing is in any of its arrays; one that is empty beside others may be meant (a cache before the first word)."""
    sizes = [math.prod(x.shape) for x in _arrays((call.args, call.kwargs)) if len(x.shape)]
    return bool(sizes) and not any(sizes)


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, np.ndarray) or hasattr(value, "detach"):  # torch need not be there
        yield value


def flat_batches(calls: Sequence[Call], method: Method) -> list[list[np.ndarray]]:
    """The inputs of the graph for each batch, checked against their types; warnings for data that tell little."""
    types = [value.tensor for value in method.graph.inputs]
    names = [value.name for value in method.graph.inputs]
    if any(type.dtype == "bf16" for type in types):  # which numpy lacks
        raise QuantizationError(
            "a model whose inputs are bf16 cannot be calibrated: give it, and its data, in f32 (model.float())"
        )
    found: list[list[np.ndarray]] = []
    for number, args, kwargs in calls:
        try:
            leaves = [_array(leaf) for leaf in containers.flatten(method.input_spec, args, kwargs)]
        except InputError as e:
            raise QuantizationError(f"calibration batch {number}: {e}{labels_hint(args, len(types))}") from None
        if len(leaves) != len(types):
            raise QuantizationError(
                f"calibration batch {number}: expected {len(types)} inputs ({', '.join(names)}), got"
                f" {len(leaves)}{labels_hint(args, len(types))}"
            )
        found += _taken_apart(leaves, types, names, number)
    _warn(found, types, names)
    return found


def _array(leaf: Any) -> np.ndarray:
    return np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)


def count_examples(batches: Sequence[Sequence[np.ndarray]]) -> int:
    """By the first dim of the first input; a batch without one is one example."""
    return sum(leaves[0].shape[0] if leaves and leaves[0].ndim else 1 for leaves in batches)


def labels_hint(args: tuple[Any, ...], expected: int) -> str:
    if len(args) <= expected:
        return ""
    return ". A loader that gives (images, labels): ((x,) for x, _ in loader)"


def _taken_apart(
    leaves: list[np.ndarray], types: list[TensorType], names: list[str], number: int
) -> list[list[np.ndarray]]:
    """The batch, or, where the model takes fewer at a time, as many as it takes."""
    single = [t.shape[0] if t.rank and isinstance(t.shape[0], int) else None for t in types]
    takes, has = single[0] if single else None, leaves[0].shape[0] if leaves and leaves[0].ndim else None
    if takes and has and has > takes and has % takes == 0 and all(
        s == takes and x.ndim and x.shape[0] == has for s, x in zip(single, leaves, strict=True)
    ):  # fmt: skip
        parts = [[x[i : i + takes] for x in leaves] for i in range(0, has, takes)]
    else:
        parts = [leaves]
    for part in parts:
        for name, type, x in zip(names, types, part, strict=True):
            _check(name, type, x, number)
    return parts


def _check(name: str, type: TensorType, x: np.ndarray, number: int) -> None:
    where = f"calibration batch {number}, input {name}"
    if x.dtype != DTYPES[type.dtype][1]:
        raise QuantizationError(
            f"{where}: expected {type.dtype} ({DTYPES[type.dtype][1]}), got {x.dtype}; prepare it as the model's inputs are"
        )
    wrong = [i for i, (d, n) in enumerate(zip(type.shape, x.shape, strict=False)) if isinstance(d, int) and d != n]
    if x.ndim != type.rank or wrong:
        advice = "other sizes need dynamic_shapes=, or example_inputs= of that shape"
        if x.ndim == type.rank and wrong == [0]:  # what a DataLoader gives last
            advice = "batches of several sizes are taken apart where example_inputs= has a batch of one; or leave the odd one out (drop_last=True)"
        raise QuantizationError(
            f"{where}: expected shape {[str(d) for d in type.shape]}, got {[str(d) for d in x.shape]}; ".replace(
                "'", ""
            )
            + advice
        )
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise QuantizationError(
            f"{where}: expected finite numbers, got {int(np.isnan(x).sum())} NaN and {int(np.isinf(x).sum())} infinite"
        )


def _warn(found: Sequence[Sequence[np.ndarray]], types: Sequence[TensorType], names: Sequence[str]) -> None:
    """Blank images tell nothing; beside other inputs a constant one may be meant (a mask of ones)."""
    floats = [i for i, type in enumerate(types) if type.dtype == "f32" and any(leaves[i].size > 1 for leaves in found)]
    blank = {i: [leaves[i].size > 1 and leaves[i].min() == leaves[i].max() for leaves in found] for i in floats}
    wholly = [i for i in floats if all(blank[i])]
    if floats and wholly == floats:
        name, value = names[floats[0]], found[0][floats[0]].flat[0]
        raise QuantizationError(
            f"calibration data for input {name} is constant: all its values are {value:g} in batch 0, and equal in every other. Expected inputs like"
            " those that the model will see; are the images read and prepared rightly?"
        )
    for index in floats:
        if count := sum(blank[index]):
            warnings.warn(
                CalibrationWarning(
                    f"{count} of {len(found)} calibration batches are constant in input {names[index]} (all values equal): such data tells nothing of"
                    " its range"
                ),
                stacklevel=8,
            )
    if count_examples(found) == 1:
        warnings.warn(
            CalibrationWarning(
                "calibrated on one example only: values that others have may be cut off. Give 16 to 200, as different as the model's inputs are"
            ),
            stacklevel=8,
        )
