// Tensors made of others: cat, stack, repeat, roll, meshgrid and their kin.
#include "penlight/ops/shape/joins.h"
#include "penlight/runtime/vm/images.h"

namespace pen {

// [start, start + length) of a dim, as memory to write or read.
static Tensor piece(const TensorObject& t, int dim, int64_t start, int64_t length) {
  Tensor p = memory_of(t);
  p.dims[dim] = length;
  p.data += start * p.strides[dim] * dtype_size(t.dtype());
  return p;
}

Status cat(const Call& c, const Value* items, int64_t count, int64_t dim, Value* made) {
  if (count == 0) return c.fail("at least one tensor", "none");
  // A tensor of shape [0] goes with every other one: files of old count on it.
  auto skipped = [&](const TensorObject& t) { return t.rank() == 1 && t.dim(0) == 0; };
  const TensorObject* first = nullptr;
  Promotion p;
  for (int64_t i = 0; i < count; ++i) {
    const TensorObject& t = *items[i].tensor();
    if (t.rank() == 0) return c.fail("tensors with dims", "rank 0 at %lld", static_cast<long long>(i));
    p.add(t);
    if (!first && !skipped(t)) first = &t;
  }
  if (!first) first = items[0].tensor();
  int at;
  PEN_TRY(c.dim(dim, first->rank(), &at));
  Shape shape = shape_of(*first);
  shape.dims[at] = 0;
  Format format = suggested_format(*first);
  bool nhwc = c.nhwc && first->rank() == 4;  // images that all lie so
  for (int64_t i = 0; i < count; ++i) {
    const TensorObject& t = *items[i].tensor();
    if (skipped(t)) continue;
    bool fits = t.rank() == first->rank();
    for (int d = 0; fits && d < t.rank(); ++d) fits = d == at || t.dim(d) == first->dim(d);
    if (!fits) return c.fail("tensors of one shape, but for the dim they are joined along", "another at %lld", static_cast<long long>(i));
    if (add_overflows(shape.dims[at], t.dim(at), &shape.dims[at])) return c.out_of_memory();
    if (suggested_format(t) != format) format = Format::contiguous;
    nhwc = nhwc && t.storage->pitch;
  }
  if (nhwc) {
    *made = Value::own(image_create(*c.machine, p.result(), shape.dims));
    if (made->is_none()) return c.out_of_memory();
  } else {
    PEN_TRY(make_fresh(c, p.result(), shape, format, nullptr, made));
  }
  TensorObject& whole = *made->tensor();
  int64_t start = 0;
  for (int64_t i = 0; i < count; ++i) {
    const TensorObject& t = *items[i].tensor();
    if (skipped(t)) continue;
    int64_t length = t.dim(at);
    if (t.dtype() == whole.dtype()) {
      PEN_TRY(move_elements(c, piece(whole, at, start, length), memory_of(t)));
    } else {
      Status status;
      Value cast = Value::own(tensor_cast(c, t, whole.dtype(), &status));
      PEN_TRY(status);
      PEN_TRY(move_elements(c, piece(whole, at, start, length), cast.tensor()->view()));
    }
    start += length;
  }
  return PEN_OK;
}

PEN_OP(cat, "[nhwc]", "aten::{cat,concat,concatenate}(Tensor[] tensors, int dim=0) -> Tensor",
       "aten::{cat,concat,concatenate}.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)",
       "aten::_cat(Tensor[] tensors, int dim=0) -> Tensor") {
  return cat(c, c.list(0).items, c.list(0).count, c.integer(1), &c.results[0]);
}

// Views of all tensors through `look`, joined.
template <class Look>
static Status give_joined(Call& c, const ListObject& tensors, int64_t dim, Look look) {
  ListObject* views = list_create(tensors.count);
  if (!views) return c.out_of_memory();
  Value kept = Value::own(views);
  for (int64_t i = 0; i < tensors.count; ++i) {
    Value view;
    PEN_TRY(look(*tensors.items[i].tensor(), &view));
    if (!list_append(views, view)) return c.out_of_memory();
  }
  return cat(c, views->items, views->count, dim, &c.results[0]);
}
PEN_OP(stack, "aten::stack(Tensor[] tensors, int dim=0) -> Tensor", "[out]aten::_stack(Tensor[] tensors, int dim=0) -> Tensor",
       "aten::stack.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)") {
  const ListObject& tensors = c.list(0);
  if (tensors.count == 0) return c.fail("at least one tensor", "none");
  const TensorObject& first = *tensors.items[0].tensor();
  int at;
  PEN_TRY(c.dim(1, first.rank() + 1, &at));
  for (int64_t i = 1; i < tensors.count; ++i) {
    const TensorObject& t = *tensors.items[i].tensor();
    bool same = t.rank() == first.rank();
    for (int d = 0; same && d < t.rank(); ++d) same = t.dim(d) == first.dim(d);
    if (!same) return c.fail("tensors of one shape", "another");
  }
  if (at == first.rank()) return give_joined(c, tensors, at, [&](const TensorObject& t, Value* view) { return with_dim(c, t, at, view); });
  // torch's way: joined along the dim before which the new one is put, and that dim split. So channels-last images stay what they are.
  if (first.rank() == kMaxRank) return c.fail("at most 8 dims", "9");
  Shape shape;
  shape.rank = first.rank() + 1;
  for (int d = 0; d < shape.rank; ++d) shape.dims[d] = d == at ? tensors.count : first.dim(d > at ? d - 1 : d);
  Value whole;
  PEN_TRY(cat(c, tensors.items, tensors.count, at, &whole));
  return reshaped(c, *whole.tensor(), shape, &c.results[0]);
}

// At least `rank` dims: rank 0 becomes [1], and so on as numpy has it.
static Status at_least(const Call& c, const TensorObject& t, int rank, Value* made) {
  if (t.rank() >= rank) {
    *made = Value::share(const_cast<TensorObject*>(&t));
    return PEN_OK;
  }
  Shape shape;
  shape.rank = rank;
  for (int d = 0; d < rank; ++d) shape.dims[d] = 1;
  if (t.rank() == 1) shape.dims[rank == 2 || rank == 3 ? 1 : 0] = t.dim(0);
  if (t.rank() == 2) shape.dims[0] = t.dim(0), shape.dims[1] = t.dim(1);
  return reshaped(c, t, shape, made);
}
PEN_OP(atleast, "[quantized]", "aten::atleast_{1,2,3}d(Tensor self) -> Tensor") {
  return at_least(c, c.tensor(0), c.word() + 1, &c.results[0]);
}
PEN_OP(atleast_all, "aten::atleast_{1,2,3}d.Sequence(Tensor[] tensors) -> Tensor[]") {
  const ListObject& tensors = c.list(0);
  ListObject* list = list_create(tensors.count);
  PEN_TRY(c.give(list));
  for (int64_t i = 0; i < tensors.count; ++i) {
    Value made;
    PEN_TRY(at_least(c, *tensors.items[i].tensor(), c.word() + 1, &made));
    if (!list_append(list, made)) return c.out_of_memory();
  }
  return PEN_OK;
}
PEN_OP(hstack, "[out]", "aten::hstack(Tensor[] tensors) -> Tensor") {
  const ListObject& tensors = c.list(0);
  if (tensors.count == 0) return c.fail("at least one tensor", "none");
  int rank = tensors.items[0].tensor()->rank();
  return give_joined(c, tensors, rank <= 1 ? 0 : 1, [&](const TensorObject& t, Value* view) { return at_least(c, t, 1, view); });
}
PEN_OP(vstack, "[out]", "aten::{vstack,row_stack}(Tensor[] tensors) -> Tensor") {
  return give_joined(c, c.list(0), 0, [&](const TensorObject& t, Value* view) { return at_least(c, t, 2, view); });
}
PEN_OP(dstack, "[out]", "aten::dstack(Tensor[] tensors) -> Tensor") {
  return give_joined(c, c.list(0), 2, [&](const TensorObject& t, Value* view) { return at_least(c, t, 3, view); });
}
PEN_OP(column_stack, "[out]", "aten::column_stack(Tensor[] tensors) -> Tensor") {
  return give_joined(c, c.list(0), 1, [&](const TensorObject& t, Value* view) {
    if (t.rank() > 1) {
      *view = Value::share(const_cast<TensorObject*>(&t));
      return PEN_OK;
    }
    Shape column;
    column.rank = 2;
    column.dims[0] = t.rank() ? t.dim(0) : 1;
    column.dims[1] = 1;
    return reshaped(c, t, column, view);
  });
}

// ---- repeats ----
// Dim `dim` of a row-major tensor `times` times: as a whole, one after the other, or each of its entries.
static Status repeated(const Call& c, const TensorObject& t, int dim, int64_t times, bool each, Value* made) {
  Shape shape = shape_of(t);
  int64_t outer = 1, inner = 1, n = t.dim(dim);
  for (int d = 0; d < dim; ++d) outer *= t.dim(d);
  for (int d = dim + 1; d < t.rank(); ++d) inner *= t.dim(d);
  if (mul_overflows(shape.dims[dim], times, &shape.dims[dim])) return c.out_of_memory();
  PEN_TRY(make_fresh(c, t.dtype(), shape, Format::contiguous, nullptr, made));
  if (made->tensor()->numel() == 0) return PEN_OK;
  Tensor to, from;
  to.dtype = from.dtype = t.dtype();
  to.rank = from.rank = 4;
  to.data = made->tensor()->data();
  from.data = t.data();
  int64_t dims[] = {outer, each ? n : times, each ? times : n, inner}, in[] = {n * inner, each ? inner : 0, each ? 0 : inner, 1};
  for (int d = 0; d < 4; ++d) {
    to.dims[d] = from.dims[d] = dims[d];
    from.strides[d] = in[d];
  }
  row_major_strides(4, dims, to.strides);
  return move_elements(c, to, from);
}
static Status give_repeated(Call& c, const int64_t* times, int count) {
  const TensorObject& t = c.tensor(0);
  if (count < t.rank()) return c.fail("a number of repeats for each dim", "%d for %d", count, t.rank());
  if (count > kMaxRank) return c.fail("at most 8 dims", "%d", count);
  Shape shape;
  shape.rank = count;
  for (int d = 0; d < count; ++d) {
    if (times[d] < 0) return c.fail("repeats of 0 or more", "%lld", static_cast<long long>(times[d]));
    shape.dims[d] = d < count - t.rank() ? 1 : t.dim(d - (count - t.rank()));
  }
  Value now;
  PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, &now));
  int64_t strides[kMaxRank];
  row_major_strides(shape.rank, shape.dims, strides);
  PEN_TRY(make_view(c, *now.tensor(), shape, strides, 0, &now));
  for (int d = count - 1; d >= 0; --d) {
    if (times[d] == 1) continue;
    Value next;
    PEN_TRY(repeated(c, *now.tensor(), d, times[d], false, &next));
    now = next;
  }
  return c.give(static_cast<Value&&>(now));
}
PEN_OP(repeat, "[out]", "aten::repeat(Tensor self, SymInt[] repeats) -> Tensor") {
  int64_t times[kMaxRank];
  return give_repeated(c, times, c.ints(1, times, kMaxRank));
}
PEN_OP(tile, "aten::tile(Tensor self, SymInt[] dims) -> Tensor") {
  int64_t given[kMaxRank], times[kMaxRank];
  int count = c.ints(1, given, kMaxRank), rank = c.tensor(0).rank(), missing = rank > count ? rank - count : 0;
  if (count > kMaxRank) return c.fail("at most 8 dims", "%d", count);
  for (int d = 0; d < missing + count; ++d) times[d] = d < missing ? 1 : given[d - missing];
  return give_repeated(c, times, missing + count);
}

