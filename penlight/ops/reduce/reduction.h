// Reductions of the VM: over the kernels where there is one of the dtype, else row by row in double precision.
#pragma once
#include "penlight/runtime/vm/flat.h"

namespace pen {

// The dtype among those of `kernel`'s keys that holds all values of `dtype`. False: there is none.
bool reduction_carrier(const char* kernel, DType dtype, DType* carrier);
// Adds `kernel` over dims to the graph; the value is of the kernel's result dtype. p: the attribute after keepdim, if it has one.
int add_reduced(Graph* g, const char* kernel, const TensorObject& x, DType carrier, const DimSet& dims, bool keepdim,
                const char* p_name = nullptr, double p = 0);
// `x` cast to `to`, reduced. Gives one result.
Status give_reduced(Call& c, const char* kernel, const TensorObject& x, const DimSet& dims, bool keepdim, DType to, int result = 0);

// One number of each row of doubles, rule(row, n, &number), as `to`. Gives one result.
template <class Rule>
Status give_by_rows(Call& c, const TensorObject& x, const DimSet& dims, bool keepdim, DType to, const Rule& rule, int result = 0) {
  RowArray rows;
  PEN_TRY(rows_of(c, x, dims, DType::f64, &rows));
  Value made = Value::own(tensor_create(DType::f64, reduced_shape(x, dims, keepdim)));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < rows.outer; ++i) PEN_TRY(rule(rows.row<double>(i), rows.inner, made.tensor()->as<double>() + i));
  return give_as(c, static_cast<Value&&>(made), to, result);
}
// Adds some(x) up over x[0, n).
template <class Some>
Status add_up(const Call& c, const double* x, int64_t n, double* sum, const Some& some) {
  double all = 0;
  PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) all += some(x[i]);
  }));
  *sum = all;
  return PEN_OK;
}

// An error unless the tensor is of floats.
Status need_floats(const Call& c, const TensorObject& t);

}  // namespace pen
