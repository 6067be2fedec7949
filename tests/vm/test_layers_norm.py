"""Norms, softmax, losses and dropout of the VM beside torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, check, run
from tests.vm.samples import FLOATS, INF, NAN, same_as_torch

R = torch.randn
TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def _images(dtype: torch.dtype) -> list[torch.Tensor]:
    x = R(3, 4, 6, 5).to(dtype)
    return [
        x,
        x.transpose(2, 3),
        x.contiguous(memory_format=torch.channels_last),
        x[:, :, 0],
        x[:, :, 0, 0],
        R(2, 4, 3, 4, 2).to(dtype),
    ]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm(dtype: torch.dtype) -> None:
    half = dtype in (torch.float16, torch.bfloat16)
    for x in _images(dtype):
        w, b, mean, var = (t.to(dtype) for t in (R(4), R(4), R(4), torch.rand(4) + 0.1))
        for training in (False,) if half else (False, True):
            args = (x, w, b, mean, var, training, 0.1, 1e-5)
            check("aten::batch_norm", *args, True, tolerance=TOLERANCE[dtype])  # running statistics are compared too
            check("aten::native_batch_norm", *args, tolerance=TOLERANCE[dtype])
        if half:
            continue
        check("aten::batch_norm", x, None, None, None, None, True, 0.1, 1e-5, True, tolerance=TOLERANCE[dtype])
        if x.dim() > 2:
            for affine in ((w, b), (None, None)):
                for running in ((mean, var), (None, None)):
                    check(
                        "aten::instance_norm", x, *affine, *running, True, 0.2, 1e-5, True, tolerance=TOLERANCE[dtype]
                    )
            check("aten::instance_norm", x, w, b, mean, var, False, 0.2, 1e-5, True, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_over_rows_and_groups(dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    for x in _images(dtype)[:4]:
        for count in (1, 2):
            shape = list(x.shape[-count:])
            w, b = R(shape).to(dtype), R(shape).to(dtype)
            for affine in ((w, b), (None, None), (w, None)):
                check("aten::layer_norm", x, shape, *affine, 1e-5, True, tolerance=tolerance)
            check("aten::native_layer_norm", x, shape, w, b, 1e-3, tolerance=tolerance)
            for eps in (None, 1e-3):
                check("aten::rms_norm", x, shape, w, eps, tolerance=tolerance)
        for groups in (1, 2, 4):
            for affine in ((R(4).to(dtype), R(4).to(dtype)), (None, None)):
                check("aten::group_norm", x, groups, *affine, 1e-5, True, tolerance=tolerance)
        check(
            "aten::native_group_norm", x.contiguous(), None, None, 3, 4, x.numel() // 12, 2, 1e-5, tolerance=tolerance
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax(dtype: torch.dtype) -> None:
    special = torch.tensor([[1.0, NAN, 3.0], [INF, -INF, 0.0], [-INF, -INF, -INF], [1e30, 1.0, 2.0]]).to(dtype)
    for x in (*_images(dtype)[:4], torch.tensor(2.0, dtype=dtype), special, R(0, 3).to(dtype), R(3, 0).to(dtype)):
        for dim in (0, -1, 1, 7):
            for name in ("softmax", "log_softmax"):
                same_as_torch(f"aten::{name}.int", x, dim, None, tolerance=TOLERANCE[dtype])
                same_as_torch(f"aten::{name}.int", x, dim, 7, tolerance=1e-12)
                same_as_torch(f"aten::_{name}", x, dim, False, tolerance=TOLERANCE[dtype])
    same_as_torch("aten::softmax.int", torch.arange(5), 0)
    same_as_torch("aten::softmax.int", torch.arange(5), 0, 6)


WRONG: list[tuple[Any, ...]] = [
    ("batch_norm", R(3, 4), R(3), None, R(4), R(4), False, 0.1, 1e-5, True),
    ("batch_norm", R(3, 4), None, None, None, None, False, 0.1, 1e-5, True),
    ("batch_norm", R(4), None, None, R(4), R(4), False, 0.1, 1e-5, True),
    ("batch_norm", torch.arange(4).reshape(2, 2), None, None, R(2), R(2), False, 0.1, 1e-5, True),
    ("layer_norm", R(3, 4), [3]),
    ("layer_norm", R(3, 4), []),
    ("layer_norm", R(3, 4), [4], R(3)),
    ("layer_norm", R(3, 4), [2, 3, 4]),
    ("group_norm", R(3, 4, 2), 3),
    ("group_norm", R(3, 4, 2), 0),
    ("group_norm", R(4), 2),
    ("instance_norm", R(4, 4), None, None, None, None, True, 0.1, 1e-5, True),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    name, *args = WRONG[number]
    with pytest.raises(OperatorError):
        run(f"aten::{name}", *args)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(reduction: int) -> None:
    for dtype in (torch.float32, torch.float64):
        x, y, p, q = (t.to(dtype) for t in (R(3, 4, 5), R(3, 4, 5), torch.rand(3, 4, 5), torch.rand(3, 4, 5)))
        sign = torch.where(R(3, 4, 5) > 0, 1.0, -1.0).to(dtype)
        p[0, 0, :2] = torch.tensor([0.0, 1.0])
        far = x.clone()
        far[0, 0, :2] = torch.tensor([-200.0, 200.0])
        calls: list[tuple[Any, ...]] = [
            ("mse_loss", x, y), ("mse_loss", x, y[:1]), ("l1_loss", x, y), ("soft_margin_loss", x, sign), ("smooth_l1_loss", x, y, reduction, 0.7),
            ("smooth_l1_loss", x, y, reduction, 0.0), ("huber_loss", x, y, reduction, 0.7), ("binary_cross_entropy", p, q, None),
            ("binary_cross_entropy", p, q, q), ("binary_cross_entropy", x, q, None), ("binary_cross_entropy_with_logits", far, q, None, None),
            ("binary_cross_entropy_with_logits", x, q, q, torch.rand(5).to(dtype)), ("kl_div", x, q, reduction, False), ("kl_div", x, y, reduction, True),
            ("poisson_nll_loss", x, q * 5, True, True, 1e-8), ("poisson_nll_loss", p, q, False, False, 1e-8), ("margin_ranking_loss", x, y, sign, 0.3),
            ("hinge_embedding_loss", x, sign, 0.5), ("cosine_embedding_loss", x[0], y[0], sign[0, :, 0], 0.1),
            ("triplet_margin_loss", x, y, p, 1.0, 2.0, 1e-6, True),
        ]  # fmt: skip
        for name, *args in calls:
            given = args if name in ("smooth_l1_loss", "huber_loss", "kl_div") else [*args, reduction]
            same_as_torch(f"aten::{name}", *given, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_class_losses(reduction: int) -> None:
    for dtype in (torch.float32, torch.float64):
        tolerance = TOLERANCE[dtype]
        for shape, rest in (((6, 4), (6,)), ((3, 4, 2, 5), (3, 2, 5)), ((4,), ()), ((3, 4, 7), (3, 7))):
            x, target, w = R(shape).to(dtype), torch.randint(0, 4, rest), torch.rand(4).to(dtype)
            logs = torch.log_softmax(x, 1 if len(shape) > 1 else 0)
            for args in ((logs, target, None, reduction, -100), (logs, target, w, reduction, 2)):
                same_as_torch("aten::nll_loss_nd", *args, tolerance=tolerance)
                if len(shape) <= 2:
                    same_as_torch("aten::nll_loss", *args, tolerance=tolerance)
                if len(shape) == 4:
                    same_as_torch("aten::nll_loss2d", *args, tolerance=tolerance)
            for smoothing in (0.0, 0.2):
                same_as_torch("aten::cross_entropy_loss", x, target, w, reduction, 1, smoothing, tolerance=tolerance)
                chances = torch.rand(shape).to(dtype)
                same_as_torch(
                    "aten::cross_entropy_loss", x, chances, w, reduction, -100, smoothing, tolerance=tolerance
                )
        same_as_torch("aten::nll_loss", R(3, 4), torch.tensor([0, 1, 4]), None, reduction)
        logs = torch.log_softmax(R(9, 3, 5).to(dtype), 2)
        padded = torch.tensor([[1, 2, 2, 3], [4, 1, 0, 0], [3, 3, 3, 3]])
        lengths = torch.tensor([9, 7, 9]), torch.tensor([4, 2, 4])
        check("aten::ctc_loss.Tensor", logs, padded, *lengths, 0, reduction, False, tolerance=3 * tolerance)
        joined = torch.tensor([1, 2, 4, 1, 3, 3, 3])
        for zero in (True, False):
            check(
                "aten::ctc_loss.IntList",
                logs,
                joined,
                [9, 7, 3],
                [2, 2, 3],
                0,
                reduction,
                zero,
                tolerance=3 * tolerance,
            )
    with pytest.raises(OperatorError):
        run("aten::ctc_loss.IntList", logs, joined, [9, 70, 3], [2, 2, 3], 0, reduction)
    with pytest.raises(OperatorError):
        run("aten::ctc_loss.IntList", logs, joined, [9, 7, 3], [2, 2, 9], 0, reduction)


def test_dropout() -> None:
    x = R(3, 4, 5)
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"):
        check(f"aten::{name}", x, 0.5, False, layout=True)  # the input itself
        check(f"aten::{name}_", x, 0.5, False)
        with pytest.raises(OperatorError):
            run(f"aten::{name}", x, 1.5, True)
    ones = torch.ones(200, 100)
    first, second = (run("aten::dropout", ones, 0.25, True) for _ in range(2))
    assert set(first.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
    assert 0.23 < float((first == 0).float().mean()) < 0.27
    assert not torch.equal(first, second)
    channels = run("aten::feature_dropout", torch.ones(200, 100, 3), 0.25, True)
    assert torch.equal(channels[:, :, 0], channels[:, :, 2])
    assert 0.23 < float((channels == 0).float().mean()) < 0.27
    alpha = run("aten::alpha_dropout", R(200, 100), 0.25, True)
    assert abs(float(alpha.mean())) < 0.05
    assert abs(float(alpha.std()) - 1) < 0.05
    kept, mask = run("aten::native_dropout", ones, 0.25, True)
    assert torch.equal(kept != 0, mask)
    assert mask.dtype == torch.bool
