"""Convolution, and the packing of weights that are known only at run time."""
