// Arithmetic on strides: how fresh tensors are laid out, and whether a tensor lies as a kernel needs it.
#include "penlight/runtime/exec/plan.h"

namespace pen {

bool lay_plain(Tensor* t, int64_t* bytes) {
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; --d) {
    t->strides[d] = stride;
    if (mul_overflows(stride, t->dims[d] > 0 ? t->dims[d] : 1, &stride)) return false;
  }
  int64_t n = t->numel() == 0 ? 0 : stride;
  return !mul_overflows(n, dtype_size(t->dtype), bytes) && *bytes <= kMaxTensorBytes;
}

bool lay_channels(Tensor* t, int64_t pitch, int64_t* bytes) {
  int64_t stride = pitch > 0 ? pitch : 1;
  bool empty = t->dims[0] == 0 || t->dims[1] == 0;
  for (int d = t->rank - 1; d >= 2; --d) {
    t->strides[d] = stride;
    empty |= t->dims[d] == 0;
    if (mul_overflows(stride, t->dims[d] > 0 ? t->dims[d] : 1, &stride)) return false;
  }
  t->strides[1] = 1;
  t->strides[0] = stride;
  int64_t n;
  if (mul_overflows(stride, t->dims[0] > 0 ? t->dims[0] : 1, &n)) return false;
  return !mul_overflows(empty ? 0 : n, dtype_size(t->dtype), bytes) && *bytes <= kMaxTensorBytes;
}

bool lies_as(Tensor* t, Need need) {
  int64_t unused;
  bool empty = false;
  for (int d = 0; d < t->rank; ++d) empty |= t->dims[d] == 0;
  if (need == Need::channels) {
    if (t->rank < 3) return false;
    if (empty) return lay_channels(t, t->dims[1], &unused);
    int64_t c = t->dims[1], pitch = -1, expected = 0;
    if (c > 1 && t->strides[1] != 1) return false;
    for (int d = t->rank - 1; d >= 2; --d) {
      if (t->dims[d] == 1) continue;
      if (pitch < 0)
        pitch = t->strides[d];
      else if (t->strides[d] != expected)
        return false;
      if (mul_overflows(t->strides[d], t->dims[d], &expected)) return false;
    }
    if (pitch < 0) pitch = c;
    if (pitch < c) return false;
    int64_t batch = t->strides[0];
    if (!lay_channels(t, pitch, &unused)) return false;
    if (t->dims[0] > 1) t->strides[0] = batch;
    return true;
  }
  if (empty) return lay_plain(t, &unused);
  if (need == Need::rows) {
    if (t->rank == 0) return true;
    int last = t->rank - 1;
    if (t->dims[last] > 1 && t->strides[last] != 1) return false;
    t->strides[last] = 1;
    return true;
  }
  int64_t expected = 1;
  for (int d = t->rank - 1; d >= 0; --d) {
    if (t->dims[d] != 1 && t->strides[d] != expected) return false;
    expected *= t->dims[d];
  }
  return lay_plain(t, &unused);
}

}  // namespace pen
