// lstm, gru, rnn: f32, one layer in one direction. x [T, B, gates * H] is the input's share of the gates for all steps at once (a
// linear before this); here each step multiplies the state by the packed weight w [gates * H, P] and applies the gates. A task
// is a range of the batch with all its steps, so that threads never wait for each other; or, where the batch is too small for all of them
// and a step is worth it, a phase is a step, and a task some of its units: their gates, which are columns of w, and their cells. A
// projection then is a phase of its own. The state of a step is read where it was written: in y.
#include "penlight/ops/recurrent/cell.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/blocking.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {

struct RecurrentParams {
  Cell cell;
  bool reverse;
  int64_t steps, batch, hidden, state, gates;  // state: P, the size of h; hidden: H
  int64_t x_step, x_row, y_step, y_row, h_row, c_row;
  int64_t gates_pitch, hidden_pitch, row_tasks, unit_tasks;
  int64_t piece;  // columns of w, see weight_piece
  bool stepwise;  // a phase is a step, or half of one where there is a projection
};

constexpr int64_t kRecurrentRows = 28;     // of a task: two tall tiles
constexpr double kStepTaskWork = 1 << 16;  // multiply-adds: some microseconds, several times what it takes threads to wait for each other

// Inputs: x, w, h, then c and the projection (lstm), or the state's bias (gru).
static PEN_SMALL Status recurrent_shapes(Shapes& s, Cell cell, int64_t gates) {
  static const char kWeight[] = "a weight that fits the gates and the state", kState[] = "a state [B, size]";
  for (int i = 0; i < s.input_count(); ++i) {
    if (s.has(i) && s.in(i).dtype != DType::f32) return s.fail(i, "an f32 tensor", "dtype code %d", static_cast<int>(s.in(i).dtype));
  }
  const Tensor& x = s.in(0);
  if (x.rank != 3 || x.dims[2] % gates != 0) return s.fail(0, "gates [T, B, gates * H]", "rank %d", x.rank);
  bool lstm = cell == Cell::lstm, projected = lstm && s.has(4);
  int64_t batch = x.dims[1], hidden = x.dims[2] / gates, state = projected ? s.in(4).dims[0] : hidden;
  PEN_TRY(check_matrix(s, 1, kWeight, x.dims[2], state));
  PEN_TRY(check_matrix(s, 2, kState, batch, state));
  if (lstm) PEN_TRY(check_matrix(s, 3, kState, batch, hidden));
  if (projected) PEN_TRY(check_matrix(s, 4, kWeight, state, hidden));
  if (cell == Cell::gru && s.has(3) && (s.in(3).rank != 1 || s.in(3).dims[0] != x.dims[2]))
    return s.fail(3, "one bias per gate", "rank %d", s.in(3).rank);
  Shape y = shape_of(x), h;
  y.dims[2] = h.dims[1] = state;
  h.dims[0] = batch;
  h.rank = 2;
  PEN_TRY(s.output(0, DType::f32, y));
  PEN_TRY(s.output(1, DType::f32, h));
  h.dims[1] = hidden;
  return lstm ? s.output(2, DType::f32, h) : PEN_OK;
}

PEN_SHAPE(lstm) { return recurrent_shapes(s, Cell::lstm, 4); }
PEN_SHAPE(gru) { return recurrent_shapes(s, Cell::gru, 3); }
PEN_SHAPE(rnn) {
  PEN_TRY(check_nonlinearity(s));
  return recurrent_shapes(s, Cell::tanh, 1);
}

static PEN_SMALL Status need_panels(Bind& b, int input) {
  return need_packed(b, input, "panel16", packed_bytes("panel16", b.in(input), 1));
}

// Weights that do not fit into the second cache level are read forward in one step and backward in the next, in pieces of so many columns
// of k floats: what a step has read last is still there when the next one begins.
static int64_t weight_piece(int64_t k) {
  const int64_t columns = near_weights(processor()) / (k * 4) / 64 * 64;
  return columns < 64 ? 64 : columns;
}

