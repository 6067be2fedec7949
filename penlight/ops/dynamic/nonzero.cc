// nonzero: indices of what is true in a mask, in row-major order. Each task counts its part of the mask first; then it knows
// in which row to begin.
#include "penlight/ops/dynamic/masks.h"

namespace pen {

struct NonzeroParams {
  MaskParams mask;
  int rank;
  int64_t dims[kMaxRank];
};

PEN_SHAPE(nonzero) {
  Shape shape;
  shape.rank = 2;
  shape.dims[0] = s.in(0).numel();
  shape.dims[1] = s.in(0).rank;
  return s.output_at_most(0, DType::i64, shape);
}

PEN_BIND(nonzero) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  const Tensor& x = b.in(0);
  NonzeroParams* p = b.params<NonzeroParams>();
  p->rank = x.rank;
  for (int d = 0; d < x.rank; ++d) p->dims[d] = x.dims[d];
  return mask_bind(b, &p->mask, b.out(0).dims[0]);
}

PEN_KERNEL_ANY(nonzero, bool) {
  const NonzeroParams& p = r.as<NonzeroParams>();
  const uint8_t* mask = r.in[0].as<uint8_t>();
  if (r.phase == 0) return count_parts(r, p.mask, mask);
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t* to = r.out[0].as<int64_t>() + part_begin(r, p.mask, task) * p.rank;
    Range range = part(p.mask.count, p.mask.tasks, task);
    if (p.rank == 1) {
      for_true(mask, range.begin, range.end, [&](int64_t i) { *to++ = i; });
    } else if (p.rank == 2) {
      int64_t width = p.dims[1], row = width ? range.begin / width : 0, row_end = (row + 1) * width;
      for_true(mask, range.begin, range.end, [&](int64_t i) {
        while (i >= row_end) {
          ++row;
          row_end += width;
        }
        *to++ = row;
        *to++ = i - (row_end - width);
      });
    } else {
      for_true(mask, range.begin, range.end, [&](int64_t i) {
        for (int d = p.rank - 1; d >= 0; --d) {
          to[d] = i % p.dims[d];
          i /= p.dims[d];
        }
        to += p.rank;
      });
    }
  }
}

}  // namespace pen
