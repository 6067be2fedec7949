// Copies and casts: clone, contiguous, to, copy_, fill_; tensors that take on another storage; memory formats.
#include "penlight/ops/shape/views.h"
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

// ---- memory formats ----
Status format_of(const Call& c, int i, Format otherwise, Format* to) {
  *to = c.given(i) ? static_cast<Format>(c.integer(i)) : otherwise;
  if (*to >= Format::contiguous && *to <= Format::channels_last_3d) return PEN_OK;
  return c.fail("a memory format from 0 to 3", "%lld", static_cast<long long>(*to));
}
static const int kRowMajor[] = {7, 6, 5, 4, 3, 2, 1, 0}, kLast2d[] = {1, 3, 2, 0}, kLast3d[] = {1, 4, 3, 2, 0};
// Dims of a format from the innermost.
static const int* order_of(Format format, int rank) {
  return format == Format::channels_last ? kLast2d : format == Format::channels_last_3d ? kLast3d : kRowMajor + (kMaxRank - rank);
}
static bool has_rank(Format format, int rank) { return format <= Format::preserve || rank == (format == Format::channels_last ? 4 : 5); }

void format_strides(Format format, const Shape& shape, int64_t* strides) {
  const int* order = order_of(format, shape.rank);
  int64_t step = 1;
  for (int k = 0; k < shape.rank; ++k) {
    strides[order[k]] = step;
    step *= shape.dims[order[k]] > 1 ? shape.dims[order[k]] : 1;
  }
}
bool lies_in(const TensorObject& t, Format format) {
  if (!has_rank(format, t.rank())) return false;
  const int* order = order_of(format, t.rank());
  int64_t expected = 1;
  for (int k = 0; k < t.rank(); ++k) {
    if (t.dim(order[k]) == 0) return true;
    if (t.dim(order[k]) != 1 && t.shape.strides[order[k]] != expected) return false;
    expected *= t.dim(order[k]);
  }
  return true;
}
bool is_dense(const TensorObject& t) {
  int order[kMaxRank], n = 0;
  for (int d = 0; d < t.rank(); ++d) {
    if (t.dim(d) == 0) return true;
    if (t.dim(d) == 1) continue;
    int at = n++;
    for (; at > 0 && t.shape.strides[order[at - 1]] > t.shape.strides[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  int64_t expected = 1;
  for (int k = 0; k < n; ++k) {
    if (t.shape.strides[order[k]] != expected) return false;
    expected *= t.dim(order[k]);
  }
  return true;
}
static bool looks_like(const TensorObject& t, Format format) {
  return has_rank(format, t.rank()) && tensor_looks_ordered(t, order_of(format, t.rank()));
}
Format suggested_format(const TensorObject& t) {
  if (looks_like(t, Format::channels_last)) return Format::channels_last;
  return looks_like(t, Format::channels_last_3d) ? Format::channels_last_3d : Format::contiguous;
}

// Order of a tensor with gaps or repeats: torch sorts its dims by stride, from the last.
static void ordered_strides(const TensorObject& t, const Shape& shape, int64_t* strides) {
  int order[kMaxRank];
  const int rank = shape.rank;
  for (int k = 0; k < rank; ++k) order[k] = rank - 1 - k;
  for (int k = 1; k < rank; ++k)
    for (int at = k, before = k - 1; before >= 0; --before) {
      int64_t a = t.shape.strides[order[before]], b = t.shape.strides[order[at]];
      if (a == 0 || b == 0) continue;
      if (a < b) break;
      if (a == b && shape.dims[order[before]] <= shape.dims[order[at]]) continue;
      int kept = order[before];
      order[before] = order[at];
      order[at] = kept;
      at = before;
    }
  int64_t step = 1;
  for (int k = 0; k < rank; ++k) {
    strides[order[k]] = step;
    step *= shape.dims[order[k]] > 1 ? shape.dims[order[k]] : 1;
  }
}

Status make_fresh(const Call& c, DType dtype, const Shape& shape, Format format, const TensorObject* like, Value* made) {
  if (!has_rank(format, shape.rank)) return c.fail("4 dims for channels_last, 5 for channels_last_3d", "%d", shape.rank);
  int64_t numel;
  PEN_TRY(numel_of(c, shape, &numel));
  TensorObject* t = tensor_create(dtype, shape.rank, shape.dims);
  if (!t) return c.out_of_memory();
  *made = Value::own(t);
  if (format == Format::contiguous || (format == Format::preserve && !like)) return PEN_OK;
  if (format != Format::preserve)
    format_strides(format, shape, t->shape.strides);
  else if (is_dense(*like))
    for (int d = 0; d < shape.rank; ++d) t->shape.strides[d] = like->shape.strides[d];
  else
    ordered_strides(*like, shape, t->shape.strides);
  return PEN_OK;
}
Status make_copy(const Call& c, const TensorObject& t, DType dtype, Format format, Value* made) {
  PEN_TRY(make_fresh(c, dtype, shape_of(t), format, &t, made));
  TensorObject& copy = *made->tensor();
  if (t.quantizer) {
    ++t.quantizer->refs;
    tensor_set_quantizer(&copy, t.quantizer);
  }
  return copy_into(c, &copy, t);
}

Status fill(const Call& c, TensorObject* t, const Value& number) {
  if (!tensor_make_writable(t)) return c.out_of_memory();
  alignas(8) char element[8] = {};
  if (!number_fits(number, t->dtype()))
    return c.raise("RuntimeError: value cannot be converted to type %s without overflow", dtype_name(t->dtype()));
  number_into(number, t->dtype(), element);
  Tensor from = t->shape;
  from.data = element;
  for (int d = 0; d < from.rank; ++d) from.strides[d] = 0;
  return move_elements(c, t->view(), from);
}

// ---- copies ----
PEN_OP(clone, "[quantized][out]", "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor") {
  Format format;
  PEN_TRY(format_of(c, 1, Format::preserve, &format));
  return make_copy(c, c.tensor(0), c.tensor(0).dtype(), format, &c.results[0]);
}
PEN_OP(contiguous, "[quantized]", "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)") {
  Format format;
  PEN_TRY(format_of(c, 1, Format::contiguous, &format));
  if (format == Format::preserve) return c.fail("a memory format to lie in", "preserve_format");
  if (lies_in(c.tensor(0), format)) return c.give(Value(c.args[0]));
  return make_copy(c, c.tensor(0), c.tensor(0).dtype(), format, &c.results[0]);
}
PEN_OP(itself, "[quantized]", "aten::{resolve_neg,resolve_conj,conj,real,lift_fresh,cpu,cuda}(Tensor(a) self) -> Tensor(a)") {
  return c.give(Value(c.args[0]));
}
PEN_OP(itself_direct, "[direct][quantized]", "aten::detach_(Tensor(a!) self) -> Tensor(a!)",
       "aten::requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)") {
  return c.give(Value(c.args[0]));
}
PEN_OP(detach, "[quantized]", "aten::{detach,data,alias}(Tensor(a) self) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  return give_view(c, t, shape_of(t), t.shape.strides);
}
PEN_OP(lift, "[out]", "aten::{lift,lift_fresh_copy,detach_copy,alias_copy}(Tensor self) -> Tensor") {
  return make_copy(c, c.tensor(0), c.tensor(0).dtype(), Format::preserve, &c.results[0]);
}

// ---- to: itself where nothing changes. There is one device here, whatever a file says. ----
static Status give_cast(Call& c, DType dtype, bool copy, int format_at) {
  const TensorObject& t = c.tensor(0);
  Format format = Format::preserve;
  if (format_at >= 0) PEN_TRY(format_of(c, format_at, Format::preserve, &format));
  if (t.quantizer && dtype != t.dtype()) return c.fail("a cast of plain numbers (dequantize first)", "one of a quantized tensor");
  bool lies = format == Format::preserve || suggested_format(t) == format;  // with gaps too, and in any other order as contiguous
  if (t.dtype() == dtype && lies && !copy) return c.give(Value(c.args[0]));
  if (format == Format::preserve && !is_dense(t)) format = suggested_format(t);
  return make_copy(c, t, dtype, format, &c.results[0]);
}
PEN_OP(to_dtype, "[quantized]",
       "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
       "Tensor(a)") {
  DType dtype;
  PEN_TRY(c.dtype(1, c.tensor(0).dtype(), &dtype));
  return give_cast(c, dtype, c.flag(3), 4);
}
PEN_OP(to_dtype_layout, "[quantized]",
       "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
       "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)") {
  DType dtype;
  PEN_TRY(c.dtype(1, c.tensor(0).dtype(), &dtype));
  return give_cast(c, dtype, c.flag(6), 7);
}
PEN_OP(to_copy, "[out]",
       "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool "
       "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(1, c.tensor(0).dtype(), &dtype));
  return give_cast(c, dtype, true, 6);
}
PEN_OP(to_device, "[quantized]",
       "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
       "memory_format=None) -> Tensor(a)") {
  DType dtype;
  PEN_TRY(c.dtype(2, c.tensor(0).dtype(), &dtype));
  return give_cast(c, dtype, c.flag(4), 5);
}
PEN_OP(to_other, "[quantized]",
       "aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
       "Tensor(a)") {
  return give_cast(c, c.tensor(1).dtype(), c.flag(3), 4);
}
PEN_OP(to_prim_device, "[quantized]",
       "aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(b|a)") {
  DType dtype;
  PEN_TRY(c.dtype(2, c.tensor(0).dtype(), &dtype));
  return give_cast(c, dtype, c.flag(4), -1);
}
PEN_OP(to_prim_dtype, "[quantized]",
       "aten::to.prim_dtype(Tensor(a) self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(b|a)") {
  DType dtype;
  PEN_TRY(c.dtype(1, c.tensor(0).dtype(), &dtype));
  return give_cast(c, dtype, c.flag(3), -1);
}
PEN_OP(to_prim_other, "[quantized]", "aten::to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(b|a)") {
  return give_cast(c, c.tensor(0).dtype(), c.flag(2), -1);
}
PEN_OP(type_as, "aten::type_as(Tensor(a) self, Tensor other) -> Tensor(a)") { return give_cast(c, c.tensor(1).dtype(), false, -1); }
PEN_OP(cast_by_name, "aten::_cast_{Byte,Char,Short,Int,Long,Half,Float,Double}(Tensor self, bool non_blocking=False) -> Tensor") {
  static const DType kTo[] = {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::f32, DType::f64};
  return give_cast(c, kTo[c.word()], false, -1);
}

// ---- writing in place ----
PEN_OP(copy_in_place, "[direct]", "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
       "aten::copy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)") {
  if (c.tensor(1).rank() > c.tensor(0).rank())
    return c.fail("a source of at most as many dims", "%d for %d", c.tensor(1).rank(), c.tensor(0).rank());
  PEN_TRY(copy_into(c, &c.tensor(0), c.tensor(1)));
  return c.give(Value(c.args[0]));
}
PEN_OP(fill_in_place, "[direct]", "aten::copy_.int(Tensor(a!) self, int other) -> Tensor(a!)",
       "aten::copy_.float(Tensor(a!) self, float other) -> Tensor(a!)", "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)") {
  PEN_TRY(fill(c, &c.tensor(0), c.args[1]));
  return c.give(Value(c.args[0]));
}
PEN_OP(fill_in_place_tensor, "[direct]", "aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)") {
  if (c.tensor(1).rank() != 0) return c.fail("a value of rank 0", "rank %d", c.tensor(1).rank());
  PEN_TRY(copy_into(c, &c.tensor(0), c.tensor(1)));
  return c.give(Value(c.args[0]));
}
PEN_OP(zero_in_place, "[direct]", "aten::zero_(Tensor(a!) self) -> Tensor(a!)") {
  PEN_TRY(fill(c, &c.tensor(0), Value(int64_t{0})));
  return c.give(Value(c.args[0]));
}
PEN_OP(fill_copy, "[out]", "aten::fill.Scalar(Tensor self, Scalar value) -> Tensor") {
  PEN_TRY(make_fresh(c, c.tensor(0).dtype(), shape_of(c.tensor(0)), Format::preserve, &c.tensor(0), &c.results[0]));
  return fill(c, c.results[0].tensor(), c.args[1]);
}
PEN_OP(fill_copy_tensor, "[out]", "aten::fill.Tensor(Tensor self, Tensor value) -> Tensor") {
  if (c.tensor(1).rank() != 0) return c.fail("a value of rank 0", "rank %d", c.tensor(1).rank());
  PEN_TRY(make_fresh(c, c.tensor(0).dtype(), shape_of(c.tensor(0)), Format::preserve, &c.tensor(0), &c.results[0]));
  return copy_into(c, c.results[0].tensor(), c.tensor(1));
}

PEN_OP(zero_copy, "[out]", "aten::zero(Tensor self) -> Tensor") {
  PEN_TRY(make_fresh(c, c.tensor(0).dtype(), shape_of(c.tensor(0)), Format::preserve, &c.tensor(0), &c.results[0]));
  return fill(c, c.results[0].tensor(), Value(int64_t{0}));
}
PEN_OP(copy_copy, "[out]", "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor") {
  PEN_TRY(make_fresh(c, c.tensor(0).dtype(), shape_of(c.tensor(0)), Format::preserve, &c.tensor(0), &c.results[0]));
  return copy_into(c, c.results[0].tensor(), c.tensor(1));
}

// The tensor becomes another one: its storage, shape and place.
static void become(TensorObject* self, const TensorObject& other) {
  if (self == &other) return;
  ++other.storage->refs;
  storage_release(self->storage);
  self->storage = other.storage;
  self->offset = other.offset;
  self->shape = other.shape;
  if (other.quantizer) ++other.quantizer->refs;
  tensor_set_quantizer(self, other.quantizer);
}
static Status need_one_dtype(const Call& c) {
  if (c.tensor(0).dtype() == c.tensor(1).dtype()) return PEN_OK;
  return c.fail("tensors of one dtype", "%s and %s", dtype_name(c.tensor(0).dtype()), dtype_name(c.tensor(1).dtype()));
}
PEN_OP(set_tensor, "[direct][quantized]", "aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)") {
  PEN_TRY(need_one_dtype(c));
  become(&c.tensor(0), c.tensor(1));
  return c.give(Value(c.args[0]));
}
PEN_OP(set_part, "[direct]",
       "aten::set_.source_Tensor_storage_offset(Tensor(a!) self, Tensor source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) "
       "-> Tensor(a!)") {
  const TensorObject& source = c.tensor(1);
  Shape shape;
  int64_t strides[kMaxRank], start;
  PEN_TRY(need_one_dtype(c));
  PEN_TRY(sizes_of(c, 3, &shape));
  row_major_strides(shape.rank, shape.dims, strides);
  if (__builtin_add_overflow(c.integer(2), source.offset / dtype_size(source.dtype()), &start))
    return c.fail("a place inside of the source's memory", "%lld", static_cast<long long>(c.integer(2)));
  Calls t(c);
  Value part = t("aten::as_strided", source, c.args[3], c.list(4).count ? c.args[4] : t.ints_of(strides, shape.rank), start);
  PEN_TRY(t.status);
  become(&c.tensor(0), *part.tensor());
  return c.give(Value(c.args[0]));
}
static Status make_nothing(const Call& c, Value* made) {
  Shape none;
  none.rank = 1;
  none.dims[0] = 0;
  return make_fresh(c, c.tensor(0).dtype(), none, Format::contiguous, nullptr, made);
}
PEN_OP(set_nothing, "[direct]", "aten::set_(Tensor(a!) self) -> Tensor(a!)") {
  Value nothing;
  PEN_TRY(make_nothing(c, &nothing));
  become(&c.tensor(0), *nothing.tensor());
  return c.give(Value(c.args[0]));
}
PEN_OP(set_copy, "[out]", "aten::set(Tensor self) -> Tensor", "aten::set.source_Tensor(Tensor self, Tensor source) -> Tensor") {
  if (c.form() == 0) return make_nothing(c, &c.results[0]);
  PEN_TRY(need_one_dtype(c));
  return give_view(c, c.tensor(1), shape_of(c.tensor(1)), c.tensor(1).shape.strides);
}
// The storage grows where it must; what was in it stays.
static Status resize(const Call& c, TensorObject* t, const Shape& shape, Format format) {
  int64_t numel, size = dtype_size(t->dtype());
  PEN_TRY(numel_of(c, shape, &numel));
  if (!has_rank(format, shape.rank)) return c.fail("4 dims for channels_last, 5 for channels_last_3d", "%d", shape.rank);
  bool same = shape.rank == t->rank();
  for (int d = 0; same && d < shape.rank; ++d) same = shape.dims[d] == t->dim(d);
  if (same) return PEN_OK;
  int64_t bytes = t->offset + numel * size;
  if (numel && bytes > t->storage->bytes) {
    if (!tensor_make_writable(t)) return c.out_of_memory();
    PEN_TRY(c.spend(numel));
    Storage* grown = storage_create(bytes);
    if (!grown) return c.out_of_memory();
    memset(grown->data, 0, static_cast<size_t>(bytes));
    memcpy(grown->data, t->storage->data, static_cast<size_t>(t->storage->bytes));
    storage_exchange(t->storage, grown);  // whoever else has this storage sees the larger memory too
  }
  t->shape.rank = shape.rank;
  for (int d = 0; d < shape.rank; ++d) t->shape.dims[d] = shape.dims[d];
  format_strides(format == Format::preserve ? Format::contiguous : format, shape, t->shape.strides);
  return PEN_OK;
}
// Argument 0 as its operator says: of the sizes in argument 1, or of the tensor there.
static Status resize_as_said(const Call& c, TensorObject* t) {
  Shape shape;
  Format format;
  PEN_TRY(format_of(c, 2, Format::contiguous, &format));
  if (c.form() == 0) {
    PEN_TRY(sizes_of(c, 1, &shape));
  } else {
    shape = shape_of(c.tensor(1));
    if (format == Format::preserve) format = suggested_format(c.tensor(1));
  }
  return resize(c, t, shape, format);
}
PEN_OP(resize_in_place, "[direct]", "aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
       "aten::resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)") {
  PEN_TRY(resize_as_said(c, &c.tensor(0)));
  return c.give(Value(c.args[0]));
}
PEN_OP(resize_copy, "[out]", "aten::resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor",
       "aten::resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor") {
  PEN_TRY(make_copy(c, c.tensor(0), c.tensor(0).dtype(), Format::preserve, &c.results[0]));
  return resize_as_said(c, c.results[0].tensor());
}

// ---- questions ----
PEN_OP(is_contiguous, "[quantized][nhwc]", "aten::is_contiguous(Tensor self) -> bool") { return c.give(tensor_is_contiguous(c.tensor(0))); }
PEN_OP(is_contiguous_format, "[quantized][nhwc]", "aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool") {
  Format format;
  PEN_TRY(format_of(c, 1, Format::contiguous, &format));
  if (format == Format::preserve) return c.fail("a memory format to lie in", "preserve_format");
  return c.give(lies_in(c.tensor(0), format));
}
PEN_OP(is_nonzero, "aten::is_nonzero(Tensor self) -> bool") {
  Value number;
  PEN_TRY(number_in(c, c.tensor(0), &number));
  return c.give(number.number() != 0);
}
PEN_OP(is_same_size, "[quantized]", "aten::is_same_size(Tensor self, Tensor other) -> bool") {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  bool same = a.rank() == b.rank();
  for (int d = 0; same && d < a.rank(); ++d) same = a.dim(d) == b.dim(d);
  return c.give(same);
}
PEN_OP(is_set_to, "aten::is_set_to(Tensor self, Tensor tensor) -> bool") {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  bool same = a.storage == b.storage && a.offset == b.offset && a.rank() == b.rank();
  for (int d = 0; same && d < a.rank(); ++d) same = a.dim(d) == b.dim(d) && a.shape.strides[d] == b.shape.strides[d];
  return c.give(same);
}

}  // namespace pen
