"""Folds batch normalizations with constant parameters into the convolutions before them, in register code.

    r2 = aten::conv2d(r1, #w, None, …)                       r2 = aten::conv2d(r1, #w', #b', …)
    r3 = aten::batch_norm(r2, #gamma, #beta, …)     ->       r3 = move(r2)

passes/fold_batch_norm.py does this for graphs. It is done here too, before anything is planned, so that a plan and the code behind
it have the same weights, which the file then holds once. Runs after freeze.py, which makes parameters constants. A linear layer keeps
its batch norm: that one normalizes the last dim only if the input has rank 2, which code does not tell. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penlight.capture.script.dataflow import READS_SHAPE, following, reads, short_name
from penlight.ir.array_map import as_bytes
from penlight.ir.batch_norm import into_weights, scale_and_shift
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import ScriptTensor, Storage, tensors_in

_PLAIN = ("conv1d", "conv2d", "conv3d", "_convolution_mode")
_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_EITHER = ("_convolution", "convolution")
_UNKNOWN = object()


def fold_batch_norm(script: Script) -> int:
    """Folds what it can, in place; how many."""
    touched = _touched(script)
    pairs = [pair for function in script.functions.values() for pair in _pairs(function)]
    done: dict[Any, tuple[ScriptTensor, ScriptTensor]] = {}  # a layer that is called twice has one weight
    count = sum(_fold(script, conv, norm, touched, done) for conv, norm in pairs)
    script.forget_unused_constants()
    return count


def _is_convolution(a: Action) -> bool:
    return a.op == "op" and short_name(a.target) in (*_PLAIN, *_TRANSPOSED, *_EITHER)


def _is_batch_norm(a: Action) -> bool:
    return a.op == "op" and short_name(a.target) == "batch_norm"


def _touched(script: Script) -> set[int]:
    """Storages of tensors that anything but a convolution or a batch norm uses: these must keep their numbers."""
    found = set()
    values: list[Any] = [script.module, *(d for function in script.functions.values() for d in function.defaults)]
    for function in script.functions.values():
        for a in function.code:
            updates = _is_batch_norm(a) and _value(script, a, 5) is not False
            if updates or not (_is_batch_norm(a) or _is_convolution(a)):
                values += [script.constants[x.index] for x in a.args if isinstance(x, Const)]
    for tensor, _ in tensors_in(values):
        found.add(id(tensor.storage))
    return found


def _pairs(function: ScriptFunction) -> Iterator[tuple[Action, Action]]:
    """Each convolution with the batch norm that alone reads its result, and reads nothing else. Between them may be branches on the
    result's rank, as scripted modules have them."""
    before: dict[int, list[int]] = {}
    for i in range(len(function.code)):
        for way in following(function.code, i):
            before.setdefault(way, []).append(i)
    for i, conv in enumerate(function.code):
        if _is_convolution(conv) and len(conv.results) == 1:
            j = _only_reader(function, i)
            if j is not None and _reads_only(function, j, i, before):
                yield conv, function.code[j]


def _only_reader(function: ScriptFunction, at: int) -> int | None:
    """Where the result of action `at` goes, through moves: the batch norm, if it is one and nothing else is done with it."""
    found: set[int] = set()
    seen: set[tuple[int, int]] = set()
    waiting = [(way, function.code[at].results[0]) for way in following(function.code, at)]
    while waiting:
        i, held = waiting.pop()
        if (i, held) in seen:
            continue
        seen.add((i, held))
        a = function.code[i]
        ways = following(function.code, i)
        if held in reads(a):
            if a.op == "move":
                waiting += [(way, a.results[0]) for way in ways]
            elif _is_batch_norm(a) and a.args[0] == held and a.args.count(held) == 1:
                found.add(i)
            elif a.op != "drop" and not (a.op == "op" and short_name(a.target) in READS_SHAPE):
                return None
        is_gone = held in a.results or (held in reads(a) and (a.op == "drop" or held >= function.first_slot))
        waiting += [] if is_gone else [(way, held) for way in ways]
    return found.pop() if len(found) == 1 else None


