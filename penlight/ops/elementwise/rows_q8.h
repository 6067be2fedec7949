// Rows of quantized bytes: how integer kernels of elementwise operators walk their inputs, broadcast or not, in any order of dims and
// with any pitch. Tasks are ranges of elements; a row is cut anywhere, and every element is computed alike wherever that is.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/exec/q8.h"
#include "penlight/runtime/simd/bytes.h"

namespace pen {

constexpr int64_t kByteGrain = 65536;   // elements per task: below, waking a thread costs more than the work
constexpr int64_t kByteBlock = 2048;    // of a short row that repeats, as many copies as fit into this are made once
constexpr int64_t kShortByteRow = 512;  // rows below this are worth that

template <int Inputs>
struct ByteRows : Loops<Inputs> {
  int64_t elements, tasks;  // none: nothing to do
  int repeated;             // an input whose rows, of `period` elements, repeat ([N,C,H,W] * [N,C,1,1] in nhwc: rows of C); -1: none
  int64_t period;           // dim 0 has many of them then, dense in all others

  // After output(): the loops over inputs 0 .. Inputs, whose memory the output may take.
  PEN_INLINE void lay(Bind& b) {
    elements = b.out(0).numel();
    if (elements == 0) return;
    this->make(b.out(0), Inputs, [&](int i) -> const Tensor& { return b.in(i); });
    for (int i = 0; i < Inputs; ++i) b.may_reuse(0, i);
    repeated = -1;
    if (Inputs == 2) join_rows();
    tasks = task_count(elements, kByteGrain);
    b.tasks(tasks);
  }

