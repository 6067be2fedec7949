"""While torch traces, recurrent layers answer with shapes alone.

torch runs its decomposition to learn their shapes: a loop over the words, which is slow and fixes how many there are.
Operators without a converter are left as they are: those are taken apart by that very loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from penlight.capture.calls import aten_name
from penlight.ops import registry


@contextmanager
def shapes_only() -> Iterator[None]:
    """The loops of recurrent layers are not traced inside of this."""
    registry.load_all()
    aten = torch.ops.aten
    one_state: list[OpOverload] = [aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input]
    rules = {aten.lstm.input: _lstm, **dict.fromkeys(one_state, _rnn)}
    with ExitStack() as stack:
        for op, rule in rules.items():
            if aten_name(op) in registry.ATEN:
                stack.enter_context(_replaced(op, rule))
        yield


@contextmanager
def _replaced(op: OpOverload, rule: Callable[..., Any]) -> Iterator[None]:
    """The rule wherever torch's decomposition is registered."""
    places: list[tuple[dict[Any, Any], Any]] = [(op.py_kernels, DispatchKey.CompositeImplicitAutograd),
                                                (op.py_kernels, DispatchKey.Autograd), (decomposition_table, op)]  # fmt: skip
    old = [(table, key, table[key]) for table, key in places if key in table]
    try:
        for table, key, _ in old:
            table[key] = rule
        op._dispatch_cache.clear()
        yield
    finally:
        for table, key, fn in old:
            table[key] = fn
        op._dispatch_cache.clear()


def _output(x: torch.Tensor, state: torch.Tensor, bidirectional: bool) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], state.shape[-1] * (2 if bidirectional else 1)))


def _lstm(
    x: torch.Tensor, hx: list[torch.Tensor], params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return (_output(x, hx[0], bidirectional), *(torch.empty_like(h) for h in hx))


def _rnn(
    x: torch.Tensor, hx: torch.Tensor, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return _output(x, hx, bidirectional), torch.empty_like(hx)
