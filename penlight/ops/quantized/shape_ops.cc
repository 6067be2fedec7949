// Quantized tensors joined, copied, filled and compared; operators that only move elements run on the integers.
#include "penlight/ops/quantized/quantized.h"
#include "penlight/runtime/vm/calls.h"

namespace pen {

// Tensors along a dim, all with the scale and zero point given; those that have them already are copied as they are.
static Status cat(Call& c, const ListObject& list, int64_t dim_given, double scale, int64_t zero, bool relu) {
  if (list.count == 0) return c.fail("a tensor at least", "none");
  const TensorObject& first = *list.items[0].tensor();
  int dim;
  PEN_TRY(c.dim(dim_given, first.rank(), &dim));
  if (first.rank() == 0) return c.fail("tensors of rank 1 at least", "rank 0");
  PEN_TRY(check_scale(c, scale));
  int64_t dims[kMaxRank];
  for (int d = 0; d < first.rank(); ++d) dims[d] = first.dim(d);
  dims[dim] = 0;
  bool channels = first.rank() == 4 && dim == 1;
  for (int64_t i = 0; i < list.count; ++i) {
    const TensorObject& t = *list.items[i].tensor();
    Affine a;
    PEN_TRY(affine_of(c, t, &a));
    if (t.dtype() != first.dtype() || t.rank() != first.rank())
      return c.fail("tensors of one dtype and rank", "%s of rank %d", dtype_name(t.dtype()), t.rank());
    for (int d = 0; d < t.rank(); ++d)
      if (d != dim && t.dim(d) != first.dim(d))
        return c.fail("tensors of equal size in the other dims", "%lld and %lld in dim %d", static_cast<long long>(t.dim(d)),
                      static_cast<long long>(first.dim(d)), d);
    if (add_overflows(dims[dim], t.dim(dim), &dims[dim])) return c.out_of_memory();
    channels &= order_of(t) == Order::channels;
  }
  PEN_TRY(check_zero_point(c, zero, first.dtype()));
  Value made = Value::own(quantized_create(first.dtype(), first.rank(), dims, channels ? Order::channels : Order::rows, scale, zero));
  if (made.is_none()) return c.out_of_memory();
  TensorObject& to = *made.tensor();
  int64_t offset = 0;
  for (int64_t i = 0; i < list.count; ++i) {
    const TensorObject& t = *list.items[i].tensor();
    Affine a = {t.quantizer->scale, t.quantizer->zero_point};
    Value source = list.items[i];
    if (relu || a.scale != scale || a.zero != zero) {
      Requantize later(1.0f / static_cast<float>(scale), zero, t.dtype());
      Quantize once(scale, zero, t.dtype());
      auto convert = [=](int64_t v) {
        float x = a.real(v);
        x = relu && x < 0.0f ? 0.0f : x;
        return channels ? later(x) : once.wide(x);
      };
      PEN_TRY(map_stored(c, t, scale, zero, convert));
      source.swap(c.results[0]);
      c.results[0] = Value();
    }
    int64_t part_dims[kMaxRank];
    for (int d = 0; d < t.rank(); ++d) part_dims[d] = t.dim(d);
    Value place = Value::own(
        tensor_view(to, to.rank(), part_dims, to.shape.strides, to.offset + offset * to.shape.strides[dim] * dtype_size(to.dtype())));
    if (place.is_none()) return c.out_of_memory();
    if (t.numel()) PEN_TRY(copy_into(c, place.tensor(), *source.tensor()));
    offset += t.dim(dim);
  }
  return c.give(static_cast<Value&&>(made));
}
static Status cat_as_first(Call& c, const ListObject& list, int64_t dim) {
  if (list.count == 0) return c.fail("a tensor at least", "none");
  Affine a;
  PEN_TRY(affine_of(c, *list.items[0].tensor(), &a));
  return cat(c, list, dim, a.scale, a.zero, false);
}
PEN_QUANTIZED(cat, "aten::cat", "aten::concat", "aten::concatenate") { return cat_as_first(c, c.list(0), c.integer(1)); }
// The tensors as `look` sees them, joined.
template <class Look>
static Status cat_views(Call& c, int64_t dim, Look look) {
  const ListObject& list = c.list(0);
  ListObject* views = list_create(list.count);
  if (!views) return c.out_of_memory();
  Value kept = Value::own(views);
  Calls t(c);
  for (int64_t i = 0; i < list.count; ++i) {
    Value view = look(t, list.items[i]);
    PEN_TRY(t.status);
    if (!list_append(views, view)) return c.out_of_memory();
  }
  return cat_as_first(c, *views, dim);
}
PEN_QUANTIZED(stack, "aten::stack") {
  if (c.list(0).count == 0) return c.fail("a tensor at least", "none");
  const TensorObject& first = *c.list(0).items[0].tensor();
  int at;
  PEN_TRY(c.dim(1, first.rank() + 1, &at));
  for (int64_t i = 1; i < c.list(0).count; ++i) {
    const TensorObject& other = *c.list(0).items[i].tensor();
    bool same = other.rank() == first.rank();
    for (int d = 0; same && d < first.rank(); ++d) same = other.dim(d) == first.dim(d);
    if (!same) return c.fail("tensors of one shape", "another");
  }
  if (at == first.rank()) return cat_views(c, at, [&](Calls& t, const Value& x) { return t("aten::unsqueeze", x, at); });
  int64_t dims[kMaxRank + 1];  // joined along the dim before which the new one is put, and that dim split: as without scales
  for (int d = 0; d <= first.rank(); ++d) dims[d] = d == at ? c.list(0).count : first.dim(d > at ? d - 1 : d);
  PEN_TRY(cat_as_first(c, c.list(0), at));
  Calls t(c);
  Value split = t("aten::view", c.results[0], t.ints_of(dims, first.rank() + 1));
  return t.give(c, static_cast<Value&&>(split));
}
PEN_QUANTIZED(hstack, "aten::hstack") {
  const bool flat = c.list(0).count && c.list(0).items[0].tensor()->rank() <= 1;
  return cat_views(c, flat ? 0 : 1, [](Calls& t, const Value& x) { return t("aten::atleast_1d", x); });
}
PEN_QUANTIZED(vstack, "aten::{vstack,row_stack}") {
  return cat_views(c, 0, [](Calls& t, const Value& x) { return t("aten::atleast_2d", x); });
}
PEN_QUANTIZED(dstack, "aten::dstack") {
  return cat_views(c, 2, [](Calls& t, const Value& x) { return t("aten::atleast_3d", x); });
}
PEN_QUANTIZED(column_stack, "aten::column_stack") {
  return cat_views(c, 1, [](Calls& t, const Value& x) { return x.tensor()->rank() > 1 ? x : t("aten::view", x, t.ints(-1, 1)); });
}
static Status cat_to(Call& c, bool relu) {
  if (c.list(0).count == 0) return c.fail("a tensor at least", "none");
  Affine a;
  PEN_TRY(affine_of(c, *c.list(0).items[0].tensor(), &a));
  return cat(c, c.list(0), c.integer(1), c.given(2) ? c.number(2) : a.scale, c.given(3) ? c.integer(3) : a.zero, relu);
}
PEN_OP(quantized_cat_to, "[quantized]", "quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor") {
  return cat_to(c, false);
}
PEN_OP(quantized_cat_relu_to, "[quantized]", "quantized::cat_relu(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor") {
  return cat_to(c, true);
}
static Status cat_into(Call& c, bool relu) {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(2), &a));
  return cat(c, c.list(0), c.integer(1), a.scale, a.zero, relu);
}
PEN_OP(quantized_cat_out, "[quantized]", "quantized::cat_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)") {
  return cat_into(c, false);
}
PEN_OP(quantized_cat_relu_out, "[quantized]", "quantized::cat_relu_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)") {
  return cat_into(c, true);
}

