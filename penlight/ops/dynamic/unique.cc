// unique_consecutive: runs of equal rows. Each task counts the runs that begin in its part, then writes them: the last one's
// length reaches beyond the part, and rows before the first beginning belong to a run of the part before.
// lexsort: the order of rows, by merging.
#include "penlight/ops/dynamic/masks.h"

namespace pen {

struct RowsParams {
  MaskParams parts;  // of the rows
  int64_t width;     // elements of a row
};

static int64_t row_width(const Tensor& x) {
  int64_t width = 1;
  for (int d = 1; d < x.rank; ++d) width *= x.dims[d];
  return width;
}

PEN_SHAPE(unique_consecutive) {
  const Tensor &x = s.in(0), &order = s.in(1);
  if (x.rank < 1) return s.fail(0, "rank 1 or more", "rank 0");
  if (s.has(1) && (order.dtype != DType::i64 || order.rank != 1 || order.dims[0] != x.dims[0]))
    return s.fail(1, "an i64 place for each row", "%s of rank %d", kDTypeNames[static_cast<int>(order.dtype)], order.rank);
  Shape each;
  each.rank = 1;
  each.dims[0] = x.dims[0];
  PEN_TRY(s.output_at_most(0, x.dtype, shape_of(x)));
  PEN_TRY(s.output(1, DType::i64, each));
  return s.output_at_most(2, DType::i64, each);
}

PEN_BIND(unique_consecutive) {
  PEN_TRY(b.need(0, Need::dense));
  if (b.has(1)) PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  PEN_TRY(b.output(1));
  PEN_TRY(b.need_out(1, Need::dense));
  PEN_TRY(b.output(2));
  RowsParams* p = b.params<RowsParams>();
  p->width = row_width(b.in(0));
  return mask_bind(b, &p->parts, b.in(0).dims[0]);
}

template <class T>
static PEN_INLINE bool same_row(const T* a, const T* b, int64_t width) {
  for (int64_t i = 0; i < width; ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

template <class T>
static void find_runs(const Run& r) {
  const RowsParams& p = r.as<RowsParams>();
  const T* x = r.in[0].as<T>();
  const int64_t* order = r.in[1].as<int64_t>();
  // One element a row: whether a run begins cannot be predicted, so there are no branches on it.
  auto differs = [&](int64_t i) { return !(x[i - 1] == x[i]); };
  auto begins = [&](int64_t i) {
    return i == 0 || (p.width == 1 ? differs(i) : !same_row(x + (i - 1) * p.width, x + i * p.width, p.width));
  };
  Patience patience(r);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.parts.count, p.parts.tasks, task);
    if (r.phase == 0) {
      int64_t i = range.begin, n = i < range.end && begins(i);
      if (p.width == 1)
        for (++i; i < range.end; ++i) n += differs(i);
      for (++i; i < range.end; ++i) n += begins(i);
      reinterpret_cast<int64_t*>(r.shared)[task] = n;
      continue;
    }
    int64_t run = part_begin(r, p.parts, task) - 1, i = range.begin;  // the run of the row before
    if (task == p.parts.tasks - 1) r.counts[2] = r.counts[0];
    auto number = [&](int64_t row) {
      int64_t place = order ? order[row] : row;
      if (PEN_LIKELY(place >= 0 && place < p.parts.count))
        r.out[1].as<int64_t>()[place] = run;
      else
        r.fail_index(1, place, 0, p.parts.count);
    };
    for (; i < range.end && !begins(i); ++i) number(i);  // the end of a run of the part before
    if (i == range.end) continue;
    int64_t first = i, first_run = run + 1, *ends = r.out[2].as<int64_t>();
    if (p.width == 1) {
      T *to = r.out[0].as<T>(), value = x[i];
      to[++run] = value;
      ends[run] = i + 1;
      number(i);
      for (++i; i < range.end; ++i) {
        bool begin = differs(i);
        run += begin;
        value = begin ? x[i] : value;
        to[run] = value;
        ends[run] = i + 1;
        number(i);
      }
    } else {
      for (; i < range.end; ++i) {
        if (begins(i)) memcpy(r.out[0].as<T>() + ++run * p.width, x + i * p.width, static_cast<size_t>(p.width) * sizeof(T));
        ends[run] = i + 1;
        number(i);
      }
    }
    while (i < p.parts.count && !begins(i) && !patience.ends(p.width)) ++i;
    ends[run] = i;
    for (int64_t k = run; k > first_run; --k) ends[k] -= ends[k - 1];
    ends[first_run] -= first;
  }
}

PEN_KERNEL_ANY(unique_consecutive, f32) { find_runs<float>(r); }
PEN_KERNEL_ANY(unique_consecutive, f64) { find_runs<double>(r); }
PEN_KERNEL_ANY(unique_consecutive, i64) { find_runs<int64_t>(r); }

PEN_SHAPE(lexsort) {
  const Tensor& x = s.in(0);
  if (x.rank < 1) return s.fail(0, "rank 1 or more", "rank 0");
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = x.dims[0];
  return s.output(0, DType::i64, shape);
}

PEN_BIND(lexsort) {
  PEN_TRY(b.need(0, Need::dense));
  const Tensor& x = b.in(0);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  RowsParams* p = b.params<RowsParams>();
  p->parts.count = x.dims[0];
  p->width = row_width(x);
  if (x.dims[0] == 0) return PEN_OK;
  PEN_TRY(b.shared(x.dims[0] * 8));
  b.tasks(1);
  return PEN_OK;
}

// Whether row a comes before row b; NaN comes last.
template <class T>
static PEN_INLINE bool row_before(const T* a, const T* b, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    if (a[i] < b[i] || (a[i] == a[i] && b[i] != b[i])) return true;
    if (b[i] < a[i] || (b[i] == b[i] && a[i] != a[i])) return false;
  }
  return false;
}

template <class T>
static void sort_rows(const Run& r) {
  const RowsParams& p = r.as<RowsParams>();
  const T* x = r.in[0].as<T>();
  int64_t n = p.parts.count;
  int64_t *from = r.out[0].as<int64_t>(), *to = reinterpret_cast<int64_t*>(r.shared);
  Patience patience(r);
  for (int64_t i = 0; i < n; ++i) from[i] = i;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      int64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
      for (int64_t i = begin, j = middle, at = begin; at < end && !patience.ends(8 + p.width); ++at) {
        bool right = i == middle || (j < end && row_before(x + from[j] * p.width, x + from[i] * p.width, p.width));
        to[at] = right ? from[j++] : from[i++];
      }
    }
    int64_t* done = to;
    to = from;
    from = done;
  }
  if (from != r.out[0].as<int64_t>()) memcpy(r.out[0].data, from, static_cast<size_t>(n) * 8);
}

PEN_KERNEL_ANY(lexsort, f32) { sort_rows<float>(r); }
PEN_KERNEL_ANY(lexsort, f64) { sort_rows<double>(r); }
PEN_KERNEL_ANY(lexsort, i64) { sort_rows<int64_t>(r); }

}  // namespace pen
