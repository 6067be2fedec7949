// Borders, mirrors and triangles: pad in all its modes, flip, rot90, tril, diag.
#include "penlight/ops/shape/runs.h"
#include "penlight/ops/shape/views.h"

namespace pen {

static Tensor piece(const Tensor& t, int dim, int64_t start, int64_t length) {
  Tensor p = t;
  p.dims[dim] = length;
  p.data += start * t.strides[dim] * dtype_size(t.dtype);
  return p;
}

// Pairs (before, after) from the last dim on.
static Status pads_of(const Call& c, int i, int64_t* pads, int* pairs) {
  int count = c.ints(i, pads, 2 * kMaxRank);
  if (count % 2 || count > 2 * c.tensor(0).rank())
    return c.fail("two numbers for each of the last dims", "%d for rank %d", count, c.tensor(0).rank());
  *pairs = count / 2;
  return PEN_OK;
}
static Status padded_size(const Call& c, int64_t size, int64_t before, int64_t after, int64_t* made) {
  if (add_overflows(size, before, made) || add_overflows(*made, after, made)) return c.out_of_memory();
  if (*made >= 0 && before != INT64_MIN && after != INT64_MIN) return PEN_OK;  // which have no positive number
  return c.fail("borders that leave a size of 0 or more", "%lld and %lld of %lld", static_cast<long long>(before),
                static_cast<long long>(after), static_cast<long long>(size));
}

static Status give_constant_pad(Call& c, const Value& number) {
  const TensorObject& t = c.tensor(0);
  int64_t pads[2 * kMaxRank];
  int pairs = 0;
  PEN_TRY(pads_of(c, 1, pads, &pairs));
  Shape shape = shape_of(t);
  for (int k = 0; k < pairs; ++k) {
    int d = t.rank() - 1 - k;
    PEN_TRY(padded_size(c, t.dim(d), pads[2 * k], pads[2 * k + 1], &shape.dims[d]));
  }
  PEN_TRY(make_fresh(c, t.dtype(), shape, suggested_format(t), nullptr, &c.results[0]));
  TensorObject* made = c.results[0].tensor();
  PEN_TRY(fill(c, made, number));
  Tensor to = made->view(), from = t.view();
  for (int k = 0; k < pairs; ++k) {
    int d = t.rank() - 1 - k;
    int64_t before = pads[2 * k], after = pads[2 * k + 1], cut = before < 0 ? -before : 0,
            length = t.dim(d) - cut - (after < 0 ? -after : 0);
    if (length <= 0) return PEN_OK;
    to = piece(to, d, before > 0 ? before : 0, length);
    from = piece(from, d, cut, length);
  }
  return move_elements(c, to, from);
}
PEN_OP(constant_pad, "[out]", "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor") {
  return give_constant_pad(c, c.args[2]);
}

enum class Border { reflect, replicate, circular };
// Where place i of a padded row of n comes from.
static int64_t source(Border border, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::circular) return i < 0 ? i + n : i - n;
  return i < 0 ? -i : 2 * (n - 1) - i;
}
static Status pad_dim(const Call& c, const TensorObject& t, int d, int64_t before, int64_t after, Border border, Value* made) {
  int64_t n = t.dim(d), size;
  PEN_TRY(padded_size(c, n, before, after, &size));
  int64_t most = border == Border::reflect ? n - 1 : border == Border::circular ? n : n > 0 ? INT64_MAX : 0;
  if (before > most || after > most)
    return c.fail("a border that the tensor can fill in this mode", "%lld and %lld of %lld", static_cast<long long>(before),
                  static_cast<long long>(after), static_cast<long long>(n));
  Shape shape = shape_of(t);
  shape.dims[d] = size;
  PEN_TRY(make_fresh(c, t.dtype(), shape, Format::contiguous, nullptr, made));
  if (made->tensor()->numel() == 0) return PEN_OK;  // however long the border of an empty batch is
  Tensor to = made->tensor()->view(), from = t.view();
  int64_t first = before < 0 ? 0 : before, last = size - (after < 0 ? 0 : after);  // what comes as it is
  for (int64_t i = 0; i < first && i < size; ++i)
    PEN_TRY(move_elements(c, piece(to, d, i, 1), piece(from, d, source(border, i - before, n), 1)));
  if (last > first) PEN_TRY(move_elements(c, piece(to, d, first, last - first), piece(from, d, first - before, last - first)));
  for (int64_t i = last < first ? first : last; i < size; ++i)
    PEN_TRY(move_elements(c, piece(to, d, i, 1), piece(from, d, source(border, i - before, n), 1)));
  return PEN_OK;
}
// dims: of the last how many; the tensor has one or two more.
static Status give_bordered(Call& c, Border border, int dims) {
  const TensorObject& t = c.tensor(0);
  int64_t pads[2 * kMaxRank];
  int count = c.ints(1, pads, 2 * kMaxRank);
  if (count != 2 * dims || (t.rank() != dims + 1 && t.rank() != dims + 2))
    return c.fail("two numbers for each of the last dims of a tensor with one or two dims more", "%d numbers for rank %d", count, t.rank());
  for (int d = t.rank() - dims - (t.rank() == dims + 2 ? 1 : 0); d < t.rank(); ++d)
    if (t.dim(d) == 0) return c.fail("no empty dim but the batch", "dim %d", d);
  Value now = c.args[0];
  for (int k = 0; k < dims; ++k) {
    Value next;
    PEN_TRY(pad_dim(c, *now.tensor(), t.rank() - 1 - k, pads[2 * k], pads[2 * k + 1], border, &next));
    now = next;
  }
  Format format = border == Border::circular ? Format::contiguous : suggested_format(t);
  if (format == Format::contiguous) return c.give(static_cast<Value&&>(now));
  return make_copy(c, *now.tensor(), t.dtype(), format, &c.results[0]);
}
PEN_OP(border_pad, "[out]", "aten::{reflection,replication}_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
       "aten::{reflection,replication}_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
       "aten::{reflection,replication}_pad3d(Tensor self, SymInt[6] padding) -> Tensor") {
  return give_bordered(c, c.word() == 0 ? Border::reflect : Border::replicate, c.form() + 1);
}
static Status give_pad(Call& c, const char* mode, const Value& number) {
  if (strcmp(mode, "constant") == 0) return give_constant_pad(c, number.is_none() ? Value(0.0) : number);
  if (!number.is_none() && number.number() != 0) return c.fail("no value in this mode", "one for '%s'", mode);
  int dims = static_cast<int>(c.list(1).count / 2);
  if (strcmp(mode, "reflect") == 0) return give_bordered(c, Border::reflect, dims);
  if (strcmp(mode, "replicate") == 0) return give_bordered(c, Border::replicate, dims);
  if (strcmp(mode, "circular") == 0) return give_bordered(c, Border::circular, dims);
  return c.fail("mode 'constant', 'reflect', 'replicate' or 'circular'", "'%s'", mode);
}
PEN_OP(pad, "aten::pad(Tensor self, SymInt[] pad, str mode='constant', float? value=None) -> Tensor") {
  return give_pad(c, c.text(2), c.args[3]);
}
PEN_OP(pad_enum, "aten::_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor") {
  static const char* const kModes[] = {"constant", "reflect", "replicate", "circular"};
  if (c.integer(2) < 0 || c.integer(2) > 3) return c.fail("a mode from 0 to 3", "%lld", static_cast<long long>(c.integer(2)));
  return give_pad(c, kModes[c.integer(2)], c.args[3]);
}
PEN_OP(pad_circular, "aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor") {
  return give_bordered(c, Border::circular, static_cast<int>(c.list(1).count / 2));
}

