// embedding_bag of the VM. Only the first result counts: the others are for gradients, and empty here.
#include "penlight/runtime/vm/flat.h"

namespace pen {

PEN_OP(embedding_bag,
       "aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
       "Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
       "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, "
       "Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
       "[out]aten::{_embedding_bag,_embedding_bag_forward_only}(Tensor weight, Tensor indices, Tensor offsets, bool "
       "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
       "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)") {
  const TensorObject &w = c.tensor(0), &indices = c.tensor(1), &offsets = c.tensor(2);
  if (!is_floating(w.dtype()) || w.dtype() == DType::f64) return c.fail("a table of Float, Half or BFloat16", "%s", dtype_name(w.dtype()));
  if (w.rank() != 2 || indices.rank() != 1 || offsets.rank() != 1)
    return c.fail("a table [rows, size], indices and offsets of rank 1", "rank %d, %d and %d", w.rank(), indices.rank(), offsets.rank());
  const TensorObject* integers[] = {&indices, &offsets};
  for (const TensorObject* t : integers)
    if (t->dtype() != DType::i64 && t->dtype() != DType::i32)
      return c.fail("indices and offsets of Long or Int", "%s", dtype_name(t->dtype()));
  int64_t mode = c.integer(4), padding = c.inputs() > 8 && c.given(8) ? c.integer(8) : -1;
  if (mode < 0 || mode > 2) return c.fail("mode 0, 1 or 2", "%lld", static_cast<long long>(mode));
  if (c.given(6) && mode != 0) return c.fail("per_sample_weights with mode 0 (sum)", "mode %lld", static_cast<long long>(mode));
  if (padding < -1 || (padding == -1 && c.form() == 1 && c.given(8))) padding += w.dim(0);
  Graph g(c);
  int table = g.input(w, DType::f32), rows = g.input(indices, DType::i64), starts = g.input(offsets, DType::i64);
  int y = g.node("embedding_bag.f32", table, rows, starts, c.given(6) ? g.input(c.tensor(6), DType::f32) : -1);
  g.integer("mode", mode).flag("include_last_offset", c.flag(7)).integer("padding", padding < 0 ? -1 : padding);
  PEN_TRY(g.run(g.cast(y, DType::f32, w.dtype())));
  PEN_TRY(c.give(g.take(0)));
  int64_t none = 0;
  for (int i = 1; i < 4; ++i) PEN_TRY(c.give(tensor_create(DType::i64, 1, &none), i));
  return PEN_OK;
}

}  // namespace pen
