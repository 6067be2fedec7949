// index_put: x, and then x[:, i, j] = value with tensors i and j of indices for neighbouring dims, or its sum, product,
// largest or smallest with what is there. Elements that meet come in index order: tasks cut one of the other dims.
#include "penlight/ops/index/places.h"

namespace pen {

struct IndexPutParams {
  CopyFirst copy;
  Places places;
  Walk walk;  // offsets, value, output
  int cut;
  int64_t tasks;
  Combine how;
};

// Whether the dims of the value that stand for the indices can be walked as one.
static bool walks_as_one(const Tensor& value, int64_t at, int count) {
  for (int64_t d = at; d + 1 < at + count; ++d) {
    int64_t e = d + 1;
    while (e < at + count && value.dims[e] == 1) ++e;
    if (value.dims[d] != 1 && e < at + count && value.strides[d] != value.dims[e] * value.strides[e]) return false;
  }
  return true;
}

PEN_SHAPE(index_put) {
  const Tensor &x = s.in(0), &value = s.in(1);
  int64_t at = s.integer("at");
  Combine how;
  if (value.dtype != x.dtype) return s.fail(1, "the tensor's dtype", "%s", kDTypeNames[static_cast<int>(value.dtype)]);
  if (!parse_combine(s.text("reduce"), &how)) return s.fail(-1, "reduce of add, mul, max, min or nothing", "%s", s.text("reduce"));
  Shape places;
  PEN_TRY(places_shape(s, 2, at, &places));
  int count = s.input_count() - 2, rank = x.rank - count + places.rank;
  if (value.rank != rank) return s.fail(1, "the rank of what the indices select", "rank %d, not %d", value.rank, rank);
  for (int d = 0; d < rank; ++d) {
    int64_t wanted = d < at ? x.dims[d] : d < at + places.rank ? places.dims[d - at] : x.dims[d - places.rank + count];
    if (value.dims[d] != wanted)
      return s.fail(1, "the shape of what the indices select", "%lld in dim %d, not %lld", static_cast<long long>(value.dims[d]), d,
                    static_cast<long long>(wanted));
  }
  return s.output(0, x.dtype, shape_of(x));
}

PEN_BIND(index_put) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need_plain(1));
  const Tensor& x = b.in(0);
  IndexPutParams* p = b.params<IndexPutParams>();
  int64_t at = b.integer("at");
  parse_combine(b.text("reduce"), &p->how);
  PEN_TRY(bind_places(b, &p->places, 2, at, true));
  int count = p->places.count, index_rank = p->places.shape.rank;
  if (!walks_as_one(b.in(1), at, index_rank)) PEN_TRY(b.need(1, Need::dense));
  const Tensor& value = b.in(1);
  PEN_TRY(bind_copy_first(b, &p->copy));
  const Tensor& y = b.out(0);
  if (p->places.numel == 0) {
    b.tasks(p->copy.tasks);
    return PEN_OK;
  }
  place_in(&p->places, y, at);
  PEN_TRY(b.shared(p->places.numel * 8));
  if (is_empty(value)) {
    b.tasks(p->copy.tasks, p->places.tasks);
    return PEN_OK;
  }
  int64_t step = 0;  // of the value, from index to index
  for (int d = static_cast<int>(at); d < at + index_rank; ++d) {
    if (value.dims[d] != 1) step = value.strides[d];
  }
  for (int d = 0; d < at; ++d) p->walk.add(x.dims[d], 0, value.strides[d], y.strides[d]);
  p->walk.add(p->places.numel, 1, step, 0);
  for (int d = static_cast<int>(at) + count; d < x.rank; ++d)
    p->walk.add(x.dims[d], 0, value.strides[d - count + index_rank], y.strides[d]);
  p->walk.close();
  p->cut = cut_dim(p->walk, 2);
  p->tasks = task_count(p->walk.numel(), 16384);
  int64_t most = p->cut < 0 ? 1 : p->walk.dims[p->cut];
  if (p->tasks > most) p->tasks = most;
  b.tasks(p->copy.tasks, p->places.tasks, p->tasks);
  return PEN_OK;
}

template <class T, bool kNumbers>
static inline void put_elements(const Run& r) {
  const IndexPutParams& p = r.as<IndexPutParams>();
  if (r.phase == 0) return copy_first(r, p.copy);
  if (r.phase == 1) return find_places(r, p.places);
  Walk walk = p.walk;
  int64_t start[3] = {};
  if (p.cut >= 0) {
    int64_t first = part(p.walk.dims[p.cut], p.tasks, r.begin).begin, last = part(p.walk.dims[p.cut], p.tasks, r.end - 1).end;
    walk.dims[p.cut] = last - first;
    for (int t = 0; t < 3; ++t) start[t] = first * walk.steps[t][p.cut];
  }
  const int inner = walk.rank - 1;
  const int64_t index_step = walk.steps[0][inner], step = walk.steps[1][inner], y_step = walk.steps[2][inner];
  Patience patience(r);
  walk.rows(0, walk.numel(), [&](int64_t n, const int64_t* at) {
    in_pieces(patience, n, [&](int64_t begin, int64_t end) {
      T* y = r.out[0].as<T>() + start[2] + at[2] + begin * y_step;
      const T* value = r.in[1].as<T>() + start[1] + at[1] + begin * step;
      const int64_t* offsets = reinterpret_cast<const int64_t*>(r.shared) + start[0] + at[0] + begin * index_step;
      auto place = [offsets](int64_t i) { return offsets[i]; };
      if (index_step == 0)
        put_row<true, kNumbers>(p.how, y, y_step, place, value, step, end - begin);
      else
        put_row<false, kNumbers>(p.how, y, y_step, place, value, step, end - begin);
    });
  });
}

PEN_KERNEL_ANY(index_put, b8) { put_elements<uint8_t, false>(r); }
PEN_KERNEL_ANY(index_put, b16) { put_elements<uint16_t, false>(r); }
PEN_KERNEL_ANY(index_put, b32) { put_elements<uint32_t, false>(r); }
PEN_KERNEL_ANY(index_put, b64) { put_elements<uint64_t, false>(r); }
PEN_KERNEL_ANY(index_put, f32) { put_elements<float, true>(r); }
PEN_KERNEL_ANY(index_put, i32) { put_elements<int32_t, true>(r); }
PEN_KERNEL_ANY(index_put, i64) { put_elements<int64_t, true>(r); }

}  // namespace pen
