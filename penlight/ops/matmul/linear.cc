// linear.f32: y = act(x W^T + b + residual) with W [N, K] packed as "panel16". x has any leading dims at any strides, its
// last dim is contiguous; every row becomes a pointer (runtime/cpu/gemm.h). Work is cut over rows and columns.
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {

constexpr int kLinearMaxLead = kMaxRank - 1;

struct Linear {
  int64_t m, k, n;
  // Leading dims, outermost first, merged where that is possible for x, residual and y alike.
  int lead;
  int64_t dims[kLinearMaxLead], x[kLinearMaxLead], residual[kLinearMaxLead], y[kLinearMaxLead];
  int64_t row_tasks, column_tasks;
  bool columns_outer;              // neighbouring tasks share columns (weights), not rows
  int64_t copy_pitch, copy_tasks;  // 0: x is read in place
  Activation act;
};

constexpr int64_t kLinearUnit = 14;                    // rows are cut at multiples of the tallest tile
constexpr int64_t kLinearBlockRows = 4 * kLinearUnit;  // rows whose pointers are held at a time
constexpr int64_t kLinearColumns = 32;                 // columns are cut at multiples of the widest tile
constexpr int64_t kLinearTaskWork = int64_t{1} << 19;  // multiply-adds

// Rows that are a multiple of this many bytes apart fall into the same few sets of the first cache level, and a tile of
// them throws itself out (a quarter slower). Where there is work enough, phase 0 copies them a cache line further apart.
constexpr int64_t kLinearCliff = 2048;
constexpr int64_t kLinearCopyColumns = 256;  // columns from which on the copy pays

PEN_SHAPE(linear) {
  const Tensor &x = s.in(0), &w = s.in(1);
  if (x.rank < 1) return s.fail(0, "rank 1 or more", "rank 0");
  if (w.rank != 2) return s.fail(1, "rank 2", "rank %d", w.rank);
  if (w.dims[1] != x.dims[x.rank - 1])
    return s.fail(1, "as many columns as x has", "%lld for %lld", static_cast<long long>(w.dims[1]),
                  static_cast<long long>(x.dims[x.rank - 1]));
  if (s.has(2) && (s.in(2).rank != 1 || s.in(2).dims[0] != w.dims[0])) return s.fail(2, "one bias per column", "rank %d", s.in(2).rank);
  Shape shape = shape_of(x);
  shape.dims[x.rank - 1] = w.dims[0];
  PEN_TRY(s.output(0, DType::f32, shape));
  if (!s.has(3)) return PEN_OK;
  bool same = s.in(3).rank == shape.rank;
  for (int d = 0; same && d < shape.rank; ++d) same = s.in(3).dims[d] == shape.dims[d];
  return same ? PEN_OK : s.fail(3, "a residual of the output's shape", "another shape, rank %d", s.in(3).rank);
}

PEN_BIND(linear) {
  const Tensor& w = b.in(1);
  if (strcmp(b.in_layout(1), "panel16") != 0) return b.fail(1, "panel16", "layout %s", b.in_layout(1));
  int64_t bytes = packed_bytes("panel16", w, 1);
  if (bytes < 0 || b.in_bytes(1) < bytes)
    return b.fail(1, "as many bytes as its packed layout takes", "%lld of %lld", static_cast<long long>(b.in_bytes(1)),
                  static_cast<long long>(bytes));
  Linear* p = b.params<Linear>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = w.dims[0];
  p->k = w.dims[1];
  if (b.has(2)) PEN_TRY(b.need(2, Need::dense));
  PEN_TRY(bind_activation(b, &p->act));
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::rows));
  if (b.has(3)) PEN_TRY(b.need(3, Need::rows));
  const Tensor &x = b.in(0), &y = b.out(0);

  p->m = 1;
  for (int d = 0; d < x.rank - 1; ++d) {
    int64_t size = x.dims[d], residual = b.has(3) ? b.in(3).strides[d] : 0;
    p->m *= size;  // fits: the output has been checked
    if (size == 1) continue;
    int last = p->lead - 1;
    bool merge =
        last >= 0 && p->x[last] == size * x.strides[d] && p->y[last] == size * y.strides[d] && p->residual[last] == size * residual;
    if (!merge) p->dims[last = p->lead++] = 1;
    p->dims[last] *= size;
    p->x[last] = x.strides[d];
    p->y[last] = y.strides[d];
    p->residual[last] = residual;
  }
  if (p->lead == 0) p->dims[p->lead++] = 1;
  if (p->m == 0 || p->n == 0) return PEN_OK;

  int64_t work, target = 256, units = (p->n + kLinearColumns - 1) / kLinearColumns;
  if (!__builtin_mul_overflow(p->m, p->n, &work) && !__builtin_mul_overflow(work, p->k, &work) && work / kLinearTaskWork + 1 < target)
    target = work / kLinearTaskWork + 1;
  int64_t row_units = (p->m + kLinearUnit - 1) / kLinearUnit;
  p->row_tasks = p->m <= kLinearBlockRows ? 1 : target < (row_units + 3) / 4 ? target : (row_units + 3) / 4;
  p->column_tasks = (target + p->row_tasks - 1) / p->row_tasks;
  p->column_tasks = p->column_tasks < units ? p->column_tasks : units;
  // What a task shares with the next one should be the larger of the two: it then comes from afar only once.
  p->columns_outer = p->n > p->m;
  if (p->m >= kLinearUnit && p->n >= kLinearCopyColumns && p->k > 0 && p->x[p->lead - 1] * 4 % kLinearCliff == 0) {
    p->copy_pitch = (p->k + 15) / 16 * 16 + 16;
    if (p->copy_pitch * 4 % kLinearCliff == 0) p->copy_pitch += 16;
    int64_t bytes;
    if (__builtin_mul_overflow(p->m, p->copy_pitch * 4, &bytes)) return b.fail(0, "a size that can be copied", "more");
    p->copy_tasks = task_count(p->m, 65536 / p->k + 1);
    PEN_TRY(b.shared(bytes));
    b.tasks(p->copy_tasks, p->row_tasks * p->column_tasks);
    return PEN_OK;
  }
  b.tasks(p->row_tasks * p->column_tasks);
  return PEN_OK;
}