  PEN_INLINE void join_rows() {
    const int64_t n = this->dims[0];
    if (this->rank < 2 || n >= kShortByteRow || this->out[1] != n) return;
    for (int i = 0; i < Inputs; ++i) {
      const int64_t *own = this->in[i], *other = this->in[Inputs - 1 - i];
      if (own[0] != 1 || own[1] != 0 || other[0] != 1 || other[1] != n) continue;
      repeated = i;
      period = n;
    }
    if (repeated < 0) return;
    this->dims[0] *= this->dims[1];
    this->in[repeated][0] = 0;
    for (int d = 2; d < this->rank; ++d) {
      this->dims[d - 1] = this->dims[d];
      this->out[d - 1] = this->out[d];
      for (int i = 0; i < Inputs; ++i) this->in[i][d - 1] = this->in[i][d];
    }
    --this->rank;
  }
};

namespace PEN_ISA {

// Calls row(offset in the output, offsets in the inputs, elements, the first one's number in its row) for stretches of rows that make up
// the tasks of a run.
template <int Inputs, class Row>
static PEN_INLINE void for_byte_rows(const Run& r, const ByteRows<Inputs>& p, const Row& row) {
  int64_t begin = part(p.elements, p.tasks, r.begin).begin, end = part(p.elements, p.tasks, r.end - 1).end;
  int64_t index[kMaxRank + 1], out = 0, in[Inputs] = {}, rest = begin;
  for (int d = 0; d < p.rank; ++d) {
    index[d] = rest % p.dims[d];
    rest /= p.dims[d];
    out += index[d] * p.out[d];
    for (int i = 0; i < Inputs; ++i) in[i] += index[d] * p.in[i][d];
  }
  while (begin < end) {
    int64_t left = p.dims[0] - index[0], n = left < end - begin ? left : end - begin;
    row(out, in, n, index[0]);
    begin += n;
    out -= index[0];
    for (int i = 0; i < Inputs; ++i) in[i] -= index[0] * p.in[i][0];
    index[0] = 0;
    for (int d = 1; d < p.rank; ++d) {
      int64_t back = ++index[d] == p.dims[d] ? p.dims[d] : 0;
      out += (1 - back) * p.out[d];
      for (int i = 0; i < Inputs; ++i) in[i] += (1 - back) * p.in[i][d];
      if (!back) break;
      index[d] = 0;
    }
  }
}

struct DenseBytes {
  const uint8_t* p;
  PEN_INLINE I at(int64_t i) const { return load_bytes_i(p + i); }
  PEN_INLINE I tail(int64_t n) const { return load_bytes_i_partial(p, n); }
};
struct SplatByte {
  I v;
  PEN_INLINE I at(int64_t) const { return v; }
  PEN_INLINE I tail(int64_t) const { return v; }
};

// y[i] = rule(a[i], b[i]). Tails: the last vector reaches back over elements that were computed before; it is computed first, as y may
// be the memory of a or b.
template <class Rule, class Left, class Right>
static PEN_INLINE void byte_span(const Rule& rule, uint8_t* y, int64_t n, Left a, Right b) {
  if (n < kLanes) return store_bytes_partial(y, rule(a.tail(n), b.tail(n)), n);
  const int64_t end = n - kLanes;
  const I last = rule(a.at(end), b.at(end));
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    I first = rule(a.at(i), b.at(i)), second = rule(a.at(i + kLanes), b.at(i + kLanes));
    I third = rule(a.at(i + 2 * kLanes), b.at(i + 2 * kLanes)), fourth = rule(a.at(i + 3 * kLanes), b.at(i + 3 * kLanes));
    store_bytes4(y + i, first, second, third, fourth);
  }
  for (; i + kLanes <= n; i += kLanes) store_bytes(y + i, rule(a.at(i), b.at(i)));
  if (i < n) store_bytes(y + end, last);
}

// Inputs that are neither dense nor one number are gathered first.
constexpr int64_t kGatheredBytes = 256;
static PEN_INLINE const uint8_t* gather_bytes(uint8_t* buffer, const uint8_t* p, int64_t step, int64_t n) {
  if (step == 1) return p;
  for (int64_t i = 0; i < n; ++i) buffer[i] = p[i * step];
  return buffer;
}

template <class Rule>
static PEN_INLINE void repeated_bytes(const Run& r, const ByteRows<2>& p, const Rule& rule) {
  uint8_t copies[kByteBlock];
  const uint8_t* source = nullptr;
  const int64_t filled = kByteBlock / p.period * p.period;
  for_byte_rows(r, p, [&](int64_t out, const int64_t* in, int64_t n, int64_t at) {
    const uint8_t *row = r.in[p.repeated].as<uint8_t>() + in[p.repeated], *x = r.in[1 - p.repeated].as<uint8_t>() + in[1 - p.repeated];
    for (int64_t i = 0; i < filled && source != row; i += p.period) memcpy(copies + i, row, static_cast<size_t>(p.period));
    source = row;
    at %= p.period;
    for (int64_t i = 0, count; i < n; i += count, at = 0) {
      count = n - i < filled - at ? n - i : filled - at;
      uint8_t* y = r.out[0].as<uint8_t>() + out + i;
      if (p.repeated == 0)
        byte_span(rule, y, count, DenseBytes{copies + at}, DenseBytes{x + i});
      else
        byte_span(rule, y, count, DenseBytes{x + i}, DenseBytes{copies + at});
    }
  });
}

template <class Rule>
static PEN_INLINE void binary_bytes(const Run& r, const ByteRows<2>& p, const Rule& rule) {
  if (p.repeated >= 0) return repeated_bytes(r, p, rule);
  const int64_t a_step = p.in[0][0], b_step = p.in[1][0];
  for_byte_rows(r, p, [&](int64_t out, const int64_t* in, int64_t n, int64_t) {
    uint8_t* y = r.out[0].as<uint8_t>() + out;
    const uint8_t *a = r.in[0].as<uint8_t>() + in[0], *b = r.in[1].as<uint8_t>() + in[1];
    if (a_step == 1 && b_step == 1) return byte_span(rule, y, n, DenseBytes{a}, DenseBytes{b});
    if (a_step == 1 && b_step == 0) return byte_span(rule, y, n, DenseBytes{a}, SplatByte{set1i(*b)});
    if (a_step == 0 && b_step == 1) return byte_span(rule, y, n, SplatByte{set1i(*a)}, DenseBytes{b});
    uint8_t left[kGatheredBytes], right[kGatheredBytes];
    for (int64_t i = 0; i < n; i += kGatheredBytes) {
      int64_t count = n - i < kGatheredBytes ? n - i : kGatheredBytes;
      byte_span(rule, y + i, count, DenseBytes{gather_bytes(left, a + i * a_step, a_step, count)},
                DenseBytes{gather_bytes(right, b + i * b_step, b_step, count)});
    }
  });
}

}  // namespace PEN_ISA
}  // namespace pen
