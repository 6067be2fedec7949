// Weights of quantized products as integer kernels read them (runtime/base/packed.h: "quads16", "taps"), and what those need to know of
// every column (runtime/cpu/result_q8.h). Kernels know no zero points of weights: where there are some, w - zero becomes two weights
// of i8 whose sum it is, and the inputs of each group come twice.
#pragma once
#include "penlight/ops/quantized/packed.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

struct Filter {
  Weights w;
  int sides;                        // of the maps: 2 or 3; 0: a linear layer
  int64_t groups, outputs, inputs;  // of one group
  int64_t kernel[3];                // depth, height, width; 1 where there is none
  bool turned;                      // [Ci, Co / groups, …], read from its end: the convolution that a transposed one is of spread pixels
  bool doubled;
  bool depthwise() const { return sides == 2 && inputs == 1 && outputs == 1 && groups > 1 && !doubled; }
  const char* layout() const { return depthwise() ? "taps" : "quads16"; }
};
// weights_of has filled f->w; `groups` of them.
Status filter_of(const Call& c, int sides, int64_t groups, bool turned, Filter* f);

// The packed weight and a constant of starts, sums, biases and scales, made for x of this type. out_scale 0: results are real.
struct FilterValues {
  Value weights, columns;
};
Status pack_filter(const Call& c, const Filter& f, DType x_dtype, Affine x, double out_scale, FilterValues* to);
// Input 1 of a product in a graph.
int add_filter(Graph* g, const Filter& f, const FilterValues& values);
// Attributes that say what becomes of its results.
void add_limits(Graph* g, bool relu);

// Rows of `channels` elements, dense, with those of each group twice.
Status doubled_rows(const Call& c, const Filter& f, const TensorObject& x, Value* to);

}  // namespace pen
