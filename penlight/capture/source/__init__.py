"""TorchScript .pt files read without torch: their serialized source text becomes register code. `SourceProgram(path).script()` gives the Script."""

from penlight.capture.source.read import SourceProgram

__all__ = ["SourceProgram"]
