"""Files that do not add up (tests/ops/test_conv_checks.py), on a GPU: an error in words, before anything runs, as on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import penlight
from tests.gpu.conftest import device_of
from tests.ops.test_conv_checks import CONV, VARIANTS, broken


@pytest.mark.parametrize("variant", ["gemm", "depthwise", "grouped"])
@pytest.mark.parametrize("case", CONV)
def test_conv2d(case: str, variant: str) -> None:
    inputs, outputs, groups = VARIANTS[variant]
    x = torch.randn(1, inputs, 7, 9)
    data = broken(nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups), x, "conv2d", CONV[case])
    with pytest.raises(penlight.PenlightError, match="expected"):
        penlight.load(data, device=device_of("lavapipe"))(x)
