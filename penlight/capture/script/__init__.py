"""TorchScript → register code (ir/script.py) → plans: one machine runs it in Python, and what is straight tensor code becomes a Graph."""

from penlight.capture.script.sources import capture_program, capture_torchscript

__all__ = ["capture_program", "capture_torchscript"]
