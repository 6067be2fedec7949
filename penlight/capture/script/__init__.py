"""TorchScript → register code (ir/script.py) → plans: one machine runs it in Python, and what is straight tensor code becomes a Graph."""

from penlight.capture.script.sources import capture_script, torch_file, torch_module

__all__ = ["capture_script", "torch_file", "torch_module"]
