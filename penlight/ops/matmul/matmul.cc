// matmul: f32, batches broadcast. Phase 0 packs b into panels (each distinct matrix once, whatever its strides), phase 1
// multiplies blocks of rows and columns. With up to 3 rows packing would cost more than the product: then one phase
// reads b in place. The rules are those of the other dtypes too (matmul_any.cc, matmul_q8.cc).
#include "penlight/ops/matmul/matmul.h"

#include "penlight/runtime/exec/q8.h"

namespace pen {

constexpr int64_t kDirectRows = 3;

PEN_SHAPE(matmul) {
  for (int i = 0; i < 2; ++i) {
    if (s.in(i).dtype != s.in(0).dtype) return s.fail(i, "a tensor of a's dtype", "dtype code %d", static_cast<int>(s.in(i).dtype));
    if (s.in(i).rank < 2) return s.fail(i, "a tensor of rank 2 or more", "rank %d", s.in(i).rank);
  }
  PEN_TRY(need_countable(s, 1));
  const Tensor &a = s.in(0), &w = s.in(1);
  Shape out;
  if (broadcast(&out, a.dims, a.rank - 2) >= 0 || broadcast(&out, w.dims, w.rank - 2) >= 0)
    return s.fail(1, "leading dims equal to those of a, or 1", "others");
  if (w.dims[w.rank - 2] != a.dims[a.rank - 1])
    return s.fail(1, "as many rows as a has columns", "%lld, not %lld", static_cast<long long>(w.dims[w.rank - 2]),
                  static_cast<long long>(a.dims[a.rank - 1]));
  if (out.rank + 2 > kMaxRank) return s.fail(-1, "a result of rank 8 at most", "rank %d", out.rank + 2);
  out.dims[out.rank++] = a.dims[a.rank - 2];
  out.dims[out.rank++] = w.dims[w.rank - 1];
  return s.output(0, kHasBytes && a.dtype == DType::u8 ? s.declared_dtype(0) : a.dtype, out);
}

// What kernels of bytes need beside the others; the work is cut as of floats.
[[maybe_unused]] static PEN_SMALL Status bind_bytes(Bind& b, MatmulQ8* p) {
  PEN_TRY(need_depth_q8(b, p->k));
  p->a_zero = static_cast<uint32_t>(b.in(0).quant->zero);
  p->b_zero = static_cast<uint32_t>(b.in(1).quant->zero - 128);
  p->padded_k = (p->k + 3) / 4 * 4;
  p->copy_pitch = p->k % 4 != 0 ? (p->k + 15) / 16 * 16 + 16 : 0;
  PEN_TRY(b.scratch(kMatmulRowsQ8 * p->copy_pitch));
  p->matrix_bytes = p->panels * 16 * (p->padded_k + 8);
  return bind_product_q8(b, kMatmulColumnsQ8, p->scale, &p->result);
}

PEN_BIND(matmul) {
  PEN_TRY(b.need(0, Need::rows));
  const bool bytes = kHasBytes && b.in(0).dtype == DType::u8;
  if (bytes) PEN_TRY(need_q8(b, 1));
  if (b.in(0).dtype != DType::f32 && !bytes) PEN_TRY(b.need(1, Need::rows));
  PEN_TRY(b.need_plain(1));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::rows));
  MatmulParams* p = static_cast<MatmulParams*>(b.params_bytes(bytes ? sizeof(MatmulQ8) : sizeof(MatmulParams)));
  if (!p) return PEN_ERROR_MEMORY;
  const Tensor &a = b.in(0), &w = b.in(1), &y = b.out(0);
  if (is_empty(y)) return PEN_OK;
  Shape shape = shape_of(y);
  shape.rank -= 2;
  p->m = a.dims[a.rank - 2];
  p->k = a.dims[a.rank - 1];
  p->n = w.dims[w.rank - 1];
  p->packed = packed_batch(shape, w, 2);
  p->batch.rank = shape.rank;
  p->batch.count = 1;
  for (int i = 0; i < shape.rank; ++i) {
    p->batch.dims[i] = shape.dims[i];
    p->batch.count *= shape.dims[i];
    p->batch.strides[i][0] = broadcast_stride(shape, i, a, a.rank - 2);
    p->batch.strides[i][1] = p->packed.number[i];
    p->batch.strides[i][2] = y.strides[i];
    p->batch.strides[i][3] = broadcast_stride(shape, i, w, w.rank - 2);
  }
  p->a_pitch = a.strides[a.rank - 2];
  p->out_pitch = y.strides[y.rank - 2];
  p->b_row = w.strides[w.rank - 2];
  p->b_column = w.strides[w.rank - 1];
  if (p->n == 1 && p->b_row == 1) p->b_column = p->k;  // one column: a dot product, not a row of one value for each k
  if (a.dtype != DType::f32 && !bytes) {
    p->row_blocks = task_count(p->batch.count * p->m, 65536 / (p->k * p->n + 1) + 1);
    b.tasks(p->row_blocks);
    return PEN_OK;
  }
  p->panels = panel_count(p->n);
  p->direct = !bytes && p->m <= kDirectRows && (p->b_row == 1 || p->b_column == 1);
  if (p->direct) {
    p->columns = 64;
    p->row_blocks = 1;
    p->column_blocks = (p->n + p->columns - 1) / p->columns;
    b.tasks(p->batch.count * p->column_blocks);
    return PEN_OK;
  }
  int64_t matrix = p->k * 64 * p->panels, total;
  if (bytes) {
    PEN_TRY(bind_bytes(b, static_cast<MatmulQ8*>(p)));
    matrix = static_cast<MatmulQ8*>(p)->matrix_bytes;
  }
  if (__builtin_mul_overflow(p->packed.source.count, matrix, &total)) return b.fail(1, "a size that can be packed", "overflow");
  PEN_TRY(b.shared(total));
  p->pack_tasks = task_count(p->packed.source.count * p->panels, (bytes ? 8192 : 2048) / (p->k + 1) + 1);
  const int64_t rows = bytes ? kMatmulRowsQ8 : PEN_ISA::kMaxBlockRows;
  p->row_blocks = (p->m + rows - 1) / rows;
  // Blocks of columns keep their panels in the second cache level, and leave tasks enough for the threads.
  p->columns = p->batch.count * p->row_blocks >= 16 || p->n <= 64 ? 512 : 64;
  p->column_blocks = (p->n + p->columns - 1) / p->columns;
  b.tasks(p->pack_tasks, p->batch.count * p->row_blocks * p->column_blocks);
  return PEN_OK;
}

