// How the sums of an integer product become results, and how that follows from types: what kernels of bytes are told at bind.
#pragma once
#include "penlight/runtime/cpu/epilogue.h"

namespace pen {

// How sums become results: of the types of x, weights and y, filled at bind.
struct ResultQ8 {
  int32_t zero, low, high;  // of u8 results: zero point and limits
  bool wide;                // they may lie beyond 32 bits before they are limited
  bool real;                // f32 results; their residual is f32 too
  float residual_scale;     // in steps of the result
  int32_t residual_zero;
  const float* scale;  // of a sum, in steps of the result, or real: one for every column
};

// What is known of the columns of a product, by panels: scales by bind, all else by lowering (lower/columns.py), which makes rows of a
// constant of it: i32[2][columns], a third row where results are f32, and a fourth where only the run tells the scales (columns_dynamic).
struct ColumnsQ8 {
  const float* scale;
  const int32_t *start, *sums;  // sums: of the weights
  const float* bias;
};
static PEN_INLINE ColumnsQ8 columns_q8(const ResultQ8& result, const Tensor& t, int64_t first) {
  const int32_t* p = t.as<int32_t>() + first;
  const int64_t row = t.dims[1];
  const float* scale = t.dims[0] > 3 ? reinterpret_cast<const float*>(p + 3 * row) : result.scale + first;
  return {scale, p, p + row, reinterpret_cast<const float*>(p + 2 * row)};
}

// The columns of a product: `outputs` in each group, filled up to `padded` of them.
struct GroupsQ8 {
  int64_t groups, outputs, padded;
};
// How many columns there are; -1 where input 2 does not have as many, which is an error that this has reported.
int64_t bind_columns_q8(Bind& b, GroupsQ8 g);
// Fills `result` and `act` from the node: weights of i8 and zero point 0 as input 1, the columns as input 2, a residual as input 3,
// activation clamp or none for u8 results. `scale` has room for all columns. An error in words where something does not fit.
Status bind_result_q8(Bind& b, GroupsQ8 g, float* scale, ResultQ8* result, Activation* act);
// What the result is to be, f32 or u8 with one scale; `inverse`: steps of it in 1.
Status bind_type_q8(Bind& b, ResultQ8* result, float* inverse);
// Of a product of two activations, inputs 0 and 1, over k steps: an error where 32 bits may not hold its sums.
Status need_depth_q8(const Given& g, int64_t k);
// As bind_result_q8 of such a product: both have one scale, so all `columns` columns have one too.
Status bind_product_q8(Bind& b, int64_t columns, float* scale, ResultQ8* result);

// Params of type T, which have a ResultQ8 `result` and an Activation `act`, with the columns' scales behind them. Null after an error.
template <class T>
PEN_INLINE T* params_q8(Bind& b, int64_t columns) {
  return columns < 0 ? nullptr : static_cast<T*>(b.params_bytes(sizeof(T) + static_cast<size_t>(columns) * sizeof(float)));
}

}  // namespace pen
