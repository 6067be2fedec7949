// masked_select: rows of x, one for each true in the mask, in order. A row is what x has for one element of the mask.
#include "penlight/ops/dynamic/masks.h"

namespace pen {

struct MaskedSelectParams {
  MaskParams mask;
  int64_t row_bytes;
};

PEN_SHAPE(masked_select) {
  const Tensor &x = s.in(0), &mask = s.in(1);
  if (mask.dtype != DType::boolean) return s.fail(1, "a mask of bools", "%s", kDTypeNames[static_cast<int>(mask.dtype)]);
  if (mask.rank > x.rank) return s.fail(1, "a mask over the first dims of x", "rank %d for rank %d", mask.rank, x.rank);
  for (int d = 0; d < mask.rank; ++d) {
    if (mask.dims[d] != x.dims[d])
      return s.fail(1, "a mask over the first dims of x", "size %lld for %lld in dim %d", static_cast<long long>(mask.dims[d]),
                    static_cast<long long>(x.dims[d]), d);
  }
  Shape shape;
  shape.rank = x.rank - mask.rank + 1;
  if (shape.rank > kMaxRank) return s.fail(0, "a result of rank 8 at most", "rank %d", shape.rank);
  shape.dims[0] = mask.numel();
  for (int d = mask.rank; d < x.rank; ++d) shape.dims[d - mask.rank + 1] = x.dims[d];
  return s.output_at_most(0, x.dtype, shape);
}

PEN_BIND(masked_select) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  const Tensor& y = b.out(0);
  MaskedSelectParams* p = b.params<MaskedSelectParams>();
  p->row_bytes = dtype_size(y.dtype);
  for (int d = 1; d < y.rank; ++d) p->row_bytes *= y.dims[d];
  return mask_bind(b, &p->mask, y.dims[0]);
}

template <class T>
static void select_elements(const Run& r, const MaskParams& p) {
  const T* from = r.in[0].as<T>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    T* to = r.out[0].as<T>() + part_begin(r, p, task);
    Range range = part(p.count, p.tasks, task);
    for_true(r.in[1].as<uint8_t>(), range.begin, range.end, [&](int64_t i) { *to++ = from[i]; });
  }
}

static void select_rows(const Run& r, const MaskedSelectParams& p) {
  for (int64_t task = r.begin; task < r.end; ++task) {
    char* to = r.out[0].data + part_begin(r, p.mask, task) * p.row_bytes;
    Range range = part(p.mask.count, p.mask.tasks, task);
    for_true(r.in[1].as<uint8_t>(), range.begin, range.end, [&](int64_t i) {
      memcpy(to, r.in[0].data + i * p.row_bytes, static_cast<size_t>(p.row_bytes));
      to += p.row_bytes;
    });
  }
}

template <class T>
static void masked(const Run& r) {
  const MaskedSelectParams& p = r.as<MaskedSelectParams>();
  if (r.phase == 0)
    count_parts(r, p.mask, r.in[1].as<uint8_t>());
  else if (p.row_bytes == static_cast<int64_t>(sizeof(T)))
    select_elements<T>(r, p.mask);
  else
    select_rows(r, p);
}

PEN_KERNEL_ANY(masked_select, b8) { masked<uint8_t>(r); }
PEN_KERNEL_ANY(masked_select, b16) { masked<uint16_t>(r); }
PEN_KERNEL_ANY(masked_select, b32) { masked<uint32_t>(r); }
PEN_KERNEL_ANY(masked_select, b64) { masked<uint64_t>(r); }

}  // namespace pen
