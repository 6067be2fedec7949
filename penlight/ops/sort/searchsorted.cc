// searchsorted: where values would go in a sorted row, by halving, without branches on the data; bin_sum: how many
// elements, or how much weight, falls to each index.
#include "penlight/ops/index/indices.h"

namespace pen {

struct SearchParams {
  int64_t length, per_row, count, tasks;  // of a row; values that search one row; of all values
  bool right, narrow, has_sorter;
};

PEN_BIND(searchsorted) {
  for (int i = 0; i < 2; ++i) {
    PEN_TRY(need_unpacked(b, i));
    PEN_TRY(need_countable(b, i));
    PEN_TRY(b.need(i, Need::dense));
  }
  const Tensor &row = b.in(0), &values = b.in(1);
  if (row.rank < 1) return b.fail(0, "a sorted tensor of rank 1 or more", "rank 0");
  bool shared = row.rank == 1;
  if (!shared && row.rank != values.rank)
    return b.fail(1, "values of the same rank as the rows, or rows of rank 1", "rank %d", values.rank);
  for (int i = 0; !shared && i + 1 < row.rank; ++i) {
    if (row.dims[i] != values.dims[i])
      return b.fail(1, "the dims of the rows, but for the last", "size %lld in dim %d", static_cast<long long>(values.dims[i]), i);
  }
  SearchParams* p = b.params<SearchParams>();
  p->has_sorter = b.has(2);
  if (p->has_sorter) {
    PEN_TRY(need_unpacked(b, 2));
    PEN_TRY(indices_bind(b, 2));
    for (int i = 0; i < row.rank; ++i) {
      if (b.in(2).rank != row.rank || b.in(2).dims[i] != row.dims[i]) return b.fail(2, "a sorter of the rows' shape", "another");
    }
  }
  Shape shape;
  shape.rank = values.rank;
  for (int i = 0; i < values.rank; ++i) shape.dims[i] = values.dims[i];
  p->right = b.flag("right");
  p->narrow = b.flag("out_int32");
  PEN_TRY(b.output(0, p->narrow ? DType::i32 : DType::i64, shape));
  PEN_TRY(b.need_out(0, Need::dense));
  if (is_empty(values)) return PEN_OK;
  p->length = row.dims[row.rank - 1];
  p->count = values.numel();
  p->per_row = shared ? p->count : values.dims[values.rank - 1];
  p->tasks = task_count(p->count, 4096);
  b.tasks(p->tasks);
  return PEN_OK;
}

// How many elements come before v: those below it, or (right) not above it. at(i): element i.
template <class T, bool kRight, class At>
static PEN_INLINE int64_t search(int64_t n, T v, const At& at) {
  int64_t base = 0;
  auto before = [&](int64_t i) { return kRight ? !(at(i) > v) : !(at(i) >= v); };  // NaN goes last
  while (n > 1) {  // as many rounds for every v, and sums in place of branches: rounds of several values overlap
    int64_t half = n / 2;
    base += half & -static_cast<int64_t>(before(base + half - 1));
    n -= half;
  }
  return n == 1 ? base + before(base) : 0;
}

template <class T>
static PEN_INLINE void searchsorted(const Run& r) {
  const SearchParams& p = r.as<SearchParams>();
  const T* values = r.in[1].as<T>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.count, p.tasks, task);
    int64_t at = range.begin / p.per_row, left = (at + 1) * p.per_row - range.begin;
    for (int64_t i = range.begin; i < range.end; ++i, --left) {
      if (left == 0) {
        ++at;
        left = p.per_row;
      }
      int64_t first = at * p.length, found;
      const T* row = r.in[0].as<T>() + first;
      auto plain = [&](int64_t at) { return row[at]; };
      auto sorted = [&](int64_t at) {
        int64_t place = index_at(r.in[2], first + at);
        if (PEN_LIKELY(place >= 0 && place < p.length)) return row[place];
        r.fail_index(2, place, 0, p.length);
        return row[0];
      };
      if (p.has_sorter)
        found = p.right ? search<T, true>(p.length, values[i], sorted) : search<T, false>(p.length, values[i], sorted);
      else
        found = p.right ? search<T, true>(p.length, values[i], plain) : search<T, false>(p.length, values[i], plain);
      if (p.narrow)
        r.out[0].as<int32_t>()[i] = static_cast<int32_t>(found);
      else
        r.out[0].as<int64_t>()[i] = found;
    }
  }
}