static PEN_SMALL Status recurrent_plan(Bind& b, Cell cell, int64_t gates) {
  RecurrentParams* p = b.params<RecurrentParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->cell = cell;
  p->gates = gates;
  p->reverse = b.flag("reverse");
  p->steps = b.in(0).dims[0];
  p->batch = b.in(0).dims[1];
  p->hidden = b.in(0).dims[2] / gates;
  p->state = b.out(0).dims[2];
  bool lstm = cell == Cell::lstm, projected = lstm && b.has(4);
  PEN_TRY(need_panels(b, 1));
  PEN_TRY(b.need(2, Need::rows));
  if (lstm) PEN_TRY(b.need(3, Need::rows));
  if (projected) PEN_TRY(need_panels(b, 4));
  if (cell == Cell::gru && b.has(3)) PEN_TRY(b.need(3, Need::dense));
  PEN_TRY(b.need(0, Need::rows));
  for (int i = 0; i < (lstm ? 3 : 2); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, i == 0 ? Need::rows : Need::dense));
  }
  if (p->batch == 0 || p->state == 0 || p->hidden == 0) return PEN_OK;
  p->x_step = b.in(0).strides[0];
  p->x_row = b.in(0).strides[1];
  p->y_step = b.out(0).strides[0];
  p->y_row = b.out(0).strides[1];
  p->h_row = b.in(2).strides[0];
  p->c_row = lstm ? b.in(3).strides[0] : 0;
  p->row_tasks = task_count(p->batch, kRecurrentRows);
  const double work = static_cast<double>(gates * p->hidden) * static_cast<double>(p->state) * static_cast<double>(p->batch);
  p->unit_tasks = unit_parts(b.threads(), p->row_tasks, p->hidden, work, kStepTaskWork);
  p->piece = weight_piece(p->hidden > p->state ? p->hidden : p->state);
  p->gates_pitch = (gates * p->hidden + 15) / 16 * 16 + 16;
  p->hidden_pitch = projected ? (p->hidden + 15) / 16 * 16 + 16 : 0;
  int64_t bytes, whole;
  if (__builtin_mul_overflow(p->batch / p->row_tasks + 1, p->gates_pitch * 4, &bytes) ||
      __builtin_mul_overflow(p->batch, p->hidden_pitch * 4, &whole))
    return b.fail(0, "a batch whose gates fit into memory", "more");
  PEN_TRY(b.scratch(bytes + 256));
  if (projected) PEN_TRY(b.shared(whole));
  p->stepwise = p->unit_tasks > 1 && p->steps > 0 && p->steps < (int64_t{1} << 30) &&
                b.repeat_tasks(p->row_tasks * p->unit_tasks, p->steps * (projected ? 2 : 1));
  if (p->stepwise) return PEN_OK;
  p->unit_tasks = 1;
  b.tasks(p->row_tasks);
  return PEN_OK;
}

PEN_BIND(lstm) { return recurrent_plan(b, Cell::lstm, 4); }
PEN_BIND(gru) { return recurrent_plan(b, Cell::gru, 3); }
PEN_BIND(rnn) { return recurrent_plan(b, nonlinearity_of(b), 1); }

namespace PEN_ISA {

constexpr int64_t kBlockRows = 56;  // whose pointers are held at a time

// c = a w^T + residual + bias for some rows. Columns: those of the units in each of `gates` gates of `hidden`.
struct StateProduct {
  const float* a;
  int64_t a_pitch, k;
  const float* w;
  int64_t hidden, gates;
  float* c;
  int64_t c_pitch;
  const float* residual;
  int64_t residual_pitch;
  const float* bias;
  int64_t piece;  // columns that are done together
  bool backward;  // from the last piece to the first
};
static PEN_OUTER void state_product(const StateProduct& s, int64_t rows, Range units) {
  static const uint8_t live[1] = {1};
  static const Activation none = {};
  const float* pointers[kBlockRows];
  RowTile tiles[kBlockRows];
  const bool all = units.end - units.begin == s.hidden;
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    int64_t count = rows - begin < kBlockRows ? rows - begin : kBlockRows;
    for (int64_t i = 0; i < count; ++i) pointers[i] = s.a + (begin + i) * s.a_pitch;
    Block block = {};
    block.tiles = tiles;
    block.tile_count = cut_row_tiles(pointers, count, live, s.c + begin * s.c_pitch, s.c_pitch,
                                     s.residual ? s.residual + begin * s.residual_pitch : nullptr, s.residual_pitch, tiles);
    block.taps = 1;
    block.tap_k = s.k;
    block.b = s.w;
    block.n = s.gates * s.hidden;
    block.c_pitch = s.c_pitch;
    block.residual_pitch = s.residual_pitch;
    block.bias = s.bias;
    block.act = &none;
    // Gate by gate, in pieces; all units of all gates are one run of columns.
    const int64_t gates = all ? 1 : s.gates, width = all ? block.n : units.end - units.begin + 15, pieces = (width + s.piece - 1) / s.piece;
    for (int64_t i = 0; i < gates * pieces; ++i) {
      const int64_t at = s.backward ? gates * pieces - 1 - i : i, from = at % pieces * s.piece;
      const Range columns = all ? Range{0, block.n} : gate_columns(s.hidden, s.gates, at / pieces, units);
      block.n_begin = columns.begin + from;
      block.n_end = columns.end - from < s.piece + columns.begin ? columns.end : columns.begin + from + s.piece;
      if (block.n_begin < block.n_end) run_block(block);
    }
  }
}

static PEN_INLINE int64_t place_of(const RecurrentParams& p, int64_t t) { return p.reverse ? p.steps - 1 - t : t; }
static PEN_INLINE float* y_of(const Run& r, const RecurrentParams& p, Range rows, int64_t t) {
  return r.out[0].as<float>() + place_of(p, t) * p.y_step + rows.begin * p.y_row;
}
// The state that step t begins with, of some rows.
struct StateRows {
  const float* at;
  int64_t pitch;
};
static PEN_INLINE StateRows state_before(const Run& r, const RecurrentParams& p, Range rows, int64_t t) {
  if (t == 0) return {r.in[2].as<float>() + rows.begin * p.h_row, p.h_row};
  return {y_of(r, p, rows, t - 1), p.y_row};
}
// Of an lstm with a projection: h before it.
static PEN_INLINE float* whole_of(const Run& r, const RecurrentParams& p, Range rows) {
  return reinterpret_cast<float*>(r.shared) + rows.begin * p.hidden_pitch;
}

