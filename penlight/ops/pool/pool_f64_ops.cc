// Pooling in double precision: by the definition. Rare, so there is no kernel.
#include "penlight/ops/pool/pooling.h"

namespace pen {

namespace {

constexpr int64_t kMost = int64_t{1} << 24;

struct Side {
  int64_t in, out, kernel, stride, padding, dilation;
};
struct Taps {
  int64_t start, count, step, padded;
};

Status size_side(const Call& c, const Window& w, int i, Side* s) {
  if (w.adaptive) {
    s->out = w.out[i];
    return s->out < 0 || s->out > kMost ? c.fail("output sizes from 0 to 2^24", "%lld", static_cast<long long>(s->out)) : PEN_OK;
  }
  const int64_t numbers[] = {s->kernel, s->stride, s->dilation};
  for (int64_t n : numbers)
    if (n < 1 || n > kMost) return c.fail("kernel, stride and dilation from 1 to 2^24", "%lld", static_cast<long long>(n));
  if (s->padding < 0 || s->padding > s->kernel / 2)
    return c.fail("padding from 0 to half the window", "%lld", static_cast<long long>(s->padding));
  int64_t room = s->in + 2 * s->padding - s->dilation * (s->kernel - 1) - 1;
  if (room < 0) return c.fail("an image at least as large as the window", "size %lld", static_cast<long long>(s->in));
  s->out = (room + (w.ceil_mode ? s->stride - 1 : 0)) / s->stride + 1;
  if (w.ceil_mode && (s->out - 1) * s->stride >= s->in + s->padding) --s->out;  // the last window begins inside
  return PEN_OK;
}

Taps taps_of(const Side& s, const Window& w, int64_t o) {
  if (w.adaptive) {
    int64_t start = o * s.in / s.out, end = ((o + 1) * s.in + s.out - 1) / s.out;
    return {start, end - start, 1, end - start};
  }
  int64_t at = o * s.stride - s.padding, end = at + s.kernel < s.in + s.padding ? at + s.kernel : s.in + s.padding;
  int64_t skip = at < 0 ? (-at + s.dilation - 1) / s.dilation : 0, last = s.in - 1 - at < 0 ? 0 : (s.in - 1 - at) / s.dilation + 1;
  last = last < s.kernel ? last : s.kernel;
  return {at + skip * s.dilation, last > skip ? last - skip : 0, s.dilation, end - at};
}

}  // namespace

Status pool_doubles(Call& c, const Planes& p, const Window& w, PoolKind kind, bool indices) {
  int sides = p.sides();
  Side s[3] = {{1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}};
  int64_t dims[5] = {p.x.dims[0], p.x.dims[1]};
  for (int i = 0; i < sides; ++i) {
    Side& side = s[3 - sides + i];
    side = {p.x.dims[2 + i], 0, w.kernel[i], w.stride[i], w.padding[i], w.dilation[i]};
    PEN_TRY(size_side(c, w, i, &side));
    dims[2 + i] = side.out;
  }
  Window one = {};  // the sides that there are not
  for (int64_t& o : one.out) o = 1;
  one.adaptive = true;
  Graph g(c);
  PEN_TRY(g.run(g.copy(g.input(p.x), DType::f64)));
  Value image = Value::own(g.take(0)), made = Value::own(tensor_create(DType::f64, 2 + sides, dims));
  Value places = Value::own(indices ? tensor_create(DType::i64, 2 + sides, dims) : nullptr);
  if (made.is_none() || (indices && places.is_none())) return c.out_of_memory();
  int64_t plane = s[0].in * s[1].in * s[2].in, k = 0;
  for (int64_t n = 0; n < dims[0] * dims[1]; ++n)
    for (int64_t z = 0; z < s[0].out; ++z)
      for (int64_t y = 0; y < s[1].out; ++y)
        for (int64_t x = 0; x < s[2].out; ++x, ++k) {
          const double* from = image.tensor()->as<double>() + n * plane;
          Taps tz = taps_of(s[0], sides == 3 ? w : one, z), ty = taps_of(s[1], w, y), tx = taps_of(s[2], w, x);
          double sum = 0, best = -__builtin_inf();
          int64_t at = (tz.start * s[1].in + ty.start) * s[2].in + tx.start;
          bool nan = false;
          for (int64_t a = 0; a < tz.count; ++a)
            for (int64_t b = 0; b < ty.count; ++b)
              for (int64_t d = 0; d < tx.count; ++d) {
                int64_t pixel = ((tz.start + a * tz.step) * s[1].in + ty.start + b * ty.step) * s[2].in + tx.start + d * tx.step;
                double v = from[pixel];
                sum += v;
                if (v > best || v != v) {
                  if (!nan || v != v) best = v, at = pixel;
                  nan |= v != v;
                }
              }
          int64_t size = w.count_padding ? tz.padded * ty.padded * tx.padded : tz.count * ty.count * tx.count;
          double divisor = static_cast<double>(w.divisor ? w.divisor : size > 0 ? size : 1);
          made.tensor()->as<double>()[k] = kind == PoolKind::maximum ? best : sum / divisor;
          if (indices) places.tensor()->as<int64_t>()[k] = at;
        }
  auto shared = [](const Value& v) {
    ++v.heap()->refs;
    return v.tensor();
  };
  if (indices) PEN_TRY(give_planes(c, p, shared(places), 1));
  return give_planes(c, p, shared(made), 0);
}

}  // namespace pen
