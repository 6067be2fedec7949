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
  const float* scale;   // of a sum, in steps of the result, or real: one for every column
  const int32_t* sums;  // of the weights of every column, for sets that need_sums_q8; else null
};

// What is known of the columns of a product, by panels. A file has rows of i32 for it (lower/columns.py): starts, and where results are f32
// biases; bind finds out the rest from the weights. Where only the run tells the scales (columns_dynamic), or weights are no constants (VM
// code), there are four rows: starts, sums, biases, scales.
struct ColumnsQ8 {
  const float* scale;
  const int32_t *start, *sums;
  const float* bias;
};
constexpr int64_t kColumnRowsQ8 = 4;
static PEN_INLINE ColumnsQ8 columns_q8(const ResultQ8& result, const Tensor& t, int64_t first) {
  const int32_t* p = t.as<int32_t>() + first;
  const int64_t row = t.dims[1];
  if (t.dims[0] == kColumnRowsQ8)
    return {reinterpret_cast<const float*>(p + 3 * row), p, p + row, reinterpret_cast<const float*>(p + 2 * row)};
  return {result.scale + first, p, result.sums ? result.sums + first : nullptr, reinterpret_cast<const float*>(p + row)};
}

// Whether kernels of a set may multiply i8 by i8: they are given x - 128, and begin with 128 times the sums of the weights (simd/dots.h,
// simd/rows4.h). All others do without, and weights stay unread until a run.
constexpr bool needs_sums_q8(Isa isa, bool depthwise) {
#if defined(__ARM_NEON)
  return depthwise || isa != Isa::i8mm;
#else
  return static_cast<void>(isa), static_cast<void>(depthwise), false;
#endif
}

// The columns of a product: `outputs` in each group, filled up to `padded` of them. Channels of a depthwise one, whose weights are "taps",
// are columns of one group.
struct GroupsQ8 {
  int64_t groups, outputs, padded;
  bool depthwise;
};
static PEN_INLINE GroupsQ8 groups_q8(const Tensor& w, int64_t groups, bool depthwise) {
  const int64_t outputs = w.dims[0] / (depthwise ? 1 : groups);
  return {depthwise ? 1 : groups, outputs, (outputs + 15) / 16 * 16, depthwise};
}
// All of them; -1: more than any model has.
int64_t column_count_q8(GroupsQ8 g);
// Sums of the weights of all columns. The caller has seen that they are as large as their layout ("quads16", "taps") takes.
void sum_weights_q8(const Tensor& w, const char* data, GroupsQ8 g, int32_t* to);

// How many columns there are; -1 where input 2 does not have as many, which is an error that this has reported.
int64_t bind_columns_q8(Bind& b, GroupsQ8 g);
// Fills `result` and `act` from the node: weights of i8 and zero point 0 as input 1, the columns as input 2, a residual as input 3,
// activation clamp or none for u8 results. `scale` is what params_q8 has behind them. An error in words where something does not fit.
Status bind_result_q8(Bind& b, GroupsQ8 g, float* scale, ResultQ8* result, Activation* act);
// What the result is to be, f32 or u8 with one scale; `inverse`: steps of it in 1.
Status bind_type_q8(Bind& b, ResultQ8* result, float* inverse);
// Of a product of two activations, inputs 0 and 1, over k steps: an error where 32 bits may not hold its sums.
Status need_depth_q8(const Given& g, int64_t k);
// As bind_result_q8 of such a product: both have one scale, so all `columns` columns have one too.
Status bind_product_q8(Bind& b, int64_t columns, float* scale, ResultQ8* result);

// Params of type T, which have a ResultQ8 `result` and an Activation `act`, with the columns' scales behind them, and sums where the set
// needs those. Null after an error.
template <class T>
PEN_INLINE T* params_q8(Bind& b, GroupsQ8 g) {
  const int64_t columns = bind_columns_q8(b, g);
  const size_t each = sizeof(float) + (needs_sums_q8(b.isa(), g.depthwise) ? sizeof(int32_t) : 0);
  return columns < 0 ? nullptr : static_cast<T*>(b.params_bytes(sizeof(T) + static_cast<size_t>(columns) * each));
}

}  // namespace pen
