// matmul of integers, which wrap, and of f64: rows of b are added up into a row of the result. Rare in networks, so simple.
#include "penlight/ops/matmul/matmul.h"

namespace pen {

template <class T>
static void matmul_rows(const Run& r) {
  const MatmulParams& p = r.as<MatmulParams>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.batch.count * p.m, p.row_blocks, task);
    for (int64_t row = range.begin; row < range.end; ++row) {
      int64_t at[4];
      batch_offsets(p.batch, row / p.m, at, 4);
      const T *a = r.in[0].as<T>() + at[0] + row % p.m * p.a_pitch, *b = r.in[1].as<T>() + at[3];
      T* out = r.out[0].as<T>() + at[2] + row % p.m * p.out_pitch;
      for (int64_t j = 0; j < p.n; ++j) out[j] = 0;
      for (int64_t k = 0; k < p.k; ++k, b += p.b_row)
        for (int64_t j = 0; j < p.n; ++j) out[j] += a[k] * b[j * p.b_column];
    }
  }
}

PEN_KERNEL_ANY(matmul, i64) { matmul_rows<uint64_t>(r); }  // unsigned: the same bits, and overflow is defined
PEN_KERNEL_ANY(matmul, f64) { matmul_rows<double>(r); }

}  // namespace pen
