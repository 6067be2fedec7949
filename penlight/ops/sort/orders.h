// Sorting, for the VM's operators on orders and sets.
#pragma once
#include "penlight/ops/shape/views.h"

namespace pen {

// Puts `items` into an order that keeps equal ones where they are; `spare` is as large. less(a, b) of two items, which goes through `each`
// elements.
template <class Less>
static inline Status merge_sort(const Call& c, int64_t* items, int64_t* spare, int64_t n, int64_t each, Less less) {
  int64_t *from = items, *to = spare;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t start = 0; start < n; start += 2 * width) {
      int64_t middle = start + width < n ? start + width : n, end = start + 2 * width < n ? start + 2 * width : n;
      int64_t a = start, b = middle;
      for (int64_t k = start; k < end; ++k) {
        PEN_TRY(c.walk(each));
        to[k] = b >= end || (a < middle && !less(from[b], from[a])) ? from[a++] : from[b++];
      }
    }
    int64_t* swap = from;
    from = to;
    to = swap;
  }
  if (from != items) memcpy(items, from, static_cast<size_t>(n) * 8);
  return PEN_OK;
}

// The dtype of the kernels that put this one in order.
DType order_carrier(DType d);
// Values along a dim in order (NaN the largest) and their places, both row-major. Rank 0 is one value.
Status sorted(const Call& c, const TensorObject& t, int dim, bool descending, Value* values, Value* places);

}  // namespace pen
