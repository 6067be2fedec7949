// What the VM's operators on indices share: indices as torch takes them (bools become places, negative ones count from the end),
// and elements combined by dtype.
#pragma once
#include "penlight/ops/index/walk.h"
#include "penlight/ops/shape/views.h"

namespace pen {

// How one element goes into another, both at any address of this dtype.
using CombineFn = void (*)(void* to, const void* from);
CombineFn combine_function(Combine how, DType dtype);

// The error of an index that is not from 0 to size - 1.
Status out_of_range(const Call& c, int64_t index, int dim, int64_t size);
// An index tensor as i64, row-major. Bools and bytes are not taken here.
Status long_index(const Call& c, const TensorObject& index, Value* made);
// The places where a mask (bools, or bytes) holds: one row-major i64 tensor per dim.
Status places_in(const Call& c, const TensorObject& mask, Value* made);

// x[indices], whatever it is used for: the tensor's dims in the order of the result, and a table of offsets.
struct Indexed {
  Shape shape;                    // of the result
  int at, rank;                   // its dims [at, at + rank) come from the indices
  int64_t strides[kMaxRank];      // of x along the result's other dims; 0 for those
  Value offsets;                  // i64, in elements of x; row-major over the indices' shape
  Tensor operands[1 + kMaxRank];  // as torch's iterator sees x and the indices
  int operand_count;
};
Status resolve(const Call& c, const TensorObject& x, const ListObject& indices, Indexed* made);

// Calls row(n, offsets) over the result's dims; offsets: of `other` (strides along the result), of x, and into the table. There may be far
// more of them than elements anywhere: a million indices of one row of a million.
template <class Row>
static inline Status for_rows(const Call& c, const Indexed& i, const int64_t* other, Row row) {
  Walk w = {};
  int64_t table[kMaxRank];
  row_major_strides(i.rank, i.shape.dims + i.at, table);
  for (int d = 0; d < i.shape.rank; ++d) {
    bool indexed = d >= i.at && d < i.at + i.rank;
    w.add(i.shape.dims[d], other[d], i.strides[d], indexed ? table[d - i.at] : 0);
  }
  w.close();
  return in_pieces(c, w.numel(), [&](int64_t begin, int64_t end) {
    w.rows(begin, end, [&](int64_t n, const int64_t* offsets) {
      int inner = w.rank - 1;
      row(n, offsets, w.steps[0][inner], w.steps[1][inner], w.steps[2][inner]);
    });
  });
}

}  // namespace pen
