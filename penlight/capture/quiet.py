"""Silence while torch works: it warns about its own future and logs failures that are about to become an error in words."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

_TALKATIVE = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor", "torch._export", "torch.export")


@contextmanager
def quiet() -> Iterator[None]:
    """Without torch's warnings and logs (unless TORCH_LOGS asks for them). What is printed to stderr is held back, and
    dropped if an exception is on its way: torch prints the graph so far."""
    loggers = [] if "TORCH_LOGS" in os.environ else [logging.getLogger(n) for n in _TALKATIVE]
    before = [logger.disabled for logger in loggers]
    held = io.StringIO()
    try:
        for logger in loggers:
            logger.disabled = True
        with warnings.catch_warnings(), redirect_stderr(held):
            for category in (FutureWarning, DeprecationWarning, UserWarning):
                warnings.simplefilter("ignore", category)
            yield
        sys.stderr.write(held.getvalue())
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
