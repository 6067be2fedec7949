"""Recurrent layers while torch traces a model: only the shapes of their results are computed.

torch's own stand-in runs all steps one by one, which takes long and makes the number of steps of the example a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo  # as a whole, before a table is changed that parts of it keep entries of
from torch._C import DispatchKey

_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


@contextmanager
def free_steps() -> Iterator[None]:
    """While this lasts, lstm, gru and rnn of a traced model say their shapes and compute nothing."""
    aten = torch.ops.aten
    replaced: dict[Any, Callable[..., Any]] = {aten.lstm.input: _lstm_shapes}
    replaced |= dict.fromkeys((aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input), _rnn_shapes)
    table = torch._decomp.decomposition_table
    kernels = {op: dict(op.py_kernels) for op in replaced}
    decompositions = {op: table[op] for op in replaced if op in table}
    try:
        for op, fn in replaced.items():
            if op in table:
                table[op] = fn
            for key in _KEYS:
                op.py_kernels[key] = fn
            op._dispatch_cache.clear()
        yield
    finally:
        table.update(decompositions)
        for op, known in kernels.items():
            op.py_kernels.clear()
            op.py_kernels.update(known)
            op._dispatch_cache.clear()


def _output(x: Any, h: Any, bidirectional: bool) -> Any:
    return x.new_empty((*x.shape[:2], h.shape[2] * (2 if bidirectional else 1)))


def _lstm_shapes(
    x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool,
) -> Any:  # fmt: skip
    return _output(x, hx[0], bidirectional), torch.empty_like(hx[0]), torch.empty_like(hx[1])


def _rnn_shapes(
    x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool,
) -> Any:  # fmt: skip
    return _output(x, hx, bidirectional), torch.empty_like(hx)