// copy_: between quantized tensors the integers and their quantizer go over; real numbers are quantized for what they go into.
static Status copy(Call& c, const TensorObject& from, TensorObject* to) {
  Status status;
  if (!to->quantizer) {
    Value real = Value::own(dequantized(c, from, &status));
    PEN_TRY(status);
    return copy_into(c, to, *real.tensor());
  }
  if (from.quantizer) {
    if (from.dtype() != to->dtype())
      return c.fail("quantized tensors of one dtype", "%s into %s", dtype_name(from.dtype()), dtype_name(to->dtype()));
    PEN_TRY(copy_into(c, to, from));
    ++from.quantizer->refs;
    tensor_set_quantizer(to, from.quantizer);
    return PEN_OK;
  }
  Affine a;
  PEN_TRY(affine_of(c, *to, &a));
  Value real;
  if (from.dtype() != DType::f32) {
    real = Value::own(tensor_cast(c, from, DType::f32, &status));
    PEN_TRY(status);
  }
  Value made = Value::own(quantized_from(c, real.is_none() ? from : *real.tensor(), a.scale, a.zero, to->dtype(), &status));
  PEN_TRY(status);
  return copy_into(c, to, *made.tensor());
}

PEN_QUANTIZED(copy_, "aten::copy_") {
  PEN_TRY(copy(c, c.tensor(1), &c.tensor(0)));
  return c.give(Value(c.args[0]));
}

