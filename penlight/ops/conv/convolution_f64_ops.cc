// Convolutions in double precision: by the definition, a row of outputs at a time. Rare, so there is no kernel.
#include "penlight/ops/conv/convolution.h"

namespace pen {

namespace {

constexpr int64_t kMost = int64_t{1} << 24;  // as kConvLimit

struct Side {
  int64_t in, out, kernel, stride, dilation, before;
};
// Outputs o for which o * stride + offset lies in [0, in), of all `out`.
struct Span {
  int64_t begin, end;
};
Span inside(int64_t offset, int64_t stride, int64_t in, int64_t out) {
  int64_t begin = offset < 0 ? (-offset + stride - 1) / stride : 0;
  int64_t end = in - offset <= 0 ? 0 : (in - offset + stride - 1) / stride;
  return {begin, end < out ? end : out};
}

Status size_side(const Call& c, const Convolution& v, int i, Side* s) {
  if (s->kernel < 1 || s->stride < 1 || s->dilation < 1 || s->kernel > kMost || s->stride > kMost || s->dilation > kMost)
    return c.fail("kernel, stride and dilation from 1 to 2^24", "%lld, %lld and %lld", static_cast<long long>(s->kernel),
                  static_cast<long long>(s->stride), static_cast<long long>(s->dilation));
  int64_t after = v.after[i];
  if (s->before < 0 || s->before > kMost || after > kMost || after < (v.transposed ? -kMost : 0) || s->in > kMost)
    return c.fail("sizes and padding from 0 to 2^24", "%lld, %lld and %lld", static_cast<long long>(s->in),
                  static_cast<long long>(s->before), static_cast<long long>(after));
  int64_t reach = s->dilation * (s->kernel - 1) + 1, room = s->in + s->before + after - reach;
  if (v.transposed)
    s->out = (s->in - 1) * s->stride + reach - s->before - after;
  else
    s->out = room < 0 ? 0 : room / s->stride + 1;
  if (s->out < 1)
    return c.fail("an image that the kernel fits into", "size %lld, the kernel reaches over %lld", static_cast<long long>(s->in),
                  static_cast<long long>(reach));
  return PEN_OK;
}

// One plane of inputs and one of weights, into one of outputs. Side 0 is D, 1 is H, 2 is W.
void add_plane(const double* x, const double* w, double* y, const Side* s, bool transposed) {
  // A transposed convolution goes the other way: its input is what a convolution would have as output.
  const Side &d = s[0], &h = s[1], &r = s[2];
  auto far = [&](const Side& t) { return transposed ? t.out : t.in; };
  auto near = [&](const Side& t) { return transposed ? t.in : t.out; };
  for (int64_t kz = 0; kz < d.kernel; ++kz)
    for (int64_t ky = 0; ky < h.kernel; ++ky)
      for (int64_t kx = 0; kx < r.kernel; ++kx) {
        double weight = *w++;
        int64_t oz = kz * d.dilation - d.before, oy = ky * h.dilation - h.before, ox = kx * r.dilation - r.before;
        Span zs = inside(oz, d.stride, far(d), near(d)), ys = inside(oy, h.stride, far(h), near(h)),
             xs = inside(ox, r.stride, far(r), near(r));
        for (int64_t z = zs.begin; z < zs.end; ++z)
          for (int64_t v = ys.begin; v < ys.end; ++v) {
            int64_t near_row = (z * near(h) + v) * near(r);
            int64_t far_row = ((z * d.stride + oz) * far(h) + v * h.stride + oy) * far(r) + ox;
            if (transposed)
              for (int64_t i = xs.begin; i < xs.end; ++i) y[far_row + i * r.stride] += weight * x[near_row + i];
            else
              for (int64_t i = xs.begin; i < xs.end; ++i) y[near_row + i] += weight * x[far_row + i * r.stride];
          }
      }
}

}  // namespace

Status convolve_doubles(Call& c, const Planes& p, const TensorObject* b, const Tensor& w, int64_t outputs, const Convolution& v) {
  int sides = p.sides(), lead = w.rank - sides;
  int64_t groups = v.groups, co = outputs / groups, ci = w.dims[lead - 1];
  if (p.x.dims[1] % groups != 0 || p.x.dims[1] / groups != ci)
    return c.fail("as many channels as the weight has inputs", "%lld channels, %lld inputs in each of %lld groups",
                  static_cast<long long>(p.x.dims[1]), static_cast<long long>(ci), static_cast<long long>(groups));
  Side s[3] = {{1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}};
  int64_t dims[5] = {p.x.dims[0], outputs};
  for (int i = 0; i < sides; ++i) {
    Side& side = s[3 - sides + i];
    side = {p.x.dims[2 + i], 0, w.dims[lead + i], v.stride[i], v.dilation[i], v.before[i]};
    PEN_TRY(size_side(c, v, i, &side));
    dims[2 + i] = side.out;
  }
  Graph g(c);
  PEN_TRY(g.run(g.copy(g.input(p.x), DType::f64), g.copy(g.input(w), DType::f64)));
  Value image = Value::own(g.take(0)), kernel = Value::own(g.take(1)), made = Value::own(tensor_create(DType::f64, 2 + sides, dims)), bias;
  if (made.is_none()) return c.out_of_memory();
  if (b) {
    Status status;
    bias = Value::own(tensor_clone(c, *b, &status));
    PEN_TRY(status);
  }
  int64_t in_plane = s[0].in * s[1].in * s[2].in, out_plane = s[0].out * s[1].out * s[2].out,
          taps = s[0].kernel * s[1].kernel * s[2].kernel;
  const double *x = image.tensor()->as<double>(), *weights = kernel.tensor()->as<double>();
  double* y = made.tensor()->as<double>();
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t o = 0; o < outputs; ++o, y += out_plane) {
      double start = b ? bias.tensor()->as<double>()[o] : 0.0;
      for (int64_t i = 0; i < out_plane; ++i) y[i] = start;
      int64_t group = co ? o / co : 0;
      for (int64_t i = 0; i < ci; ++i)
        add_plane(x + (n * p.x.dims[1] + group * ci + i) * in_plane, weights + (o * ci + i) * taps, y, s, v.transposed);
    }
  TensorObject* result = made.tensor();
  ++result->refs;
  return give_planes(c, p, result);
}

}  // namespace pen
