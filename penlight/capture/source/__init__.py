"""TorchScript .pt files read without torch: their serialized source text becomes register code. `read.read(path)` gives the Script."""
