// embedding_bag: the sum, mean or maximum of a table's rows, for each bag of indices. Rows are added in index order; a task
// is a range of bags. Index `padding` counts as absent; an empty bag gives zeros.
#include "penlight/ops/index/indices.h"

namespace pen {

enum class BagMode : int32_t { sum, mean, max };

struct BagParams {
  BagMode mode;
  bool last_offset;
  int64_t rows, width, count, offsets, bags, padding, tasks;
  int64_t row_stride;
};

PEN_SHAPE(embedding_bag) {
  const Tensor& w = s.in(0);
  if (w.rank != 2) return s.fail(0, "a table of rank 2", "rank %d", w.rank);
  for (int i = 1; i <= 2; ++i) {
    PEN_TRY(check_long_indices(s, i));
    if (s.in(i).rank != 1) return s.fail(i, "rank 1", "rank %d", s.in(i).rank);
  }
  if (s.has(3) && (s.in(3).rank != 1 || s.in(3).dims[0] != s.in(1).dims[0])) return s.fail(3, "a weight for each index", "another size");
  int64_t mode = s.integer("mode");
  if (mode < 0 || mode > 2) return s.fail(-1, "mode 0, 1 or 2: sum, mean, max", "%lld", static_cast<long long>(mode));
  Shape shape;
  shape.rank = 2;
  shape.dims[0] = s.in(2).dims[0] - (s.flag("include_last_offset") ? 1 : 0);
  shape.dims[1] = w.dims[1];
  if (shape.dims[0] < 0) return s.fail(2, "an offset or more", "none");
  return s.output(0, w.dtype, shape);
}

PEN_BIND(embedding_bag) {
  PEN_TRY(b.need(0, Need::rows));
  for (int i = 1; i <= 3; ++i) {
    if (b.has(i)) PEN_TRY(b.need(i, Need::dense));
  }
  const Tensor& w = b.in(0);
  BagParams* p = b.params<BagParams>();
  p->mode = static_cast<BagMode>(b.integer("mode"));
  p->last_offset = b.flag("include_last_offset");
  p->rows = w.dims[0];
  p->width = w.dims[1];
  p->row_stride = w.strides[0];
  p->count = b.in(1).dims[0];
  p->offsets = b.in(2).dims[0];
  p->bags = b.out(0).dims[0];
  p->padding = b.integer("padding");
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  if (p->bags == 0) return PEN_OK;
  p->tasks = task_count(p->bags, 16384 / ((p->count / p->bags + 1) * (p->width + 1)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

// y[c] = f(y[c], x[c]), in blocks of a known size, which become vectors.
template <class F>
static PEN_INLINE void bag_row(float* __restrict y, const float* __restrict x, int64_t n, F f) {
  int64_t c = 0;
  for (; c + 16 <= n; c += 16) {
    for (int k = 0; k < 16; ++k) y[c + k] = f(y[c + k], x[c + k]);
  }
  for (; c < n; ++c) y[c] = f(y[c], x[c]);
}

PEN_KERNEL(embedding_bag, f32) {
  const BagParams& p = r.as<BagParams>();
  const int64_t *indices = r.in[1].as<int64_t>(), *offsets = r.in[2].as<int64_t>();
  const float* weights = r.in[3].as<float>();
  Patience patience(r);
  for (int64_t bag = part(p.bags, p.tasks, r.begin).begin, last = part(p.bags, p.tasks, r.end - 1).end; bag < last; ++bag) {
    int64_t begin = offsets[bag], end = bag + 1 < p.offsets ? offsets[bag + 1] : p.count;
    if (begin < 0 || begin > p.count) return r.fail_index(2, begin, 0, p.count + 1);
    if (end < begin || end > p.count) return r.fail_index(2, end, begin, p.count + 1);
    float* y = r.out[0].as<float>() + bag * p.width;
    memset(y, 0, static_cast<size_t>(p.width) * 4);
    int64_t present = 0;
    for (int64_t i = begin; i < end && !patience.ends(p.width); ++i) {
      if (i + 2 < p.count && static_cast<uint64_t>(indices[i + 2]) < static_cast<uint64_t>(p.rows)) {  // rows lie anywhere
        const float* next = r.in[0].as<float>() + indices[i + 2] * p.row_stride;
        for (int64_t c = 0; c < p.width; c += 16) __builtin_prefetch(next + c);
      }
      int64_t row = indices[i];
      if (row < 0 || row >= p.rows) return r.fail_index(1, row, 0, p.rows);
      if (row == p.padding) continue;
      const float* x = r.in[0].as<float>() + row * p.row_stride;
      if (p.mode == BagMode::max && present) {
        bag_row(y, x, p.width, [](float a, float b) { return (a > b) | (a != a) ? a : b; });
      } else if (p.mode == BagMode::max) {
        memcpy(y, x, static_cast<size_t>(p.width) * 4);
      } else if (weights) {
        float weight = weights[i];
        bag_row(y, x, p.width, [weight](float a, float b) { return a + b * weight; });
      } else {
        bag_row(y, x, p.width, [](float a, float b) { return a + b; });
      }
      ++present;
    }
    if (p.mode == BagMode::mean && present > 1) {
      for (int64_t c = 0; c < p.width; ++c) y[c] /= static_cast<float>(present);
    }
  }
}

}  // namespace pen
