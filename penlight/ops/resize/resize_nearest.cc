// resize_nearest: nhwc or plain (places.h), moves pixels without looking at them. An output row that comes from the same
// input row as the one before is a copy of that; a width that stays makes it a copy too. One task is a range of rows.
#include "penlight/ops/resize/places.h"

namespace pen {

struct NearestParams {
  Planes x, y;
  int64_t height, width, rows, tasks;
  bool same_width;
  int32_t* columns() { return reinterpret_cast<int32_t*>(this + 1); }
  const int32_t* columns() const { return reinterpret_cast<const int32_t*>(this + 1); }
};  // followed by OW input columns, then OH input rows

static void nearest_places(int64_t in, int64_t out, bool exact, double factor, int32_t* places) {
  float step = resize_step<float>(in, out, factor);
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

PEN_SHAPE(resize_nearest) { return resize_shapes(s); }

PEN_BIND(resize_nearest) {
  double factors[2];
  PEN_TRY(resize_maps(b, factors));
  const Tensor &x = b.in(0), &y = b.out(0);
  bool exact = b.flag("exact");
  if (y.dims[0] == 0 || y.dims[1] == 0) return PEN_OK;
  size_t places = static_cast<size_t>(y.dims[2] + y.dims[3]);
  auto* p = static_cast<NearestParams*>(b.params_bytes(sizeof(NearestParams) + places * sizeof(int32_t)));
  if (!p) return PEN_ERROR_MEMORY;
  p->x = planes_of(x, b.out_is_nhwc(0));
  p->y = planes_of(y, b.out_is_nhwc(0));
  p->height = y.dims[2];
  p->width = y.dims[3];
  nearest_places(x.dims[3], y.dims[3], exact, factors[1], p->columns());
  nearest_places(x.dims[2], y.dims[2], exact, factors[0], p->columns() + y.dims[3]);
  p->same_width = x.dims[3] == y.dims[3] && p->x.pitch == p->x.inner && p->y.pitch == p->y.inner;
  for (int64_t i = 0; i < p->width && p->same_width; ++i) p->same_width = p->columns()[i] == i;
  p->rows = y.dims[0] * p->y.channels * y.dims[2];
  p->tasks = task_count(p->rows, 16384 / (p->y.inner * p->width) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

// Pixels of one value each.
template <class T>
static void nearest_values(const char* from, char* to, const int32_t* columns, int64_t width) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < width; ++i) y[i] = x[columns[i]];
}

template <class T>
static void nearest_rows(const Run& r) {
  const NearestParams& p = r.as<NearestParams>();
  constexpr int64_t size = sizeof(T);
  const int32_t *columns = p.columns(), *source = p.columns() + p.width;
  int64_t bytes = p.y.inner * size, row_bytes = p.width * bytes;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows, p.tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t outer = i / p.height, oh = i % p.height;
      char* to = r.out[0].data + (plane_offset(p.y, outer) + oh * p.y.row_step) * size;
      const char* from = r.in[0].data + (plane_offset(p.x, outer) + source[oh] * p.x.row_step) * size;
      bool again = i > range.begin && oh > 0 && source[oh] == source[oh - 1];
      if (again && p.y.pitch == p.y.inner) {
        memcpy(to, to - p.y.row_step * size, static_cast<size_t>(row_bytes));
      } else if (p.same_width) {
        memcpy(to, from, static_cast<size_t>(row_bytes));
      } else if (p.y.inner == 1 && p.y.pitch == 1 && p.x.pitch == 1) {
        nearest_values<T>(from, to, columns, p.width);
      } else {
        for (int64_t k = 0; k < p.width; ++k)
          memcpy(to + k * p.y.pitch * size, from + columns[k] * p.x.pitch * size, static_cast<size_t>(bytes));
      }
    }
  }
}

PEN_KERNEL_ANY(resize_nearest, b8) { nearest_rows<uint8_t>(r); }
PEN_KERNEL_ANY(resize_nearest, b16) { nearest_rows<uint16_t>(r); }
PEN_KERNEL_ANY(resize_nearest, b32) { nearest_rows<uint32_t>(r); }
PEN_KERNEL_ANY(resize_nearest, b64) { nearest_rows<uint64_t>(r); }

}  // namespace pen
