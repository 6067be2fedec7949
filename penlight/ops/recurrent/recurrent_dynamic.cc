// lstm_dynamic, gru_dynamic, rnn_dynamic: as recurrent.cc, with weights of i8 packed as "quads16". Each step finds the range of the state
// of all rows, rounds it to levels of a scale of its own, and multiplies integers (runtime/cpu/gemm_q8.h); gates and cells are f32. One
// scale for the batch, as torch has it, means that its rows wait for each other at every step: one task does them all; or, where a step is
// worth it, a phase is a step, and each task rounds the whole state, which is little beside the product, for some of the units.
#include "penlight/ops/quantized/convert.h"
#include "penlight/ops/quantized/dynamic.h"
#include "penlight/ops/recurrent/cell.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/gemm_q8.h"

namespace pen {

struct DynamicCell {
  Cell cell;
  bool reverse;
  DynamicLevels levels;
  int64_t steps, batch, hidden, copies;  // copies: how often the state comes side by side, 1 or 2
  int64_t x_step, x_row, y_step, y_row, h_row, c_row;
  int64_t gates_pitch, bytes_pitch, columns;  // columns: of all gates, by panels
  int64_t unit_tasks;                         // of each phase, which then is a step; or 1, and there is one phase
  ResultQ8 result;
  Activation none;
};

constexpr double kIntegerTaskWork = 1 << 18;  // multiply-adds: as kStepTaskWork of recurrent.cc

// Inputs: x, w, h, then c (lstm), then what lowering made of w and the state's bias: four numbers for every column.
static int columns_input(Cell cell) { return cell == Cell::lstm ? 4 : 3; }

static PEN_SMALL Status dynamic_shapes(Shapes& s, Cell cell) {
  const int64_t gates = gate_count(cell);
  const bool lstm = cell == Cell::lstm;
  const int last = columns_input(cell);
  for (int i = 0; i < last; ++i)
    if (i != 1 && s.in(i).dtype != DType::f32) return s.fail(i, "an f32 tensor", "%s", kDTypeNames[static_cast<int>(s.in(i).dtype)]);
  const Tensor &x = s.in(0), &w = s.in(1);
  if (x.rank != 3 || x.dims[2] % gates != 0) return s.fail(0, "gates [T, B, gates * H]", "rank %d", x.rank);
  const int64_t batch = x.dims[1], hidden = x.dims[2] / gates;
  // With twice the columns it is two weights whose sum counts: integers with a zero point have nine bits.
  if (w.dtype != DType::i8 || w.rank != 2 || w.dims[0] != x.dims[2] || (w.dims[1] != hidden && w.dims[1] != 2 * hidden))
    return s.fail(1, "a weight of i8 that fits the gates and the state", "%s of rank %d", kDTypeNames[static_cast<int>(w.dtype)], w.rank);
  static const char kState[] = "a state [B, H]";
  PEN_TRY(check_matrix(s, 2, kState, batch, hidden));
  if (lstm) PEN_TRY(check_matrix(s, 3, kState, batch, hidden));
  if (!s.has(last)) return s.fail(-1, "four numbers of i32 for every column", "none");
  const Tensor& columns = s.in(last);
  if (columns.dtype != DType::i32 || columns.rank != 2 || columns.dims[0] != 4 || columns.dims[1] < x.dims[2] || columns.dims[1] % 16 != 0)
    return s.fail(last, "four numbers of i32 for every column, by sixteens", "%s of rank %d, %lld columns",
                  kDTypeNames[static_cast<int>(columns.dtype)], columns.rank,
                  static_cast<long long>(columns.rank == 2 ? columns.dims[1] : 0));
  PEN_TRY(check_dynamic_levels(s, false));
  Shape y = shape_of(x), h;
  y.dims[2] = h.dims[1] = hidden;
  h.dims[0] = batch;
  h.rank = 2;
  for (int i = 0; i < (lstm ? 3 : 2); ++i) PEN_TRY(s.output(i, DType::f32, i == 0 ? y : h));
  return PEN_OK;
}

PEN_SHAPE(lstm_dynamic) { return dynamic_shapes(s, Cell::lstm); }
PEN_SHAPE(gru_dynamic) { return dynamic_shapes(s, Cell::gru); }
PEN_SHAPE(rnn_dynamic) {
  PEN_TRY(check_nonlinearity(s));
  return dynamic_shapes(s, Cell::tanh);
}

static PEN_SMALL Status dynamic_plan(Bind& b, Cell cell) {
  DynamicCell* p = b.params<DynamicCell>();
  const bool lstm = cell == Cell::lstm;
  const int last = columns_input(cell);
  p->cell = cell;
  p->reverse = b.flag("reverse");
  p->levels = dynamic_levels(b, 0, 0.0f);
  p->result.real = true;
  p->steps = b.in(0).dims[0];
  p->batch = b.in(0).dims[1];
  p->hidden = b.out(0).dims[2];
  p->copies = b.in(1).dims[1] == p->hidden ? 1 : 2;
  PEN_TRY(need_packed(b, 1, "quads16", packed_bytes("quads16", b.in(1), 1)));
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.need(2, Need::rows));
  if (lstm) PEN_TRY(b.need(3, Need::rows));
  PEN_TRY(b.need(last, Need::dense));
  for (int i = 0; i < (lstm ? 3 : 2); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, i == 0 ? Need::rows : Need::dense));
  }
  if (p->batch == 0 || p->hidden == 0) return PEN_OK;
  p->x_step = b.in(0).strides[0];
  p->x_row = b.in(0).strides[1];
  p->y_step = b.out(0).strides[0];
  p->y_row = b.out(0).strides[1];
  p->h_row = b.in(2).strides[0];
  p->c_row = lstm ? b.in(3).strides[0] : 0;
  p->columns = (b.in(0).dims[2] + 15) / 16 * 16;
  p->gates_pitch = p->columns + 16;  // rows of a power of two would lie in the same few sets of the cache
  p->bytes_pitch = (p->copies * p->hidden + 63) / 64 * 64 + 64;
  int64_t bytes;
  if (__builtin_mul_overflow(p->batch, p->gates_pitch * 4 + p->bytes_pitch, &bytes) ||
      __builtin_add_overflow(bytes, p->columns * 8, &bytes))
    return b.fail(0, "a batch whose gates fit into memory", "more");
  const double work = static_cast<double>(b.in(0).dims[2]) * static_cast<double>(p->copies * p->hidden) * static_cast<double>(p->batch);
  p->unit_tasks = unit_parts(b.threads(), 1, p->hidden, work, kIntegerTaskWork);
  if (p->unit_tasks > 1 && p->steps > 0 && b.repeat_tasks(p->unit_tasks, p->steps)) return b.scratch(bytes);
  p->unit_tasks = 1;
  b.tasks(1);
  return b.shared(bytes);
}

