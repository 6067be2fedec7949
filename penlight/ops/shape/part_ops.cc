// Parts of tensors, as views: select, slice, narrow, and lists of parts: chunk, split, unbind.
#include "penlight/ops/shape/views.h"

namespace pen {

// The dim of argument i of a tensor that has dims.
static Status dim_of(const Call& c, int i, const TensorObject& t, int* dim) {
  if (t.rank() == 0) return c.fail("a tensor with dims", "rank 0");
  return c.dim(i, t.rank(), dim);
}
// [start, start + length) of a dim.
static Status part_of(const Call& c, const TensorObject& t, int dim, int64_t start, int64_t length, int64_t step, Value* made) {
  Shape shape = shape_of(t);
  int64_t strides[kMaxRank];
  for (int d = 0; d < t.rank(); ++d) strides[d] = t.shape.strides[d];
  shape.dims[dim] = length;
  int64_t offset = start * strides[dim];
  if (mul_overflows(strides[dim], step, &strides[dim])) strides[dim] = 1;  // of one element at most
  return make_view(c, t, shape, strides, offset, made);
}
static Status selected(const Call& c, const TensorObject& t, int dim, int64_t index, Value* made) {
  Shape shape;
  int64_t strides[kMaxRank];
  for (int d = 0; d < t.rank(); ++d) {
    if (d == dim) continue;
    strides[shape.rank] = t.shape.strides[d];
    shape.dims[shape.rank++] = t.dim(d);
  }
  return make_view(c, t, shape, strides, index * t.shape.strides[dim], made);
}

PEN_OP(select, "[quantized]", "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int dim;
  PEN_TRY(dim_of(c, 1, t, &dim));
  int64_t index = c.integer(2), size = t.dim(dim);
  if (index < -size || index >= size)
    return c.raise("IndexError: select(): index %lld out of range for tensor of size %lld at dimension %d", static_cast<long long>(index),
                   static_cast<long long>(size), dim);
  return selected(c, t, dim, index < 0 ? index + size : index, &c.results[0]);
}

PEN_OP(slice, "[quantized]",
       "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int dim;
  PEN_TRY(dim_of(c, 1, t, &dim));
  int64_t size = t.dim(dim), step = c.integer(4), start = c.given(2) ? c.integer(2) : 0, end = c.given(3) ? c.integer(3) : INT64_MAX;
  if (step <= 0) return c.fail("a step above 0", "%lld", static_cast<long long>(step));
  start = start < 0 ? start + size : start;
  start = start < 0 ? 0 : start > size ? size : start;
  end = end < 0 ? end + size : end;
  end = end < start ? start : end > size ? size : end;
  int64_t length = end - start;
  return part_of(c, t, dim, start, length ? (length - 1) / step + 1 : 0, step, &c.results[0]);
}

static Status narrowed(const Call& c, int64_t start, Value* made) {
  const TensorObject& t = c.tensor(0);
  int dim;
  PEN_TRY(dim_of(c, 1, t, &dim));
  int64_t size = t.dim(dim), length = c.integer(3);
  if (start < -size || start > size || length < 0 || length > size || (start < 0 ? start + size : start) + length > size)
    return c.fail("a part inside of the dim", "start %lld, length %lld of %lld", static_cast<long long>(start),
                  static_cast<long long>(length), static_cast<long long>(size));
  return part_of(c, t, dim, start < 0 ? start + size : start, length, 1, made);
}
PEN_OP(narrow, "[quantized]", "aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)") {
  return narrowed(c, c.integer(2), &c.results[0]);
}
PEN_OP(narrow_tensor, "aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)") {
  Value start;
  PEN_TRY(number_in(c, c.tensor(2), &start));
  if (start.tag() != Tag::integer) return c.fail("a start that is an integer", "a %s", start.tag_name());
  return narrowed(c, start.integer(), &c.results[0]);
}
PEN_OP(narrow_copy, "[out]", "aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor") {
  Value view;
  PEN_TRY(narrowed(c, c.integer(2), &view));
  return make_copy(c, *view.tensor(), view.tensor()->dtype(), Format::contiguous, &c.results[0]);
}

// ---- lists of parts ----
// Ends of the parts, each [previous end, end), given one after the other.
struct Parts {
  Parts(Call& call, const TensorObject& tensor, int along) : c(call), t(tensor), dim(along) {}
  Status begin(int64_t count) {
    list = list_create(count > 1 << 20 ? 16 : count);
    return c.give(list);
  }
  Status add(int64_t start, int64_t length) {
    Value made;
    PEN_TRY(c.walk(1));
    PEN_TRY(part_of(c, t, dim, start, length, 1, &made));
    return list_append(list, made) ? PEN_OK : c.out_of_memory();
  }
  Call& c;
  const TensorObject& t;
  int dim;
  ListObject* list = nullptr;
};
static Status give_split(Call& c, int dim, int64_t each) {
  Parts parts(c, c.tensor(0), dim);
  int64_t size = c.tensor(0).dim(dim);
  if (each < 0 || (each == 0 && size != 0)) return c.fail("a part size above 0", "%lld", static_cast<long long>(each));
  int64_t count = size == 0 || each == 0 ? 1 : (size - 1) / each + 1;
  PEN_TRY(parts.begin(count));
  for (int64_t i = 0; i < count; ++i) PEN_TRY(parts.add(i * each, size - i * each < each ? size - i * each : each));
  return PEN_OK;
}
PEN_OP(split, "[quantized]", "aten::{split,unsafe_split[out]}.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(dim_of(c, 2, c.tensor(0), &dim));
  return give_split(c, dim, c.integer(1));
}
PEN_OP(chunk, "[quantized]", "aten::{chunk,unsafe_chunk}(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(dim_of(c, 2, c.tensor(0), &dim));
  int64_t chunks = c.integer(1), size = c.tensor(0).dim(dim);
  if (chunks <= 0) return c.fail("chunks above 0", "%lld", static_cast<long long>(chunks));
  int64_t each = size / chunks + (size % chunks != 0);
  if (each > 0 || size != 0) return give_split(c, dim, each);
  if (chunks > 1 << 20) return c.fail("at most 2**20 chunks", "%lld", static_cast<long long>(chunks));
  Parts parts(c, c.tensor(0), dim);  // of nothing: as many as asked for
  PEN_TRY(parts.begin(chunks));
  for (int64_t i = 0; i < chunks; ++i) PEN_TRY(parts.add(0, 0));
  return PEN_OK;
}
PEN_OP(split_sizes, "[quantized]",
       "aten::{split_with_sizes,unsafe_split_with_sizes[out]}(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
       "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
       "aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(dim_of(c, 2, c.tensor(0), &dim));
  const ListObject& sizes = c.list(1);
  Parts parts(c, c.tensor(0), dim);
  int64_t start = 0, size = c.tensor(0).dim(dim);
  for (int64_t i = 0; i < sizes.count; ++i) {
    int64_t each = sizes.items[i].integer();
    if (each < 0 || each > size - start)
      return c.fail("sizes that sum up to the dim's", "%lld after %lld of %lld", static_cast<long long>(each),
                    static_cast<long long>(start), static_cast<long long>(size));
    start += each;
  }
  if (start != size)
    return c.fail("sizes that sum up to the dim's", "%lld of %lld", static_cast<long long>(start), static_cast<long long>(size));
  PEN_TRY(parts.begin(sizes.count));
  start = 0;
  for (int64_t i = 0; i < sizes.count; ++i) {
    PEN_TRY(parts.add(start, sizes.items[i].integer()));
    start += sizes.items[i].integer();
  }
  return PEN_OK;
}

// Parts that begin at these places; the first at 0.
template <class Place>
static Status give_split_at(Call& c, int dim, int64_t count, Place place) {
  Parts parts(c, c.tensor(0), dim);
  int64_t size = c.tensor(0).dim(dim), start = 0;
  PEN_TRY(parts.begin(count + 1));
  for (int64_t i = 0; i <= count; ++i) {
    int64_t end = i < count ? place(i) : size;
    end = end < 0 ? end + size : end;
    end = end < 0 ? 0 : end > size ? size : end;
    PEN_TRY(parts.add(start, end > start ? end - start : 0));
    start = end;
  }
  return PEN_OK;
}
static Status give_sections(Call& c, int dim, int64_t sections) {
  if (sections <= 0 || sections > 1 << 20) return c.fail("sections from 1 to 2**20", "%lld", static_cast<long long>(sections));
  Parts parts(c, c.tensor(0), dim);
  int64_t size = c.tensor(0).dim(dim), start = 0;
  PEN_TRY(parts.begin(sections));
  for (int64_t i = 0; i < sections; ++i) {
    int64_t length = size / sections + (i < size % sections);
    PEN_TRY(parts.add(start, length));
    start += length;
  }
  return PEN_OK;
}
PEN_OP(tensor_split, "[quantized]", "aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(dim_of(c, 2, c.tensor(0), &dim));
  return give_sections(c, dim, c.integer(1));
}
PEN_OP(tensor_split_indices, "[quantized]", "aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(dim_of(c, 2, c.tensor(0), &dim));
  const ListObject& places = c.list(1);
  return give_split_at(c, dim, places.count, [&](int64_t i) { return places.items[i].integer(); });
}
PEN_OP(tensor_split_tensor, "[quantized]",
       "aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]") {
  const TensorObject& places = c.tensor(1);
  int dim;
  PEN_TRY(dim_of(c, 2, c.tensor(0), &dim));
  if (places.dtype() != DType::i64 || places.rank() > 1)
    return c.fail("places of dtype Long, of rank 0 or 1", "%s of rank %d", dtype_name(places.dtype()), places.rank());
  if (places.rank() == 0) return give_sections(c, dim, *places.as<int64_t>());
  return give_split_at(c, dim, places.dim(0), [&](int64_t i) { return places.as<int64_t>()[i * places.shape.strides[0]]; });
}
// hsplit along columns (rank 1: the only dim), vsplit along rows, dsplit along depth: equal parts, or at places.
static Status split_dim(const Call& c, int* dim) {
  int rank = c.tensor(0).rank();
  const int own[] = {rank == 1 ? 0 : 1, 0, 2};
  if (rank < c.word() + 1) return c.fail("more dims", "rank %d", rank);
  *dim = own[c.word()];
  return PEN_OK;
}
PEN_OP(hsplit, "[quantized]", "aten::{hsplit,vsplit,dsplit}.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(split_dim(c, &dim));
  if (c.integer(1) <= 0 || c.tensor(0).dim(dim) % c.integer(1))
    return c.fail("sections that divide the dim", "%lld", static_cast<long long>(c.integer(1)));
  return give_sections(c, dim, c.integer(1));
}
PEN_OP(hsplit_at, "[quantized]", "aten::{hsplit,vsplit,dsplit}.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]") {
  int dim;
  PEN_TRY(split_dim(c, &dim));
  const ListObject& places = c.list(1);
  return give_split_at(c, dim, places.count, [&](int64_t i) { return places.items[i].integer(); });
}

PEN_OP(unbind, "[quantized]", "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]") {
  const TensorObject& t = c.tensor(0);
  int dim;
  PEN_TRY(dim_of(c, 1, t, &dim));
  ListObject* list = list_create(t.dim(dim));
  PEN_TRY(c.give(list));
  for (int64_t i = 0; i < t.dim(dim); ++i) {
    Value made;
    PEN_TRY(selected(c, t, dim, i, &made));
    if (!list_append(list, made)) return c.out_of_memory();
  }
  return PEN_OK;
}

}  // namespace pen