namespace PEN_ISA {

static PEN_INLINE void matmul_pack(const Run& r, const MatmulParams& p) {
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.packed.source.count * p.panels, p.pack_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t at, panel = i % p.panels;
      batch_offsets(p.packed.source, i / p.panels, &at, 1);
      const float* from = r.in[1].as<float>() + at + panel * 16 * p.b_column;
      pack_panel(from, p.k, p.n - panel * 16, p.b_row, p.b_column, reinterpret_cast<float*>(r.shared) + i * p.k * 16);
    }
  }
}

constexpr int kWide = kLanes == 16 ? 4 : 8;  // vectors: whole cache lines of each row of b, in registers

// One row of a times columns that lie side by side, kVectors vectors of them: rows of b are added up.
template <int kVectors, bool kPartial>
static PEN_INLINE void row_times_rows(const float* a, const float* b, const MatmulParams& p, int64_t lanes, float* out) {
  V acc[kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[j] = zero();
  for (int64_t k = 0; k < p.k; ++k, b += p.b_row) {
    V x = set1(a[k]);
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[j] = fma(x, kPartial ? load_partial(b, lanes) : load(b + j * kLanes), acc[j]);
  }
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
    if (kPartial)
      store_partial(out, acc[j], lanes);
    else
      store(out + j * kLanes, acc[j]);
  }
}

static PEN_INLINE float dot(const float* a, const float* b, int64_t n) {
  V acc0 = zero(), acc1 = zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    acc0 = fma(load(a + i), load(b + i), acc0);
    acc1 = fma(load(a + i + kLanes), load(b + i + kLanes), acc1);
  }
  for (; i + kLanes <= n; i += kLanes) acc0 = fma(load(a + i), load(b + i), acc0);
  if (i < n) acc1 = fma(load_partial(a + i, n - i), load_partial(b + i, n - i), acc1);
  return reduce_add(acc0 + acc1);
}

static PEN_INLINE void matmul_direct(const Run& r, const MatmulParams& p) {
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t at[4], n = task % p.column_blocks * p.columns;
    batch_offsets(p.batch, task / p.column_blocks, at, 4);
    int64_t end = p.n - n < p.columns ? p.n : n + p.columns;
    const float* b = r.in[1].as<float>() + at[3];
    for (int64_t row = 0; row < p.m; ++row) {
      const float* a = r.in[0].as<float>() + at[0] + row * p.a_pitch;
      float* out = r.out[0].as<float>() + at[2] + row * p.out_pitch;
      int64_t j = n;
      if (p.b_column == 1) {
        for (; j + kWide * kLanes <= end; j += kWide * kLanes) row_times_rows<kWide, false>(a, b + j, p, 0, out + j);
        for (; j + kLanes <= end; j += kLanes) row_times_rows<1, false>(a, b + j, p, 0, out + j);
        if (j < end) row_times_rows<1, true>(a, b + j, p, end - j, out + j);
      } else {
        for (; j < end; ++j) out[j] = dot(a, b + j * p.b_column, p.k);
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(matmul, f32) {
  using namespace PEN_ISA;
  const MatmulParams& p = r.as<MatmulParams>();
  if (p.direct) return matmul_direct(r, p);
  if (r.phase == 0) return matmul_pack(r, p);
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t columns = task % p.column_blocks, rest = task / p.column_blocks;
    Range rows = part(p.m, p.row_blocks, rest % p.row_blocks);
    int64_t at[3];
    batch_offsets(p.batch, rest / p.row_blocks, at, 3);
    PanelProduct c = {};
    c.a = r.in[0].as<float>() + at[0] + rows.begin * p.a_pitch;
    c.rows = rows.end - rows.begin;
    c.a_pitch = p.a_pitch;
    c.b = reinterpret_cast<const float*>(r.shared) + at[1] * p.panels * p.k * 16;
    c.k = p.k;
    c.begin = columns * p.columns;
    c.end = p.n - c.begin < p.columns ? p.n : c.begin + p.columns;
    c.n = p.n;
    c.c = r.out[0].as<float>() + at[2] + rows.begin * p.out_pitch;
    c.c_pitch = p.out_pitch;
    panel_product(c);
  }
}

}  // namespace pen
