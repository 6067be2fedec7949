// index and index_select: x[:, i, j] with tensors i and j of indices for neighbouring dims; all other dims are whole. The
// output is written in order: offsets first, then for everything before these dims, for every offset, what comes after.
#include "penlight/ops/index/places.h"

namespace pen {

struct IndexParams {
  Places places;
  Walk walk;  // output, x, offsets
  int64_t tasks;
};

static Status bind_index(Bind& b, int64_t at, bool negative) {
  PEN_TRY(need_unpacked(b, 0));
  const Tensor& x = b.in(0);
  IndexParams* p = b.params<IndexParams>();
  PEN_TRY(bind_places(b, &p->places, 1, at, x, negative));
  Shape shape;
  int count = p->places.count;
  if (x.rank - count + p->places.shape.rank > kMaxRank)
    return b.fail(0, "a result of rank 8 at most", "rank %d", x.rank - count + p->places.shape.rank);
  for (int d = 0; d < at; ++d) shape.dims[shape.rank++] = x.dims[d];
  for (int d = 0; d < p->places.shape.rank; ++d) shape.dims[shape.rank++] = p->places.shape.dims[d];
  for (int d = static_cast<int>(at) + count; d < x.rank; ++d) shape.dims[shape.rank++] = x.dims[d];
  PEN_TRY(b.output(0, x.dtype, shape));
  PEN_TRY(b.need_out(0, Need::dense));
  if (p->places.numel == 0) return PEN_OK;
  place_in(&p->places, x, at);
  if (is_empty(b.out(0))) {  // indices are still checked
    b.tasks(p->places.tasks);
    return PEN_OK;
  }
  int64_t dense = b.out(0).numel();
  for (int d = 0; d < at; ++d) {
    dense /= x.dims[d];
    p->walk.add(x.dims[d], dense, x.strides[d], 0);
  }
  dense /= p->places.numel;
  p->walk.add(p->places.numel, dense, 0, 1);
  for (int d = static_cast<int>(at) + count; d < x.rank; ++d) {
    dense /= x.dims[d];
    p->walk.add(x.dims[d], dense, x.strides[d], 0);
  }
  p->walk.close();
  p->tasks = task_count(p->walk.numel(), 16384);
  b.tasks(p->places.tasks, p->tasks);
  return PEN_OK;
}

PEN_BIND(index) { return bind_index(b, b.integer("at"), true); }

PEN_BIND(index_select) {
  if (b.in(1).rank != 1) return b.fail(1, "indices of rank 1", "rank %d", b.in(1).rank);
  return bind_index(b, b.integer("dim"), false);
}

template <class T>
static inline void index_elements(const Run& r) {
  const IndexParams& p = r.as<IndexParams>();
  if (r.phase == 0) return find_places(r, p.places);
  const int inner = p.walk.rank - 1;
  const int64_t x_step = p.walk.steps[1][inner], offset_step = p.walk.steps[2][inner], numel = p.walk.numel();
  p.walk.rows(part(numel, p.tasks, r.begin).begin, part(numel, p.tasks, r.end - 1).end, [&](int64_t n, const int64_t* at) {
    T* y = r.out[0].as<T>() + at[0];
    const T* x = r.in[0].as<T>() + at[1];
    const int64_t* offsets = reinterpret_cast<const int64_t*>(r.shared) + at[2];
    if (offset_step == 0) return copy_run(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(x + offsets[0]), n, 1, x_step, sizeof(T));
    for (int64_t i = 0; i < n; ++i) y[i] = x[offsets[i]];
  });
}

PEN_KERNEL_ANY(index, b8) { index_elements<uint8_t>(r); }
PEN_KERNEL_ANY(index, b16) { index_elements<uint16_t>(r); }
PEN_KERNEL_ANY(index, b32) { index_elements<uint32_t>(r); }
PEN_KERNEL_ANY(index, b64) { index_elements<uint64_t>(r); }
PEN_KERNEL_ANY(index_select, b8) { index_elements<uint8_t>(r); }
PEN_KERNEL_ANY(index_select, b16) { index_elements<uint16_t>(r); }
PEN_KERNEL_ANY(index_select, b32) { index_elements<uint32_t>(r); }
PEN_KERNEL_ANY(index_select, b64) { index_elements<uint64_t>(r); }

}  // namespace pen