PEN_KERNEL_ANY(searchsorted, f32) { searchsorted<float>(r); }
PEN_KERNEL_ANY(searchsorted, f64) { searchsorted<double>(r); }
PEN_KERNEL_ANY(searchsorted, i64) { searchsorted<int64_t>(r); }

struct BinParams {
  int64_t count, size;
  bool has_weight, strict;
};

PEN_BIND(bin_sum) {
  PEN_TRY(need_unpacked(b, 0));
  PEN_TRY(need_countable(b, 0));
  PEN_TRY(b.need(0, Need::dense));
  BinParams* p = b.params<BinParams>();
  p->count = is_empty(b.in(0)) ? 0 : b.in(0).numel();
  p->size = b.integer("size");
  p->has_weight = b.has(1);
  p->strict = b.flag("strict");
  if (p->has_weight) {
    PEN_TRY(need_unpacked(b, 1));
    PEN_TRY(need_countable(b, 1));
    if (b.in(1).dtype != DType::f32) return b.fail(1, "f32 weights", "dtype code %d", static_cast<int>(b.in(1).dtype));
    if ((is_empty(b.in(1)) ? 0 : b.in(1).numel()) != p->count) return b.fail(1, "a weight for each index", "another number");
    PEN_TRY(b.need(1, Need::dense));
  }
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = p->size;
  if (p->size < 0) return b.fail(-1, "a size of 0 or more", "%lld", static_cast<long long>(p->size));
  bool exact = p->strict && !p->has_weight;
  PEN_TRY(b.output(0, exact ? DType::i64 : DType::f32, shape));
  if (!exact) PEN_TRY(b.shared(p->size * static_cast<int64_t>(sizeof(double))));
  b.tasks(p->size > 0 || (p->strict && p->count > 0));  // without bins, every index is outside of them
  return PEN_OK;
}

static void outside(const Run& r, const BinParams& p, int64_t index) {
  if (index < 0) return r.fail_value(0, "values of 0 or more", "", index);
  r.fail_index(0, index, 0, p.size);
}

// Indices outside of [0, size) count nowhere, or (strict) are an error. One task: sums in one order.
PEN_KERNEL_ANY(bin_sum, i64) {
  const BinParams& p = r.as<BinParams>();
  const int64_t* index = r.in[0].as<int64_t>();
  int64_t step = r.out[0].strides[0];
  if (p.strict && !p.has_weight) {
    int64_t* counts = r.out[0].as<int64_t>();
    for (int64_t i = 0; i < p.size; ++i) counts[i * step] = 0;
    for (int64_t i = 0; i < p.count; ++i) {
      if (index[i] < 0 || index[i] >= p.size) return outside(r, p, index[i]);
      ++counts[index[i] * step];
    }
    return;
  }
  double* sums = reinterpret_cast<double*>(r.shared);
  for (int64_t i = 0; i < p.size; ++i) sums[i] = 0;
  for (int64_t i = 0; i < p.count; ++i) {
    if (index[i] < 0 || index[i] >= p.size) {
      if (p.strict) return outside(r, p, index[i]);
      continue;
    }
    sums[index[i]] += p.has_weight ? static_cast<double>(r.in[1].as<float>()[i]) : 1.0;
  }
  float* out = r.out[0].as<float>();
  for (int64_t i = 0; i < p.size; ++i) out[i * step] = static_cast<float>(sums[i]);
}

}  // namespace pen
