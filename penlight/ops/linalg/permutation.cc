// permutation: the rows that exchanges one after another bring to each place: perm[i] is the row that is now row i.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct PermutationParams {
  int64_t lines, k, n;
};

PEN_SHAPE(permutation) {
  const Tensor& x = s.in(0);
  if (x.dtype != DType::i32 || x.rank < 1) return s.fail(0, "i32 pivots", "rank %d", x.rank);
  int64_t n = s.integer("n");
  if (n < x.dims[x.rank - 1]) return s.fail(-1, "as many rows as pivots", "n = %lld", static_cast<long long>(n));
  Shape shape = shape_of(x);
  shape.dims[x.rank - 1] = n;
  return s.output(0, DType::i64, shape);
}

PEN_BIND(permutation) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  PermutationParams* p = b.params<PermutationParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->k = x.dims[x.rank - 1];
  p->n = b.integer("n");
  p->lines = 1;
  for (int i = 0; i < x.rank - 1; ++i) p->lines *= x.dims[i];
  if (p->lines * p->n > 0) b.tasks(1);
  return PEN_OK;
}

PEN_KERNEL_ANY(permutation, i32) {
  const PermutationParams& p = r.as<PermutationParams>();
  for (int64_t line = 0; line < p.lines; ++line) {
    const int32_t* pivots = r.in[0].as<int32_t>() + line * p.k;
    int64_t* to = r.out[0].as<int64_t>() + line * p.n;
    for (int64_t i = 0; i < p.n; ++i) to[i] = i;
    for (int64_t i = 0; i < p.k; ++i) {
      int64_t other = int64_t{pivots[i]} - 1;
      if (other < 0 || other >= p.n) {
        r.fail_index(0, pivots[i], 1, p.n + 1);
        continue;
      }
      int64_t t = to[i];
      to[i] = to[other];
      to[other] = t;
    }
  }
}

}  // namespace pen