template <Cell kCell>
static void run_gates(const Run& r, const RecurrentParams& p, Range rows, Range units, int64_t t) {
  const int64_t n = p.hidden, count = rows.end - rows.begin;
  const float* x = r.in[0].as<float>() + place_of(p, t) * p.x_step + rows.begin * p.x_row;
  const StateRows state = state_before(r, p, rows, t);
  float* gates = reinterpret_cast<float*>(r.scratch);
  StateProduct s = {state.at, state.pitch, p.state, r.in[1].as<float>(), n, p.gates, gates, p.gates_pitch, x,
                    p.x_row,  nullptr,     p.piece, t % 2 == 1};
  if (kCell == Cell::gru) {
    s.residual = nullptr;
    s.bias = r.in[3].as<float>();
  }
  state_product(s, count, units);
  const bool projected = p.hidden_pitch > 0;
  float* h = projected ? whole_of(r, p, rows) : y_of(r, p, rows, t);
  const int64_t h_pitch = projected ? p.hidden_pitch : p.y_row;
  for (int64_t i = 0; i < count; ++i) {
    float* c = kCell == Cell::lstm ? r.out[2].as<float>() + (rows.begin + i) * n : nullptr;
    if (kCell == Cell::lstm && t == 0)
      memcpy(c + units.begin, r.in[3].as<float>() + (rows.begin + i) * p.c_row + units.begin,
             static_cast<size_t>(units.end - units.begin) * 4);
    apply_cell<kCell>(gates + i * p.gates_pitch, x + i * p.x_row, n, units, state.at + i * state.pitch, c, h + i * h_pitch);
  }
}

static PEN_OUTER void run_projection(const Run& r, const RecurrentParams& p, Range rows, Range units, int64_t t) {
  const float* whole = whole_of(r, p, rows);
  state_product({whole, p.hidden_pitch, p.hidden, r.in[4].as<float>(), p.state, 1, y_of(r, p, rows, t), p.y_row, nullptr, 0, nullptr,
                 p.piece, t % 2 == 1},
                rows.end - rows.begin, units);
}

// The state after all steps: some numbers of some rows. Where there are no steps, an lstm's cells too are those that came in.
static PEN_OUTER void keep_last(const Run& r, const RecurrentParams& p, Range rows, Range units) {
  const StateRows state = state_before(r, p, rows, p.steps);
  const size_t bytes = static_cast<size_t>(units.end - units.begin) * 4;
  for (int64_t i = 0; i < rows.end - rows.begin; ++i)
    memcpy(r.out[1].as<float>() + (rows.begin + i) * p.state + units.begin, state.at + i * state.pitch + units.begin, bytes);
  if (p.cell != Cell::lstm || p.steps > 0) return;
  for (int64_t i = rows.begin; i < rows.end; ++i)
    memcpy(r.out[2].as<float>() + i * p.hidden, r.in[3].as<float>() + i * p.c_row, static_cast<size_t>(p.hidden) * 4);
}

template <Cell kCell>
static PEN_INLINE void recur(const Run& r) {
  const RecurrentParams& p = r.as<RecurrentParams>();
  const bool projected = p.hidden_pitch > 0;
  // What of a step this phase does: both, or one after the other.
  const bool gates = !p.stepwise || !projected || r.phase % 2 == 0, state = !p.stepwise || !projected || r.phase % 2 == 1;
  const int64_t first = !p.stepwise ? 0 : projected ? r.phase / 2 : r.phase, end = p.stepwise ? first + 1 : p.steps;
  for (int64_t task = r.begin; task < r.end; ++task) {
    const int64_t index = task % p.unit_tasks;
    const Range rows = part(p.batch, p.row_tasks, task / p.unit_tasks), own = units_of(p.state, p.unit_tasks, index);
    for (int64_t t = first; t < end; ++t) {
      if (gates) run_gates<kCell>(r, p, rows, units_of(p.hidden, p.unit_tasks, index), t);
      if (projected && state) run_projection(r, p, rows, own, t);
    }
    if (state && end == p.steps) keep_last(r, p, rows, own);
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(lstm, f32) { PEN_ISA::recur<Cell::lstm>(r); }
PEN_KERNEL(gru, f32) { PEN_ISA::recur<Cell::gru>(r); }
PEN_KERNEL(rnn, f32) {
  if (r.as<RecurrentParams>().cell == Cell::tanh) return PEN_ISA::recur<Cell::tanh>(r);
  PEN_ISA::recur<Cell::relu>(r);
}

}  // namespace pen
