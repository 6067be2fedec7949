// searchsorted: where values would go in a sorted row, by halving, without branches on the data; bin_sum: how many
// elements, or how much weight, falls to each index.
#include "penlight/ops/index/indices.h"

namespace pen {

struct SearchParams {
  int64_t length, per_row, count, tasks;  // of a row; values that search one row; of all values
  bool right, narrow, has_sorter;
};

PEN_SHAPE(searchsorted) {
  for (int i = 0; i < 2; ++i) PEN_TRY(need_countable(s, i));
  const Tensor &row = s.in(0), &values = s.in(1);
  if (row.rank < 1) return s.fail(0, "a sorted tensor of rank 1 or more", "rank 0");
  bool shared = row.rank == 1;
  if (!shared && row.rank != values.rank)
    return s.fail(1, "values of the same rank as the rows, or rows of rank 1", "rank %d", values.rank);
  for (int i = 0; !shared && i + 1 < row.rank; ++i) {
    if (row.dims[i] != values.dims[i])
      return s.fail(1, "the dims of the rows, but for the last", "size %lld in dim %d", static_cast<long long>(values.dims[i]), i);
  }
  if (s.has(2)) PEN_TRY(check_indices(s, 2));
  for (int i = 0; s.has(2) && i < row.rank; ++i) {
    if (s.in(2).rank != row.rank || s.in(2).dims[i] != row.dims[i]) return s.fail(2, "a sorter of the rows' shape", "another");
  }
  return s.output(0, s.flag("out_int32") ? DType::i32 : DType::i64, shape_of(values));
}

PEN_BIND(searchsorted) {
  SearchParams* p = b.params<SearchParams>();
  p->has_sorter = b.has(2);
  for (int i = 0; i < (p->has_sorter ? 3 : 2); ++i) PEN_TRY(b.need(i, Need::dense));
  const Tensor &row = b.in(0), &values = b.in(1);
  p->right = b.flag("right");
  p->narrow = b.flag("out_int32");
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  if (is_empty(values)) return PEN_OK;
  p->length = row.dims[row.rank - 1];
  p->count = values.numel();
  p->per_row = row.rank == 1 ? p->count : values.dims[values.rank - 1];
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

static PEN_SMALL int64_t element_count(const Tensor& t) { return is_empty(t) ? 0 : t.numel(); }

PEN_SHAPE(bin_sum) {
  PEN_TRY(need_countable(s, 0));
  if (s.has(1)) {
    PEN_TRY(need_countable(s, 1));
    if (s.in(1).dtype != DType::f32) return s.fail(1, "f32 weights", "dtype code %d", static_cast<int>(s.in(1).dtype));
    if (element_count(s.in(1)) != element_count(s.in(0))) return s.fail(1, "a weight for each index", "another number");
  }
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = s.integer("size");
  if (shape.dims[0] < 0) return s.fail(-1, "a size of 0 or more", "%lld", static_cast<long long>(shape.dims[0]));
  return s.output(0, s.flag("strict") && !s.has(1) ? DType::i64 : DType::f32, shape);
}

PEN_BIND(bin_sum) {
  BinParams* p = b.params<BinParams>();
  p->count = element_count(b.in(0));
  p->size = b.out(0).dims[0];
  p->has_weight = b.has(1);
  p->strict = b.flag("strict");
  for (int i = 0; i < (p->has_weight ? 2 : 1); ++i) PEN_TRY(b.need(i, Need::dense));
  PEN_TRY(b.output(0));
  if (b.out(0).dtype != DType::i64) PEN_TRY(b.shared(p->size * static_cast<int64_t>(sizeof(double))));
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
