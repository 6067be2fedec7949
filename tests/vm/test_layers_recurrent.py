"""Recurrent layers and packed sequences of the VM beside torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from penlight import _runtime
from tests.vm.check import OperatorError, _from_vm, check, compare, run, torch_run

R = torch.randn
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-13, torch.bfloat16: 2e-2}
CELLS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN, "rnn_relu": torch.nn.RNN}
LENGTHS = torch.tensor([5, 3, 3, 1])


def _module(name: str, *sizes: int, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    if name == "rnn_relu":
        options["nonlinearity"] = "relu"
    return CELLS[name](*sizes, **options).to(dtype).eval()


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "num_layers": 2}, {"batch_first": True}],
    ids=str,
)
def test_layers(name: str, options: Any) -> None:
    for dtype in (torch.float32, torch.float64):
        module = _module(name, 6, 9, dtype=dtype, **options)
        layers, both = options.get("num_layers", 1), options.get("bidirectional", False)
        params = [p.detach() for p in module.parameters()]
        x, batch = R(5, 4, 6).to(dtype), 5 if "batch_first" in options else 4
        count = layers * (2 if both else 1)
        h: Any = R(count, batch, 9).to(dtype)
        if name == "lstm":
            h = [h, R(count, batch, 9).to(dtype)]
        rest = (params, options.get("bias", True), layers, 0.3, False, both)
        check(f"aten::{name}.input", x, h, *rest, "batch_first" in options, tolerance=TOLERANCE[dtype])
        if "batch_first" in options:
            continue
        packed = pack_padded_sequence(x, LENGTHS)
        check(f"aten::{name}.data", packed.data, packed.batch_sizes, h, *rest, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        params = [p.detach() for p in _module(name, 6, 9, dtype=dtype).parameters()]
        for given in (params, params[:2]):
            for lead in ((4,), (1,)):
                h: Any = R(*lead, 9).to(dtype)
                h = [h, R(*lead, 9).to(dtype)] if name == "lstm" else h
                check(f"aten::{name}_cell", R(*lead, 6).to(dtype), h, *given, tolerance=TOLERANCE[dtype])


def test_projection_and_halves() -> None:
    module = torch.nn.LSTM(6, 9, 2, proj_size=5, bidirectional=True)
    params = [p.detach() for p in module.parameters()]
    for dtype in (torch.float32, torch.float64):
        args = R(5, 4, 6).to(dtype), [R(4, 4, 5).to(dtype), R(4, 4, 9).to(dtype)], [p.to(dtype) for p in params]
        check("aten::lstm.input", *args, True, 2, 0.0, False, True, False, tolerance=TOLERANCE[dtype])
    params = [p.detach().bfloat16() for p in torch.nn.GRU(6, 9).parameters()]
    check(
        "aten::gru.input",
        R(5, 4, 6).bfloat16(),
        R(1, 4, 9).bfloat16(),
        params,
        True,
        1,
        0.0,
        False,
        False,
        False,
        tolerance=3e-2,
    )


def test_constant_weights_and_training() -> None:
    module = torch.nn.LSTM(6, 9, 2, dropout=0.5)
    params = [p.detach() for p in module.parameters()]
    held = [_runtime.HeldValue(p, True) for p in params]
    operators = _runtime.Operators()
    operators.create(1, 0)
    x, h = R(5, 4, 6), [R(2, 4, 9), R(2, 4, 9)]
    expected = torch_run("aten::lstm.input", x, h, params, True, 2, 0.5, False, False, False)
    for _ in range(2):
        problem, results = operators.run("aten::lstm.input", [x, h, held, True, 2, 0.5, False, False, False])[:2]
        assert problem is None
        for got, want in zip(results, expected, strict=True):
            compare(_from_vm(got), want, 3e-6, "lstm")
    trained = run("aten::lstm.input", x, h, params, True, 2, 0.5, True, False, False)
    compare(trained[1][0], expected[1][0], 3e-6, "the first layer, which dropout leaves alone")
    assert not torch.allclose(trained[0], expected[0])


def test_sequences() -> None:
    for batch_first in (False, True):
        for x in (R(5, 4, 6), R(5, 4), R(5, 4, 2, 3), torch.arange(20).reshape(5, 4)):
            x = x.transpose(0, 1).contiguous() if batch_first else x
            check("aten::_pack_padded_sequence", x, LENGTHS, batch_first)
            data, sizes = torch._pack_padded_sequence(x, LENGTHS, batch_first)
            check("aten::_pad_packed_sequence", data, sizes, batch_first, 0, -1)
            check("aten::_pad_packed_sequence", data, sizes, batch_first, 7, 9)


P = [p.detach() for p in torch.nn.LSTM(6, 9).parameters()]
H = [R(1, 4, 9), R(1, 4, 9)]
REST = (True, 1, 0.0, False, False)
WRONG: list[tuple[Any, ...]] = [
    ("lstm.input", R(5, 4, 6), H[:1], P, *REST, False),
    ("lstm.input", R(5, 4, 6), H, P[:3], *REST, False),
    ("lstm.input", R(5, 4, 6), H, [], *REST, False),
    ("lstm.input", R(5, 4, 7), H, P, *REST, False),
    ("lstm.input", R(5, 3, 6), H, P, *REST, False),
    ("lstm.input", R(5, 6), H, P, *REST, False),
    ("lstm.input", R(0, 4, 6), H, P, *REST, False),
    ("lstm.input", R(5, 4, 6).double(), H, P, *REST, False),
    ("lstm.input", R(5, 4, 6), H, [P[1], P[0], *P[2:]], *REST, False),
    ("lstm.input", R(5, 4, 6), H, P, True, 0, 0.0, False, False, False),
    ("lstm.input", R(5, 4, 6), H, P, True, 2**62, 0.0, False, False, False),
    ("lstm.input", R(5, 4, 6), [R(1, 4, 8), R(1, 4, 8)], P, *REST, False),
    ("lstm.data", R(9, 6), torch.tensor([4, 9]), H, P, *REST),
    ("lstm.data", R(9, 6), torch.tensor([4, 4]), H, P, *REST),
    ("lstm.data", R(9, 6), torch.tensor([3, 3, 3]), H, P, *REST),
    ("lstm.data", R(9, 6), torch.tensor([4.0, 4.0, 1.0]), H, P, *REST),
    ("gru.input", R(5, 4, 6), H[0], P, *REST, False),
    ("lstm_cell", R(4, 6), [R(4, 9), R(3, 9)], P[0], P[1]),
    ("_pack_padded_sequence", R(5, 4, 6), torch.tensor([5, 3, 4, 1]), False),
    ("_pack_padded_sequence", R(5, 4, 6), torch.tensor([5, 3, 0, 0]), False),
    ("_pack_padded_sequence", R(5, 4, 6), torch.tensor([9, 3, 3, 1]), False),
    ("_pad_packed_sequence", R(5, 4), torch.tensor([2, 9]), False, 0.0, 0),
    ("_pad_packed_sequence", R(5, 4), torch.tensor([3, 2]), False, 0.0, 1),
    ("_pad_packed_sequence", R(5, 4), torch.tensor([3, 2]), False, 0.0, 2**62),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    name, *args = WRONG[number]
    with pytest.raises(OperatorError):
        run(f"aten::{name}", *args)
