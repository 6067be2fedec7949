"""Single operators of the VM beside torch's: `check("aten::add.Tensor", x, y)` calls both with the same arguments and compares
everything that can be seen: results, dtypes, shapes, and what in-place operators wrote into their arguments.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from penlight import _runtime
from penlight.build.model_selection import selection_of_calls
from penlight.build.selection import Selection
from penlight.ir.types import DTYPES

_TORCH = {"f32": torch.float32, "f16": torch.float16, "f64": torch.float64, "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16,
          "i32": torch.int32, "i64": torch.int64, "bool": torch.bool, "bf16": torch.bfloat16}  # fmt: skip
_CODES = {code: _TORCH[name] for name, (code, _) in DTYPES.items()}
_NUMBERS = {dtype: code for code, dtype in _CODES.items()}
_QUANTIZED = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
_operators = _runtime.Operators()
_operators.create(1, 0)
_traces: dict[str, tuple[Any, Selection]] = {}  # what an operator used in all calls so far, and what it may use


class OperatorError(Exception):
    pass


def run(name: str, *args: Any) -> Any:
    """Calls an operator of the VM; torch tensors in and out."""
    return run_keeping(name, *args)[0]


def attempt(name: str, *args: Any) -> None:
    """The same without a look at what was used or came out: for tests that call by the hundred thousand."""
    problem, _, _ = _operators.run(name, [_to_vm(a) for a in args])
    if problem:
        raise OperatorError(problem["message"])


def run_keeping(name: str, *args: Any) -> tuple[Any, list[Any]]:
    """The result, and the arguments after the call: lists and dicts go in as copies, so changes in place show here only."""
    problem, results, after = call(name, args, keep=True)
    if problem:
        raise OperatorError(problem["message"])
    made = [_from_vm(r) for r in results]
    return made[0] if len(made) == 1 else tuple(made), [_from_vm(a) for a in after]


def call(name: str, args: Sequence[Any], **options: bool) -> tuple[Any, list[Any], list[Any]]:
    """What the extension gives. What the operator used must be what a library built for it has."""
    if name not in _traces:
        _traces[name] = _runtime.Trace(), selection_of_calls([name])
    trace, needs = _traces[name]
    assert _operators.set_trace(trace) is None
    called = _operators.run(name, [_to_vm(a) for a in args], **options)
    lost = [key for key in trace.kernels if not needs.has_key(key)] + [
        op for op in trace.operators if not needs.has_operator(op)
    ]
    assert not lost, f"{name}: a library for it would lack {', '.join(lost)}"
    return called


def _to_vm(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_quantized:
        stored = value.int_repr()
        if value.qscheme() == torch.per_tensor_affine:
            return _runtime.TensorValue(stored, _NUMBERS[stored.dtype], -1, [value.q_scale()], [value.q_zero_point()])
        scales, zeros = value.q_per_channel_scales().tolist(), value.q_per_channel_zero_points().tolist()
        return _runtime.TensorValue(stored, _NUMBERS[stored.dtype], value.q_per_channel_axis(), scales, zeros)
    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        return _runtime.TensorValue(value.view(torch.int16), _NUMBERS[torch.bfloat16])
    if isinstance(value, list):
        return [_to_vm(v) for v in value]
    if isinstance(value, tuple):
        return tuple(_to_vm(v) for v in value)
    if isinstance(value, dict):
        return {k: _to_vm(v) for k, v in value.items()}
    return value


def _from_vm(value: Any) -> Any:
    if isinstance(value, _runtime.TensorValue):
        array = value.array
        if value.dtype == _NUMBERS[torch.bfloat16]:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        made = torch.from_numpy(array)
        if value.axis == -1:
            return torch._make_per_tensor_quantized_tensor(made, value.scales[0], value.zero_points[0])
        if value.axis >= 0:
            scales, zeros = torch.tensor(value.scales, dtype=torch.float64), torch.tensor(value.zero_points)
            return torch._make_per_channel_quantized_tensor(made, scales, zeros, value.axis)
        return made
    if isinstance(value, list):
        return [_from_vm(v) for v in value]
    if isinstance(value, tuple):
        return tuple(_from_vm(v) for v in value)
    if isinstance(value, dict):
        return {k: _from_vm(v) for k, v in value.items()}
    return value


def torch_run(name: str, *args: Any) -> Any:
    """The same call in torch, also for operators that only TorchScript has."""
    base, _, overload = name.partition(".")
    schema = torch._C._get_schema(base, overload)
    named = {a.name: v for a, v in zip(schema.arguments, args, strict=False) if a.kwarg_only}
    return torch._C._get_operation_overload(base, overload)[0](*args[: len(args) - len(named)], **named)


def check(name: str, *args: Any, tolerance: float = 0.0, layout: bool = False) -> Any:
    """Compares a call with torch's; `tolerance` is relative to the largest finite |y|. `layout`: strides too, and which of the
    arguments' memory results lie in. Returns the result."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    expected = torch_run(name, *theirs)
    got = run(name, *ours)
    if layout:
        compare_layout(got, expected, _tensors(ours), _tensors(theirs), f"{name}: result")
    compare(got, expected, tolerance, f"{name}: result")
    compare(list(ours), list(theirs), tolerance, f"{name}: arguments after the call")
    return got


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def compare_layout(got: Any, expected: Any, ours: list[torch.Tensor], theirs: list[torch.Tensor], where: str) -> None:
    """Strides, and the place of each result in the memory of the arguments, if it lies in there."""
    for i, (g, e) in enumerate(zip(_tensors(got), _tensors(expected), strict=True)):
        if e.numel() == 0:
            continue
        seen = [(a, b) for a, b, size in zip(g.stride(), e.stride(), e.shape, strict=True) if size > 1]
        assert all(a == b for a, b in seen), (
            f"{where} {i}: strides {g.stride()} instead of {e.stride()} of {tuple(e.shape)}"
        )
        for mine, theirs_of_it in zip(ours, theirs, strict=True):
            if mine.numel() == 0:
                continue
            place = e.data_ptr() - theirs_of_it.data_ptr()
            shares = e.untyped_storage().data_ptr() == theirs_of_it.untyped_storage().data_ptr()
            if shares:
                assert g.data_ptr() - mine.data_ptr() == place, f"{where} {i}: is no view where torch's is one"
            else:
                span = mine.untyped_storage()
                inside = span.data_ptr() <= g.data_ptr() < span.data_ptr() + span.nbytes()
                assert not inside, f"{where} {i}: is a view where torch's is none"


