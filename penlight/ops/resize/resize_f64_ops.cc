// Linear and cubic resizing in double precision, one side after the other. Rare, so there is no kernel.
#include "penlight/ops/resize/resizing.h"

namespace pen {

namespace {

struct Taps {
  int64_t at[4];
  double weight[4];
};

// The pixels that output i is made of, by torch's rule.
Taps taps_of(int64_t i, int64_t in, int64_t out, double factor, bool corners, bool cubic) {
  double scale = corners      ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0)
                 : factor > 0 ? 1 / factor
                              : static_cast<double>(in) / static_cast<double>(out);
  double place = corners ? scale * static_cast<double>(i) : scale * (static_cast<double>(i) + 0.5) - 0.5;
  if (!cubic && place < 0) place = 0;
  double first = floor(place), t = place - first;
  Taps taps = {};
  auto inside = [&](double p) { return p < 0 ? int64_t{0} : p > static_cast<double>(in - 1) ? in - 1 : static_cast<int64_t>(p); };
  if (!cubic) {
    taps.at[0] = inside(first), taps.weight[0] = 1 - t;
    taps.at[1] = inside(first + 1), taps.weight[1] = t;
    return taps;
  }
  constexpr double a = -0.75;
  auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  for (int k = 0; k < 4; ++k) taps.at[k] = inside(first + k - 1), taps.weight[k] = weights[k];
  return taps;
}

}  // namespace

Status resize_doubles(Call& c, const Resize& r) {
  if (r.antialias) return c.fail("a Float tensor with antialias", "Double");
  const TensorObject& x = c.tensor(0);
  Shape shape = shape_of(x);
  Value now;
  PEN_TRY(elements_of(c, x, DType::f64, &now));
  for (int side = r.spatial - 1; side >= 0; --side) {
    int d = 2 + side;
    int64_t in = shape.dims[d], out = r.size[side], outer = 1, inner = 1;
    for (int k = 0; k < d; ++k) outer *= shape.dims[k];
    for (int k = d + 1; k < shape.rank; ++k) inner *= shape.dims[k];
    shape.dims[d] = out;
    Value next = Value::own(tensor_create(DType::f64, shape));
    if (next.is_none()) return c.out_of_memory();
    bool cubic = strcmp(r.mode, "cubic") == 0;
    for (int64_t i = 0; i < out; ++i) {
      Taps taps = taps_of(i, in, out, r.scales[side], r.align_corners, cubic);
      for (int64_t o = 0; o < outer; ++o) {
        const double* from = now.tensor()->as<double>() + o * in * inner;
        double* to = next.tensor()->as<double>() + (o * out + i) * inner;
        for (int64_t k = 0; k < inner; ++k) {
          double sum = 0;
          for (int j = 0; j < (cubic ? 4 : 2); ++j) sum += taps.weight[j] * from[taps.at[j] * inner + k];
          to[k] = sum;
        }
      }
    }
    now = static_cast<Value&&>(next);
  }
  return c.give(static_cast<Value&&>(now));
}

}  // namespace pen
