// Cells of recurrent layers: how many gates they have, and what becomes of those and the state. For kernels with floats as weights
// (recurrent.cc) and with integers (recurrent_dynamic.cc), and for the VM's operators.
#pragma once
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/math.h"

namespace pen {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

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

// All n units of one row. `before` is the row's state until now, h where the new one goes; c, of an lstm alone, is changed in place.
template <Cell kCell>
static PEN_INLINE void apply_cell(const float* gates, const float* x, int64_t n, const float* before, float* c, float* h) {
  auto own = [&](int64_t k) { return kCell == Cell::lstm ? c + k : nullptr; };
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) apply_gates<kCell, false>(gates + k, x + k, n, before + k, own(k), h + k, kLanes);
  if (k < n) apply_gates<kCell, true>(gates + k, x + k, n, before + k, own(k), h + k, n - k);
}

}  // namespace PEN_ISA
}  // namespace pen