def compare(got: Any, expected: Any, tolerance: float, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert isinstance(got, torch.Tensor), f"{where}: a {type(got).__name__} instead of a tensor"
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (
            f"{where}: {got.dtype} {tuple(got.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
        )
        if expected.is_quantized:
            assert got.qscheme() == expected.qscheme(), where
            if expected.qscheme() == torch.per_tensor_affine:
                assert (got.q_scale(), got.q_zero_point()) == (expected.q_scale(), expected.q_zero_point()), where
            got, expected = got.int_repr(), expected.int_repr()
        a, b = got.double(), expected.double()
        finite = b[torch.isfinite(b)]
        limit = tolerance * float(finite.abs().max()) if finite.numel() else 0.0
        assert torch.allclose(a, b, rtol=0.0, atol=limit, equal_nan=True), (
            f"{where}: off by {float((a - b).nan_to_num().abs().max())}, {limit} allowed"
        )
        return
    if isinstance(expected, (list, tuple)) and not isinstance(got, (list, tuple)):
        expected = expected[0] if len(expected) == 1 else expected
    assert type(got) is type(expected) or (isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple))), (
        f"{where}: {got!r} instead of {expected!r}"
    )
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), f"{where}: {len(got)} instead of {len(expected)}"
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            compare(g, e, tolerance, f"{where}[{i}]")
    elif isinstance(expected, dict):
        assert list(got) == list(expected), f"{where}: keys {list(got)} instead of {list(expected)}"
        for key in expected:
            compare(got[key], expected[key], tolerance, f"{where}[{key!r}]")
    elif isinstance(expected, float) and torch.tensor([got, expected]).tolist() == [got, expected]:
        # Taken out of an f32 tensor, as near as the tensor is; a float that was computed as such must be the very one.
        assert got == pytest.approx(expected, rel=tolerance, abs=0.0, nan_ok=True), (
            f"{where}: {got!r} instead of {expected!r}"
        )
    else:
        assert got == expected or (got != got and expected != expected), f"{where}: {got!r} instead of {expected!r}"
