// lstm, gru, rnn: f32, one layer in one direction. x [T, B, gates * H] is the input's share of the gates for all steps at once (a
// linear before this); here each step multiplies the state by the packed weight w [gates * H, P] and applies the gates. A task
// is a range of the batch with all its steps, so threads never wait for each other. The state of a step is read where it
// was written: in y.
#include "penlight/ops/recurrent/cell.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {

struct RecurrentParams {
  Cell cell;
  bool reverse;
  int64_t steps, batch, hidden, state, gates;  // state: P, the size of h; hidden: H
  int64_t x_step, x_row, y_step, y_row, h_row, c_row;
  int64_t gates_pitch, hidden_pitch, rows, tasks;  // rows: the most of one task
};

constexpr int64_t kRecurrentRows = 28;  // of a task: two tall tiles

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
  p->tasks = task_count(p->batch, kRecurrentRows);
  p->rows = p->batch / p->tasks + 1;
  p->gates_pitch = (gates * p->hidden + 15) / 16 * 16 + 16;
  p->hidden_pitch = projected ? (p->hidden + 15) / 16 * 16 + 16 : 0;
  int64_t bytes;
  if (__builtin_mul_overflow(p->rows, (p->gates_pitch + p->hidden_pitch) * 4 + 8 * static_cast<int64_t>(sizeof(void*)), &bytes))
    return b.fail(0, "a batch whose gates fit into memory", "more");
  PEN_TRY(b.scratch(bytes + 256));
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(lstm) { return recurrent_plan(b, Cell::lstm, 4); }
PEN_BIND(gru) { return recurrent_plan(b, Cell::gru, 3); }
PEN_BIND(rnn) { return recurrent_plan(b, nonlinearity_of(b), 1); }

namespace PEN_ISA {

constexpr int64_t kBlockRows = 56;  // whose pointers are held at a time

// c = a w^T + residual + bias for `rows` rows.
struct StateProduct {
  const float* a;
  int64_t a_pitch, k;
  const float* w;
  int64_t n;
  float* c;
  int64_t c_pitch;
  const float* residual;
  int64_t residual_pitch;
  const float* bias;
};
static PEN_INLINE void state_product(const StateProduct& s, int64_t rows) {
  static const uint8_t live[1] = {1};
  static const Activation none = {};
  const float* pointers[kBlockRows];
  RowTile tiles[kBlockRows];
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
    block.n_end = block.n = s.n;
    block.c_pitch = s.c_pitch;
    block.residual_pitch = s.residual_pitch;
    block.bias = s.bias;
    block.act = &none;
    run_block(block);
  }
}

template <Cell kCell>
static PEN_INLINE void recur(const Run& r) {
  const RecurrentParams& p = r.as<RecurrentParams>();
  int64_t n = p.hidden;
  float* gates = reinterpret_cast<float*>(r.scratch);
  float* whole = gates + p.rows * p.gates_pitch;  // lstm with a projection: h before it
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.batch, p.tasks, task);
    int64_t rows = range.end - range.begin;
    const float* state = r.in[2].as<float>() + range.begin * p.h_row;
    int64_t state_pitch = p.h_row;
    float* c = kCell == Cell::lstm ? r.out[2].as<float>() + range.begin * n : nullptr;
    if (kCell == Cell::lstm) {
      const float* c0 = r.in[3].as<float>() + range.begin * p.c_row;
      for (int64_t i = 0; i < rows; ++i) memcpy(c + i * n, c0 + i * p.c_row, static_cast<size_t>(n) * 4);
    }
    for (int64_t t = 0; t < p.steps; ++t) {
      int64_t step = p.reverse ? p.steps - 1 - t : t;
      const float* x = r.in[0].as<float>() + step * p.x_step + range.begin * p.x_row;
      float* y = r.out[0].as<float>() + step * p.y_step + range.begin * p.y_row;
      StateProduct s = {state, state_pitch, p.state, r.in[1].as<float>(), p.gates * n, gates, p.gates_pitch, x, p.x_row, nullptr};
      if (kCell == Cell::gru) {
        s.residual = nullptr;
        s.bias = r.in[3].as<float>();
      }
      state_product(s, rows);
      bool projected = p.hidden_pitch > 0;
      float* h = projected ? whole : y;
      int64_t h_pitch = projected ? p.hidden_pitch : p.y_row;
      for (int64_t i = 0; i < rows; ++i) {
        float* cell = kCell == Cell::lstm ? c + i * n : nullptr;
        apply_cell<kCell>(gates + i * p.gates_pitch, x + i * p.x_row, n, state + i * state_pitch, cell, h + i * h_pitch);
      }
      if (projected) {
        StateProduct projection = {whole, p.hidden_pitch, n, r.in[4].as<float>(), p.state, y, p.y_row, nullptr, 0, nullptr};
        state_product(projection, rows);
      }
      state = y;
      state_pitch = p.y_row;
    }
    float* last = r.out[1].as<float>() + range.begin * p.state;
    for (int64_t i = 0; i < rows; ++i) memcpy(last + i * p.state, state + i * state_pitch, static_cast<size_t>(p.state) * 4);
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
