"""PyTorch Mobile's own files (.ptl), read without torch: containers, bytecode, weights → LiteProgram."""
