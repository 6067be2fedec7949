// Tensors as plain arrays, for operators that are loops: elements in a wide dtype, row-major, the dims that matter last.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

// Some of a tensor's dims.
struct DimSet {
  bool has[kMaxRank] = {};
  int count = 0;
  void add(int d) {
    count += !has[d];
    has[d] = true;
  }
};
// torch's dim list, each once, or its one dim. None, or empty where `empty_is_all`: all of them.
Status dims_of(const Call& c, int arg, int rank, bool empty_is_all, DimSet* to);
DimSet all_dims(int rank);
// The shape without these dims, or with size 1 there.
Shape reduced_shape(const TensorObject& t, const DimSet& dims, bool keepdim);
TensorObject* tensor_create(DType dtype, const Shape& shape);

// The elements of `dims` as rows of one array: [outer, inner], in the order of the dims.
struct RowArray {
  Value hold;
  int64_t outer, inner;
  template <class T>
  const T* row(int64_t i) const {
    return hold.tensor()->as<T>() + i * inner;
  }
};
// dtype: f64 or i64 mostly.
Status rows_of(const Call& c, const TensorObject& t, const DimSet& dims, DType dtype, RowArray* to);
// All elements in order.
Status elements_of(const Call& c, const TensorObject& t, DType dtype, Value* to);
// A view in this shape of a tensor that is row-major; null when out of memory.
TensorObject* in_shape(const TensorObject& t, const Shape& shape);
// Gives a tensor cast to this dtype; takes it over.
Status give_as(Call& c, Value&& tensor, DType dtype, int result = 0);

}  // namespace pen
