// matmul of integers, which wrap, and of f64: for a few neighbouring columns of one row at a time, rows of b are added up in
// registers. Rare in networks, so simple: b is neither packed nor kept in cache by blocks.
#include "penlight/ops/matmul/matmul.h"

namespace pen {
namespace PEN_ISA {

// GCC and Clang make of these whatever the instruction set has.
typedef uint64_t Wide64 __attribute__((vector_size(64)));
typedef double WideF64 __attribute__((vector_size(64)));

template <class T, class W>
static PEN_INLINE void matmul_rows(const Run& r) {
  constexpr int64_t kWidth = 8, kVectors = 4;
  const MatmulParams& p = r.as<MatmulParams>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.batch.count * p.m, p.row_blocks, task);
    for (int64_t row = range.begin; row < range.end; ++row) {
      int64_t at[4], j = 0;
      batch_offsets(p.batch, row / p.m, at, 4);
      const T *a = r.in[0].as<T>() + at[0] + row % p.m * p.a_pitch, *b = r.in[1].as<T>() + at[3];
      T* out = r.out[0].as<T>() + at[2] + row % p.m * p.out_pitch;
      for (; j + kWidth * kVectors <= p.n; j += kWidth * kVectors) {
        W sums[kVectors] = {};
        for (int64_t k = 0; k < p.k; ++k) {
          W x = a[k] - W{};
          PEN_UNROLL for (int64_t v = 0; v < kVectors; ++v) {
            W y;
            __builtin_memcpy(&y, b + k * p.b_row + j + v * kWidth, sizeof y);
            sums[v] += x * y;
          }
        }
        memcpy(out + j, sums, sizeof sums);
      }
      for (; j < p.n; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < p.k; ++k) sum += a[k] * b[k * p.b_row + j];
        out[j] = sum;
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(matmul, i64) { PEN_ISA::matmul_rows<uint64_t, PEN_ISA::Wide64>(r); }  // unsigned: the same bits, and overflow is defined
PEN_KERNEL(matmul, f64) { PEN_ISA::matmul_rows<double, PEN_ISA::WideF64>(r); }

}  // namespace pen
