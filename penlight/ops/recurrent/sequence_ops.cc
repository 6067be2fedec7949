// Packed sequences of the VM: rows of a padded batch without the padding, step by step, and back.
#include "penlight/runtime/vm/flat.h"

namespace pen {

static Status move_rows(const Call& c, TensorObject* to, int64_t to_row, const TensorObject& from, int64_t from_row, int64_t rows) {
  int64_t dims[] = {rows, to->dim(1)};
  Value a = Value::own(tensor_view(*to, 2, dims, to->shape.strides, to->offset + to_row * to->shape.strides[0] * dtype_size(to->dtype())));
  Value b =
      Value::own(tensor_view(from, 2, dims, from.shape.strides, from.offset + from_row * from.shape.strides[0] * dtype_size(from.dtype())));
  if (a.is_none() || b.is_none()) return c.out_of_memory();
  return copy_into(c, a.tensor(), *b.tensor());
}

PEN_OP(pack_padded_sequence, "[out]", "aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)") {
  const TensorObject &x = c.tensor(0), &lengths = c.tensor(1);
  if (x.rank() < 2) return c.fail("an input [T, B, …] or [B, T, …]", "rank %d", x.rank());
  if (lengths.rank() != 1 || lengths.dtype() != DType::i64)
    return c.fail("lengths: a row of Long", "rank %d, %s", lengths.rank(), dtype_name(lengths.dtype()));
  int time = c.flag(2) ? 1 : 0, batch = 1 - time;
  int64_t steps = x.dim(time), rows = x.dim(batch), width = 1, total = 0;
  if (lengths.dim(0) != rows || rows == 0)
    return c.fail("a length for each sequence", "%lld for %lld", static_cast<long long>(lengths.dim(0)), static_cast<long long>(rows));
  Value list, turned, plain;
  PEN_TRY(elements_of(c, lengths, DType::i64, &list));
  const int64_t* length = list.tensor()->as<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    if (length[i] < 1 || length[i] > steps || (i && length[i] > length[i - 1]))
      return c.fail("lengths from 1 to the number of steps, the longest first", "%lld", static_cast<long long>(length[i]));
    total += length[i];
  }
  int64_t dims[kMaxRank], strides[kMaxRank];
  for (int d = 0; d < x.rank(); ++d) {
    int from = d == 0 ? time : d == 1 ? batch : d;
    dims[d] = x.dim(from);
    strides[d] = x.shape.strides[from];
    if (d > 1) width *= dims[d];
  }
  turned = Value::own(tensor_view(x, x.rank(), dims, strides, x.offset));
  if (turned.is_none()) return c.out_of_memory();
  PEN_TRY(elements_of(c, *turned.tensor(), x.dtype(), &plain));
  Shape flat, out, from;
  flat.rank = from.rank = 2;
  flat.dims[0] = total, flat.dims[1] = from.dims[1] = width;
  from.dims[0] = steps * rows;
  out.rank = x.rank() - 1;
  out.dims[0] = total;
  for (int d = 2; d < x.rank(); ++d) out.dims[d - 1] = x.dim(d);
  Value made = Value::own(tensor_create(x.dtype(), flat)), source = Value::own(in_shape(*plain.tensor(), from)),
        sizes = Value::own(tensor_create(DType::i64, 1, &length[0]));
  if (made.is_none() || source.is_none() || sizes.is_none()) return c.out_of_memory();
  int64_t at = 0, alive = rows;
  for (int64_t t = 0; t < length[0]; ++t) {
    while (length[alive - 1] <= t) --alive;
    sizes.tensor()->as<int64_t>()[t] = alive;
    PEN_TRY(move_rows(c, made.tensor(), at, *source.tensor(), t * rows, alive));
    at += alive;
  }
  PEN_TRY(c.give(in_shape(*made.tensor(), out)));
  return c.give(static_cast<Value&&>(sizes), 1);
}

PEN_OP(pad_packed_sequence,
       "aten::_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) -> (Tensor, "
       "Tensor)") {
  const TensorObject &x = c.tensor(0), &sizes = c.tensor(1);
  if (x.rank() < 1) return c.fail("packed data of rank 1 or more", "rank 0");
  if (sizes.rank() != 1 || sizes.dtype() != DType::i64 || sizes.dim(0) == 0)
    return c.fail("batch sizes: a row of Long", "rank %d, %s", sizes.rank(), dtype_name(sizes.dtype()));
  Value list, plain;
  PEN_TRY(elements_of(c, sizes, DType::i64, &list));
  const int64_t* each = list.tensor()->as<int64_t>();
  int64_t steps = sizes.dim(0), total = 0, width = 1, longest = c.integer(4) > 0 ? c.integer(4) : steps;
  if (longest < steps)
    return c.fail("a total_length of the longest sequence at least", "%lld of %lld", static_cast<long long>(longest),
                  static_cast<long long>(steps));
  for (int64_t t = 0; t < steps; ++t) {
    if (each[t] < 1 || (t && each[t] > each[t - 1]))
      return c.fail("batch sizes of 1 or more that never grow", "%lld", static_cast<long long>(each[t]));
    if (add_overflows(total, each[t], &total)) return c.fail("batch sizes that add up to the data's rows", "more");
  }
  if (total != x.dim(0))
    return c.fail("batch sizes that add up to the data's rows", "%lld of %lld", static_cast<long long>(total),
                  static_cast<long long>(x.dim(0)));
  if (x.rank() + 1 > kMaxRank) return c.fail("a result of rank 8 at most", "%d", x.rank() + 1);
  int64_t rows = each[0];
  Shape out, flat, from;
  out.rank = x.rank() + 1;
  out.dims[0] = longest, out.dims[1] = rows;
  for (int d = 1; d < x.rank(); ++d) out.dims[d + 1] = x.dim(d), width *= x.dim(d);
  flat.rank = from.rank = 2;
  if (mul_overflows(longest, rows, &flat.dims[0])) return c.fail("a result that memory can hold", "more");
  flat.dims[1] = from.dims[1] = width;
  from.dims[0] = total;
  PEN_TRY(elements_of(c, x, x.dtype(), &plain));
  Value made = Value::own(tensor_create(x.dtype(), flat)), source = Value::own(in_shape(*plain.tensor(), from)),
        lengths = Value::own(tensor_create(DType::i64, 1, &rows)), padding = Value::own(tensor_of(c.args[3], x.dtype()));
  if (made.is_none() || source.is_none() || lengths.is_none() || padding.is_none()) return c.out_of_memory();
  PEN_TRY(copy_into(c, made.tensor(), *padding.tensor()));
  int64_t at = 0;
  for (int64_t t = 0; t < steps; ++t) {
    PEN_TRY(move_rows(c, made.tensor(), t * rows, *source.tensor(), at, each[t]));
    for (int64_t i = 0; i < each[t]; ++i) lengths.tensor()->as<int64_t>()[i] = t + 1;
    at += each[t];
  }
  PEN_TRY(c.give(static_cast<Value&&>(lengths), 1));
  Value padded = Value::own(in_shape(*made.tensor(), out));
  if (padded.is_none() || !c.flag(2)) return padded.is_none() ? c.out_of_memory() : c.give(static_cast<Value&&>(padded));
  TensorObject& t = *padded.tensor();
  int64_t dims[kMaxRank], strides[kMaxRank];
  for (int d = 0; d < out.rank; ++d) {
    int source_dim = d < 2 ? 1 - d : d;
    dims[d] = out.dims[source_dim];
    strides[d] = t.shape.strides[source_dim];
  }
  return c.give(tensor_view(t, out.rank, dims, strides, t.offset));
}

}  // namespace pen