PEN_QUANTIZED(fill, "aten::fill_.Scalar", "aten::fill_.Tensor") {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  Value number = c.args[1];
  if (number.tag() == Tag::tensor) PEN_TRY(number_in(c, *c.args[1].tensor(), &number));
  int64_t v = Quantize(a.scale, a.zero, c.tensor(0).dtype()).wide(static_cast<float>(number.number()));
  PEN_TRY(map_stored(c, c.tensor(0), a.scale, a.zero, [=](int64_t) { return v; }));
  if (c.op->writes >= 0) return PEN_OK;
  PEN_TRY(copy_into(c, &c.tensor(0), *c.results[0].tensor()));
  return c.give(Value(c.args[0]));
}

PEN_QUANTIZED(zero_, "aten::zero_") {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  PEN_TRY(map_stored(c, c.tensor(0), a.scale, a.zero, [=](int64_t) { return a.zero; }));
  if (c.op->writes >= 0) return PEN_OK;
  PEN_TRY(copy_into(c, &c.tensor(0), *c.results[0].tensor()));
  return c.give(Value(c.args[0]));
}
// Nothing is dropped in inference.
PEN_QUANTIZED(dropout, "aten::dropout", "aten::feature_dropout") {
  if (c.flag(2)) return c.fail("a model in inference", "training");
  return c.give(Value(c.args[0]));
}