// ---- mirrors ----
static Status flipped(const Call& c, const TensorObject& t, const bool* mirror, Value* made) {
  PEN_TRY(make_fresh(c, t.dtype(), shape_of(t), Format::preserve, &t, made));
  Tensor from = t.view();
  if (t.numel() == 0) return PEN_OK;
  int64_t size = dtype_size(t.dtype());
  for (int d = 0; d < t.rank(); ++d) {
    if (!mirror[d]) continue;
    from.data += (from.dims[d] - 1) * from.strides[d] * size;
    from.strides[d] = -from.strides[d];
  }
  const Runs runs = make_runs(from, from, made->tensor()->view());
  return in_pieces(c, t.numel(),
                   [&](int64_t begin, int64_t end) { copy_range(runs, made->tensor()->data(), from.data, size, begin, end); });
}
PEN_OP(flip, "[out]", "aten::flip(Tensor self, int[] dims) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  bool mirror[kMaxRank] = {};
  int64_t dims[kMaxRank];
  int count = c.ints(1, dims, kMaxRank), dim;
  if (count > kMaxRank) return c.fail("at most 8 dims", "%d", count);
  for (int k = 0; k < count; ++k) {
    PEN_TRY(c.dim(dims[k], t.rank(), &dim));
    if (mirror[dim]) return c.fail("each dim once", "dim %d again", dim);
    mirror[dim] = t.rank() > 0;
  }
  return flipped(c, t, mirror, &c.results[0]);
}
PEN_OP(flip_one, "aten::{fliplr,flipud}(Tensor self) -> Tensor") {
  int dim = c.word() == 0 ? 1 : 0;
  if (c.tensor(0).rank() <= dim) return c.fail("more dims", "rank %d", c.tensor(0).rank());
  bool mirror[kMaxRank] = {};
  mirror[dim] = true;
  return flipped(c, c.tensor(0), mirror, &c.results[0]);
}
PEN_OP(rot90, "[out]", "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t dims[2], turns = (c.integer(1) % 4 + 4) % 4;
  int first, second;
  if (c.ints(2, dims, 2) != 2 || t.rank() < 2) return c.fail("two dims of a tensor with two or more", "rank %d", t.rank());
  PEN_TRY(c.dim(dims[0], t.rank(), &first));
  PEN_TRY(c.dim(dims[1], t.rank(), &second));
  if (first == second) return c.fail("two different dims", "dim %d twice", first);
  bool mirror[kMaxRank] = {};
  if (turns == 0) return make_copy(c, t, t.dtype(), Format::contiguous, &c.results[0]);
  mirror[first] = turns >= 2;
  mirror[second] = turns <= 2;
  PEN_TRY(flipped(c, t, mirror, &c.results[0]));
  if (turns == 2) return PEN_OK;
  Tensor& shape = c.results[0].tensor()->shape;
  int64_t dim = shape.dims[first], stride = shape.strides[first];
  shape.dims[first] = shape.dims[second], shape.strides[first] = shape.strides[second];
  shape.dims[second] = dim, shape.strides[second] = stride;
  return PEN_OK;
}

