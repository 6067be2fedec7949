// Convolution, pooling and resizing know two forms, [N, C, H, W] and [N, C, D, H, W]; torch has more: one spatial dim, and no
// batch dim. These bring a tensor into one of them without moving it, and the result back.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

struct Planes {
  Tensor x;            // with its data; H is 1 where there is one spatial dim
  int spatial;         // torch's: 1, 2 or 3
  bool batched;        // torch's tensor has a batch dim
  bool channels_last;  // so does the result lie
  bool hidden;         // so it may lie underneath (images.h)
  int sides() const { return spatial == 3 ? 3 : 2; }
};
Status planes_of(const Call& c, const TensorObject& x, int spatial, Planes* to);

// torch's argument for the spatial dims: one number stands for all; an empty list means `otherwise` where that is given (of a stride:
// the kernel's size). `missing`: what the height gets where there is one spatial dim.
Status sides_of(const Call& c, int arg, int spatial, int64_t missing, int64_t* to, const int64_t* otherwise = nullptr);

// Computes `values` of the graph, which are planes in channels-last order, and gives them as torch has them: in x's form, and
// row-major unless x is channels-last. `from`, `to`: the dtypes that they have and should have.
Status give_planes(Call& c, Graph* g, const Planes& p, const int* values, int count, const DType* from, const DType* to);
// The same for one tensor of planes that is computed already; takes it over.
Status give_planes(Call& c, const Planes& p, TensorObject* made, int result = 0);

}  // namespace pen
