// What bind finds out for convolutions of quantized bytes, beside what all convolutions have (conv2d.h).
#pragma once
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/cpu/result_q8.h"

namespace pen {

struct ConvQ8 : Conv2d {
  ResultQ8 result;
};

}  // namespace pen
