// pad: padding with a number or with elements of x; negative amounts crop. Dims go in the output's memory order; one that
// is not padded is merged into the dim outside it, so an NHWC image is padded by rows of W * C and not pixel by pixel.
#include "penlight/ops/shape/elements.h"
#include "penlight/ops/shape/runs.h"

namespace pen {

enum class PadMode : int32_t { constant, reflect, replicate, circular };

struct PadParams {
  PadMode mode;
  int64_t unit;                                            // elements that stay together in the innermost dim, side by side
  int rank;                                                // at least 2; dims below are merged, outermost first
  int64_t from[kMaxRank], to[kMaxRank], before[kMaxRank];  // sizes in and out, elements put before
  int64_t in[kMaxRank], out[kMaxRank];                     // strides in elements
  int64_t rows, tasks;                                     // a row: the innermost dim
  uint64_t value;                                          // bits of one element
};

// The place that padding before 0 and from n on takes its value from; one turn is enough (the shape rule checked).
static PEN_INLINE int64_t source_place(PadMode mode, int64_t at, int64_t n) {
  switch (mode) {
    case PadMode::reflect:
      return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    case PadMode::replicate:
      return at < 0 ? 0 : at >= n ? n - 1 : at;
    default:
      return at < 0 ? at + n : at >= n ? at - n : at;
  }
}

// How many elements are put before dim i (side 0) or after it (1); torch lists the last dim first.
static PEN_SMALL int64_t pad_size(const Given& g, int i, int side) {
  IntList padding = g.ints("padding");
  int pair = 2 * (g.in(0).rank - 1 - i);
  return pair < padding.count ? padding[pair + side] : 0;
}

// false: there is no such mode.
static PEN_SMALL bool parse_mode(const char* name, PadMode* mode) {
  static constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
  for (int i = 0; i < 4; ++i) {
    *mode = static_cast<PadMode>(i);
    if (strcmp(name, kModes[i]) == 0) return true;
  }
  return false;
}

PEN_SHAPE(pad) {
  PEN_TRY(need_countable(s, 0));
  const Tensor& x = s.in(0);
  if (x.quant && x.quant->axis >= 0) return s.fail(0, "one scale for the whole tensor", "%lld", static_cast<long long>(x.quant->count));
  IntList padding = s.ints("padding");
  if (padding.count % 2 != 0 || padding.count > 2 * x.rank)
    return s.fail(-1, "two paddings for each of the last dims", "%d paddings for rank %d", padding.count, x.rank);
  Shape shape = shape_of(x);
  for (int i = 0; i < x.rank; ++i) {
    int64_t before = pad_size(s, i, 0), after = pad_size(s, i, 1), &n = shape.dims[i];
    if (__builtin_add_overflow(n, before, &n) || n < 0 || __builtin_add_overflow(n, after, &n) || n < 0 ||
        (after < 0 && after < -x.dims[i]))
      return s.fail(-1, "padding that leaves a size of 0 or more", "%lld and %lld around %lld", static_cast<long long>(before),
                    static_cast<long long>(after), static_cast<long long>(x.dims[i]));
  }
  PEN_TRY(s.output(0, x.dtype, shape));
  if (is_empty(shape)) return PEN_OK;
  PadMode mode;
  if (!parse_mode(s.text("mode"), &mode)) return s.fail(-1, "a mode of constant, reflect, replicate or circular", "%s", s.text("mode"));
  for (int i = 0; i < x.rank && mode != PadMode::constant; ++i) {
    int64_t before = pad_size(s, i, 0), after = pad_size(s, i, 1), most = before > after ? before : after;
    if (most > 0 && (x.dims[i] == 0 || (mode == PadMode::reflect && most >= x.dims[i]) || (mode == PadMode::circular && most > x.dims[i])))
      return s.fail(0, "a dim that is larger than its padding", "%lld in dim %d, padded by %lld", static_cast<long long>(x.dims[i]), i,
                    static_cast<long long>(most));
  }
  return PEN_OK;
}

PEN_BIND(pad) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.output(0));
  PadParams* p = b.params<PadParams>();
  const Tensor &x = b.in(0), &y = b.out(0);
  if (is_empty(y)) return PEN_OK;
  p->value = filling_bits(b.number("value"), x);
  parse_mode(b.text("mode"), &p->mode);
  const bool mode = p->mode != PadMode::constant;
  int64_t before[kMaxRank];
  for (int i = 0; i < x.rank; ++i) before[i] = pad_size(b, i, 0);

  // Dims that are 1 in the output but not in the input (cropped) must stay: order by a shape where they are larger.
  Tensor ordered = y;
  for (int i = 0; i < y.rank; ++i) ordered.dims[i] = x.dims[i] == 1 && y.dims[i] == 1 && before[i] == 0 ? 1 : 2;
  int order[kMaxRank];
  int n = memory_order(ordered, order);
  bool outer_padded = false;
  p->unit = 1;
  for (int k = 0; k < n; ++k) {
    int d = order[k], outer = p->rank - 1;
    bool padded = before[d] != 0 || x.dims[d] != y.dims[d];
    bool follows = outer >= 0 && !padded && p->in[outer] == x.dims[d] * x.strides[d] && p->out[outer] == y.dims[d] * y.strides[d];
    if (follows && mode && outer_padded && k == n - 1 && x.strides[d] == 1 && y.strides[d] == 1) {
      p->unit = x.dims[d];
      break;
    }
    if (follows && mode && outer_padded) follows = false;
    outer_padded = follows ? outer_padded : padded;
    if (follows) {
      p->from[outer] *= x.dims[d];
      p->to[outer] *= x.dims[d];
      p->before[outer] *= x.dims[d];
    } else {
      outer = p->rank++;
      p->from[outer] = x.dims[d];
      p->to[outer] = y.dims[d];
      p->before[outer] = before[d];
    }
    p->in[outer] = x.strides[d];
    p->out[outer] = y.strides[d];
  }
  while (p->rank < 2) {  // a row to walk along, and rows to walk over
    for (int d = p->rank++; d > 0; --d) {
      p->from[d] = p->from[d - 1];
      p->to[d] = p->to[d - 1];
      p->before[d] = p->before[d - 1];
      p->in[d] = p->in[d - 1];
      p->out[d] = p->out[d - 1];
    }
    p->from[0] = p->to[0] = p->in[0] = p->out[0] = 1;
    p->before[0] = 0;
  }
  p->rows = 1;
  for (int i = 0; i < p->rank - 1; ++i) p->rows *= p->to[i];
  int64_t row = p->to[p->rank - 1] * p->unit;
  p->tasks = task_count(p->rows, (1 << 16) / (row * dtype_size(x.dtype)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

// A few elements: padding is short more often than not.
template <class T>
static PEN_INLINE void fill_elements(T* to, int64_t n, int64_t step, T value) {
  if (n == 1) return static_cast<void>(*to = value);
  if (step == 1 && n >= 16) return fill_row(to, value, n);
#pragma GCC unroll 1
  for (int64_t i = 0; i < n; ++i) to[i * step] = value;
}

// What lies around the elements of one row that come from the input. The same in every row, so places of a few are kept.
struct Edges {
  static constexpr int64_t kMost = 32;
  int64_t first, last, length;  // [first, last) come from the input
  int64_t at[kMost], from[kMost];
  int64_t count;  // of these, kMost + 1 if there are more
};

static inline __attribute__((unused)) void make_edges(const PadParams& p, Edges* e) {
  int inner = p.rank - 1;
  int64_t n = p.from[inner], before = p.before[inner];
  e->length = p.to[inner];
  e->first = before < 0 ? 0 : before < e->length ? before : e->length;
  e->last = before + n < e->length ? before + n : e->length;
  if (e->last < e->first) e->last = e->first;
  e->count = 0;
  for (int64_t i = 0; i < e->length && e->count <= Edges::kMost && p.mode != PadMode::constant; ++i) {
    if (i == e->first) i = e->last;
    if (i == e->length) break;
    if (e->count < Edges::kMost) {
      e->at[e->count] = i * p.out[inner];
      e->from[e->count] = source_place(p.mode, i - before, n) * p.in[inner];
    }
    ++e->count;
  }
}

template <class T>
static PEN_INLINE void pad_row(const PadParams& p, const Edges& e, T* to, const T* from, bool inside) {
  const int inner = p.rank - 1;
  const int64_t step = p.out[inner], in_step = p.in[inner], unit = p.unit;
  const T value = static_cast<T>(p.value);
  if (!inside) return fill_elements(to, e.length, step, value);
  if (p.mode == PadMode::constant) {
    fill_elements(to, e.first, step, value);
    fill_elements(to + e.last * step, e.length - e.last, step, value);
  } else if (unit == 1 && e.count <= Edges::kMost) {
    for (int64_t i = 0; i < e.count; ++i) to[e.at[i]] = from[e.from[i]];
  } else {
    for (int64_t i = e.first > 0 ? 0 : e.last; i < e.length; i = i + 1 == e.first ? e.last : i + 1) {
      const T* source = from + source_place(p.mode, i - p.before[inner], p.from[inner]) * in_step;
      copy_run(reinterpret_cast<char*>(to + i * step), reinterpret_cast<const char*>(source), unit, 1, 1, sizeof(T));
    }
  }
  to += e.first * step;
  from += (e.first - p.before[inner]) * in_step;
  int64_t count = e.last - e.first, bytes = count * unit * static_cast<int64_t>(sizeof(T));
  if (unit == 1 && (step != 1 || in_step != 1))
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i * in_step];
  else if (bytes < kShortCopy)
    copy_short(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), bytes);
  else
    memcpy(to, from, static_cast<size_t>(bytes));
}

