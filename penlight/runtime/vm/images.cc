#include "penlight/runtime/vm/images.h"

#include "penlight/runtime/exec/backend.h"

namespace pen {

Tensor memory_of(const TensorObject& t) {
  Tensor lies = t.view();
  int64_t bytes;
  if (t.storage->pitch) lay_channels(&lies, t.storage->pitch, &bytes);
  return lies;
}

void hide_nhwc(TensorObject* t) {
  const Tensor& s = t->shape;
  int64_t pixels = 1;
  for (int d = 2; d < s.rank; ++d) pixels *= s.dims[d];
  // One channel without gaps, or one pixel: both orders are the same.
  const bool same = s.numel() == 0 || (s.strides[s.rank - 1] == s.dims[1] && (pixels == 1 || s.dims[1] == 1));
  t->storage->pitch = same ? 0 : s.strides[s.rank - 1];
  row_major_strides(s.rank, s.dims, t->shape.strides);
}

TensorObject* image_create(const Machine& m, DType dtype, const int64_t* dims) {
  Tensor image;
  image.dtype = dtype;
  image.rank = 4;
  for (int d = 0; d < 4; ++d) image.dims[d] = dims[d];
  int64_t bytes;
  Storage* storage = lay_channels(&image, m.runner.backend->pitch(image), &bytes) ? storage_create(bytes) : nullptr;
  TensorObject* made = storage ? tensor_on(storage, image, 0) : nullptr;
  storage_release(storage);
  if (made) hide_nhwc(made);
  return made;
}

Status settle(Machine* m, const char* op, const Value& v) {
  if (v.tag() != Tag::tensor) return PEN_OK;
  TensorObject& t = *v.tensor();
  if (m->waiting.op && m->waiting.made.tensor() == &t) PEN_TRY(finish(m));
  if (!t.storage->pitch) return PEN_OK;
  Storage fresh = {};
  if (!storage_fill(&fresh, t.numel() * dtype_size(t.dtype()), t.storage->account)) {
    char expected[64];
    return report(&m->error,
                  {PEN_ERROR_MEMORY, "", op, "", memory_expected(*m, expected), m->account->refused ? "more" : "none", m->source});
  }
  Tensor to = t.shape;
  to.data = fresh.data;
  Status status = move_elements(m, op, to, memory_of(t));
  if (status == PEN_OK) {
    char* data = t.storage->data;
    int64_t bytes = t.storage->bytes;
    t.storage->data = fresh.data;
    t.storage->bytes = fresh.bytes;
    t.storage->pitch = 0;
    fresh.data = data;
    fresh.bytes = bytes;
  }
  storage_empty(&fresh);
  return status;
}

Status wait_with(Call& c, const int64_t* dims) {
  Machine* m = c.machine;
  PEN_TRY(finish(m));
  TensorObject* made = image_create(*m, DType::f32, dims);
  if (!made) return c.out_of_memory();
  Waiting& w = m->waiting;
  w.op = c.op;
  w.source = m->source;
  for (int i = 0; i < c.count; ++i) w.args[i] = c.args[i];
  w.count = c.count;
  w.made = Value::share(made);
  return c.give(made);
}

Status finish(Machine* m) {
  Waiting& w = m->waiting;
  if (!w.op) return PEN_OK;
  const OpEntry* op = w.op;
  const char* source = m->source;
  w.op = nullptr;  // it waits no more: what it computes with would finish it again
  m->source = w.source;
  Value none;
  Call c = {m, op, w.args, w.count, &none};
  c.finishing = &w;
  Status status = op->run()(c);
  m->source = source;
  forget_waiting(m);
  return status;
}

void forget_waiting(Machine* m) {
  Waiting& w = m->waiting;
  w.op = nullptr;
  for (int i = 0; i < w.count; ++i) w.args[i] = Value();
  w.count = 0;
  w.made = w.residual = Value();
  w.act[0] = 0;
}

}  // namespace pen
