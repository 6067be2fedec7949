// Elements in other places: pixel and channel shuffles, one_hot, shapes as tensors, and parts written into a copy.
#include "penlight/ops/shape/views.h"

namespace pen {

// The tensor in `split` dims, those in `order`, and then in `whole` dims: fresh, and laid out as the tensor looks.
static Status give_shuffled(Call& c, const Shape& split, const int* order, const Shape& whole) {
  const TensorObject& t = c.tensor(0);
  Value parts;
  PEN_TRY(reshaped(c, t, split, &parts));
  const TensorObject& p = *parts.tensor();
  Shape permuted;
  int64_t strides[kMaxRank];
  permuted.rank = split.rank;
  for (int d = 0; d < split.rank; ++d) {
    permuted.dims[d] = p.dim(order[d]);
    strides[d] = p.shape.strides[order[d]];
  }
  Value view, row_major;
  PEN_TRY(make_view(c, p, permuted, strides, 0, &view));
  PEN_TRY(make_copy(c, *view.tensor(), t.dtype(), Format::contiguous, &row_major));
  row_major_strides(whole.rank, whole.dims, strides);
  PEN_TRY(make_view(c, *row_major.tensor(), whole, strides, 0, &view));
  Format format = suggested_format(t);
  if (format == Format::contiguous) return c.give(static_cast<Value&&>(view));
  return make_copy(c, *view.tensor(), t.dtype(), format, &c.results[0]);
}

PEN_OP(pixel_shuffle, "[out]", "aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t r = c.integer(1);
  if (t.rank() < 3 || t.rank() > 5) return c.fail("from 3 to 5 dims", "%d", t.rank());
  int lead = t.rank() - 3;
  int64_t channels = t.dim(lead);
  if (r <= 0 || r > 1 << 15 || channels % (r * r))
    return c.fail("channels that the factor's square divides", "%lld by %lld", static_cast<long long>(channels), static_cast<long long>(r));
  Shape split, whole;
  int order[kMaxRank];
  for (int d = 0; d < lead; ++d) split.dims[d] = whole.dims[d] = t.dim(d), order[d] = d;
  int64_t h = t.dim(lead + 1), w = t.dim(lead + 2), parts[] = {channels / (r * r), r, r, h, w}, made[] = {channels / (r * r), h * r, w * r};
  static const int kOrder[] = {0, 3, 1, 4, 2};
  for (int d = 0; d < 5; ++d) split.dims[lead + d] = parts[d], order[lead + d] = lead + kOrder[d];
  for (int d = 0; d < 3; ++d) whole.dims[lead + d] = made[d];
  split.rank = lead + 5, whole.rank = lead + 3;
  return give_shuffled(c, split, order, whole);
}
PEN_OP(pixel_unshuffle, "[out]", "aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t r = c.integer(1);
  if (t.rank() < 3 || t.rank() > 5) return c.fail("from 3 to 5 dims", "%d", t.rank());
  int lead = t.rank() - 3;
  int64_t channels = t.dim(lead), h = t.dim(lead + 1), w = t.dim(lead + 2);
  if (r <= 0 || r > 1 << 15 || h % r || w % r)
    return c.fail("a height and width that the factor divides", "%lld and %lld by %lld", static_cast<long long>(h),
                  static_cast<long long>(w), static_cast<long long>(r));
  Shape split, whole;
  int order[kMaxRank];
  for (int d = 0; d < lead; ++d) split.dims[d] = whole.dims[d] = t.dim(d), order[d] = d;
  int64_t parts[] = {channels, h / r, r, w / r, r}, made[] = {channels * r * r, h / r, w / r};
  static const int kOrder[] = {0, 2, 4, 1, 3};
  for (int d = 0; d < 5; ++d) split.dims[lead + d] = parts[d], order[lead + d] = lead + kOrder[d];
  for (int d = 0; d < 3; ++d) whole.dims[lead + d] = made[d];
  split.rank = lead + 5, whole.rank = lead + 3;
  return give_shuffled(c, split, order, whole);
}
PEN_OP(channel_shuffle, "aten::{channel_shuffle[out],native_channel_shuffle}(Tensor self, SymInt groups) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t groups = c.integer(1);
  if (t.rank() < 3 || t.rank() == kMaxRank) return c.fail("from 3 to 7 dims", "%d", t.rank());
  if (groups <= 0 || t.dim(1) % groups)
    return c.fail("groups that divide the channels", "%lld of %lld", static_cast<long long>(groups), static_cast<long long>(t.dim(1)));
  Shape split;
  int order[kMaxRank];
  for (int d = 0; d < t.rank() + 1; ++d) {
    split.dims[d] = d == 0 ? t.dim(0) : d == 1 ? groups : d == 2 ? t.dim(1) / groups : t.dim(d - 1);
    order[d] = d == 1 ? 2 : d == 2 ? 1 : d;
  }
  split.rank = t.rank() + 1;
  return give_shuffled(c, split, order, shape_of(t));
}

PEN_OP(shape_as_tensor, "aten::_shape_as_tensor(Tensor self) -> Tensor") {
  int64_t rank = c.tensor(0).rank();
  TensorObject* t = tensor_create(DType::i64, 1, &rank);
  PEN_TRY(c.give(t));
  for (int d = 0; d < rank; ++d) t->as<int64_t>()[d] = c.tensor(0).dim(d);
  return PEN_OK;
}
PEN_OP(reshape_from_tensor, "aten::_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor") {
  const TensorObject& sizes = c.tensor(1);
  if (sizes.rank() != 1 || !is_integral(sizes.dtype(), false))
    return c.fail("a row of integers as the shape", "%s of rank %d", dtype_name(sizes.dtype()), sizes.rank());
  if (sizes.dim(0) > kMaxRank) return c.fail("at most 8 dims", "%lld", static_cast<long long>(sizes.dim(0)));
  Shape shape;
  int64_t known = 1, numel = c.tensor(0).numel(), open = -1;
  shape.rank = static_cast<int>(sizes.dim(0));
  for (int d = 0; d < shape.rank; ++d) {
    shape.dims[d] = number_at(sizes.dtype(), sizes.data() + d * sizes.shape.strides[0] * dtype_size(sizes.dtype())).integer();
    if (shape.dims[d] == -1 && open < 0) {
      open = d;
    } else if (shape.dims[d] < 0 || mul_overflows(known, shape.dims[d], &known)) {
      return c.fail("sizes of 0 or more, and one -1", "%lld", static_cast<long long>(shape.dims[d]));
    }
  }
  if (open >= 0 && known > 0 && numel % known == 0) shape.dims[open] = numel / known, known = numel;
  if (known != numel || (open >= 0 && shape.dims[open] < 0))
    return c.fail("a shape of as many elements", "%lld for %lld", static_cast<long long>(known), static_cast<long long>(numel));
  return reshaped(c, c.tensor(0), shape, &c.results[0]);
}

PEN_OP(one_hot, "aten::one_hot(Tensor self, int num_classes=-1) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t classes = c.integer(1), numel = t.numel(), most = -1;
  if (t.dtype() != DType::i64) return c.fail("indices of dtype Long", "%s", dtype_name(t.dtype()));
  if (t.rank() == kMaxRank) return c.fail("at most 7 dims", "8");
  if (classes < -1 || (numel == 0 && classes <= 0)) return c.fail("a number of classes", "%lld", static_cast<long long>(classes));
  Value row_major;
  PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, &row_major));
  const int64_t* index = row_major.tensor()->as<int64_t>();
  PEN_TRY(in_pieces(c, numel, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (index[i] < 0) return c.fail("class values of 0 or more", "%lld", static_cast<long long>(index[i]));
      most = index[i] > most ? index[i] : most;
    }
    return PEN_OK;
  }));
  if (classes == -1) classes = most < INT64_MAX ? most + 1 : most;
  if (most >= classes)
    return c.fail("class values below num_classes", "%lld of %lld", static_cast<long long>(most), static_cast<long long>(classes));
  Shape shape = shape_of(t);
  shape.dims[shape.rank++] = classes;
  PEN_TRY(make_fresh(c, DType::i64, shape, Format::contiguous, nullptr, &c.results[0]));
  PEN_TRY(fill(c, c.results[0].tensor(), Value(int64_t{0})));
  return in_pieces(c, numel, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) c.results[0].tensor()->as<int64_t>()[i * classes + index[i]] = 1;
  });
}

