// Several tensors walked together: dims broadcast to one shape, put into the order of memory, and merged where every tensor
// continues from one to the next. For kernels, their bind rules and the VM alike.
#pragma once
#include "penlight/runtime/base/tensor.h"

namespace pen {

// A place counted from the end where it is negative; still negative where it lies before the beginning.
static PEN_INLINE int64_t from_end(int64_t index, int64_t count) { return index < 0 ? index + count : index; }

// Joins dims to a shape, counted from the last: a size of 1 repeats. -1 where they fit, else the dim that does not.
static PEN_INLINE int broadcast(Shape* shape, const int64_t* dims, int rank) {
  for (; shape->rank < rank; ++shape->rank) {
    for (int d = shape->rank; d > 0; --d) shape->dims[d] = shape->dims[d - 1];
    shape->dims[0] = 1;
  }
  for (int d = 0; d < rank; ++d) {
    int64_t& size = shape->dims[shape->rank - rank + d];
    if (dims[d] == size || dims[d] == 1) continue;
    if (size != 1) return d;
    size = dims[d];
  }
  return -1;
}
// How far a step along dim d of `shape` goes in a tensor whose first `rank` dims were broadcast to it: 0 where it repeats.
static PEN_INLINE int64_t broadcast_stride(const Shape& shape, int d, const Tensor& t, int rank) {
  int own = d - (shape.rank - rank);
  return own < 0 || (t.dims[own] == 1 && shape.dims[d] != 1) ? 0 : t.strides[own];
}

// Dims with the largest stride first; those of size 1 are left out. How many there are.
static PEN_INLINE int memory_order(int rank, const int64_t* dims, const int64_t* strides, int* order) {
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] == 1) continue;
    int at = n++;
    for (; at > 0 && strides[order[at - 1]] < strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  return n;
}

static PEN_INLINE int memory_order(const Tensor& t, int* order) { return memory_order(t.rank, t.dims, t.strides, order); }

// Puts a dim inside of the `rank` ones that are there, outermost first: steps[t][d] is the stride of dim d in tensor t, inner[t]
// the new one's. Merged with the last one where every tensor continues. The new rank.
static PEN_INLINE int add_inner_dim(int rank, int64_t* dims, int64_t* const* steps, int tensors, int64_t size, const int64_t* inner) {
  bool merges = rank > 0;
  for (int t = 0; t < tensors && merges; ++t) merges = steps[t][rank - 1] == size * inner[t];
  if (!merges) dims[rank++] = 1;
  dims[rank - 1] *= size;
  for (int t = 0; t < tensors; ++t) steps[t][rank - 1] = inner[t];
  return rank;
}

// All dims of `to` in the order of memory, innermost first, merged; stride(t, d): of dim d in tensor t, `to` itself being tensor 0.
// The rank.
template <class Stride>
static PEN_INLINE int merge_dims(const Tensor& to, int tensors, const Stride& stride, int64_t* dims, int64_t* const* steps) {
  int order[kMaxRank], n = memory_order(to, order), rank = 0;
  int64_t inner[kMaxRank];
  for (int k = 0; k < n; ++k) {
    for (int t = 0; t < tensors; ++t) inner[t] = stride(t, order[k]);
    rank = add_inner_dim(rank, dims, steps, tensors, to.dims[order[k]], inner);
  }
  for (int t = -1; t < tensors; ++t) {
    int64_t* list = t < 0 ? dims : steps[t];
    for (int a = 0, z = rank - 1; a < z; ++a, --z) {
      int64_t kept = list[a];
      list[a] = list[z];
      list[z] = kept;
    }
  }
  return rank;
}

// The loops over an output and the inputs that were broadcast to it. Dim 0 is the innermost, a row: its stride is 1 in the output.
template <int Inputs>
struct Loops {
  static_assert(Inputs < kMaxRank, "merge_dims has room for so many");
  int rank;  // at least 1
  int64_t dims[kMaxRank + 1], out[kMaxRank + 1], in[Inputs][kMaxRank + 1];

  // input(i): the tensor.
  template <class Input>
  PEN_INLINE void make(const Tensor& to, int inputs, const Input& input) {
    Shape shape;
    shape.rank = to.rank;
    for (int d = 0; d < to.rank; ++d) shape.dims[d] = to.dims[d];
    int64_t* steps[1 + Inputs] = {out};
    for (int i = 0; i < inputs; ++i) steps[1 + i] = in[i];
    auto stride = [&](int t, int d) __attribute__((always_inline)) {
      return t == 0 ? to.strides[d] : broadcast_stride(shape, d, input(t - 1), input(t - 1).rank);
    };
    rank = merge_dims(to, 1 + inputs, stride, dims, steps);
    if (rank > 0 && out[0] == 1) return;
    // One element, or a result with gaps: rows of one.
    for (int d = rank++; d > 0; --d) {
      dims[d] = dims[d - 1];
      for (int t = 0; t < 1 + inputs; ++t) steps[t][d] = steps[t][d - 1];
    }
    dims[0] = out[0] = 1;
    for (int i = 0; i < inputs; ++i) in[i][0] = 0;
  }
};

}  // namespace pen
