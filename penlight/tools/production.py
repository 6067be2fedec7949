"""Operators that PyTorch Mobile models in production called (docs/production_operators.txt: how many models, which operator), and
which of them the VM leaves out, with the reason. The table of docs/OPERATORS.md and the tests take both from here."""

from __future__ import annotations

from pathlib import Path

LIST = Path(__file__).resolve().parents[2] / "docs" / "production_operators.txt"
OFTEN = 10  # models

# The machine carries these out itself: what they leave on the stack depends on the tuple.
INSTRUCTIONS = {"prim::TupleUnpack"}
_COMPLEX = "a complex tensor: the VM has none (a planned model computes them as pairs)"
LEFT_OUT = {
    "aten::backward": "training: the runtime has no gradients",
    "aten::is_coalesced": "sparse tensors have no place in a mobile runtime",
    "aten::coalesce": "sparse tensors have no place in a mobile runtime",
    "aten::sparse_coo_tensor.indices": "sparse tensors have no place in a mobile runtime",
    "aten::sparse_resize_and_clear_": "sparse tensors have no place in a mobile runtime",
    "aten::complex": _COMPLEX,
    "aten::imag": _COMPLEX,
    "aten::fft_rfftn": _COMPLEX,
    "aten::fft_irfftn": _COMPLEX,
}


def production() -> dict[str, int]:
    """operator -> how many models used it."""
    rows = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name: int(count) for count, name in rows}
