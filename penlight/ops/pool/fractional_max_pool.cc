// fractional_max_pool: a task is some planes, whose windows its samples place. All arithmetic on samples is in f32, as torch's,
// so that windows start at the same pixels. NaN wins.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Index 0 is D, 1 is H, 2 is W.
struct FractionalParams {
  int64_t in[3], out[3], kernel[3];
  int64_t planes, samples, tasks;
};

PEN_SHAPE(fractional_max_pool) {
  const Tensor &x = s.in(0), &samples = s.in(1);
  IntList kernel = s.ints("kernel"), size = s.ints("size");
  if (x.rank != 5) return s.fail(0, "rank 5", "rank %d", x.rank);
  if (kernel.count != 3 || size.count != 3) return s.fail(-1, "3 kernel sizes and 3 output sizes", "%d and %d", kernel.count, size.count);
  if (samples.rank != 3 || samples.dims[0] != x.dims[0] || samples.dims[1] != x.dims[1] || samples.dims[2] < 2 || samples.dims[2] > 3)
    return s.fail(1, "two or three samples for each plane", "rank %d", samples.rank);
  Shape out = shape_of(x);
  for (int i = 0; i < 3; ++i) {
    int64_t in = x.dims[2 + i];
    out.dims[2 + i] = size[i];
    if (kernel[i] < 1 || size[i] < 0 || in > (1 << 24) || kernel[i] > in || size[i] > in - kernel[i] + 1)
      return s.fail(0, "an image as large as kernel and output size, less one", "%lld for %lld and %lld", static_cast<long long>(in),
                    static_cast<long long>(kernel[i]), static_cast<long long>(size[i]));
  }
  PEN_TRY(s.output(0, DType::f32, out));
  return s.output(1, DType::i64, out);
}

PEN_BIND(fractional_max_pool) {
  for (int i = 0; i < 2; ++i) PEN_TRY(b.need(i, Need::dense));
  for (int i = 0; i < 2; ++i) PEN_TRY(b.output(i));
  const Tensor& x = b.in(0);
  FractionalParams* p = b.params<FractionalParams>();
  if (!p) return PEN_ERROR_MEMORY;
  for (int i = 0; i < 3; ++i) {
    p->in[i] = x.dims[2 + i];
    p->out[i] = b.out(0).dims[2 + i];
    p->kernel[i] = b.ints("kernel")[i];
  }
  p->samples = b.in(1).dims[2];
  p->planes = x.dims[0] * x.dims[1];
  int64_t outputs = p->out[0] * p->out[1] * p->out[2];
  p->tasks = task_count(p->planes, 8192 / (outputs + 1) + 1);
  if (p->planes > 0 && outputs > 0) b.tasks(p->tasks);
  return PEN_OK;
}

// Where window `i` starts; -1 where the sample leads out of the image.
static int64_t window_start(const FractionalParams& p, int side, float sample, int64_t i) {
  int64_t last = p.in[side] - p.kernel[side];
  if (i == p.out[side] - 1) return last;
  float alpha = static_cast<float>(last) / static_cast<float>(p.out[side] - 1);
  float at = (static_cast<float>(i) + sample) * alpha, base = sample * alpha;
  if (!(at > -1e9f && at < 1e9f && base > -1e9f && base < 1e9f)) return -1;
  int64_t start = static_cast<int64_t>(at) - static_cast<int64_t>(base);  // cut towards zero, as in torch
  return start >= 0 && start <= last ? start : -1;
}

static void pool_plane(const Run& r, Patience& patience, const FractionalParams& p, int64_t plane) {
  const float* x = r.in[0].as<float>() + plane * p.in[0] * p.in[1] * p.in[2];
  const float* samples = r.in[1].as<float>() + plane * p.samples;
  const float steps[3] = {p.samples == 3 ? samples[0] : 0.0f, samples[1], samples[p.samples == 3 ? 2 : 0]};
  int64_t count = p.out[0] * p.out[1] * p.out[2];
  for (int64_t i = 0; i < count && !patience.ends(p.kernel[0] * p.kernel[1] * p.kernel[2]); ++i) {
    const int64_t at[3] = {i / p.out[2] / p.out[1], i / p.out[2] % p.out[1], i % p.out[2]};
    int64_t start[3];
    for (int side = 0; side < 3; ++side) {
      start[side] = window_start(p, side, steps[side], at[side]);
      if (start[side] >= 0) continue;
      r.fail_index(1, start[side], 0, p.in[side] - p.kernel[side] + 1);
      start[side] = 0;
    }
    float best = -__builtin_inff();
    int64_t place = (start[0] * p.in[1] + start[1]) * p.in[2] + start[2];
    for (int64_t z = start[0]; z < start[0] + p.kernel[0]; ++z) {
      for (int64_t y = start[1]; y < start[1] + p.kernel[1]; ++y) {
        for (int64_t column = start[2]; column < start[2] + p.kernel[2]; ++column) {
          int64_t number = (z * p.in[1] + y) * p.in[2] + column;
          if (!(x[number] > best) && x[number] == x[number]) continue;
          best = x[number];
          place = number;
        }
      }
    }
    r.out[0].as<float>()[plane * count + i] = best;
    r.out[1].as<int64_t>()[plane * count + i] = place;
  }
}

PEN_KERNEL_ANY(fractional_max_pool, f32) {
  const FractionalParams& p = r.as<FractionalParams>();
  Patience patience(r);
  int64_t end = part(p.planes, p.tasks, r.end - 1).end;
  for (int64_t plane = part(p.planes, p.tasks, r.begin).begin; plane < end; ++plane) pool_plane(r, patience, p, plane);
}

}  // namespace pen