// ---- triangles and diagonals ----
PEN_OP(triangle, "[in_place][out]", "aten::{tril,triu}(Tensor self, SymInt diagonal=0) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  if (t.rank() < 2) return c.fail("matrices", "rank %d", t.rank());
  PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, &c.results[0]));
  bool lower = c.word() == 0;
  int64_t rows = t.dim(t.rank() - 2), columns = t.dim(t.rank() - 1), size = dtype_size(t.dtype()), diagonal = c.integer(1);
  diagonal = diagonal > columns ? columns : diagonal < -rows - 1 ? -rows - 1 : diagonal;
  int64_t matrices = columns && rows ? t.numel() / (rows * columns) : 0;
  char* row = c.results[0].tensor()->data();
  for (int64_t i = 0; i < matrices * rows; ++i, row += columns * size) {
    PEN_TRY(c.walk(1 + columns / 16));
    int64_t at = i % rows + diagonal + (lower ? 1 : 0);  // the first above the lower triangle, or of the upper one
    at = at < 0 ? 0 : at > columns ? columns : at;
    if (lower)
      memset(row + at * size, 0, static_cast<size_t>((columns - at) * size));
    else
      memset(row, 0, static_cast<size_t>(at * size));
  }
  return PEN_OK;
}

// Zeros with the last dim of a tensor along a diagonal of two new dims.
static Status embedded(const Call& c, const TensorObject& t, int64_t offset, int64_t dim1, int64_t dim2, Value* made) {
  const int rank = t.rank() + 1;
  int first, second;
  if (t.rank() == 0) return c.fail("a tensor with dims", "rank 0");
  if (rank > kMaxRank) return c.fail("at most 8 dims", "%d", rank);
  PEN_TRY(c.dim(dim1, rank, &first));
  PEN_TRY(c.dim(dim2, rank, &second));
  if (first == second) return c.fail("two different dims", "dim %d twice", first);
  int64_t n = t.dim(t.rank() - 1), size;
  const int64_t away = static_cast<int64_t>(offset < 0 ? -static_cast<uint64_t>(offset) : static_cast<uint64_t>(offset));
  if (away < 0 || add_overflows(n, away, &size)) return c.out_of_memory();
  Shape shape;
  shape.rank = rank;
  for (int d = 0, own = 0; d < rank; ++d) shape.dims[d] = d == first || d == second ? size : t.dim(own++);
  PEN_TRY(make_fresh(c, t.dtype(), shape, Format::contiguous, nullptr, made));
  PEN_TRY(fill(c, made->tensor(), Value(int64_t{0})));
  Tensor to = t.shape;
  const Tensor whole = made->tensor()->view();
  for (int d = 0, own = 0; d < rank; ++d)
    if (d != first && d != second) to.strides[own++] = whole.strides[d];
  to.strides[t.rank() - 1] = whole.strides[first] + whole.strides[second];
  to.data = whole.data + (offset >= 0 ? offset * whole.strides[second] : away * whole.strides[first]) * dtype_size(t.dtype());
  return move_elements(c, to, t.view());
}
PEN_OP(diag_embed, "[out]", "aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor") {
  return embedded(c, c.tensor(0), c.integer(1), c.integer(2), c.integer(3), &c.results[0]);
}
PEN_OP(diagflat, "aten::diagflat(Tensor self, int offset=0) -> Tensor") {
  Shape flat;
  flat.rank = 1;
  flat.dims[0] = c.tensor(0).numel();
  Value row;
  PEN_TRY(reshaped(c, c.tensor(0), flat, &row));
  return embedded(c, *row.tensor(), c.integer(1), 0, 1, &c.results[0]);
}
PEN_OP(diag, "[out]", "aten::diag(Tensor self, int diagonal=0) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  if (t.rank() == 1) return embedded(c, t, c.integer(1), 0, 1, &c.results[0]);
  if (t.rank() != 2) return c.fail("a row or a matrix", "rank %d", t.rank());
  int64_t off = c.integer(1), rows = t.dim(0), columns = t.dim(1), length = 0, start = 0, stride = t.shape.strides[0] + t.shape.strides[1];
  if (off >= 0 && off < columns) length = columns - off < rows ? columns - off : rows, start = off * t.shape.strides[1];
  if (off < 0 && off > -rows) length = rows + off < columns ? rows + off : columns, start = -off * t.shape.strides[0];
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = length;
  Value view;
  PEN_TRY(make_view(c, t, shape, &stride, start, &view));
  return make_copy(c, *view.tensor(), t.dtype(), Format::contiguous, &c.results[0]);
}
PEN_OP(block_diag, "[out]", "aten::block_diag(Tensor[] tensors) -> Tensor") {
  const ListObject& tensors = c.list(0);
  Shape shape;
  shape.rank = 2;
  Promotion p;
  if (tensors.count == 0) return c.fail("at least one tensor", "none");
  auto rows = [](const TensorObject& t) { return t.rank() == 2 ? t.dim(0) : 1; };
  auto columns = [](const TensorObject& t) { return t.rank() ? t.dim(t.rank() - 1) : 1; };
  for (int64_t i = 0; i < tensors.count; ++i) {
    const TensorObject& t = *tensors.items[i].tensor();
    if (t.rank() > 2) return c.fail("tensors of at most two dims", "%d", t.rank());
    p.add(t);
    shape.dims[0] += rows(t), shape.dims[1] += columns(t);
  }
  PEN_TRY(make_fresh(c, p.result(), shape, Format::contiguous, nullptr, &c.results[0]));
  TensorObject* whole = c.results[0].tensor();
  PEN_TRY(fill(c, whole, Value(int64_t{0})));
  int64_t down = 0, along = 0;
  for (int64_t i = 0; i < tensors.count; ++i) {
    const TensorObject& t = *tensors.items[i].tensor();
    Shape block;
    block.rank = 2;
    block.dims[0] = rows(t), block.dims[1] = columns(t);
    Value view;
    PEN_TRY(make_view(c, *whole, block, whole->shape.strides, down * whole->shape.strides[0] + along, &view));
    PEN_TRY(copy_into(c, view.tensor(), t));
    down += block.dims[0], along += block.dims[1];
  }
  return PEN_OK;
}

}  // namespace pen
