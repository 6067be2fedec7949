"""Transformers as ONNX Runtime has them: its optimizer's fusions, and attention as one operator.

The optimizer looks for attention as certain exporters write it, and does not find what today's torch writes. So the exporter is told to
write ONNX Runtime's operator at once, for which it has kernels that keep no whole matrix of scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import torch
from onnxruntime.transformers.optimizer import optimize_model

from bench.case import Convertible
from bench.networks import heads_of, joined


def fuse(source: Path, target: Path, transformer: tuple[str, int, int]) -> None:
    kind, heads, width = transformer
    made = optimize_model(str(source), kind, num_heads=heads, hidden_size=width)
    made.save_model_to_file(str(target))
    found = {name: count for name, count in made.get_fused_operator_statistics().items() if count}
    print(f"{target.parent.name}: {found}")  # into the log of the preparation


def with_attention(case: Convertible, path: Path) -> None:
    torch.backends.mha.set_fastpath_enabled(False)
    with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", _attention):
        torch.onnx.export(case.module(), case.inputs(), path, dynamo=False, custom_opsets={"com.microsoft": 1})


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, is_causal: bool = False
) -> torch.Tensor:
    """The operator takes and gives [1, words, width]: transposes that so stand one after the other cancel out."""
    heads = int(query.shape[1])  # while it is traced, sizes are tensors
    if attn_mask is not None:
        attn_mask = attn_mask.expand(1, 1, query.shape[2], key.shape[2])
    parts = (joined(part) for part in (query, key, value))
    return heads_of(MultiHeadAttention.apply(*parts, attn_mask, heads, is_causal), heads)


class MultiHeadAttention(torch.autograd.Function):
    """ONNX Runtime's operator; in torch it stands for nothing but its shape."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, *rest: Any) -> torch.Tensor:
        return query.clone()

    @staticmethod
    def symbolic(g: Any, query: Any, key: Any, value: Any, mask: Any, heads: int, causal: bool) -> Any:
        given = [query, key, value]
        if mask is not None and not mask.node().mustBeNone():
            given += [_nothing(g), _nothing(g), mask]  # no bias, no mask of keys, what is added to the scores
        made = g.op("com.microsoft::MultiHeadAttention", *given, num_heads_i=heads, unidirectional_i=int(causal))
        made.setType(query.type())
        return made


def _nothing(g: Any) -> Any:
    empty = g.op("prim::Constant")
    empty.setType(torch._C.OptionalType.ofTensor())
    return empty
