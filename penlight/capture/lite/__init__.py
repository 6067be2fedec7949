"""PyTorch Mobile's own files (.ptl), read without torch: containers, bytecode, weights → LiteProgram."""

from penlight.capture.lite.read import bytecode_version, contained_types, operators, read

__all__ = ["bytecode_version", "contained_types", "operators", "read"]
