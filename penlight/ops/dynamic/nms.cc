// nms: boxes in a given order, each kept unless one kept before overlaps it by more than the threshold. The boxes are
// gathered in that order first, one array per coordinate, so that a kept box is compared with all that follow in vectors.
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

struct NmsParams {
  int64_t count;
  float threshold;
};

// The largest float that is not above x: for a float y, y > x is y > that.
static float float_below(double x) {
  float f = static_cast<float>(x);
  if (!(static_cast<double>(f) > x)) return f;
  int32_t bits;
  memcpy(&bits, &f, 4);
  bits += f > 0 ? -1 : 1;
  memcpy(&f, &bits, 4);
  return f;
}

PEN_SHAPE(nms) {
  const Tensor &boxes = s.in(0), &order = s.in(1);
  if (boxes.rank != 2 || boxes.dims[1] != 4)
    return s.fail(0, "boxes of four numbers", "rank %d, the last dim of %lld", boxes.rank,
                  static_cast<long long>(boxes.rank ? boxes.dims[boxes.rank - 1] : 0));
  if (order.dtype != DType::i64 || order.rank != 1 || order.dims[0] != boxes.dims[0])
    return s.fail(1, "a place for each box", "%s of rank %d", kDTypeNames[static_cast<int>(order.dtype)], order.rank);
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = boxes.dims[0];
  return s.output_at_most(0, DType::i64, shape);
}

PEN_BIND(nms) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  NmsParams* p = b.params<NmsParams>();
  p->count = b.in(0).dims[0];
  double threshold = b.number("threshold");
  p->threshold = threshold > 3e38 ? 3e38f : threshold < -3e38 ? -3e38f : float_below(threshold);
  PEN_TRY(b.shared(p->count * 24 + 64));  // four coordinates, area, whether it is gone; and a vector more
  b.tasks(1);
  return PEN_OK;
}

PEN_KERNEL(nms, f32) {
  const NmsParams& p = r.as<NmsParams>();
  int64_t n = p.count, kept = 0;
  float *x1 = reinterpret_cast<float*>(r.shared), *y1 = x1 + n, *x2 = y1 + n, *y2 = x2 + n, *area = y2 + n, *gone = area + n;
  const int64_t* order = r.in[1].as<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    if (order[i] < 0 || order[i] >= n) return r.fail_index(1, order[i], 0, n);
    const float* box = r.in[0].as<float>() + order[i] * 4;
    x1[i] = box[0];
    y1[i] = box[1];
    x2[i] = box[2];
    y2[i] = box[3];
    area[i] = (box[2] - box[0]) * (box[3] - box[1]);
    gone[i] = 0;
  }
  Patience patience(r);
  V threshold = set1(p.threshold), one = set1(1.0f);
  for (int64_t i = 0; i < n; ++i) {
    if (gone[i] != 0) continue;
    if (patience.ends(n - i)) return;
    r.out[0].as<int64_t>()[kept++] = order[i];
    V left = set1(x1[i]), top = set1(y1[i]), right = set1(x2[i]), bottom = set1(y2[i]), own = set1(area[i]);
    for (int64_t j = i + 1; j < n; j += kLanes) {  // lanes beyond the last box are in the arrays that follow, and in the rest
      V w = max(min(right, load(x2 + j)) - max(left, load(x1 + j)), zero());
      V h = max(min(bottom, load(y2 + j)) - max(top, load(y1 + j)), zero());
      V shared = w * h;
      M overlaps = gt(shared / (own + load(area + j) - shared), threshold);
      store(gone + j, select(overlaps, one, load(gone + j)));
    }
  }
  r.counts[0] = kept;
}

}  // namespace pen
