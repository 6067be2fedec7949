"""Complex tensors: pairs of real ones inside, whole again at the edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight.capture import capture
from penlight.errors import InputError, UnsupportedError
from tests.compare import assert_same


class Call(nn.Module):
    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


Z = torch.complex(torch.randn(3, 4), torch.randn(3, 4))


def test_inputs_and_outputs_are_joined_at_the_edge() -> None:
    m = penlight.optimize(Call(lambda z, d: (z * d["w"], [d["w"].conj(), z.abs()])), (Z, {"w": Z[0]}))
    assert_same(m(Z, {"w": Z[0]}), (Z * Z[0], [Z[0].conj().resolve_conj(), Z.abs()]), 1e-6)
    assert [(i.name, i.dtype) for i in m.inputs()][:2] == [("args_0_real", "f32"), ("args_0_imag", "f32")]


def test_a_conjugate_and_numpy_go_in() -> None:
    m = penlight.optimize(Call(lambda z: z + 1j), (Z,))
    assert_same(m(Z.conj()), Z.conj().resolve_conj() + 1j, 1e-6)
    got = m(Z.numpy())
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.complex64
    assert np.allclose(got, Z.numpy() + 1j)


def test_a_real_tensor_for_a_complex_input_is_refused() -> None:
    m = penlight.optimize(Call(lambda z: z + 1), (Z,))
    with pytest.raises(InputError, match="must be a complex64 tensor, got float32"):
        m(Z.real)


def test_a_complex_buffer_becomes_two_constants() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.polar(torch.ones(5, 4), torch.rand(5, 4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * self.table).flatten(-2).type_as(x)

    module, x = Rotary(), torch.randn(2, 3, 5, 8)
    graph = capture(module, (x,)).methods["forward"].graph
    assert {"table.real", "table.imag"} <= set(graph.constants)
    assert_same(penlight.optimize(module, (x,))(x), module(x), 1e-6)


def test_an_operator_without_a_rule_says_so() -> None:
    with pytest.raises(UnsupportedError, match="on a complex tensor"):
        penlight.optimize(Call(lambda z: torch.cumprod(z, 0)), (Z,))


def test_dynamic_shapes() -> None:
    n = torch.export.Dim("n", min=2, max=50)
    m = penlight.optimize(Call(lambda z: torch.fft.ifft(torch.fft.fft(z) * 2)), (Z,), dynamic_shapes=(({0: n},),))
    z = torch.complex(torch.randn(7, 4), torch.randn(7, 4))
    assert_same(m(z), z * 2, 1e-6)
