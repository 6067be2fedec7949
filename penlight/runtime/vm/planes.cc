#include "penlight/runtime/vm/planes.h"

#include "penlight/runtime/vm/images.h"

namespace pen {

Status planes_of(const Call& c, const TensorObject& t, int spatial, Planes* to) {
  if (t.rank() != spatial + 1 && t.rank() != spatial + 2) {
    char expected[64];
    set_text(expected, sizeof expected, "an input of rank %d or %d", spatial + 1, spatial + 2);
    return c.fail(expected, "rank %d", t.rank());
  }
  to->spatial = spatial;
  to->batched = t.rank() == spatial + 2;
  to->channels_last = tensor_suggests_channels_last(t) && t.dim(1) > 1;
  to->hidden = c.nhwc && to->batched && spatial == 2 && !to->channels_last;
  const Tensor lies = memory_of(t);
  Tensor x = lies;
  int at = 0;
  auto add = [&](int64_t dim, int64_t stride) {
    x.dims[at] = dim;
    x.strides[at++] = stride;
  };
  int64_t all = t.numel();
  if (!to->batched) add(1, all);
  for (int d = 0; d < t.rank(); ++d) {
    if (spatial == 1 && d == t.rank() - 1) add(1, t.dim(d) * lies.strides[d]);
    add(t.dim(d), lies.strides[d]);
  }
  x.rank = at;
  to->x = x;
  return PEN_OK;
}

Status sides_of(const Call& c, int arg, int spatial, int64_t missing, int64_t* to, const int64_t* otherwise) {
  int64_t given[3];
  int count = c.ints(arg, given, 3), sides = spatial == 3 ? 3 : 2;
  if (count == 0 && otherwise) {
    for (int i = 0; i < sides; ++i) to[i] = otherwise[i];
    return PEN_OK;
  }
  if (count != 1 && count != spatial) {
    char expected[96];
    set_text(expected, sizeof expected, "1 or %d numbers for %s", spatial, c.op->param(arg).name.text());
    return c.fail(expected, "%d", count);
  }
  int first = spatial == 1 ? 1 : 0;
  if (first) to[0] = missing;
  for (int i = 0; i < spatial; ++i) to[first + i] = given[count == 1 ? 0 : i];
  return PEN_OK;
}

// A view without the dims that planes_of added.
static TensorObject* in_form(const TensorObject& t, const Planes& p) {
  int64_t dims[kMaxRank], strides[kMaxRank];
  int rank = 0;
  for (int d = 0; d < t.rank(); ++d) {
    if ((d == 0 && !p.batched) || (d == 2 && p.spatial == 1)) continue;
    dims[rank] = t.dim(d);
    strides[rank++] = t.shape.strides[d];
  }
  return tensor_view(t, rank, dims, strides, t.offset);
}

// A copy in nhwc order, without the gaps between pixels that kernels like.
static TensorObject* without_gaps(const Call& c, const TensorObject& t, Status* status) {
  int64_t dims[] = {t.dim(0), t.dim(2), t.dim(3), t.dim(1)};
  Value fresh = Value::own(tensor_create(t.dtype(), 4, dims));
  if (fresh.is_none()) {
    *status = c.out_of_memory();
    return nullptr;
  }
  const int64_t* s = fresh.tensor()->shape.strides;
  int64_t strides[] = {s[0], s[3], s[1], s[2]};
  Value made = Value::own(tensor_view(*fresh.tensor(), 4, t.shape.dims, strides, 0));
  *status = made.is_none() ? c.out_of_memory() : copy_into(c, made.tensor(), t);
  if (*status != PEN_OK) return nullptr;
  TensorObject* out = made.tensor();
  ++out->refs;
  return out;
}

Status give_planes(Call& c, const Planes& p, TensorObject* made, int result) {
  if (!made) return c.out_of_memory();
  Value kept = Value::own(made);
  if (p.channels_last && !tensor_is_channels_last(*made)) {
    Status status;
    kept = Value::own(without_gaps(c, *made, &status));
    PEN_TRY(status);
    made = kept.tensor();
  }
  if (p.batched && p.spatial != 1) return c.give(static_cast<Value&&>(kept), result);
  return c.give(in_form(*made, p), result);
}

Status give_planes(Call& c, Graph* g, const Planes& p, const int* values, int count, const DType* from, const DType* to) {
  int wanted[4] = {};
  for (int i = 0; i < count; ++i) {
    g->channels(values[i]);
    wanted[i] = g->cast(values[i], from[i], to[i]);
    if (p.channels_last || p.hidden)
      g->channels(wanted[i]);
    else if (from[i] == to[i])
      wanted[i] = g->copy(wanted[i], to[i]);
  }
  PEN_TRY(g->run_all(wanted, count));
  for (int i = 0; i < count; ++i) {
    TensorObject* made = g->take(i);
    if (p.hidden) hide_nhwc(made);
    PEN_TRY(give_planes(c, p, made, i));
  }
  return PEN_OK;
}

}  // namespace pen