// The tensor and dim that repeat_interleave works on: all of it in a row where no dim is given.
static Status interleaved_input(const Call& c, int dim_at, Value* made, int* dim) {
  const TensorObject& t = c.tensor(0);
  Value base;
  PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, &base));
  *dim = 0;
  if (c.given(dim_at) && t.rank() > 0) {
    PEN_TRY(c.dim(dim_at, t.rank(), dim));
    *made = base;
    return PEN_OK;
  }
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = t.numel();
  return reshaped(c, *base.tensor(), shape, made);
}
static Status check_output_size(const Call& c, int at, int64_t size) {
  if (!c.given(at) || c.integer(at) == size) return PEN_OK;
  return c.fail("an output_size that is the sum of the repeats", "%lld for %lld", static_cast<long long>(c.integer(at)),
                static_cast<long long>(size));
}
PEN_OP(repeat_interleave,
       "aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor") {
  Value t;
  int dim;
  if (c.integer(1) < 0) return c.fail("repeats of 0 or more", "%lld", static_cast<long long>(c.integer(1)));
  PEN_TRY(interleaved_input(c, 2, &t, &dim));
  PEN_TRY(repeated(c, *t.tensor(), dim, c.integer(1), true, &c.results[0]));
  return check_output_size(c, 3, c.results[0].tensor()->dim(dim));
}
// Which entry stands at each place of the result. `n`: of entries; one count may serve for all.
static Status places_of(const Call& c, const TensorObject& given, int64_t n, int output_size, Value* made) {
  Value still;
  PEN_TRY(hold_still(c, given, &still));
  const TensorObject& repeats = *still.tensor();
  if (repeats.dtype() != DType::i64 && repeats.dtype() != DType::i32)
    return c.fail("repeats of dtype Int or Long", "%s", dtype_name(repeats.dtype()));
  if (repeats.rank() > 1 || (repeats.numel() != n && repeats.numel() != 1))
    return c.fail("one number of repeats for each entry", "%lld for %lld", static_cast<long long>(repeats.numel()),
                  static_cast<long long>(n));
  auto times = [&](int64_t i) {
    int64_t step = repeats.numel() == 1 ? 0 : repeats.shape.strides[0];
    return repeats.dtype() == DType::i64 ? repeats.as<int64_t>()[i * step] : repeats.as<int32_t>()[i * step];
  };
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    PEN_TRY(c.walk(1));
    if (times(i) < 0) return c.fail("repeats of 0 or more", "%lld", static_cast<long long>(times(i)));
    if (add_overflows(total, times(i), &total)) return c.out_of_memory();
  }
  PEN_TRY(check_output_size(c, output_size, total));
  TensorObject* places = tensor_create(repeats.dtype(), 1, &total);
  if (!places) return c.out_of_memory();
  *made = Value::own(places);
  for (int64_t i = 0, at = 0; i < n; ++i)
    for (int64_t k = times(i); k > 0; --k, ++at) {
      PEN_TRY(c.walk(1));
      number_into(Value(i), repeats.dtype(), places->data() + at * dtype_size(repeats.dtype()));
    }
  return PEN_OK;
}
PEN_OP(repeat_places, "[out]", "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor") {
  if (c.tensor(0).rank() != 1) return c.fail("repeats of rank 1", "rank %d", c.tensor(0).rank());
  return places_of(c, c.tensor(0), c.tensor(0).dim(0), 1, &c.results[0]);
}
PEN_OP(repeat_interleave_tensor,
       "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor") {
  Value base, places;
  int dim;
  PEN_TRY(interleaved_input(c, 2, &base, &dim));
  const TensorObject& t = *base.tensor();
  PEN_TRY(places_of(c, c.tensor(1), t.dim(dim), 3, &places));
  Shape shape = shape_of(t);
  int64_t n = t.dim(dim), count = places.tensor()->dim(0), inner = dtype_size(t.dtype()), outer = 1;
  shape.dims[dim] = count;
  PEN_TRY(make_fresh(c, t.dtype(), shape, Format::contiguous, nullptr, &c.results[0]));
  for (int d = 0; d < dim; ++d) outer *= t.dim(d);
  for (int d = dim + 1; d < t.rank(); ++d) inner *= t.dim(d);
  char* to = c.results[0].tensor()->data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i, to += inner) {
      PEN_TRY(c.walk(1 + inner / 16));
      int64_t from = places.tensor()->dtype() == DType::i64 ? places.tensor()->as<int64_t>()[i] : places.tensor()->as<int32_t>()[i];
      memcpy(to, t.data() + (o * n + from) * inner, static_cast<size_t>(inner));
    }
  return PEN_OK;
}