template <class T>
static PEN_INLINE void pad_rows(const Run& r) {
  const PadParams& p = r.as<PadParams>();
  const int rows = p.rank - 2;  // the dim that rows are counted along
  Edges edges;
  make_edges(p, &edges);
  int64_t row = part(p.rows, p.tasks, r.begin).begin, end = part(p.rows, p.tasks, r.end - 1).end;
  while (row < end) {
    int64_t rest = row / p.to[rows], at = row % p.to[rows], in = 0, out = 0;
    bool inside = true;
    auto source_of = [&](int d, int64_t i) {
      int64_t source = i - p.before[d];
      return p.mode == PadMode::constant ? source : source_place(p.mode, source, p.from[d]);
    };
    for (int d = rows - 1; d >= 0; --d) {
      int64_t i = rest % p.to[d], source = source_of(d, i);
      rest /= p.to[d];
      inside = inside && source >= 0 && source < p.from[d];
      in += source * p.in[d];
      out += i * p.out[d];
    }
    int64_t count = p.to[rows] - at < end - row ? p.to[rows] - at : end - row;
    row += count;
    for (; count > 0; --count, ++at) {
      int64_t source = source_of(rows, at);
      pad_row(p, edges, r.out[0].as<T>() + out + at * p.out[rows], r.in[0].as<const T>() + in + source * p.in[rows],
              inside && source >= 0 && source < p.from[rows]);
    }
  }
}

PEN_KERNEL_ANY(pad, b8) { pad_rows<uint8_t>(r); }
PEN_KERNEL_ANY(pad, b16) { pad_rows<uint16_t>(r); }
PEN_KERNEL_ANY(pad, b32) { pad_rows<uint32_t>(r); }
PEN_KERNEL_ANY(pad, b64) { pad_rows<uint64_t>(r); }

}  // namespace pen
