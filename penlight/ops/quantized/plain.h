// Operators that exist for real numbers too: what their PEN_OP calls where the first tensor is quantized,
//
//   if (c.tensor(0).quantizer) return quantized_relu(c);
//
// with the arguments of aten's schema.
#pragma once
#include "penlight/runtime/vm/op.h"

namespace pen {

// activation.cc: the scale and the zero point stay, but for sigmoid, tanh and hardsigmoid, which have fixed ones
Status quantized_relu(Call& c);
Status quantized_relu6(Call& c);
Status quantized_clamp(Call& c);  // self, Scalar? min, Scalar? max; also hardtanh
Status quantized_hardtanh(Call& c);
Status quantized_sigmoid(Call& c);
Status quantized_tanh(Call& c);
Status quantized_hardsigmoid(Call& c);
Status quantized_hardswish(Call& c);
Status quantized_leaky_relu(Call& c);  // self, Scalar negative_slope
Status quantized_threshold(Call& c);   // self, Scalar threshold, Scalar value
Status quantized_elu(Call& c);         // self, Scalar alpha, Scalar scale, Scalar input_scale

// pool.cc
Status quantized_max_pool(Call& c, int sides);           // self, kernel_size, stride, padding, dilation, ceil_mode
Status quantized_avg_pool2d(Call& c);                    // self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
Status quantized_avg_pool3d(Call& c);
Status quantized_adaptive_avg_pool(Call& c, int sides);  // self, output_size
Status quantized_mean(Call& c);                          // self, int[1]? dim, bool keepdim, ScalarType? dtype

// resize.cc: (self, output_size, [align_corners,] scales...) and their .vec forms (input, output_size?, [align_corners,] scale_factors?)
Status quantized_upsample_nearest(Call& c, int sides, bool exact, bool is_vec);
Status quantized_upsample_bilinear2d(Call& c, bool is_vec);

// shape.cc
Status quantized_cat(Call& c);                            // tensors, dim
Status quantized_copy(Call& c, const TensorObject& from, TensorObject* to);  // copy_: real into quantized and so on
Status quantized_fill(Call& c);                           // self, Scalar value: the filled tensor
Status quantized_compare(Call& c);                        // eq, ne, lt … with a Tensor or a Scalar: runs the same operator on real numbers
Status quantized_by_integers(Call& c, int first_result);  // operators that only move or order elements: on the integers, quantizer kept

}  // namespace pen