// ---- around ----
PEN_OP(roll, "[out]", "aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor") {
  int64_t shifts[kMaxRank], dims[kMaxRank];
  int count = c.ints(1, shifts, kMaxRank), dim_count = c.ints(2, dims, kMaxRank);
  if (count > kMaxRank || count == 0) return c.fail("one shift, or one for each of at most 8 dims", "%d", count);
  Value now = c.args[0];
  Shape flat, shape = shape_of(c.tensor(0));
  if (dim_count == 0) {  // all of it in a row
    if (count != 1) return c.fail("as many dims as shifts", "%d and %d", dim_count, count);
    flat.rank = 1;
    flat.dims[0] = c.tensor(0).numel();
    PEN_TRY(reshaped(c, c.tensor(0), flat, &now));
    dims[0] = 0;
  } else if (dim_count != count) {
    return c.fail("as many dims as shifts", "%d and %d", dim_count, count);
  }
  for (int k = 0; k < count; ++k) {
    const TensorObject& t = *now.tensor();
    int dim;
    Value next;
    PEN_TRY(c.dim(dims[k], t.rank(), &dim));
    if (t.rank() == 0 || t.numel() == 0) {
      PEN_TRY(make_copy(c, t, t.dtype(), Format::preserve, &next));
    } else {  // the last `by` before the others, which lie as cat has it
      const int64_t n = t.dim(dim), by = (shifts[k] % n + n) % n, start = by ? n - by : 0;
      Value parts[2];
      Shape part = shape_of(t);
      part.dims[dim] = n - start;
      PEN_TRY(make_view(c, t, part, t.shape.strides, start * t.shape.strides[dim], &parts[0]));
      part.dims[dim] = start;
      PEN_TRY(make_view(c, t, part, t.shape.strides, 0, &parts[1]));
      PEN_TRY(cat(c, parts, 2, dim, &next));
    }
    now = next;
  }
  return reshaped(c, *now.tensor(), shape, &c.results[0]);
}