PEN_BIND(lstm_dynamic) { return dynamic_plan(b, Cell::lstm); }
PEN_BIND(gru_dynamic) { return dynamic_plan(b, Cell::gru); }
PEN_BIND(rnn_dynamic) { return dynamic_plan(b, nonlinearity_of(b)); }

namespace PEN_ISA {

constexpr int64_t kStateRows = 56;  // whose pointers are held at a time

// The rows of the state that a step begins with, in integers, and what their scale makes of the columns.
struct StateQ8 {
  float* scale;    // by column
  int32_t* start;  // by column
  uint8_t* rows;
};

// False where the state is not finite.
static PEN_OUTER bool round_state(const DynamicCell& p, const float* state, int64_t pitch, uint8_t* rows, Convert* known, float* step) {
  RangeFinder finder;
  for (int64_t i = 0; i < p.batch; ++i) finder.see(state + i * pitch, p.hidden);
  DynamicRange range;
  if (!finder.end(&range)) return false;
  const Affine a = choose_step(p.levels, range);
  *step = static_cast<float>(a.scale);
  known->inverse = 1.0f / *step;
  known->zero = static_cast<int32_t>(a.zero);
  known->high = p.levels.last();
  for (int64_t i = 0; i < p.batch; ++i) {
    uint8_t* row = rows + i * p.bytes_pitch;
    quantize_bytes(*known, state + i * pitch, 1, row, p.hidden);
    if (p.copies == 2) memcpy(row + p.hidden, row, static_cast<size_t>(p.hidden));
    memset(row + p.copies * p.hidden, 0, static_cast<size_t>(p.bytes_pitch - p.copies * p.hidden));
  }
  return true;
}

// What the state's scale makes of some columns.
static PEN_OUTER void scale_columns(const int32_t* columns, int64_t table, int32_t zero, float step, Range of, StateQ8 to) {
  // As columns_dynamic does it: starts may wrap around, as the sums they begin do.
  const int32_t* sums = columns + table;
  const float* scales = reinterpret_cast<const float*>(columns + 3 * table);
  for (int64_t i = of.begin; i < of.end; ++i) {
    to.start[i] = static_cast<int32_t>(static_cast<uint32_t>(columns[i]) - static_cast<uint32_t>(zero) * static_cast<uint32_t>(sums[i]));
    to.scale[i] = scales[i] * step;
  }
}

// One step, t, of some units.
template <Cell kCell>
static void run_dynamic(const Run& r, const DynamicCell& p, int64_t t, Range units) {
  static const uint8_t live[1] = {1};
  const Tensor& table = r.in[kCell == Cell::lstm ? 4 : 3];
  const int64_t n = p.hidden, width = gate_count(kCell) * n;
  const int32_t* columns = table.as<int32_t>();
  float* gates = reinterpret_cast<float*>(p.unit_tasks > 1 ? r.scratch : r.shared);
  StateQ8 rounded = {gates + p.batch * p.gates_pitch, nullptr, nullptr};
  rounded.start = reinterpret_cast<int32_t*>(rounded.scale + p.columns);
  rounded.rows = reinterpret_cast<uint8_t*>(rounded.start + p.columns);
  auto place = [&](int64_t at) { return p.reverse ? p.steps - 1 - at : at; };
  const int64_t step = place(t);
  const float* x = r.in[0].as<float>() + step * p.x_step;
  float* y = r.out[0].as<float>() + step * p.y_step;
  const float* state = t == 0 ? r.in[2].as<float>() : r.out[0].as<float>() + place(t - 1) * p.y_step;
  const int64_t pitch = t == 0 ? p.h_row : p.y_row;
  Convert known = {};
  float scale;
  if (!round_state(p, state, pitch, rounded.rows, &known, &scale))
    return r.fail_value(2, "a finite state, from whose range a scale is chosen", "NaN or an infinity before step ", step);
  const uint8_t* pointers[kStateRows];
  RowTileQ8 tiles[kStateRows];
  BlockQ8 block = {};
  block.tiles = tiles;
  block.taps = 1;
  block.tap_k = (p.copies * n + 3) / 4 * 4;
  block.b = r.in[1].as<int8_t>();
  block.n = width;
  block.c_pitch = p.gates_pitch;
  block.residual_pitch = p.x_row;
  block.columns = {rounded.scale, rounded.start, columns + table.dims[1], reinterpret_cast<const float*>(columns + 2 * table.dims[1])};
  block.result = &p.result;
  block.act = &p.none;
  const bool all = units.end - units.begin == n;
  for (int64_t gate = 0; gate < (all ? 1 : gate_count(kCell)); ++gate) {
    const Range own = all ? Range{0, width} : gate_columns(n, gate_count(kCell), gate, units);
    scale_columns(columns, table.dims[1], known.zero, scale, {own.begin, (own.end + 15) / 16 * 16}, rounded);
    block.n_begin = own.begin;
    block.n_end = own.end;
    for (int64_t begin = 0; begin < p.batch; begin += kStateRows) {
      const int64_t count = p.batch - begin < kStateRows ? p.batch - begin : kStateRows;
      for (int64_t i = 0; i < count; ++i) pointers[i] = rounded.rows + (begin + i) * p.bytes_pitch;
      const float* residual = kCell == Cell::gru ? nullptr : x + begin * p.x_row;
      block.tile_count = cut_row_tiles(pointers, count, live, reinterpret_cast<char*>(gates + begin * p.gates_pitch), p.gates_pitch * 4,
                                       reinterpret_cast<const char*>(residual), p.x_row * 4, tiles);
      run_block(block);
    }
  }
  for (int64_t i = 0; i < p.batch; ++i) {
    float* cell = kCell == Cell::lstm ? r.out[2].as<float>() + i * n : nullptr;
    if (kCell == Cell::lstm && t == 0)
      memcpy(cell + units.begin, r.in[3].as<float>() + i * p.c_row + units.begin, static_cast<size_t>(units.end - units.begin) * 4);
    apply_cell<kCell>(gates + i * p.gates_pitch, x + i * p.x_row, n, units, state + i * pitch, cell, y + i * p.y_row);
    if (t == p.steps - 1)
      memcpy(r.out[1].as<float>() + i * n + units.begin, y + i * p.y_row + units.begin, static_cast<size_t>(units.end - units.begin) * 4);
  }
}

template <Cell kCell>
static PEN_INLINE void recur_dynamic(const Run& r) {
  const DynamicCell& p = r.as<DynamicCell>();
  const bool stepwise = p.unit_tasks > 1;
  const int64_t first = stepwise ? r.phase : 0, end = stepwise ? first + 1 : p.steps;
  for (int64_t task = r.begin; task < r.end; ++task)
    for (int64_t t = first; t < end && !__atomic_load_n(&r.fault->set, __ATOMIC_RELAXED); ++t)
      run_dynamic<kCell>(r, p, t, units_of(p.hidden, p.unit_tasks, task));
  if (p.steps > 0) return;
  for (int64_t i = 0; i < p.batch; ++i) {
    memcpy(r.out[1].as<float>() + i * p.hidden, r.in[2].as<float>() + i * p.h_row, static_cast<size_t>(p.hidden) * 4);
    if (kCell == Cell::lstm)
      memcpy(r.out[2].as<float>() + i * p.hidden, r.in[3].as<float>() + i * p.c_row, static_cast<size_t>(p.hidden) * 4);
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(lstm_dynamic, i8) { PEN_ISA::recur_dynamic<Cell::lstm>(r); }
PEN_KERNEL(gru_dynamic, i8) { PEN_ISA::recur_dynamic<Cell::gru>(r); }
PEN_KERNEL(rnn_dynamic, i8) {
  if (r.as<DynamicCell>().cell == Cell::tanh) return PEN_ISA::recur_dynamic<Cell::tanh>(r);
  PEN_ISA::recur_dynamic<Cell::relu>(r);
}

}  // namespace pen
