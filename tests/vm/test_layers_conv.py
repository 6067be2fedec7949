"""Convolutions of the VM beside torch's, plain and prepacked, and the weights that the machine keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from penlight import _runtime
from tests.vm.check import OperatorError, _from_vm, check, compare, run
from tests.vm.samples import same_as_torch

R = torch.randn


def _same(name: str, *args: Any, tolerance: float | None = None) -> None:
    """As torch, and as it lies in torch."""
    same_as_torch(name, *args, tolerance=tolerance, layout=True)


def _layouts(x: torch.Tensor) -> list[torch.Tensor]:
    """As it lies, without a batch dim, channels-last, permuted."""
    made = [x, x[0]]
    if x.dim() == 4:
        made += [x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3), x[:, :, ::2]]
    return made


# channels in and out, kernel, stride, padding, dilation, groups
SHAPES = [
    (12, 20, 3, 1, 1, 1, 1),  # gemm
    (3, 20, 3, 2, 1, 1, 1),  # direct
    (12, 12, 3, 1, 1, 1, 12),  # depthwise, of all widths that have a kernel of their own, and another
    (19, 19, 5, 2, 2, 1, 19),
    (19, 19, 7, 1, 3, 1, 19),
    (19, 19, 4, 1, 2, 1, 19),
    (12, 24, 2, 1, 0, 2, 6),  # grouped
    (8, 32, 1, 1, 0, 1, 2),  # 1 x 1 in groups of 16
    (6, 5, 3, 3, 2, 2, 1),
]


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolutions(spatial: int) -> None:
    for ci, co, k, s, p, d, g in SHAPES:
        for dtype in (torch.float32, torch.float64):
            w, b = R(co, ci // g, *[k] * spatial).to(dtype), R(co).to(dtype)
            for x in _layouts(R(2, ci, *(11, 9, 8)[:spatial])):
                args = (x.to(dtype), w, b, [s] * spatial, [p] * spatial, [d] * spatial, g)
                tolerance = 2e-6 if dtype == torch.float32 else 1e-13
                _same(f"aten::conv{spatial}d", *args, tolerance=tolerance)
                for form in ("convolution", "_convolution", "_convolution.deprecated") if x.dim() > spatial + 1 else ():
                    more = {"_convolution": (False, False, False, False), "_convolution.deprecated": (False,) * 3}
                    _same(f"aten::{form}", *args[:6], False, [0] * spatial, g, *more.get(form, ()), tolerance=tolerance)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_transposed(spatial: int) -> None:
    for ci, co, k, s, p, d, g in SHAPES:
        for dtype in (torch.float32, torch.float64):
            for more in (0, 1):
                x, w, b = R(2, ci, *(5, 4, 6)[:spatial]), R(ci, co // g, *[k] * spatial), R(co)
                args = (
                    x.to(dtype),
                    w.to(dtype),
                    b.to(dtype),
                    [s] * spatial,
                    [p] * spatial,
                    [more] * spatial,
                    g,
                    [d] * spatial,
                )
                name = f"aten::conv_transpose{spatial}d" + (".input" if spatial > 1 else "")
                _same(name, *args, tolerance=2e-6 if dtype == torch.float32 else 1e-13)


def test_padding_in_words() -> None:
    for spatial in (1, 2, 3):
        x, w = R(2, 4, *[9] * spatial), R(6, 2, *[4, 3, 2][:spatial])
        for padding in ("same", "valid", "other"):
            for stride in (1, 2):
                _same(
                    f"aten::conv{spatial}d.padding",
                    x,
                    w,
                    None,
                    [stride] * spatial,
                    padding,
                    [2] * spatial,
                    2,
                    tolerance=2e-6,
                )


def test_other_dtypes() -> None:
    x, w = R(1, 4, 6, 6), R(8, 4, 3, 3)
    check("aten::conv2d", x.bfloat16(), w.bfloat16(), None, tolerance=2e-2)
    check("aten::conv2d", x.half(), w.half(), None, tolerance=2e-3)
    whole = torch.randint(-9, 9, (1, 4, 6, 6)), torch.randint(-9, 9, (8, 2, 3, 3)), torch.randint(-9, 9, (8,))
    check("aten::conv2d", *whole, [1, 1], [1, 1], [1, 1], 2)


def test_channels_last_stays() -> None:
    w = R(128, 8, 3, 3)  # kernels leave gaps between pixels of 512 bytes; results must not have them
    for x in (R(2, 8, 6, 5).contiguous(memory_format=torch.channels_last), R(2, 8, 6, 5)):
        check("aten::conv2d", x, w, None, tolerance=2e-6, layout=True)
        check("aten::max_pool2d", x, [2, 2], tolerance=0.0, layout=True)
        check(
            "aten::batch_norm", x, None, None, R(8), torch.rand(8), False, 0.1, 1e-5, True, tolerance=2e-6, layout=True
        )
        check("aten::upsample_nearest2d", x, [9, 9], layout=True)


WRONG: list[tuple[Any, ...]] = [
    (R(2, 4, 5, 5), R(6, 3, 3, 3), None),  # channels
    (R(2, 4, 5, 5), R(6, 4, 3, 3), R(5)),  # bias
    (R(2, 4, 5, 5), R(6, 4, 3), None),
    (R(4, 5), R(6, 4, 3, 3), None),
    (R(2, 4, 5, 5), R(6, 4, 7, 7), None),  # larger than the image
    (R(2, 4, 5, 5), R(6, 4, 3, 3), None, [0, 1]),
    (R(2, 4, 5, 5), R(6, 4, 3, 3), None, [1, 1], [-1, 0]),
    (R(2, 4, 5, 5), R(6, 4, 3, 3), None, [1, 1, 1]),
    (R(2, 4, 5, 5), R(6, 4, 3, 3), None, [1], [0], [1], 3),
    (R(2, 4, 5, 5), R(6, 4, 3, 3), None, [1], [0], [1], 0),
    (R(2, 4, 5, 5), R(6, 4, 3, 3).double(), None),
    (R(2, 4, 5, 5), R(6, 4, 3, 3), None, [2**62, 1], [2**62, 2**62], [2**62, 1]),
    (R(2, 4, 5, 5) > 0, R(6, 4, 3, 3) > 0, None),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    for dtype in (torch.float32, torch.float64):
        args = [a.to(dtype) if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a for a in WRONG[number]]
        if number == 10 and dtype == torch.float64:
            continue
        with pytest.raises(OperatorError):
            run("aten::conv2d", *args)


# ---- weights that never change --------------------------------------------------------------------------------------


def _operators() -> Any:
    made = _runtime.Operators()
    made.create(1, 0)
    return made


def _call(operators: Any, name: str, *args: Any) -> torch.Tensor:
    problem, results = operators.run(name, list(args))[:2]
    assert problem is None, problem
    return _from_vm(results[0])


def test_constants_are_packed_once() -> None:
    operators, x = _operators(), R(2, 12, 7, 6)
    for groups in (1, 3, 12):
        w = R(24, 12 // groups, 3, 3)
        held = _runtime.HeldValue(w, True)
        for _ in range(3):
            got = _call(operators, "aten::conv2d", x, held, None, [1, 1], [0, 0], [1, 1], groups)
            compare(got, F.conv2d(x, w, groups=groups), 2e-6, "conv2d")
    w = R(9, 12)
    held = _runtime.HeldValue(w, True)
    for _ in range(2):
        compare(_call(operators, "aten::linear", R(0, 12), held, None), R(0, 9), 0.0, "no rows")
        rows = R(5, 12)
        compare(_call(operators, "aten::linear", rows, held, R(9) * 0), F.linear(rows, w), 2e-6, "linear")
        columns = R(3, 4, 9)
        compare(_call(operators, "aten::matmul", columns, held), columns @ w, 2e-6, "matmul")
        compare(_call(operators, "aten::addmm", R(12) * 0, columns[0], held), columns[0] @ w, 2e-6, "addmm")


def test_a_constant_that_is_written_after_all() -> None:
    """An in-place operator moves the constant to memory of its own: what was packed before must not be used again."""
    operators, x, w = _operators(), R(2, 12), R(9, 12)
    held = _runtime.HeldValue(w.clone(), True)
    compare(_call(operators, "aten::linear", x, held, None), F.linear(x, w), 2e-6, "before")
    operators.run("aten::mul_.Scalar", [held, 2.0])
    compare(_call(operators, "aten::linear", x, held, None), F.linear(x, 2 * w), 2e-6, "after")


# ---- prepacked -------------------------------------------------------------------------------------------------------

LIMITS = [(None, None), (0.0, None), (0.0, 6.0), (-0.5, 0.25), (None, 0)]


@pytest.mark.parametrize("backend", ["prepacked", "vulkan_prepack", "metal_prepack"])
def test_prepacked_convolutions(backend: str) -> None:
    operators = _operators()
    prepack, call = {
        "prepacked": ("conv2d_clamp_prepack", "conv2d_clamp_run"),
        "vulkan_prepack": ("create_conv2d_context", "run_conv2d_context"),
        "metal_prepack": ("conv2d_prepack", "conv2d_run"),
    }[backend]
    for low, high in LIMITS:
        for groups, bias in ((1, True), (2, False)):
            x, w, b = R(2, 6, 8, 7), R(10, 6 // groups, 3, 3), R(10) if bias else None
            packed = operators.run(
                f"{backend}::{prepack}", [w, b, [2, 1], [1, 0], [1, 2], groups, low, high], hold=True
            )[1]
            whole = F.conv2d(x, w, b, (2, 1), (1, 0), (1, 2), groups)
            expected = whole if low is None and high is None else whole.clamp(low, high)
            tolerance = 2e-6 * float(whole.abs().max() / expected.abs().max())  # limits cut values, not their error
            for image in (x, x.contiguous(memory_format=torch.channels_last)):
                got = _call(operators, f"{backend}::{call}", image, packed[0])
                compare(got, expected, tolerance, call)
                assert got.is_contiguous() == image.is_contiguous()


def test_prepacked_transposed() -> None:
    operators = _operators()
    for low, high in LIMITS:
        x, w, b = R(2, 6, 5, 4), R(6, 5, 3, 3), R(10)
        args = [w, b, [2, 2], [1, 0], [1, 0], [1, 1], 2, low, high]
        packed = operators.run("prepacked::conv2d_transpose_clamp_prepack", args, hold=True)[1]
        whole = F.conv_transpose2d(x, w, b, 2, (1, 0), (1, 0), 2)
        expected = whole if low is None and high is None else whole.clamp(low, high)
        tolerance = 2e-6 * float(whole.abs().max() / expected.abs().max())
        compare(
            _call(operators, "prepacked::conv2d_transpose_clamp_run", x, packed[0]), expected, tolerance, "transposed"
        )


def test_prepacked_linear() -> None:
    operators = _operators()
    for low, high in LIMITS:
        for bias in (True, False):
            x, w, b = R(2, 3, 7), R(5, 7), R(5) if bias else None
            expected = F.linear(x, w, b)
            limited = expected if low is None and high is None else expected.clamp(low, high)
            for backend, name in (("prepacked", "linear_clamp"), ("metal_prepack", "linear")):
                packed = operators.run(f"{backend}::{name}_prepack", [w, b, low, high], hold=True)[1]
                tolerance = 2e-6 * float(expected.abs().max() / limited.abs().max())
                compare(_call(operators, f"{backend}::{name}_run", x, packed[0]), limited, tolerance, name)
            packed = operators.run("vulkan_prepack::create_linear_context", [w.T.contiguous(), b], hold=True)[1]
            compare(_call(operators, "vulkan_prepack::run_linear_context", x, packed[0]), expected, 2e-6, "vulkan")


def test_sizes_of_packed_weights() -> None:
    operators = _operators()
    packed = operators.run(
        "prepacked::conv2d_clamp_prepack", [R(6, 2, 3, 3), R(6), [1, 1], [0, 0], [1, 1], 2], hold=True
    )[1]
    assert operators.run("prepacked::unpack_prepacked_sizes_conv2d", packed)[1][0] == ([6, 2, 3, 3], [6])
    packed = operators.run("prepacked::linear_clamp_prepack", [R(6, 2), None], hold=True)[1]
    assert operators.run("prepacked::unpack_prepacked_sizes_linear", packed)[1][0] == ([6, 2], None)
    problem = operators.run("prepacked::conv2d_clamp_run", [R(1, 2, 5, 5), packed[0]])[0]  # weights of a linear layer
    assert problem is not None
    assert "rank" in problem["message"]
    x = R(2, 3)
    compare(run("metal::copy_to_host", x), x, 0.0, "copy_to_host")


def test_made_of_others() -> None:
    check("aten::conv_tbc", R(7, 2, 3), R(3, 3, 5), R(5), 1, tolerance=3e-6)
    for dim, g in ((0, (4, 1, 1)), (2, (1, 1, 2))):
        check("aten::_weight_norm", R(4, 3, 2), R(g), dim, tolerance=3e-6)
        check("aten::_weight_norm_interface", R(4, 3, 2), R(g), dim, tolerance=3e-6)
    check("aten::renorm", R(4, 3, 2) * 3, 2, 0, 2.0, tolerance=3e-6)
    check("aten::renorm_", R(4, 3), 1, 1, 0.5, tolerance=3e-6)
