"""What every test shares: torchvision made importable, a fixed seed, and few threads (suites run side by side)."""

from __future__ import annotations

import pytest

try:
    import torch
except ImportError:  # some suites (file format, IR) run without torch
    torch = None  # type: ignore[assignment]
else:
    from tests.models import define_torchvision_ops

    define_torchvision_ops()
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same random numbers in every test, whatever ran before it."""
    if torch is not None:
        torch.manual_seed(0)
