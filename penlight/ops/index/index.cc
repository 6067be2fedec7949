// index and index_select: x[:, i, j] with tensors i and j of indices for neighbouring dims; all other dims are whole. The
// output is written in order: offsets first, then for everything before these dims, for every offset, what comes after.
#include "penlight/ops/index/places.h"

namespace pen {

struct IndexParams {
  Places places;
  Walk walk;     // output, x, offsets
  bool at_once;  // nothing comes before the indexed dims: offsets are used right where they are computed
  int64_t tasks;
};

static PEN_SMALL Status index_shapes(Shapes& s, int64_t at) {
  const Tensor& x = s.in(0);
  Shape shape, places;
  PEN_TRY(places_shape(s, 1, at, &places));
  int count = s.input_count() - 1;
  if (x.rank - count + places.rank > kMaxRank) return s.fail(0, "a result of rank 8 at most", "rank %d", x.rank - count + places.rank);
  for (int d = 0; d < at; ++d) shape.dims[shape.rank++] = x.dims[d];
  for (int d = 0; d < places.rank; ++d) shape.dims[shape.rank++] = places.dims[d];
  for (int d = static_cast<int>(at) + count; d < x.rank; ++d) shape.dims[shape.rank++] = x.dims[d];
  return s.output(0, x.dtype, shape);
}

PEN_SHAPE(index) { return index_shapes(s, s.integer("at")); }
PEN_SHAPE(index_select) {
  if (s.in(1).rank != 1) return s.fail(1, "indices of rank 1", "rank %d", s.in(1).rank);
  return index_shapes(s, s.integer("dim"));
}

static PEN_SMALL Status bind_index(Bind& b, int64_t at, bool negative) {
  PEN_TRY(b.need_plain(0));
  const Tensor& x = b.in(0);
  IndexParams* p = b.params<IndexParams>();
  PEN_TRY(bind_places(b, &p->places, 1, at, negative));
  int count = p->places.count;
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  if (p->places.numel == 0) return PEN_OK;
  place_in(&p->places, x, at);
  int64_t before = 1;
  for (int d = 0; d < at; ++d) before *= x.dims[d];
  p->at_once = before == 1;
  if (!p->at_once) PEN_TRY(b.shared(p->places.numel * 8));
  if (is_empty(b.out(0))) {  // indices are still checked
    PEN_TRY(b.shared(p->places.numel * 8));
    p->at_once = false;
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
  if (p->at_once)
    b.tasks(0, p->tasks);
  else
    b.tasks(p->places.tasks, p->tasks);
  return PEN_OK;
}

PEN_BIND(index) { return bind_index(b, b.integer("at"), true); }
PEN_BIND(index_select) { return bind_index(b, b.integer("dim"), false); }

template <class T>
static inline void index_elements(const Run& r) {
  const IndexParams& p = r.as<IndexParams>();
  if (r.phase == 0) return find_places(r, p.places);
  const int inner = p.walk.rank - 1;
  const int64_t x_step = p.walk.steps[1][inner], offset_step = p.walk.steps[2][inner], numel = p.walk.numel();
  int64_t begin = part(numel, p.tasks, r.begin).begin;
  const int64_t end = part(numel, p.tasks, r.end - 1).end;
  // known[i] for i < past: offsets
  auto rows = [&](int64_t last, const int64_t* known, int64_t past) {
    p.walk.rows(begin, last, [&](int64_t n, const int64_t* at) {
      T* y = r.out[0].as<T>() + at[0];
      const T* x = r.in[0].as<T>() + at[1];
      const int64_t* offsets = known + at[2];
      if (offset_step == 0 && at[2] + 1 < past) {  // the next row may lie anywhere: no processor guesses it
        const char* next = reinterpret_cast<const char*>(x + offsets[1]);
        for (int64_t k = 0; k < 1024 && k < n * static_cast<int64_t>(sizeof(T)); k += 64) __builtin_prefetch(next + k);
      }
      if (offset_step == 0)
        return copy_run(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(x + offsets[0]), n, 1, x_step, sizeof(T));
      int64_t i = 0;
      for (; i + 4 <= n; i += 4) {
        T a = x[offsets[i]], b = x[offsets[i + 1]], c = x[offsets[i + 2]], d = x[offsets[i + 3]];
        y[i] = a;
        y[i + 1] = b;
        y[i + 2] = c;
        y[i + 3] = d;
      }
      for (; i < n; ++i) y[i] = x[offsets[i]];
    });
    begin = last;
  };
  if (!p.at_once) return rows(end, reinterpret_cast<const int64_t*>(r.shared), p.places.numel);
  constexpr int64_t kBlock = 256;
  int64_t block[kBlock];
  for (const int64_t after = numel / p.places.numel; begin < end;) {
    int64_t first = begin / after, past = (end + after - 1) / after;
    if (past > first + kBlock) past = first + kBlock;
    find_places(r, p.places, first, past, block);
    rows(past * after < end ? past * after : end, block - first, past);
  }
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
