"""Pooling: a window of each channel plane becomes one number. NHWC kernels, vectors over channels."""
