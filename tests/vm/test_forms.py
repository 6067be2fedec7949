"""The forms that torch has of one operator: those that write into out=, in place, and functional ones of what is in place. Each
form is called beside torch's, into tensors of the right shape, strided ones, and empty ones, which take on the result's shape.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import penlight
from penlight.ops.vm_operators import VmOperator, operators, words

from .check import OperatorError, _tensors, check, compare, compare_layout, run, run_keeping, torch_run

torch.manual_seed(3)
X = torch.randn(3, 5)
Y = torch.randn(3, 5)
V = torch.randn(7)
M = torch.randn(2, 4, 4)
SPD = M @ M.mT + 4 * torch.eye(4)
T = torch.arange(12).reshape(3, 4)
IMAGE = torch.randn(2, 4, 6, 6)
CUBE = torch.randn(1, 2, 4, 5, 6)
LINE = torch.randn(2, 4, 9)
Q = torch.quantize_per_tensor(X, 0.05, 3, torch.quint8)
QMAP = torch.quantize_per_tensor(IMAGE, 0.05, 3, torch.quint8)
QCUBE = torch.quantize_per_tensor(CUBE, 0.05, 3, torch.quint8)
QC = torch.quantize_per_channel(X, torch.rand(3) / 10 + 0.01, torch.tensor([0, 3, 5]), 0, torch.qint8)
STATS = (torch.rand(4), torch.rand(4), torch.rand(4), torch.rand(4) + 0.5)
U8 = 13  # torch.quint8
# Arguments before out=, by the name of the form; words in braces as in PEN_OP.
CASES: dict[str, list[tuple[Any, ...]]] = {
    # elementwise
    "_add_relu.Scalar_out": [(X, 0.5, 2), (T - 5, 1, 1)],
    "_add_relu.out": [(X, Y[0], 0.5), (X.t(), V[:3], 1)],
    "angle.out": [(torch.tensor([-1.0, 0.0, -0.0, 2.0, torch.nan, -torch.inf]),), (T - 5,), (X.half(),), (X > 0,)],
    "celu.out": [(X, 1.0), (X.t(), 0.3)],
    "float_power.Tensor_Tensor_out": [(X.abs(), Y)],
    "float_power.Tensor_Scalar_out": [(X, 2)],
    "float_power.Scalar_out": [(2, X)],
    "frexp.Tensor_out": [(X * 1000,), (X.double() / 1e9,), (torch.zeros(2, 0),)],
    "masked_fill.Scalar_out": [(X, X > 0, 2), (X, Y[0] > 0, 2.5)],
    "masked_fill.Tensor_out": [(X, X > 0, torch.tensor(3.0))],
    "{polygamma,special_polygamma}.out": [(2, X.abs() + 0.1), (0, X)],
    "rsub.Scalar_out": [(X, 2, 3)],
    "rsub.Tensor_out": [(X, Y[0], 2)],
    # copies, creation
    "{alias,detach,lift_fresh}_copy.out": [(X.t(),)],
    "lift.out": [(X,)],
    "clone.out": [(X.t(), None), (IMAGE, 2)],
    "_to_copy.out": [(X, False, None)],
    "empty.out": [([0, 3], None)],
    "empty_like.out": [(torch.zeros(0, 3), None)],
    "empty_strided.out": [([0, 3], [3, 1])],
    "new_empty.out": [(X, [0])],
    "new_empty_strided.out": [(X, [0, 2], [2, 1])],
    "eye.out": [(3,), (0,)],
    "eye.m_out": [(3, 5)],
    "{zeros,ones}.out": [([2, 3],)],
    "{zeros,ones}_like.out": [(X, None)],
    "full.out": [([2, 3], 2.5)],
    "full_like.out": [(X, 4, None)],
    "new_{zeros,ones}.out": [(X, [2, 3])],
    "new_full.out": [(X, [2], 7)],
    "scalar_tensor.out": [(2.5,)],
    "arange.out": [(5,)],
    "arange.start_out": [(1, 8, 2), (0, 1, 0.25)],
    "range.out": [(1, 8, 2)],
    "range.out_": [(1, 4)],
    "linspace.out": [(0, 3, 5)],
    "logspace.out": [(0, 3, 5, 10.0)],
    "linspace.Tensor_Tensor_out": [(torch.tensor(0.5), torch.tensor(2.0), 7)],
    "linspace.Tensor_Scalar_out": [(torch.tensor(0.5), 2, 7)],
    "linspace.Scalar_Tensor_out": [(0.5, torch.tensor(2.0), 7)],
    "logspace.Tensor_Tensor_out": [(torch.tensor(0.5), torch.tensor(2.0), 7, 2.0)],
    "logspace.Tensor_Scalar_out": [(torch.tensor(0.5), 2, 7, 10.0)],
    "logspace.Scalar_Tensor_out": [(0.5, torch.tensor(2.0), 7, 3.0)],
    "{tril,triu}_indices.out": [(4, 5, -1)],
    # shapes
    "_stack.out": [([X, Y], 1)],
    "{column_stack,dstack,hstack,row_stack,vstack,block_diag}.out": [([X, Y],), ([V, V],)],
    "_unsafe_view.out": [(X, [5, 3])],
    "channel_shuffle.out": [(IMAGE, 2)],
    "constant_pad_nd.out": [(X, [1, 2], 0.5)],
    "{reflection,replication}_pad1d.out": [(LINE, [2, 1])],
    "{reflection,replication}_pad2d.out": [(IMAGE, [2, 1, 0, 3])],
    "{reflection,replication}_pad3d.out": [(CUBE, [2, 1, 0, 3, 1, 1])],
    "diag.out": [(X, 1), (V, -1)],
    "diag_embed.out": [(X, 0, 0, -1)],
    "diagonal_scatter.out": [(X, torch.ones(3), 0, 0, 1)],
    "select_scatter.out": [(X, torch.ones(5), 0, 1)],
    "slice_scatter.out": [(X, torch.ones(3, 2), 1, 1, 5, 2)],
    "flip.out": [(X, [0, 1])],
    "narrow_copy.out": [(X, 1, 1, 3)],
    "pixel_shuffle.out": [(IMAGE, 2)],
    "pixel_unshuffle.out": [(IMAGE, 3)],
    "repeat.out": [(X, [2, 1, 3])],
    "repeat_interleave.Tensor_out": [(torch.tensor([1, 0, 3]), None)],
    "resize.out": [(X, [2, 3], None), (X.t()[1:], [2, 2], None)],
    "resize_as.out": [(X, T[:2, :2], None)],
    "roll.out": [(X, [1, 2], [0, 1])],
    "rot90.out": [(X, 1, [0, 1])],
    "set.out": [(X,)],
    "set.source_Tensor_out": [(X, Y.t())],
    "unsafe_split.Tensor_out": [(X, 2, 1)],
    "unsafe_split_with_sizes.out": [(X, [1, 4], 1)],
    # indices
    "_index_put_impl.out": [(X, [None, torch.tensor([1, 3])], Y[:, :2], True, False)],
    "index.Tensor_out": [(X, [torch.tensor([2, 0]), None]), (X, [X > 0])],
    "embedding.out": [(X, torch.tensor([[1, 2], [0, 0]]), -1, False, False)],
    "take_along_dim.out": [(X, torch.tensor([[1, 0, 2, 2, 0]]), 0)],
    "isin.Tensor_Tensor_out": [(T, T[0], False, True)],
    "isin.Tensor_Scalar_out": [(T, 3, False, False)],
    "isin.Scalar_Tensor_out": [(3, T, False, False)],
    # order
    "argsort.stable_out": [(X, True, 0, True)],
    "sort.values": [(X, 0, True)],
    "sort.values_stable": [(T % 3, True, 1, False)],
    "topk.values": [(X, 2, 1, False, True)],
    "msort.out": [(X,)],
    "kthvalue.values": [(X, 2, 1, True)],
    "mode.values": [(T % 3, 1, False)],
    "{median,nanmedian}.dim_values": [(X, 1, False)],
    "cum{max,min}.out": [(X, 1)],
    "bincount.out": [(torch.tensor([1, 4, 1]), None, 3), (torch.tensor([1, 2]), torch.tensor([0.5, 1.5]), 0)],
    "histc.out": [(V, 4, -1, 1)],
    "bucketize.Tensor_out": [(X, torch.tensor([-1.0, 0.0, 1.0]), True, False)],
    "bucketize.Scalar_out": [(0.5, torch.tensor([-1.0, 0.0, 1.0]), False, True)],
    "searchsorted.Tensor_out": [(torch.tensor([-1.0, 0.0, 1.0]), X, False, False, "right", None)],
    "searchsorted.Scalar_out": [(torch.tensor([-1.0, 0.0, 1.0]), 0.5, False, True, None, None)],
    "unique_consecutive.out": [(T // 3, True, True, None)],
    "unique_dim.out": [(T // 5, 0, True, True, True)],
    "unique_dim_consecutive.out": [(T // 5, 0, True, True)],
    "_unique.out": [(T % 3, True, True)],
    "_unique2.out": [(T % 3, True, True, True)],
    # sums and norms
    "aminmax.out": [(X, 0, True), (X, None, False)],
    "_aminmax.out": [(X,)],
    "_aminmax.dim_out": [(X, 1, True)],
    "{all,any}.dims_out": [(X > 0, [0, 1], True)],
    "max.dim_max": [(X, 1, True)],
    "min.dim_min": [(X, 0, False)],
    "nansum.out": [(X, [1], False, None)],
    "norm.dtype_out": [(X, 2, [1], True, 6)],
    "linalg_vector_norm.out": [(X, 3, [0], False, None)],
    "{var,std}_mean.correction_out": [(X, [1], 0, True)],
    "{nanquantile,quantile}.out": [(X, torch.tensor([0.3, 0.5]), 1, False, "linear")],
    "{nanquantile,quantile}.scalar_out": [(X, 0.3, 0, True, "lower")],
    "native_layer_norm.out": [(X, [5], V[:5], None, 1e-5)],
    "native_group_norm.out": [(IMAGE, torch.rand(4), None, 2, 4, 36, 2, 1e-5)],
    "{native_batch_norm,_native_batch_norm_legit}.out": [(IMAGE, *STATS, False, 0.1, 1e-5), (IMAGE, *STATS, True, 0.1, 1e-5)],
    "_native_batch_norm_legit.no_stats_out": [(IMAGE, *STATS[:2], True, 0.1, 1e-5)],
    "_native_batch_norm_legit_no_training.out": [(IMAGE, *STATS, 0.1, 1e-5)],
    "multi_margin_loss.out": [(X, torch.tensor([1, 0, 4]), 1, 1.0, None, 1)],
    "multilabel_margin_loss.out": [(X, torch.tensor([[1, 0, -1, 2, 2]] * 3), 1)],
    "nll_loss.out": [(X, torch.tensor([1, 0, 4]), None, 1, -100)],
    "nll_loss2d.out": [(IMAGE, torch.randint(0, 4, (2, 6, 6)), None, 0, -100)],
    "nll_loss_forward.output": [(X, torch.tensor([1, 0, 4]), None, 1, -100)],
    "nll_loss2d_forward.output": [(IMAGE, torch.randint(0, 4, (2, 6, 6)), None, 1, -100)],
    # matrices
    "_addmm_activation.out": [(V[:4], X.t(), T[:3].float(), 1, 0.5, False)],
    "{chain_matmul,linalg_multi_dot}.out": [([X, Y.t(), X],)],
    "_cdist_forward.out": [(X, Y[:2], 1.0, None)],
    "_pdist_forward.out": [(X, 2.0)],
    "_masked_softmax.out": [(X, X > 0.5, 1, None)],
    "linalg_cholesky_ex.L": [(SPD, True, False)],
    "linalg_inv_ex.inverse": [(SPD, False)],
    "linalg_lu_factor.out": [(M, True)],
    "linalg_solve_ex.out": [(SPD, M, True, False)],
    "linalg_solve_triangular.out": [(SPD, M, True, True, False)],
    "triangular_solve.X": [(M, SPD, True, False, False)],
    "linalg_matrix_exp.out": [(M / 4,)],
    "{linalg_,}slogdet.out": [(M,)],
    "linalg_pinv.out": [(M, 1e-6, False)],
    "linalg_pinv.out_rcond_tensor": [(M, torch.tensor([1e-6, 0.5]), False)],
    "linalg_pinv.atol_rtol_float_out": [(M, 0.5, None, False)],
    "linalg_pinv.atol_rtol_tensor_out": [
        (M, torch.tensor([0.0, 2.0]), None, False), (SPD, None, torch.tensor(0.3), True), (M, None, None, False)
    ],
    "nuclear_norm.out": [(X, True), (X, False)],
    "nuclear_norm.dim_out": [(CUBE, [3, 1], True), (CUBE, [0, -1], False)],
    # maps
    "_adaptive_avg_pool2d.out": [(IMAGE, [3, 2])],
    "{_,}adaptive_avg_pool3d.out": [(CUBE, [3, 2, 4])],
    "adaptive_avg_pool1d.out": [(LINE, [4])],
    "adaptive_max_pool2d.out": [(IMAGE, [3, 2])],
    "adaptive_max_pool3d.out": [(CUBE, [3, 2, 4])],
    "avg_pool1d.out": [(LINE, [3], [2], [1], True, False)],
    "avg_pool3d.out": [(CUBE, [2], [2], [1], False, True, None), (CUBE, [2], [2], [0], False, True, 3)],
    "max_pool2d_with_indices.out": [(IMAGE, [3], [2], [1], [1], False)],
    "max_pool3d_with_indices.out": [(CUBE, [2], [2], [1], [1], True)],
    "conv_tbc.out": [(LINE, torch.randn(2, 9, 3), V[:3], 1)],
    "_weight_norm_interface.out": [(X, torch.rand(3, 1), 0)],
    "convolution.out": [(IMAGE, torch.randn(6, 2, 3, 3), None, [1, 2], [1, 0], [1, 1], False, [0, 0], 2)],
    "_convolution.out": [
        (IMAGE, torch.randn(5, 4, 3, 3), V[:5], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True)
    ],
    "mkldnn_convolution.out": [(IMAGE, torch.randn(6, 2, 3, 3), V[:6], [1, 0], [1, 2], [1, 1], 2)],
    "thnn_conv2d.out": [(IMAGE, torch.randn(5, 4, 3, 3), [3, 3], V[:5], [1, 1], [1, 1])],
    "grid_sampler_2d.out": [(IMAGE, torch.rand(2, 3, 4, 2) * 2 - 1, 0, 0, False)],
    "grid_sampler_3d.out": [(CUBE, torch.rand(1, 3, 4, 2, 3) * 2 - 1, 0, 1, True)],
    "upsample_linear1d.out": [(LINE, [12], False, None)],
    "{_upsample_bilinear2d_aa,_upsample_bicubic2d_aa,upsample_bicubic2d}.out": [(IMAGE, [4, 9], False, None, None)],
    "upsample_bilinear2d.vec_out": [(IMAGE, None, False, [1.5, 2.0])],
    "upsample_trilinear3d.out": [(CUBE, [3, 6, 7], True, None, None, None)],
    "{_upsample_nearest_exact,upsample_nearest}1d.out": [(LINE, [12], None)],
    "_upsample_nearest_exact2d.out": [(IMAGE, [4, 9], None, None)],
    "upsample_nearest2d.vec_out": [(IMAGE, [4, 9], None)],
    "{_upsample_nearest_exact,upsample_nearest}3d.out": [(CUBE, [3, 6, 7], None, None, None)],
    "_pack_padded_sequence.out": [(LINE, torch.tensor([2, 2, 1, 1]), False)],
    # transformers
    "_native_multi_head_attention.out": [
        (LINE[:, :, :4], LINE[:, :, :4], LINE[:, :, :4], 4, 2, torch.randn(12, 4), torch.randn(12), torch.randn(4, 4),
         torch.randn(4), None, True, True, None)
    ],
    "_transformer_encoder_layer_fwd.out": [
        (LINE[:, :, :4], 4, 2, torch.randn(12, 4), torch.randn(12), torch.randn(4, 4), torch.randn(4), True, False, 1e-5,
         torch.rand(4), torch.rand(4), torch.rand(4), torch.rand(4), torch.randn(6, 4), torch.randn(6), torch.randn(4, 6),
         torch.randn(4), None, None)
    ],
    # quantized
    "fake_quantize_per_tensor_affine_cachemask.out": [(X, 0.05, 3, 0, 255)],
    "fake_quantize_per_channel_affine_cachemask.out": [(X, torch.rand(3) + 0.1, torch.tensor([1, 2, 3]).int(), 0, 0, 255)],
    "int_repr.out": [(Q,)],
    "q_per_channel_{scales,zero_points}.out": [(QC,)],
    "dequantize.tensors_out": [([Q, Q],)],
    "_empty_affine_quantized.out": [([0, 3], 0.1, 2, None)],
    "_make_per_tensor_quantized_tensor.out": [(Q.int_repr(), 0.1, 2)],
    "_make_per_channel_quantized_tensor.out": [(Q.int_repr(), torch.rand(3), torch.tensor([1, 2, 3]), 0)],
    "quantize_per_tensor.out": [(X, 0.05, 3, U8)],
    "quantize_per_tensor.tensor_qparams_out": [(X, torch.tensor(0.05), torch.tensor(3), U8)],
    "quantize_per_tensor.tensors_out": [([X, Y], torch.tensor([0.05, 0.1]), torch.tensor([3, 4]), U8)],
    "quantize_per_tensor_dynamic.out": [(X, U8, False)],
    "quantize_per_channel.out": [(X, torch.rand(3) + 0.1, torch.tensor([1, 2, 3]), 0, U8)],
    "quantized_batch_norm.out": [(QMAP, *STATS, 1e-5, 0.1, 3)],
    "quantized_max_pool1d.out": [(QMAP[0], [2], [2], [0], [1], False)],
    "quantized_max_pool3d.out": [(QCUBE, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False)],
    "quantized_max_pool2d.out": [(QMAP, [2, 2], [2, 2], [0, 0], [1, 1], False)],
}  # fmt: skip
LOOSE = {"linalg", "slogdet", "nuclear", "triangular", "native", "transformer", "conv", "_conv", "thnn", "nnpack", "polygamma",
         "upsample", "pool", "norm", "softmax", "cdist", "pdist", "chain", "addmm", "grid", "quantile", "logspace", "float_power",
         "var_mean", "std_mean", "histc", "linspace", "celu", "special", "rsub", "nansum", "margin", "nll"}  # fmt: skip
UNTESTED = {
    "{qr.Q,linalg_qr.out,svd.U,linalg_svd.U,linalg_eigh.eigvals}": "the signs of vectors are not unique: test_factors_out",
    "{_nnpack_spatial_convolution,convolution_overrideable,mkldnn_max_pool2d}.out":
        "torch cannot run it here: no NNPACK, or not on the CPU",
    "_embedding_bag{,_forward_only}.out": "what torch keeps for gradients is empty here: test_embedding_bag_out",
}  # fmt: skip


def tolerance(name: str) -> float:
    return 2e-5 if any(word in name for word in LOOSE) else 0.0


def twin(op: VmOperator) -> VmOperator:
    """The operator whose out= form it is."""
    base = op.name.partition(".")[0]
    return next(
        o for o in operators().values()
        if (o.symbol, o.form, o.word) == (op.symbol, op.form, op.word) and o.name.partition(".")[0] == base and not o.outs
    )  # fmt: skip


def fresh(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """To write into: zeros, quantized otherwise where `like` is quantized."""
    if not like.is_quantized:
        return torch.zeros(shape, dtype=like.dtype)
    return torch._empty_affine_quantized(shape, scale=1.0, zero_point=0, dtype=like.dtype)


def results(op: VmOperator, args: tuple[Any, ...]) -> list[torch.Tensor]:
    plain = twin(op)
    given = list(args)
    if op.options_at >= 0:
        given[op.options_at : op.options_at] = [
            U8 if "quantized" in op.name else 4 if "indices" in op.name else 6,
            None,
            None,
            None,
        ]
    made = torch_run(plain.name, *given)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def expanded() -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    for pattern, cases in CASES.items():
        for name in words(pattern):
            if cases:
                yield f"aten::{name}", cases


@pytest.mark.parametrize(("name", "cases"), list(expanded()), ids=lambda v: v if isinstance(v, str) else "")
def test_out(name: str, cases: list[tuple[Any, ...]]) -> None:
    op = operators()[name]
    limit = tolerance(name)
    for args in cases:
        made = results(op, args)
        if op.results and not made[0].is_quantized:
            check(name, *args, *(fresh(r, r.shape) for r in made), tolerance=limit)
        # torch writes strided ones wrongly here and there (avg_pool3d.out): what the operator itself gives is right.
        strided = [fresh(r, (*r.shape, 2))[..., 0] for r in made]
        for outs in (strided, [fresh(r, (0,)) for r in made]):
            got, after = run_keeping(name, *args, *(outs if op.results else [outs]))
            compare(after[-len(made) :] if op.results else after[-1], made, limit, name)
            if op.results:
                compare([got] if op.results == 1 else list(got), made, limit, name)


def test_factors_out() -> None:
    a = torch.randn(2, 5, 3)
    for name, args, turned in (("qr.Q", (a, True), False), ("linalg_qr.out", (a, "reduced"), False), ("svd.U", (a, True, True), True),
                               ("linalg_svd.U", (a, False, None), False), ("linalg_eigh.eigvals", (SPD, "L"), False)):  # fmt: skip
        outs = [torch.empty(0) for _ in range(operators()[f"aten::{name}"].outs)]
        _, after = run_keeping(f"aten::{name}", *args, *outs)
        parts = after[-len(outs) :]
        if "eigh" in name:
            again = parts[1] * parts[0].unsqueeze(-2) @ parts[1].mT
        elif "qr" in name:
            again = parts[0] @ parts[1]
        else:
            again = parts[0] * parts[1].unsqueeze(-2) @ (parts[2].mT if turned else parts[2])
        torch.testing.assert_close(again, args[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["_embedding_bag", "_embedding_bag_forward_only"])
def test_embedding_bag_out(name: str) -> None:
    args = (X, torch.tensor([1, 2, 0, 2]), torch.tensor([0, 3]), False, 0, False, None, False, -1)
    outs = [torch.zeros(2, 5)] + [torch.zeros(2, dtype=torch.long) for _ in range(3)]
    run(f"aten::{name}.out", *args, *outs)
    torch.testing.assert_close(outs[0], torch_run(f"aten::{name}", *args)[0])


ANGLES = torch.tensor([-1.0, 0.0, -0.0, 2.0, torch.nan, -torch.inf])
# Other forms: the calls; what they leave in their arguments is compared too.
OTHERS: dict[str, list[tuple[Any, ...]]] = {
    "_index_put_impl": [(X, [None, torch.tensor([1, 3])], Y[:, :2], True, False), (X, [X > 0], torch.tensor(2.0), False, True)],
    "_index_put_impl_": [(X, [None, torch.tensor([1, 3])], Y[:, :2], True, False)],
    "angle": [(ANGLES,), (ANGLES.double(),), (ANGLES.half(),), (T - 5,), (T > 3,), (torch.zeros(0, 2),), (X.t(),)],
    "float_power_.Tensor": [(X.double().abs(), Y)],
    "float_power_.Scalar": [(X.double(), 2)],
    "frexp.Tensor": [(X * 1000,), (X.t().double() / 1e9,), (X.half(),), (torch.zeros(2, 0),)],
    "polygamma_": [(X.abs() + 0.1, 2), (X.abs().t() + 0.1, 0)],
    "logspace.Tensor_Tensor": [(torch.tensor(0.5), torch.tensor(2.0), 7, 2.0)],
    "logspace.Tensor_Scalar": [(torch.tensor(0.5), 2, 7)],
    "logspace.Scalar_Tensor": [(0.5, torch.tensor(2), 7)],
    "linalg_pinv.rcond_tensor": [(M, torch.tensor([1e-6, 0.5])), (X, torch.tensor(0.4), False)],
    "linalg_pinv.atol_rtol_tensor": [(M, torch.tensor([0.0, 2.0])), (M, None, torch.tensor(0.3)), (SPD, torch.tensor(1.0), torch.tensor(0.3), True)],
    "nuclear_norm.dim": [(CUBE, [3, 1], True), (CUBE, [0, -1]), (X, [0, 1])],
    "{mT,mH,numpy_T}.a": [(X,), (T[:, ::2],)],
    "resize": [(X, [2, 3]), (X.t()[1:], [2, 2]), (X[:, ::2], [2, 4]), (X[:1].expand(3, 5), [2, 2]), (X, [3, 5]), (IMAGE, [1, 2, 3, 4], 2), (torch.zeros(0, 3), [0])],
    "resize_as": [(X, T[:2, :2]), (IMAGE, CUBE[0].transpose(0, 1)[:, :, :3, :3].contiguous(memory_format=torch.channels_last), 1)],
    "set": [(X,)],
    "set.source_Tensor": [(X, Y.t()), (T, T[1:])],
    "set_": [(X,)],
    "set_.source_Tensor": [(X, Y.t())],
    "set_.source_Tensor_storage_offset": [(X, Y, 2, [2, 2], [5, 1]), (X, Y, 1, [3, 4]), (X, V[1:], 2, [])],
    "squeeze_.dims": [(IMAGE[:1, :, :1], [0, 2]), (X, [0, 1])],
    "copy_": [(X, Y[0]), (X.t(), Y[:1].t()), (IMAGE, Y[:1, :1]), (X, T[:, :1]), (X[0], X[1].double()), (X, torch.tensor(2)), (X[:, :0], Y[:, :1])],
    "count.Tensor": [([torch.tensor(v) for v in (1, 2, 1)], torch.tensor(1)), ([], torch.tensor(1))],
    "index.list_Tensor": [([torch.tensor(v) for v in (1, 2, 2)], torch.tensor(2.0))],
    "{eq,ne}.Tensor_list": [([torch.tensor(1), torch.tensor(2)], [torch.tensor(1), torch.tensor([2.0])]), ([torch.tensor(1)], []), ([torch.tensor(1)], [torch.tensor(2)])],
}  # fmt: skip


@pytest.mark.parametrize("name", [n for pattern in OTHERS for n in words(pattern)])
def test_other_forms(name: str) -> None:
    calls = next(v for k, v in OTHERS.items() if name in words(k))
    for args in calls:
        theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
        expected = torch_run(f"aten::{name}", *theirs)
        got, after = run_keeping(f"aten::{name}", *ours)
        compare(after, list(theirs), tolerance(name), name)
        if expected is not None:
            compare(got, expected, tolerance(name), name)
        if isinstance(expected, torch.Tensor) and not name.partition(".")[0].endswith("_"):
            compare_layout(got, expected, _tensors(ours), _tensors(theirs), name)


# Beyond the result's own shape, dtype and range, random numbers are tested in test_tensors_random.py.
DRAWN: dict[str, tuple[Any, ...]] = {
    "{rand,randn}.out": ([40, 3],),
    "{rand,randn}.generator_out": ([40, 3], None),
    "{rand,randn}_like.out": (torch.zeros(3, 40).t(), None),
    "{rand,randn}_like.generator": (torch.zeros(3, 40).t(), None),
    "{rand,randn}_like.generator_out": (torch.zeros(40, 3), None, None),
    "randint.out": (9, [40, 3]),
    "randint.generator": (9, [40, 3], None),
    "randint.generator_out": (9, [40, 3], None),
    "randint.low_out": (2, 9, [40, 3]),
    "randint.low_generator": (2, 9, [40, 3], None),
    "randint.low_generator_out": (2, 9, [40, 3], None),
    "randint_like.out": (torch.zeros(40, 3), 9, None),
    "randint_like.generator": (torch.zeros(40, 3), 9, None),
    "randint_like.generator_out": (torch.zeros(40, 3), 9, None, None),
    "randint_like.Tensor": (torch.zeros(40, 3), torch.tensor(9)),
    "randint_like.Tensor_out": (torch.zeros(40, 3), torch.tensor(9), None),
    "randint_like.Tensor_generator": (torch.zeros(40, 3), torch.tensor(9), None),
    "randint_like.Tensor_generator_out": (torch.zeros(40, 3), torch.tensor(9), None, None),
    "randint_like.low_dtype_out": (torch.zeros(40, 3), 2, 9, None),
    "randint_like.low_generator_dtype": (torch.zeros(40, 3), 2, 9, None),
    "randint_like.low_generator_dtype_out": (torch.zeros(40, 3), 2, 9, None, None),
    "randperm.out": (120,),
    "randperm.generator": (120, None),
    "randperm.generator_out": (120, None),
    "normal.Tensor_Tensor_out": (torch.full([40, 3], 3.0), torch.rand(3), None),
    "normal.Tensor_float_out": (torch.full([40, 3], 3.0), 0.5, None),
    "normal.float_Tensor_out": (3.0, torch.rand(40, 3), None),
    "normal.float_float_out": (3.0, 0.5, [40, 3], None),
    "bernoulli.out": (torch.rand(40, 3), None),
    "multinomial.out": (torch.rand(40, 3), 2, False, None),
    "native_dropout.out": (torch.ones(40, 3), 0.5, True),
}


BOUNDS = {"rand.": (0, 1), "rand_like": (0, 1), "randint": (0, 8), "randperm": (0, 119), "bernoulli": (0, 1), "multinomial": (0, 2),
          "native": (0, 2)}  # fmt: skip


@pytest.mark.parametrize("name", [n for pattern in DRAWN for n in words(pattern)])
def test_drawn(name: str) -> None:
    args = next(v for k, v in DRAWN.items() if name in words(k))
    op = operators()[f"aten::{name}"]
    whole = name.startswith(("randint.", "randperm", "multinomial"))
    shape = (40, 3) if name.startswith("normal") else (0,)  # torch does not resize those
    outs = [torch.empty(shape, dtype=torch.long if whole else torch.float32)] * (op.outs > 0)
    outs += [torch.empty(0, dtype=torch.bool)] * (op.outs - 1)
    expected = torch_run(op.name, *args, *outs)
    got = run(op.name, *args, *(torch.empty(shape, dtype=o.dtype) for o in outs))
    for g, e in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (got, expected)), strict=True):
        assert (g.dtype, g.shape) == (e.dtype, e.shape)
        assert g.unique().numel() > 1
        bounds = next((b for start, b in BOUNDS.items() if name.startswith(start)), None)
        assert not bounds or (g.min() >= (2 if "low" in name else bounds[0]) and g.max() <= bounds[1])


class Forms(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        values, places, smooth, drawn = torch.empty(0), torch.empty(0, dtype=torch.long), torch.empty(0), torch.empty(0)
        torch.topk(x, 2, values=values, indices=places)
        torch.ops.aten.celu(x, 0.5, out=smooth)
        torch.rand([2, 3], out=drawn)
        kept = torch.ops.aten.set(x, values)
        rows: list[torch.Tensor | None] = [torch.tensor([1])]
        filled = torch.ops.aten._index_put_impl(x, rows, x[:1])
        items = [x[0, 0], x[0, 1], x[0, 0]]
        items.remove(x[0, 1])
        return [
            values,
            places,
            smooth,
            (drawn < 1).all(),
            kept,
            filled,
            torch.ops.aten.resize(x, [2, 2]),
            torch.angle(x),
            torch.frexp(x)[1],
            torch.stack(items),
        ]


@pytest.mark.parametrize("kind", ["script", "ptl"])
def test_from_files(kind: str, tmp_path: Path) -> None:
    script, path = torch.jit.script(Forms()), tmp_path / "forms.ptl"
    if kind == "ptl":
        script._save_for_lite_interpreter(str(path))
    made = penlight.optimize(path if kind == "ptl" else script)
    x = torch.randn(3, 4)
    compare(made(x), script(x), 1e-6, kind)


def test_wrong_forms_are_refused() -> None:
    for name, args, message in (
        ("float_power_.Scalar", (X, 2), "a tensor of doubles"),
        ("unsafe_split.Tensor_out", (X, 2, 1, [torch.empty(0)]), "as many tensors in out"),
        ("eq.Tensor_list", ([X], [X]), "ambiguous|one element"),
        ("remove.Tensor", ([torch.tensor(1)], torch.tensor(2)), "not in list"),
        ("set_.source_Tensor_storage_offset", (X, Y, 2, [3, 5], [5, 1]), "inside of the tensor's memory"),
        ("set.source_Tensor", (X, T), "one dtype"),
        ("celu.out", (X, 1.0, Q), "quantized"),
        ("topk.values", (X, 2, 1, True, True, torch.empty(0), torch.empty(0, dtype=torch.bool)), "can't be cast"),
        ("copy_", (X, Y[:2]), "size 2 in dim 0"),
        ("copy_", (X[:, :1], Y), "size 5 in dim 1"),
        ("nuclear_norm.dim", (X, [0], False), "two dims"),
    ):
        with pytest.raises(OperatorError, match=message):
            run(f"aten::{name}", *args)


# Overloads of operators that the VM has, which it has not, and why.
REASONS = {
    r".*complex.*": "complex numbers are no values of the VM",
    r".*Dict\(Tensor.*": "a dict's keys are numbers or strings",
    r".*\bStorage\b.*": "storages are no values of the VM",
    r"aten::manual_seed.generator\(.*": "generators are no values of the VM",
    r"aten::(mm|bmm|addmm|baddbmm)\.dtype(_out)?\(.*": "torch has it on other devices only",
    r"aten::quantized_(lstm|gru)\.(input|data)_legacy\(.*": "torch itself refuses them",
    r"aten::values\(Tensor.*": "sparse tensors",
    r"aten::einsum.sublist\(.*": "not done yet: dims in lists instead of letters; scripts can call it",
}


def test_every_overload_is_there() -> None:
    """All that torch has of each operator's functional, in-place and out= forms, or a reason."""

    def root(name: str) -> str:
        base = name.partition(".")[0]
        return re.sub(r"::__i(\w+__)$", r"::__\1", base) if base.endswith("__") else base.removesuffix("_")

    ours, used = operators(), set()
    roots = {root(name) for name in ours}
    for schema in map(str, torch._C._jit_get_all_schemas()):
        name = schema.partition("(")[0]
        if not name.startswith("aten::") or name in ours or root(name) not in roots:
            continue
        reasons = [r for r in REASONS if re.fullmatch(r, schema)]
        assert reasons, f"the VM has no {schema}"
        used.update(reasons)
    assert used == set(REASONS)


def test_every_out_form_is_tested() -> None:
    """Those that are derived ([out]); the rules' are called in test_tensors_elementwise.py."""
    listed = {f"aten::{n}" for table in (CASES, DRAWN, UNTESTED) for pattern in table for n in words(pattern)}
    several = {n for n, op in operators().items() if op.outs and (op.outs > 1 or op.options_at >= 0 or not op.results)}
    assert not {n for n in several if n.startswith("aten::")} - listed
