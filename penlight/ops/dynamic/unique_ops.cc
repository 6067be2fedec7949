// Sets: unique values, of all elements or of the slices along a dim, with the place of each and how often it was there.
#include "penlight/ops/sort/orders.h"

namespace pen {

// n slices of `width` elements each, row-major.
struct Slices {
  const char* data;
  DType dtype;
  int64_t width;
  // -1, 0 or 1; NaN is above every number and no other's equal. Signed zeros are equal.
  int compare(int64_t a, int64_t b) const {
    const int64_t size = dtype_size(dtype);
    for (int64_t i = 0; i < width; ++i) {
      Value x = number_at(dtype, data + (a * width + i) * size), y = number_at(dtype, data + (b * width + i) * size);
      if (x.tag() == Tag::real) {
        double u = x.real(), v = y.real();
        if (u == v) continue;
        return u < v || (v != v && u == u) ? -1 : u != u && v != v ? 2 : 1;
      }
      if (x.integer() != y.integer()) return x.integer() < y.integer() ? -1 : 1;
    }
    return 0;
  }
};

// What is different of its neighbour before it, in the order of `order`. Fills inverse (n) and counts (per kept one), and gives the
// number kept; kept[k] is the k-th one's place.
static Status group(const Call& c, const Slices& slices, const int64_t* order, int64_t n, int64_t* kept, int64_t* inverse, int64_t* counts,
                    int64_t* number) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    PEN_TRY(c.walk(slices.width));
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) {
      kept[count] = order[i];
      counts[count++] = 0;
    }
    inverse[order[i]] = count - 1;
    ++counts[count - 1];
  }
  *number = count;
  return PEN_OK;
}

// Result 0: the slices kept, in the tensor's shape but for `dim` (-1: of all elements, a row); then places and counts where asked for.
static Status give_unique(Call& c, int dim, bool in_order, bool with_inverse, bool with_counts) {
  const TensorObject& t = c.tensor(0);
  // The dim first, all others behind it.
  Shape turned;
  int64_t strides[kMaxRank], n = dim < 0 ? t.numel() : t.dim(dim), width = 1;
  Value row_major, view;
  if (dim < 0) {
    PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, &row_major));
  } else {
    turned.rank = t.rank();
    turned.dims[0] = n;
    strides[0] = t.shape.strides[dim];
    for (int d = 0, to = 1; d < t.rank(); ++d) {
      if (d == dim) continue;
      turned.dims[to] = t.dim(d);
      strides[to++] = t.shape.strides[d];
      width *= t.dim(d);
    }
    PEN_TRY(make_view(c, t, turned, strides, 0, &view));
    PEN_TRY(make_copy(c, *view.tensor(), t.dtype(), Format::contiguous, &row_major));
    if (width == 0 && n > 0) return c.fail("slices with elements", "none in them");
  }
  Slices slices = {row_major.tensor()->data(), t.dtype(), width};
  TensorObject *order = tensor_create(DType::i64, 1, &n), *kept = tensor_create(DType::i64, 1, &n),
               *inverse = tensor_create(DType::i64, 1, &n), *counts = tensor_create(DType::i64, 1, &n);
  Value held[] = {Value::own(order), Value::own(kept), Value::own(inverse), Value::own(counts)};
  if (!order || !kept || !inverse || !counts) return c.out_of_memory();
  if (!in_order && dim < 0) {
    Shape flat;
    flat.rank = 1;
    flat.dims[0] = n;
    Value row, values, places;
    PEN_TRY(reshaped(c, *row_major.tensor(), flat, &row));
    PEN_TRY(sorted(c, *row.tensor(), 0, false, &values, &places));
    if (n) memcpy(order->data(), places.tensor()->data(), static_cast<size_t>(n) * 8);
  } else {
    for (int64_t i = 0; i < n; ++i) order->as<int64_t>()[i] = i;
    if (!in_order)
      PEN_TRY(merge_sort(c, order->as<int64_t>(), kept->as<int64_t>(), n, width,
                         [&](int64_t a, int64_t b) { return slices.compare(a, b) == -1; }));
  }
  int64_t count = 0;
  PEN_TRY(group(c, slices, order->as<int64_t>(), n, kept->as<int64_t>(), inverse->as<int64_t>(), counts->as<int64_t>(), &count));
  // The slices kept, and the dim back in its place.
  int64_t bytes = width * dtype_size(t.dtype());
  Shape made = turned;
  if (dim < 0) made.rank = 1;
  made.dims[0] = count;
  Value chosen;
  PEN_TRY(make_fresh(c, t.dtype(), made, Format::contiguous, nullptr, &chosen));
  for (int64_t i = 0; i < count; ++i) {
    PEN_TRY(c.walk(width));
    memcpy(chosen.tensor()->data() + i * bytes, slices.data + kept->as<int64_t>()[i] * bytes, static_cast<size_t>(bytes));
  }
  if (dim > 0) {
    Shape back;
    back.rank = t.rank();
    for (int d = 0; d < t.rank(); ++d) {
      int from = d == dim ? 0 : d < dim ? d + 1 : d;
      back.dims[d] = made.dims[from];
      strides[d] = chosen.tensor()->shape.strides[from];
    }
    PEN_TRY(make_view(c, *chosen.tensor(), back, strides, 0, &view));
    PEN_TRY(make_copy(c, *view.tensor(), t.dtype(), Format::contiguous, &chosen));
  }
  PEN_TRY(c.give(static_cast<Value&&>(chosen), 0));
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = n;
  if (!with_inverse) shape.dims[0] = 0;
  int64_t step = 1;
  if (with_inverse && dim < 0)
    PEN_TRY(reshaped(c, *inverse, shape_of(t), &c.results[1]));
  else
    PEN_TRY(make_view(c, *inverse, shape, &step, 0, &c.results[1]));
  if (c.op->result_count < 3) return PEN_OK;
  shape.dims[0] = with_counts ? count : 0;
  return make_view(c, *counts, shape, &step, 0, &c.results[2]);
}

PEN_OP(unique, "[out]",
       "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)") {
  return give_unique(c, -1, false, c.flag(2), c.flag(3));
}
PEN_OP(unique_old, "[out]", "aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)") {
  return give_unique(c, -1, false, c.flag(2), false);
}
PEN_OP(unique_dim, "[out]",
       "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, "
       "Tensor)") {
  int dim;
  if (c.tensor(0).rank() == 0) return c.fail("a tensor with dims", "rank 0");
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  return give_unique(c, dim, false, true, true);  // as torch: always, where a dim is given
}
PEN_OP(unique_consecutive, "[out]",
       "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, "
       "Tensor)") {
  int dim = -1, rank = c.tensor(0).rank();
  bool flat = !c.given(3) || (c.integer(3) == 0 && rank == 1);
  if (!flat && rank == 0) return c.fail("a tensor with dims", "rank 0");
  if (!flat) PEN_TRY(c.dim(3, rank, &dim));
  return give_unique(c, dim, true, !flat || c.flag(1), !flat || c.flag(2));
}
PEN_OP(
    unique_dim_consecutive, "[out]",
    "aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)") {
  int dim;
  if (c.tensor(0).rank() == 0) return c.fail("a tensor with dims", "rank 0");
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  return give_unique(c, dim, true, true, true);
}

}  // namespace pen
