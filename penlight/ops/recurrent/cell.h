// Cells of recurrent layers: how many gates they have, and what becomes of those and the state. For kernels with floats as weights
// (recurrent.cc) and with integers (recurrent_dynamic.cc), and for the VM's operators.
#pragma once
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/math.h"

namespace pen {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

// Into how many parts the hidden units of a step are cut, so that threads share it; 1: not at all, it is not worth it or there are rows
// enough (`row_tasks`) for all threads. Every sum is one chain of multiply-adds whatever is computed beside it, so no bit depends on this.
constexpr int64_t kStepUnits = 64;  // the widest tile of one row
[[maybe_unused]] static PEN_SMALL int64_t unit_parts(int threads, int64_t row_tasks, int64_t hidden, double step_work, double task_work) {
  const int64_t wanted = 2 * threads, most = (hidden + kStepUnits - 1) / kStepUnits;
  if (threads == 1 || row_tasks >= wanted) return 1;
  int64_t parts = (wanted + row_tasks - 1) / row_tasks;
  parts = parts < most ? parts : most;
  const double worth = step_work / (task_work * static_cast<double>(row_tasks));
  return static_cast<double>(parts) <= worth ? parts : worth < 2 ? 1 : static_cast<int64_t>(worth);
}
static PEN_INLINE Range units_of(int64_t hidden, int64_t parts, int64_t index) {
  const Range range = part((hidden + kStepUnits - 1) / kStepUnits, parts, index);
  return {range.begin * kStepUnits, range.end * kStepUnits < hidden ? range.end * kStepUnits : hidden};
}
// The columns of the product that have some units of one gate, at the edges of panels: with neighbours where a gate begins inside of one.
static PEN_INLINE Range gate_columns(int64_t hidden, int64_t gates, int64_t gate, Range units) {
  const int64_t end = (gate * hidden + units.end + 15) / 16 * 16;
  return {(gate * hidden + units.begin) / 16 * 16, end < gates * hidden ? end : gates * hidden};
}

static PEN_INLINE int gate_count(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

[[maybe_unused]] static PEN_SMALL Status check_matrix(const Shapes& s, int input, const char* expected, int64_t rows, int64_t columns) {
  const Tensor& t = s.in(input);
  if (t.rank == 2 && t.dims[0] == rows && t.dims[1] == columns) return PEN_OK;
  return s.fail(input, expected, "rank %d, not [%lld, %lld]", t.rank, static_cast<long long>(rows), static_cast<long long>(columns));
}
// Attribute nonlinearity of rnn.
[[maybe_unused]] static PEN_SMALL Status check_nonlinearity(const Given& g) {
  const char* name = g.text("nonlinearity");
  return strcmp(name, "tanh") == 0 || strcmp(name, "relu") == 0 ? PEN_OK : g.fail(-1, "nonlinearity tanh or relu", "\"%s\"", name);
}
static PEN_INLINE Cell nonlinearity_of(const Given& g) { return g.text("nonlinearity")[0] == 't' ? Cell::tanh : Cell::relu; }

[[maybe_unused]] static PEN_SMALL Status need_packed(Bind& b, int input, const char* layout, int64_t bytes) {
  if (strcmp(b.in_layout(input), layout) != 0) return b.fail(input, layout, "layout %s", b.in_layout(input));
  if (bytes < 0 || b.in_bytes(input) < bytes)
    return b.fail(input, "as many bytes as its packed layout takes", "%lld of %lld", static_cast<long long>(b.in_bytes(input)),
                  static_cast<long long>(bytes));
  return PEN_OK;
}

namespace PEN_ISA {

template <bool kPartial>
static PEN_INLINE V take(const float* p, int64_t lanes) {
  return kPartial ? load_partial(p, lanes) : load(p);
}
template <bool kPartial>
static PEN_INLINE void put(float* p, V v, int64_t lanes) {
  if (kPartial) {
    store_partial(p, v, lanes);
  } else {
    store(p, v);
  }
}

// Some neighbouring hidden units of one row: gates lie H apart. For gru, `x` is the input's share, which the state's share
// must not be mixed with in the new candidate; elsewhere the gates hold both.
template <Cell kCell, bool kPartial>
static PEN_INLINE void apply_gates(const float* gates, const float* x, int64_t n, const float* before, float* c, float* h, int64_t lanes) {
  if (kCell == Cell::lstm) {
    V in = sigmoid(take<kPartial>(gates, lanes)), keep = sigmoid(take<kPartial>(gates + n, lanes));
    V candidate = tanh(take<kPartial>(gates + 2 * n, lanes)), out = sigmoid(take<kPartial>(gates + 3 * n, lanes));
    V cell = fma(keep, take<kPartial>(c, lanes), in * candidate);
    put<kPartial>(c, cell, lanes);
    put<kPartial>(h, out * tanh(cell), lanes);
  } else if (kCell == Cell::gru) {
    V reset = sigmoid(take<kPartial>(x, lanes) + take<kPartial>(gates, lanes));
    V update = sigmoid(take<kPartial>(x + n, lanes) + take<kPartial>(gates + n, lanes));
    V candidate = tanh(fma(reset, take<kPartial>(gates + 2 * n, lanes), take<kPartial>(x + 2 * n, lanes)));
    put<kPartial>(h, fma(update, take<kPartial>(before, lanes) - candidate, candidate), lanes);
  } else {
    V sum = take<kPartial>(gates, lanes);
    put<kPartial>(h, kCell == Cell::tanh ? tanh(sum) : max(zero(), sum), lanes);  // max: NaN comes through as the second
  }
}

// Some units of one row, of n. `before` is the row's state until now, h where the new one goes; c, of an lstm alone, is changed in place.
template <Cell kCell>
static PEN_INLINE void apply_cell(const float* gates, const float* x, int64_t n, Range units, const float* before, float* c, float* h) {
  auto own = [&](int64_t k) { return kCell == Cell::lstm ? c + k : nullptr; };
  int64_t k = units.begin;
  for (; k + kLanes <= units.end; k += kLanes) apply_gates<kCell, false>(gates + k, x + k, n, before + k, own(k), h + k, kLanes);
  if (k < units.end) apply_gates<kCell, true>(gates + k, x + k, n, before + k, own(k), h + k, units.end - k);
}

}  // namespace PEN_ISA
}  // namespace pen