// ---- the same operator on other arguments ----
constexpr int kMostArguments = 24;
static Status with_reals(Call& c) {
  if (c.count > kMostArguments) return c.fail("at most 24 arguments", "%d", c.count);
  Value args[kMostArguments];
  for (int i = 0; i < c.count; ++i) {
    args[i] = c.args[i];
    if (args[i].tag() != Tag::tensor || !args[i].tensor()->quantizer) continue;
    Status status;
    args[i] = Value::own(dequantized(c, *c.args[i].tensor(), &status));
    PEN_TRY(status);
  }
  Call inner = {c.machine, c.op, args, c.count, c.results};
  return c.op->run()(inner);
}
PEN_QUANTIZED(compare, "aten::{eq,ne,lt,le,gt,ge}.Tensor", "aten::{eq,ne,lt,le,gt,ge}.Scalar", "aten::equal") { return with_reals(c); }
static Status on_reals_to(Call& c, double scale, int64_t zero) {
  const DType dtype = c.tensor(0).dtype();
  PEN_TRY(check_scale(c, scale));
  PEN_TRY(with_reals(c));
  if (c.results[0].tag() != Tag::tensor) return c.fail("a tensor as result", "%s", c.results[0].tag_name());
  Status status;
  Value real = c.results[0];
  TensorObject* made = quantized_from(c, *real.tensor(), scale, zero, dtype, &status);
  return status == PEN_OK ? c.give(made) : status;
}
Status on_reals(Call& c) {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  return on_reals_to(c, a.scale, a.zero);
}
PEN_QUANTIZED(gelu, "aten::gelu") {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  return on_reals_to(c, static_cast<float>(a.scale), a.zero);  // the scale too is torch's, which went through a float here
}
PEN_QUANTIZED(by_reals, "aten::std", "aten::std.dim", "aten::std.correction") { return on_reals(c); }
// The operator on the integers of its first argument, which `args` has otherwise; the first result is quantized again.
static Status on_integers(Call& c, Value* args) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  args[0] = Value::own(tensor_on(x.storage, x.shape, x.offset));
  Quantizer* q = quantizer_create(a.scale, a.zero);
  if (args[0].is_none() || !q) {
    quantizer_release(q);
    return c.out_of_memory();
  }
  Call inner = {c.machine, c.op, args, c.count, c.results};
  Status status = c.op->run()(inner);
  if (status == PEN_OK && c.results[0].tag() == Tag::tensor)
    tensor_set_quantizer(c.results[0].tensor(), q);
  else
    quantizer_release(q);
  return status;
}
static Status move_integers(Call& c) {
  if (c.count > kMostArguments) return c.fail("at most 24 arguments", "%d", c.count);
  Value args[kMostArguments];
  for (int i = 0; i < c.count; ++i) args[i] = c.args[i];
  return on_integers(c, args);
}
// What only moves or orders elements runs on the integers, and keeps the scale. The first result is quantized.
PEN_QUANTIZED(by_integers, "aten::{topk,sort,sort.stable,index_select,gather,index.Tensor,take,flip,repeat,roll,rot90,channel_shuffle}",
              "aten::{reflection_pad1d,reflection_pad2d,reflection_pad3d,replication_pad1d,replication_pad2d,replication_pad3d}",
              "aten::{max,min,max.dim,min.dim,amax,amin,tile,expand,expand_as,broadcast_to,repeat_interleave.self_int,unfold}",
              "aten::{upsample_nearest1d,upsample_nearest2d,upsample_nearest3d,upsample_nearest1d.vec,upsample_nearest2d.vec}",
              "aten::{upsample_nearest3d.vec,_upsample_nearest_exact1d,_upsample_nearest_exact2d,_upsample_nearest_exact3d}",
              "aten::{pixel_shuffle,pixel_unshuffle,movedim.int,movedim.intlist,unflatten.int,diagonal}") {
  return move_integers(c);
}
// The number that fills is quantized first.
static Status fill_integers(Call& c, int number_at) {
  if (c.count > kMostArguments) return c.fail("at most 24 arguments", "%d", c.count);
  Value args[kMostArguments];
  for (int i = 0; i < c.count; ++i) args[i] = c.args[i];
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  float number = c.given(number_at) ? static_cast<float>(c.number(number_at)) : 0.0f;
  args[number_at] = Value(Quantize(a.scale, a.zero, c.tensor(0).dtype()).wide(number));
  return on_integers(c, args);
}
PEN_QUANTIZED(constant_pad, "aten::constant_pad_nd", "aten::masked_fill.Scalar", "aten::masked_fill_.Scalar") {
  return fill_integers(c, 2);
}
PEN_QUANTIZED(pad, "aten::pad") { return strcmp(c.text(2), "constant") == 0 ? fill_integers(c, 3) : move_integers(c); }

}  // namespace pen
