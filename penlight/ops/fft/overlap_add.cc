// overlap_add: frames laid `hop` apart over a line, and summed where they overlap. Each element of the result is summed by
// one task, in the order of the frames.
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/base/memory.h"

namespace pen {

struct OverlapParams {
  int64_t frames, length, hop, size;  // of one line: frames of `length`, `size` elements of result
  int64_t lines, parts, tasks;        // each line in `parts` parts
};

PEN_SHAPE(overlap_add) {
  const Tensor& x = s.in(0);
  if (x.dtype != DType::f32 || x.rank < 2) return s.fail(0, "frames: f32 of rank 2 at least", "rank %d", x.rank);
  int64_t hop = s.integer("hop"), frames = x.dims[x.rank - 2], length = x.dims[x.rank - 1];
  if (hop < 1) return s.fail(-1, "hop >= 1", "%lld", static_cast<long long>(hop));
  if (s.has(1)) {
    const Tensor& w = s.in(1);
    if (w.rank != 1 || w.dims[0] != length || w.dtype != DType::f32) return s.fail(1, "f32, as long as a frame", "another shape or dtype");
  }
  Shape shape = shape_of(x);
  --shape.rank;
  int64_t& total = shape.dims[shape.rank - 1] = 0;
  if (frames > 0 && (mul_overflows(frames - 1, hop, &total) || add_overflows(total, length, &total)))
    return s.fail(-1, "a result whose length fits in 64 bits", "%lld frames, %lld apart", static_cast<long long>(frames),
                  static_cast<long long>(hop));
  return s.output(0, DType::f32, shape);
}

PEN_BIND(overlap_add) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need(0, Need::dense));
  if (b.has(1)) PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  OverlapParams* p = b.params<OverlapParams>();
  if (!p) return PEN_ERROR_MEMORY;
  const Tensor& x = b.in(0);
  p->frames = x.dims[x.rank - 2];
  p->length = x.dims[x.rank - 1];
  p->hop = b.integer("hop");
  p->size = b.out(0).dims[x.rank - 2];
  p->lines = 1;
  for (int i = 0; i < x.rank - 2; ++i) p->lines *= x.dims[i];
  if (p->lines * p->size == 0) return PEN_OK;
  p->parts = task_count(p->size, 8192);
  p->tasks = p->lines * p->parts > 256 ? 256 : p->lines * p->parts;
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_KERNEL(overlap_add, f32) {
  const OverlapParams& p = r.as<OverlapParams>();
  const float* window = r.in[1].as<float>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range items = part(p.lines * p.parts, p.tasks, task);
    for (int64_t item = items.begin; item < items.end; ++item) {
      int64_t line = item / p.parts;
      Range range = part(p.size, p.parts, item % p.parts);
      float* y = r.out[0].as<float>() + line * p.size;
      const float* x = r.in[0].as<float>() + line * p.frames * p.length;
      memset(y + range.begin, 0, static_cast<size_t>(range.end - range.begin) * sizeof(float));
      int64_t first = range.begin < p.length ? 0 : (range.begin - p.length) / p.hop + 1;
      for (int64_t f = first; f < p.frames && f * p.hop < range.end; ++f) {
        int64_t begin = f * p.hop > range.begin ? f * p.hop : range.begin;
        int64_t end = f * p.hop + p.length < range.end ? f * p.hop + p.length : range.end;
        const float* frame = x + f * p.length + (begin - f * p.hop);
        for (int64_t t = begin; window && t < end; ++t) y[t] += frame[t - begin] * window[t - f * p.hop];
        for (int64_t t = begin; !window && t < end; ++t) y[t] += frame[t - begin];
      }
    }
  }
}

}  // namespace pen
