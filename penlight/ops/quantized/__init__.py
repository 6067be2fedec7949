"""Quantized tensors in the VM: their operators, computed in integers."""
