// Weights in the layout that a kernel reads (penlight/runtime/base/packed.h, penlight/ops/quantized/packed.h). One that cannot change, a
// constant of the file, is packed once and kept by the machine; any other one in each call.
#pragma once
#include "penlight/runtime/vm/graph.h"

namespace pen {

// `w`: the weight [Co, Ci / groups, …] as its kernel means it, somewhere on the storage of `owner`. Its groups may be a dim of
// their own, the first: [groups, Co / groups, …], as transposed convolutions have it. `layout` is a literal: "panel16", "taps"
// or "grouped", of f32; "plain": f64 or i64, as it lies. *value: the packed weight in the graph.
Status pack_weight(const Call& c, Graph* g, const TensorObject& owner, const Tensor& w, bool split, const char* layout, int64_t groups,
                   int* value);

// What was made of a constant before and kept, or null. `made`: a literal that names it, mostly the layout.
TensorObject* find_packed(const Call& c, const TensorObject& owner, const Tensor& w, const char* made, int64_t groups);
// Keeps it, with a reference of its own.
void keep_packed(const Call& c, const TensorObject& owner, const Tensor& w, const char* made, int64_t groups, TensorObject* packed);

}  // namespace pen