// ---- a copy, of which a part is another tensor ----
// `look` is an operator that gives the part as a view of argument 0 (the source is left out of its arguments).
static Status give_with_part(Call& c, OpFn look) {
  Value whole, few[8];
  PEN_TRY(make_copy(c, c.tensor(0), c.tensor(0).dtype(), Format::preserve, &whole));
  few[0] = whole;
  for (int i = 2; i < c.count && i < 8; ++i) few[i - 1] = c.args[i];
  Value view;
  Call part = {c.machine, c.op, few, c.count - 1, &view};
  PEN_TRY(look(part));
  const TensorObject &to = *view.tensor(), &source = c.tensor(1);
  bool same = to.rank() == source.rank();
  for (int d = 0; same && d < to.rank(); ++d) same = to.dim(d) == source.dim(d);
  if (!same) return c.fail("a source of the part's shape", "another");
  PEN_TRY(copy_into(c, view.tensor(), source));
  return c.give(static_cast<Value&&>(whole));
}
Status op_slice(Call& c);
Status op_select(Call& c);
Status op_diagonal(Call& c);
PEN_OP(slice_scatter, "[out]",
       "aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor") {
  return give_with_part(c, op_slice);
}
PEN_OP(select_scatter, "[out]", "aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor") {
  return give_with_part(c, op_select);
}
PEN_OP(diagonal_scatter, "[out]", "aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor") {
  return give_with_part(c, op_diagonal);
}

}  // namespace pen
