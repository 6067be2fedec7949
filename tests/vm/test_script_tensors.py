"""Between tensors and values: what code asks a tensor, numbers out of tensors, tensors out of lists."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.vm.check import _TORCH, OperatorError, check, compare, run, run_keeping, torch_run
from tests.vm.scripted import same

DTYPES = list(_TORCH.values())
NUMBERS = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
           torch.float64: 7, torch.bool: 11, torch.bfloat16: 15}  # fmt: skip


def _tensors() -> list[torch.Tensor]:
    x = torch.arange(24).reshape(2, 3, 4)
    return [
        x, x.permute(2, 0, 1), x[:, 1:, ::2], x[:1].expand(5, 3, 4), torch.tensor(3.0), torch.zeros(0, 3), torch.zeros(1, 2, 1, 1),
        torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.rand(2, 3, 2, 4, 5).to(memory_format=torch.channels_last_3d),
        torch.rand(2, 1, 4, 4), x[0, 1:], torch.rand(1, 3, 1, 1)[:, :2],
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(_tensors())))
def test_queries(number: int) -> None:
    t = _tensors()[number]
    for name in (
        "dim",
        "numel",
        "size",
        "element_size",
        "is_contiguous",
        "is_floating_point",
        "is_complex",
        "is_signed",
    ):
        check(f"aten::{name}", t)
    assert run("aten::ndimension", t) == t.dim()
    for name in (
        "is_cuda",
        "is_sparse",
        "is_mkldnn",
        "is_quantized",
        "requires_grad",
        "is_meta",
        "is_vulkan",
        "itemsize",
        "nbytes",
    ):
        check(f"prim::{name}", t)
    if t.numel() and 1 not in t.shape and 0 not in t.stride():
        check("aten::stride", t)
    for d in range(-t.dim(), t.dim()):
        check("aten::size.int", t, d)
        if t.numel() and t.shape[d] > 1:
            check("aten::stride.int", t, d)
    for wrong in (t.dim(), -t.dim() - 1):
        for name in ("aten::size.int", "aten::stride.int"):
            with pytest.raises(OperatorError):
                run(name, t, wrong)
    for code, memory_format in ((0, torch.contiguous_format), (2, torch.channels_last), (3, torch.channels_last_3d)):
        assert run("aten::is_contiguous.memory_format", t, code) is t.is_contiguous(memory_format=memory_format), code
    with pytest.raises(OperatorError, match="memory format"):
        run("aten::is_contiguous.memory_format", t, 7)
    if t.dim():
        check("aten::len.Tensor", t)
    else:
        with pytest.raises(OperatorError, match="0-d tensor"):
            run("aten::len.Tensor", t)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    t = torch.ones(2, dtype=dtype)
    assert run("prim::dtype", t) == NUMBERS[dtype]
    for name in ("aten::is_floating_point", "aten::is_signed", "aten::element_size"):
        check(name, t)
    assert run("prim::device", t) == "cpu"
    assert run("prim::layout", t) == 0
    assert run("prim::is_cpu", t) is True
    assert run("aten::get_device", t) == -1


def test_quantized() -> None:
    for dtype, code in ((torch.quint8, 13), (torch.qint8, 12), (torch.qint32, 14)):
        q = torch.quantize_per_tensor(torch.tensor([0.5]), 0.25, 3, dtype)
        assert run("prim::dtype", q) == code
        assert run("prim::is_quantized", q) is True
        assert run("aten::item", q) == 0.5
        assert run("aten::size", q) == [1]


VALUES = [0, 1, -3, 2.5, -2.5, 250, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_in_tensors(dtype: torch.dtype) -> None:
    for value in VALUES:
        if not dtype.is_floating_point and not math.isfinite(value):
            continue
        t = torch.tensor(value).to(dtype)
        for name in (
            "aten::item",
            "aten::ScalarImplicit",
            "aten::Float.Tensor",
            "aten::Bool.Tensor",
            "aten::is_nonzero",
        ):
            check(name, t)
        if math.isfinite(value):
            check("aten::Int.Tensor", t)
        else:
            with pytest.raises(OperatorError, match="without overflow"):
                run("aten::Int.Tensor", t)
    check("aten::Int.Tensor", torch.ones(1, 1, 1, dtype=dtype))
    if dtype == torch.int64:
        check("aten::IntImplicit", torch.tensor(-(2**63)))
    if dtype == torch.float32:
        check("aten::FloatImplicit", torch.tensor(0.1))
    for name in ("aten::item", "aten::Int.Tensor", "aten::Float.Tensor", "aten::Bool.Tensor"):
        for wrong in (torch.ones(2, dtype=dtype), torch.ones(0, dtype=dtype)):
            with pytest.raises(OperatorError, match="one element"):
                run(name, wrong)


@pytest.mark.parametrize("value", [0, -5, 2**63 - 1, 2.5, -1 / 3, math.nan, math.inf, True, False])
def test_tensors_of_numbers(value: Any) -> None:
    kind = type(value).__name__
    check("prim::NumToTensor.bool" if kind == "bool" else "prim::NumToTensor.Scalar", value)
    compare(
        run("prim::NumToTensor", value),
        torch.tensor(value, dtype=torch.float64 if kind == "float" else None),
        0.0,
        "NumToTensor",
    )
    for function in ("tensor", "as_tensor"):
        check(f"aten::{function}.{kind}", value)
        for dtype in DTYPES:
            if (
                math.isfinite(value)
                and not (abs(value) > 200 and not dtype.is_floating_point)
                and not (value < 0 and dtype == torch.uint8)
            ):
                expected = torch._C._get_operation_overload(f"aten::{function}", kind)[0](value, dtype=dtype)
                compare(
                    run(f"aten::{function}.{kind}", value, NUMBERS[dtype], None), expected, 0.0, f"{function} {dtype}"
                )


LISTS: list[tuple[str, Any]] = [
    ("List[int]", [1, -2, 3]),
    ("List[float]", [0.1, -2.5, 1e30, math.nan]),
    ("List[bool]", [True, False]),
    ("List[List[int]]", [[1, 2], [3, 4], [5, 6]]),
    ("List[List[float]]", [[0.5], [1.5]]),
    ("List[List[List[bool]]]", [[[True, False]], [[False, False]]]),
    ("List[List[int]]", [[1, 2], [3]]),
    ("List[List[int]]", [[1, 2], []]),
]


@pytest.mark.parametrize(("kind", "value"), LISTS)
def test_tensors_of_lists(kind: str, value: Any) -> None:
    same("aten::tensor", f"l: {kind}", "torch.tensor(l)", value)
    same("aten::as_tensor.list", f"l: {kind}", "torch.as_tensor(l)", value)
    for dtype in (torch.float32, torch.float64, torch.int32, torch.bool, torch.float16):
        if dtype == torch.int32 and "float" in kind:
            value = [v for v in value if isinstance(v, list) or abs(v) < 1e9]
        body = f"torch.tensor(l, dtype={dtype})"
        same("aten::tensor", f"l: {kind}", body, value, call=(value, NUMBERS[dtype]))


def test_tensors_of_odd_lists() -> None:
    compare(run("aten::tensor", []), torch.tensor([]), 0.0, "empty")
    compare(run("aten::tensor", [], NUMBERS[torch.int64]), torch.tensor([], dtype=torch.int64), 0.0, "empty ints")
    compare(run("aten::tensor", [[], []]), torch.tensor([[], []]), 0.0, "empty rows")
    compare(run("aten::_list_to_tensor", [3, 4]), torch_run("aten::_list_to_tensor", [3, 4]), 0.0, "_list_to_tensor")
    compare(run("aten::_list_to_tensor", []), torch_run("aten::_list_to_tensor", []), 0.0, "_list_to_tensor")
    deep: Any = 1
    for _ in range(9):
        deep = [deep]
    for wrong, words in (
        ([1, 2.5], "one kind of number"), (["a"], "lists of ints"), ([[1], 2], "nested evenly"), ([1, [2]], "one kind"), (deep, "8 deep"),
        ([None], "lists of ints"),
    ):  # fmt: skip
        with pytest.raises(OperatorError) as raised:
            run("aten::tensor", wrong)
        assert words in str(raised.value)
    with pytest.raises(OperatorError, match="dtype"):
        run("aten::tensor", [1], 9)  # complex64


def test_as_tensor_of_a_tensor() -> None:
    x = torch.rand(2, 3)
    kept = run("aten::as_tensor", x)
    kept[0, 0] = 7.0
    assert x[0, 0] == 7.0  # the same memory
    check("aten::as_tensor", x)
    compare(run("aten::as_tensor", x, NUMBERS[torch.float64]), x.double(), 0.0, "as_tensor")
    for name in ("aten::cpu", "prim::data"):
        run(name, x)[0, 1] = 9.0
        assert x[0, 1] == 9.0, name
        x[0, 1] = 0.0


@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        ("List[int]", torch.arange(3)),
        ("List[List[int]]", torch.arange(6).reshape(2, 3).t()),
        ("List[List[float]]", torch.rand(3, 4)[:, ::2]),
        ("List[float]", torch.rand(3).double()),
        ("List[bool]", torch.tensor([True, False])),
        ("List[List[List[int]]]", torch.zeros(2, 0, 3, dtype=torch.int64)),
        ("int", torch.tensor(5)),
        ("float", torch.tensor(2.5)),
        ("List[int]", torch.arange(3).int()),
        ("List[int]", torch.rand(3)),
        ("List[float]", torch.rand(3, 3)),
        ("List[bool]", torch.arange(3)),
    ],
)
def test_tolist(kind: str, tensor: torch.Tensor) -> None:
    element = {"int": 0, "float": 1, "bool": 2}[kind.replace("List[", "").rstrip("]")]
    call = (tensor, kind.count("List"), element)
    same("prim::tolist", "x: Tensor", f"torch.jit.annotate({kind}, x.tolist())", tensor, call=call)


def test_tolist_beyond_torch() -> None:
    assert run("prim::tolist", torch.tensor([0.5, 2]).half(), 1, 1) == [0.5, 2.0]
    with pytest.raises(OperatorError, match="types 0 to 2"):
        run("prim::tolist", torch.ones(1), 1, 3)


def test_arguments_are_checked() -> None:
    for name in ("aten::size", "prim::dtype", "aten::item"):
        with pytest.raises(OperatorError, match="a Tensor"):
            run(name, [1])
    assert run_keeping("aten::dim", torch.zeros(2, 2))[0] == 2
