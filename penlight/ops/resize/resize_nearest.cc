// resize_nearest: NHWC, moves pixels without looking at them. An output row that comes from the same input row as the
// one before is a copy of that. One task is a range of rows.
#include "penlight/ops/resize/places.h"

namespace pen {

struct NearestParams {
  int64_t rows, tasks;
  int32_t* columns() { return reinterpret_cast<int32_t*>(this + 1); }
  const int32_t* columns() const { return reinterpret_cast<const int32_t*>(this + 1); }
};  // followed by OW input columns, then OH input rows

static void nearest_places(int64_t in, int64_t out, bool exact, double factor, int32_t* places) {
  float step = resize_step(in, out, factor);
  for (int64_t i = 0; i < out; ++i) {
    int64_t at;
    if (!exact && in == out) {  // torch looks at the sizes first, then at the factor
      at = i;
    } else if (!exact && out == 2 * in) {
      at = i / 2;
    } else {
      float place = floorf((static_cast<float>(i) + (exact ? 0.5f : 0.0f)) * step);
      at = place < static_cast<float>(in) ? static_cast<int64_t>(place) : in - 1;  // a tiny factor: place may be NaN
      if (at > in - 1) at = in - 1;
    }
    places[i] = static_cast<int32_t>(at);
  }
}

PEN_BIND(resize_nearest) {
  double factors[2];
  PEN_TRY(resize_bind(b, factors));
  const Tensor &x = b.in(0), &y = b.out(0);
  bool exact = b.flag("exact");
  if (y.dims[0] == 0 || y.dims[1] == 0) return PEN_OK;
  size_t places = static_cast<size_t>(y.dims[2] + y.dims[3]);
  auto* p = static_cast<NearestParams*>(b.params_bytes(sizeof(NearestParams) + places * sizeof(int32_t)));
  if (!p) return PEN_ERROR_MEMORY;
  nearest_places(x.dims[3], y.dims[3], exact, factors[1], p->columns());
  nearest_places(x.dims[2], y.dims[2], exact, factors[0], p->columns() + y.dims[3]);
  p->rows = y.dims[0] * y.dims[2];
  p->tasks = task_count(p->rows, 16384 / (y.dims[1] * y.dims[3]) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

// Pixels of `bytes` bytes; steps in bytes.
static void nearest_row(const char* from, char* to, const int32_t* columns, int64_t width, int64_t bytes, int64_t from_step,
                        int64_t to_step) {
  for (int64_t i = 0; i < width; ++i) {
    const char* pixel = from + columns[i] * from_step;
    memcpy(to + i * to_step, pixel, static_cast<size_t>(bytes));
  }
}

static void nearest_rows(const Run& r) {
  const NearestParams& p = r.as<NearestParams>();
  const Tensor &x = r.in[0], &y = r.out[0];
  int64_t size = dtype_size(y.dtype), channels = y.dims[1], height = y.dims[2], width = y.dims[3];
  const int32_t* source = p.columns() + width;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows, p.tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t n = i / height, oh = i % height;
      char* to = y.data + (n * y.strides[0] + oh * y.strides[2]) * size;
      bool again = i > range.begin && oh > 0 && source[oh] == source[oh - 1];
      if (again && y.strides[3] == channels) {
        memcpy(to, to - y.strides[2] * size, static_cast<size_t>(width * channels * size));
        continue;
      }
      const char* from = x.data + (n * x.strides[0] + source[oh] * x.strides[2]) * size;
      nearest_row(from, to, p.columns(), width, channels * size, x.strides[3] * size, y.strides[3] * size);
    }
  }
}

PEN_KERNEL_ANY(resize_nearest, b8) { nearest_rows(r); }
PEN_KERNEL_ANY(resize_nearest, b16) { nearest_rows(r); }
PEN_KERNEL_ANY(resize_nearest, b32) { nearest_rows(r); }
PEN_KERNEL_ANY(resize_nearest, b64) { nearest_rows(r); }

}  // namespace pen
