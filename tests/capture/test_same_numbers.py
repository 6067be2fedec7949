"""What a plan decides while it is made, numbers and text that no tensor holds, is what torch computes: Python's own rules are others."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import penlight

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
X = torch.arange(3.0)


def script_of(body: str, folder: Path) -> Any:
    """A module whose forward has this body, scripted."""
    path = folder / "code_of_a_model.py"
    path.write_text(
        "import math\nfrom typing import Dict, List\nimport torch\nclass Net(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        + "".join(f"        {line}\n" for line in body.split("; "))
    )
    scope: dict[str, Any] = {"__name__": "code_of_a_model"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return torch.jit.script(scope["Net"]())


def saved(script: Any) -> bytes:
    made = io.BytesIO()
    torch.jit.save(script, made)
    return made.getvalue()


def assert_same(script: Any, model: Any, x: torch.Tensor) -> None:
    expected, got = script(x), model(x)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(
        got, expected, rtol=1e-12 if got.dtype == torch.float64 else 1e-6, atol=0.0, equal_nan=True
    )


@pytest.mark.parametrize(
    "body",
    [
        "return x + float(x.size(0)) // 0.1",
        "return x + float(x.size(0)) % float('inf')",
        "return torch.full([2], max(1.0, x.size(0)))",
        "return torch.full([2], min(x.size(0), 7.5))",
        "return x + math.sqrt(float(x.size(0)) - 10.0)",
        "return x + len('é' if x.size(0) == 3 else '')",
        "return x + len('é,ü'.upper().split('é'))",
        "return x + float('é'.isalpha())",
        "k = [float('nan'), 1.0]; return x + float(k[0] in k) + k.count(k[0])",
        "d = {'a': 1, 'b': 2}; k, v = d.popitem(); return x + v",
        "d: Dict[float, int] = {}; d[float('nan')] = 3; d[float('nan')] = 4; return x + len(d)",
        "return x.double() + torch.tensor([0.1], dtype=torch.float64)",
        "return x + (-8.0) ** 0.5",
        "return x + len('%d of %%, %s' % (x.size(0), 'x')) + len('{}'.format(x.size(0) * 0.1))",
    ],
)
def test_numbers_and_text(body: str, tmp_path: Path) -> None:
    script = script_of(body, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it is interpreted
        assert_same(script, penlight.optimize(saved(script), (X,)), X)


@pytest.mark.parametrize(
    "number",
    [
        "math.fabs(3.0 - x.size(0))",
        "math.erf(x.size(0) * 0.1)",
        "math.copysign(1.0, 4.0 - x.size(0))",
        "math.frexp(float(x.size(0)))[0]",
        "math.acos(1.0 / x.size(0))",
        "divmod(float(x.size(0)), 0.7)[1]",
        "x.size(0) ** 2",
        "2 ** x.size(0)",
    ],
)
def test_numbers_of_open_sizes(number: str, tmp_path: Path) -> None:
    """torch computed some with the size of the example, without a word."""
    script = script_of(f"return torch.full([2], {number})", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it is interpreted
        model = penlight.optimize(saved(script), (X,), dynamic_shapes="auto")
    for n in (3, 5, 8):
        assert_same(script, model, torch.arange(float(n)))


class Traced(nn.Module):
    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n: Any = torch._shape_as_tensor(x)[1] if not torch.jit.is_tracing() else x.shape[1]
        return x[:, : self.size(n)]


@pytest.mark.parametrize("dynamic", [None, "auto"])
@pytest.mark.parametrize(
    ("size", "example"),
    [
        (lambda n: torch.floor_divide(n * 0.29, 1).long(), 100),
        (lambda n: (n / 49 * 49).long(), 2),
        (lambda n: (n * 0.29).long() * 3, 100),
        (lambda n: (n * 0.5).long() * 2, 101),
    ],
)
def test_traced_sizes_are_f32(size: Any, example: int, dynamic: str | None) -> None:
    """n * 0.29 is 28.999999999999996 for 100 in Python, and 29 in a trace, where sizes are tensors."""
    x = torch.arange(2.0 * example).reshape(2, example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(Traced(size), (x,), check_trace=False)
        model = penlight.optimize(saved(script), (x,), dynamic_shapes=dynamic)
    for n in (example,) if dynamic is None else (example, 100, 41, 57, 200):
        if dynamic is None or n > 1:
            y = torch.arange(2.0 * n).reshape(2, n)
            assert_same(script, model, y)