// One tensor for each: along its own dim, repeated along all others, without a copy.
static Status give_grid(Call& c, bool swap) {
  const ListObject& tensors = c.list(0);
  int n = static_cast<int>(tensors.count);
  if (tensors.count < 1 || tensors.count > kMaxRank) return c.fail("from 1 to 8 tensors", "%lld", static_cast<long long>(tensors.count));
  swap = swap && n > 1;
  Shape shape;
  shape.rank = n;
  for (int i = 0; i < n; ++i) {
    const TensorObject& t = *tensors.items[i].tensor();
    if (t.rank() > 1) return c.fail("tensors of at most one dim", "%d", t.rank());
    if (t.dtype() != tensors.items[0].tensor()->dtype()) return c.fail("tensors of one dtype", "%s", dtype_name(t.dtype()));
    shape.dims[swap && i < 2 ? 1 - i : i] = t.rank() ? t.dim(0) : 1;
  }
  ListObject* list = list_create(n);
  PEN_TRY(c.give(list));
  for (int i = 0; i < n; ++i) {
    const TensorObject& t = *tensors.items[i].tensor();
    int64_t strides[kMaxRank] = {};
    strides[swap && i < 2 ? 1 - i : i] = t.rank() ? t.shape.strides[0] : 1;
    Value made;
    PEN_TRY(make_view(c, t, shape, strides, 0, &made));
    if (!list_append(list, made)) return c.out_of_memory();
  }
  return PEN_OK;
}
PEN_OP(meshgrid, "aten::meshgrid(Tensor[] tensors) -> Tensor[]") { return give_grid(c, false); }
PEN_OP(meshgrid_indexing, "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]") {
  bool swap = strcmp(c.text(1), "xy") == 0;
  if (!swap && strcmp(c.text(1), "ij") != 0) return c.fail("indexing 'ij' or 'xy'", "'%s'", c.text(1));
  return give_grid(c, swap);
}
PEN_OP(cartesian_prod, "aten::cartesian_prod(Tensor[] tensors) -> Tensor") {
  for (int64_t i = 0; i < c.list(0).count; ++i)
    if (c.list(0).items[i].tensor()->rank() != 1) return c.fail("tensors of one dim", "rank %d", c.list(0).items[i].tensor()->rank());
  if (c.list(0).count == 1) return c.give(Value(c.list(0).items[0]));
  PEN_TRY(give_grid(c, false));
  Value grid = c.results[0];
  Shape column;
  column.rank = 2;
  column.dims[1] = 1;
  return give_joined(c, *grid.list(), 1, [&](const TensorObject& t, Value* view) {
    column.dims[0] = t.numel();
    return reshaped(c, t, column, view);
  });
}

}  // namespace pen
