"""quantized_product: matrix products and depthwise convolutions of quantized integers. Files do not name it: the VM's quantized
operators (linear.cc, conv.cc) call its kernels."""

from __future__ import annotations

from penlight.ops.registry import Op

quantized_product = Op("quantized_product", "x: tensor", dtypes=("u8",), doc="Quantized products, in the VM only.")
