"""Embeddings in few bits, and recurrent layers with quantized weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from penlight import _runtime
from tests.vm import check
from tests.vm.quantized import Packed, engine, pack, same

INDICES = torch.tensor([0, 3, 3, 11, 5])


@pytest.mark.parametrize("bits", ["byte", "4bit", "2bit"])
def test_embedding_rows(bits: str) -> None:
    """Tables as bytes, with scale and offset behind every row."""
    torch.manual_seed(0)
    table = torch.randn(12, 16)
    table[4] = 2.5  # a row without range
    made = same(f"quantized::embedding_bag_{bits}_prepack", table)
    same(f"quantized::embedding_bag_{bits}_unpack", made, tolerance=1e-7)
    name = f"quantized::embedding_bag_{bits}_rowwise_offsets"
    none = (None, None, False)
    same(name, made, INDICES, torch.tensor([0, 2, 2]), False, 0, False, *none, tolerance=1e-6)
    same(name, made, INDICES, torch.tensor([0, 2, 2]), False, 0, False, torch.rand(5), None, False, tolerance=1e-6)
    same(name, made, INDICES.int(), torch.tensor([0, 2, 5]).int(), False, 0, False, None, None, True, tolerance=1e-6)
    same(name, made, INDICES.view(1, 5).repeat(2, 1), None, False, 0, False, *none, tolerance=1e-6)
    mapping = torch.tensor([2, -1, 0, 1, -1, 3, 4, 5, 6, 7, 8, 9], dtype=torch.int32)
    same(name, made, INDICES, torch.tensor([0, 2]), False, 0, True, None, mapping, False, tolerance=1e-6)


def byte_table() -> tuple[Packed, torch.Tensor]:
    """The same table in both: zero points are real numbers in torch, whole ones here."""
    rows, scales, zeros = torch.randn(12, 16), torch.rand(12) * 0.02 + 0.01, torch.randint(100, 150, (12,))
    theirs = torch.quantize_per_channel(rows, scales, zeros.float(), 0, torch.quint8)
    ours = _runtime.TensorValue(
        np.ascontiguousarray(theirs.int_repr().numpy()), 4, 0, scales.double().tolist(), zeros.tolist()
    )
    problem, held, _ = check.call("quantized::embedding_bag_prepack", [ours], hold=True)
    assert problem is None, problem
    return Packed(held[0], torch.ops.quantized.embedding_bag_prepack(theirs)), theirs


def test_embedding_packed() -> None:
    torch.manual_seed(1)
    packed, _ = byte_table()
    same("quantized::embedding_byte", packed, INDICES, False)
    same("quantized::embedding_byte", packed, INDICES.int(), False)
    same(
        "quantized::embedding_bag_byte",
        packed,
        INDICES,
        torch.tensor([0, 2, 2]),
        False,
        0,
        False,
        None,
        None,
        False,
        tolerance=1e-6,
    )
    for indices in (torch.tensor([12]), torch.tensor([-1])):
        with pytest.raises(check.OperatorError, match="rows of the table"):
            check.run("quantized::embedding_byte", packed.ours, indices, False)
    with pytest.raises(check.OperatorError, match="number of bits"):
        check.run("quantized::embedding_4bit", packed.ours, INDICES, False)
    with pytest.raises(check.OperatorError, match="offsets that rise"):
        check.run("quantized::embedding_bag_byte", packed.ours, INDICES, torch.tensor([3, 1]))


def cells(
    layers: int, inputs: int, hidden: int, gates: int, both: bool, half: bool, reduce_range: bool = False
) -> list[Packed]:
    made = []
    for layer in range(layers):
        for _ in range(2 if both else 1):
            products = []
            for size in (inputs if layer == 0 else hidden * (2 if both else 1), hidden):
                w, b = torch.randn(gates * hidden, size) * 0.2, torch.randn(gates * hidden) * 0.1
                if half:
                    products.append(pack("quantized::linear_prepack_fp16", w, b))
                else:
                    products.append(
                        pack("quantized::linear_prepack", torch.quantize_per_tensor(w, 0.005, 0, torch.qint8), b)
                    )
            zeros = torch.zeros(gates * hidden)
            name = "quantized::make_quantized_cell_params_"
            made.append(
                pack(name + "fp16", *products)
                if half
                else pack(name + "dynamic", *products, zeros, zeros, reduce_range)
            )
    return made


@pytest.mark.parametrize("kind", ["i8", "i8 of 7 bits", "f16"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent(layers: int, both: bool, kind: str) -> None:
    """Products are exact; a last bit of tanh may move a state by a step of its quantization in the next one, hence the tolerance."""
    torch.manual_seed(layers)
    count, hidden = layers * (2 if both else 1), 6
    half, reduced = kind == "f16", kind == "i8 of 7 bits"
    tolerance = 1e-5 if half else 5e-3
    with engine("qnnpack" if kind == "i8" else "fbgemm"):
        tail = (True, layers, 0.0, False, both)
        for batch_first in (False, True):
            x = torch.randn(5, 3, 7)
            batch = 5 if batch_first else 3
            h, c = torch.randn(count, batch, hidden), torch.randn(count, batch, hidden)
            lstm, gru = (cells(layers, 7, hidden, gates, both, half, reduced) for gates in (4, 3))
            same("aten::quantized_lstm.input", x, [h, c], lstm, *tail, batch_first, tolerance=tolerance)
            same("aten::quantized_gru.input", x, h, gru, *tail, batch_first, tolerance=tolerance)
        sizes, x = torch.tensor([4, 3, 3, 1]), torch.randn(11, 7)
        h, c = torch.randn(count, 4, hidden), torch.randn(count, 4, hidden)
        same("aten::quantized_lstm.data", x, sizes, [h, c], lstm, *tail, tolerance=tolerance)
        same("aten::quantized_gru.data", x, sizes, h, gru, *tail, tolerance=tolerance)


@pytest.mark.parametrize("zero", [0, 7, -100])
@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn_relu", 1), ("rnn_tanh", 1)])
def test_cells(name: str, gates: int, zero: int) -> None:
    """A weight with a zero point is two for the kernels, and the state comes twice."""
    torch.manual_seed(gates)
    with engine("qnnpack"):
        products = [
            pack(
                "quantized::linear_prepack",
                torch.quantize_per_tensor(torch.randn(gates * 6, k) * 0.3, 0.005, zero, torch.qint8),
                torch.randn(gates * 6),
            )
            for k in (7, 6)
        ]
        h = torch.randn(3, 6)
        state: Any = [h, torch.randn(3, 6)] if name == "lstm" else h
        zeros = torch.zeros(gates * 6)
        same(
            f"quantized::quantized_{name}_cell_dynamic",
            torch.randn(3, 7),
            state,
            *products,
            zeros,
            zeros,
            tolerance=1e-6,
        )


def test_refused() -> None:
    cell = cells(1, 7, 6, 4, False, False)[0].ours
    x, h = torch.randn(5, 3, 7), torch.randn(1, 3, 6)
    tail = (True, 1, 0.0, False, False, False)
    cases: list[tuple[str, tuple[Any, ...], str]] = [
        ("aten::quantized_lstm.input", (x, [h], [cell], *tail), "two states"),
        ("aten::quantized_lstm.input", (x, [h, h], [cell, cell], *tail), "each layer"),
        ("aten::quantized_lstm.input", (x, [h, torch.randn(1, 3, 5)], [cell], *tail), "w_ih of"),
        ("aten::quantized_lstm.input", (x, [torch.randn(1, 3, 5)] * 2, [cell], *tail), "w_ih of"),
        ("aten::quantized_lstm.input", (x, [h, h], [3], *tail), "packed parameters"),
        ("aten::quantized_lstm.input", (torch.randn(5, 3, 8), [h, h], [cell], *tail), "w_ih of"),
        ("aten::quantized_gru.input", (x, h, [cell], *tail), "w_ih of"),
        ("aten::quantized_lstm.data", (x[0], torch.tensor([1, 2]), [h, h], [cell], *tail[:-1]), "never grow"),
        ("aten::quantized_lstm.data", (x[0], torch.tensor([2, 2]), [h, h], [cell], *tail[:-1]), "add up"),
    ]
    for name, args, words in cases:
        with pytest.raises(check.OperatorError, match=words):
            check.run(name, *args)