// Where row `row` lies in x, residual and y, in elements, and how many rows of the same line (one pitch) follow it, itself
// included.
struct LinearRow {
  int64_t x, residual, y, left;
};
static PEN_INLINE LinearRow linear_row(const Linear& p, int64_t row) {
  int inner = p.lead - 1;
  int64_t at = row % p.dims[inner], outer = row / p.dims[inner];
  LinearRow r = {at * p.x[inner], at * p.residual[inner], at * p.y[inner], p.dims[inner] - at};
  for (int d = inner - 1; d >= 0; --d) {
    int64_t i = outer % p.dims[d];
    outer /= p.dims[d];
    r.x += i * p.x[d];
    r.residual += i * p.residual[d];
    r.y += i * p.y[d];
  }
  return r;
}

namespace PEN_ISA {

static PEN_OUTER void copy_linear_rows(const Run& r, const Linear& p) {
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.m, p.copy_tasks, task);
    for (int64_t row = range.begin; row < range.end; ++row)
      memcpy(r.shared + row * p.copy_pitch * 4, r.in[0].as<float>() + linear_row(p, row).x, static_cast<size_t>(p.k) * 4);
  }
}

static PEN_OUTER void run_linear(const Run& r) {
  const Linear& p = r.as<Linear>();
  if (p.copy_pitch > 0 && r.phase == 0) return copy_linear_rows(r, p);
  static_assert(kTileRows <= kLinearUnit, "the block's arrays hold all its tiles");
  const uint8_t live[1] = {1};
  const float* rows[kLinearBlockRows];
  RowTile tiles[kLinearBlockRows];
  int inner = p.lead - 1;  // rows of one line have one pitch, and a tile keeps to a line
  Block block = {};
  block.tiles = tiles;
  block.taps = 1;
  block.tap_k = p.k;
  block.b = r.in[1].as<float>();
  block.bias = r.in[2].data ? r.in[2].as<float>() : nullptr;
  block.n = p.n;
  block.c_pitch = p.y[inner];
  block.residual_pitch = p.residual[inner];
  block.act = &p.act;
  int64_t row_units = (p.m + kLinearUnit - 1) / kLinearUnit, units = (p.n + kLinearColumns - 1) / kLinearColumns;
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t row_task = p.columns_outer ? task % p.row_tasks : task / p.column_tasks;
    int64_t column_task = p.columns_outer ? task / p.row_tasks : task % p.column_tasks;
    Range columns = part(units, p.column_tasks, column_task), range = part(row_units, p.row_tasks, row_task);
    bool more = columns.end < units && (!p.columns_outer || row_task == p.row_tasks - 1);  // the next task's columns are others
    block.next_b = more ? block.b + columns.end * kLinearColumns * p.k : nullptr;
    block.n_begin = columns.begin * kLinearColumns;
    block.n_end = columns.end * kLinearColumns < p.n ? columns.end * kLinearColumns : p.n;
    int64_t last = range.end * kLinearUnit < p.m ? range.end * kLinearUnit : p.m;
    for (int64_t begin = range.begin * kLinearUnit; begin < last; begin += kLinearBlockRows) {
      int64_t end = begin + kLinearBlockRows < last ? begin + kLinearBlockRows : last;
      block.tile_count = 0;
      for (int64_t from = begin; from < end;) {
        // One line, or the part of it that lies in this block.
        LinearRow line = linear_row(p, from);
        int64_t count = line.left < end - from ? line.left : end - from;
        const float* x = p.copy_pitch > 0 ? reinterpret_cast<float*>(r.shared) + from * p.copy_pitch : r.in[0].as<float>() + line.x;
        int64_t pitch = p.copy_pitch > 0 ? p.copy_pitch : p.x[inner];
        for (int64_t i = 0; i < count; ++i) rows[from - begin + i] = x + i * pitch;
        const float* residual = r.in[3].data ? r.in[3].as<float>() + line.residual : nullptr;
        block.tile_count += cut_row_tiles(rows + (from - begin), count, live, r.out[0].as<float>() + line.y, p.y[inner], residual,
                                          p.residual[inner], tiles + block.tile_count);
        from += count;
      }
      run_block(block);
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(linear, f32) { PEN_ISA::run_linear(r); }

}  // namespace pen