def _reads_only(function: ScriptFunction, at: int, conv: int, before: dict[int, list[int]]) -> bool:
    """Whether all that the batch norm reads comes from this convolution. `before`: from where each action is reached."""
    seen: set[tuple[int, int]] = set()
    waiting: list[tuple[int, Any]] = [(at, function.code[at].args[0])]
    while waiting:
        i, held = waiting.pop()
        if i == 0:
            return False  # an argument of the function, or nothing
        for j in before.get(i, ()):
            a = function.code[j]
            if j == conv or (j, held) in seen:
                continue
            seen.add((j, held))
            if held in a.results:
                if a.op != "move" or not isinstance(a.args[0], int):
                    return False
                waiting.append((j, a.args[0]))
            elif a.op in ("drop", "loop") and held in reads(a):
                return False
            else:
                waiting.append((j, held))
    return True


def _value(script: Script, a: Action, index: int, default: Any = None) -> Any:
    """An argument that is a constant or was left out; else _UNKNOWN."""
    if index >= len(a.args):
        return default
    at = a.args[index]
    return script.constants[at.index] if isinstance(at, Const) else _UNKNOWN


def _fold(script: Script, conv: Action, norm: Action, touched: set[int], done: dict[Any, Any]) -> bool:
    weight, bias = _value(script, conv, 1), _value(script, conv, 2)
    gamma, beta, mean, var, training = (_value(script, norm, i) for i in range(1, 6))
    eps = _value(script, norm, 7)
    given = [t for t in (weight, bias, gamma, beta, mean, var) if t is not None]
    groups = _groups(script, conv)
    if training is not False or not isinstance(eps, float) or groups is None or None in (weight, mean, var):
        return False
    if not all(isinstance(t, ScriptTensor) and t.dtype == "f32" and id(t.storage) not in touched for t in given):
        return False
    w = _outputs_first(weight.array().astype(np.float64), groups)
    if len(weight.shape) < 3 or any(t.shape != (w.shape[0],) for t in given[1:]):
        return False  # a run will say what is wrong
    key = (*(id(t) for t in (weight, bias, gamma, beta, mean, var)), eps, groups)
    if key not in done:
        b = np.zeros(w.shape[0]) if bias is None else bias.array().astype(np.float64)
        affine = [None if t is None else t.array() for t in (gamma, beta)]
        w, b = into_weights(w, b, *scale_and_shift(affine[0], affine[1], mean.array(), var.array(), eps))
        name = weight.name.removesuffix(".weight") + ".bias" if bias is None else bias.name
        done[key] = _as(weight, _outputs_first(w, groups)), _tensor(b, (0,), name)
    conv.args[1:3] = [script.constant(t) for t in done[key]]
    norm.op, norm.target, norm.args = "move", None, norm.args[:1]
    return True


def _groups(script: Script, conv: Action) -> int | None:
    """Of a transposed convolution; 0 of any other; None: not known."""
    name = short_name(conv.target)
    transposed = name in _TRANSPOSED or (name in _EITHER and _value(script, conv, 6))
    groups = _value(script, conv, 6 if name in _TRANSPOSED else 8, 1) if transposed else 0
    return groups if transposed is not _UNKNOWN and isinstance(groups, int) else None


def _outputs_first(w: np.ndarray, groups: int) -> np.ndarray:
    """[Ci, Co / groups, …] of a transposed convolution as [Co, Ci / groups, …]; the same way back; others as they are."""
    if not groups or w.shape[0] % groups:
        return w
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    return split.reshape(-1, *split.shape[2:])


def _as(like: ScriptTensor, array: np.ndarray) -> ScriptTensor:
    """Another weight that lies as this one does: in order, or with channels last."""
    order = sorted(range(array.ndim), key=lambda d: (-like.strides[d], d))
    return _tensor(array, tuple(order), like.name)


def _tensor(array: np.ndarray, order: tuple[int, ...], name: str) -> ScriptTensor:
    flat = np.ascontiguousarray(array.astype(np.float32).transpose(order))
    strides = [0] * array.ndim
    for at, d in enumerate(order):
        strides[d] = flat.strides[at] // flat.itemsize
    return ScriptTensor(Storage(as_bytes(flat), name), "f32", 0, array.shape, tuple(strides), name=name)
