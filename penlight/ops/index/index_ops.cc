// x[i, j, mask] read and written: index, index_put, masked_select, nonzero.
#include "penlight/ops/index/positions.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

// ---- combining ----
template <class T, Combine kHow>
static void combine(void* to, const void* from) {
  T a, b, y;
  memcpy(&a, to, sizeof(T));
  memcpy(&b, from, sizeof(T));
  if constexpr (kHow == Combine::set)
    y = b;
  else if constexpr (kHow == Combine::max)
    y = (a > b) | (a != a) ? a : b;
  else if constexpr (kHow == Combine::min)
    y = (a < b) | (a != a) ? a : b;
  else if constexpr (static_cast<T>(0.5) != static_cast<T>(0))
    y = kHow == Combine::add ? a + b : a * b;
  else if constexpr (kHow == Combine::add)
    y = static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    y = static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  memcpy(to, &y, sizeof(T));
}
template <DType kDType, Combine kHow>
static void combine_halves(void* to, const void* from) {
  float a = static_cast<float>(number_at(kDType, to).real()), b = static_cast<float>(number_at(kDType, from).real());
  combine<float, kHow>(&a, &b);
  number_into(Value(static_cast<double>(a)), kDType, to);
}
template <Combine kHow>
static void combine_bools(void* to, const void* from) {
  bool a = *static_cast<uint8_t*>(to) != 0, b = *static_cast<const uint8_t*>(from) != 0;
  *static_cast<uint8_t*>(to) = kHow == Combine::set ? b : kHow == Combine::add || kHow == Combine::max ? a || b : a && b;
}
template <Combine kHow>
static CombineFn combine_by(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return combine<float, kHow>;
    case DType::f64:
      return combine<double, kHow>;
    case DType::f16:
      return combine_halves<DType::f16, kHow>;
    case DType::bf16:
      return combine_halves<DType::bf16, kHow>;
    case DType::i64:
      return combine<int64_t, kHow>;
    case DType::i32:
      return combine<int32_t, kHow>;
    case DType::i16:
      return combine<int16_t, kHow>;
    case DType::i8:
      return combine<int8_t, kHow>;
    case DType::u8:
      return combine<uint8_t, kHow>;
    case DType::boolean:
      break;
  }
  return combine_bools<kHow>;
}
CombineFn combine_function(Combine how, DType dtype) {
  switch (how) {
    case Combine::add:
      return combine_by<Combine::add>(dtype);
    case Combine::mul:
      return combine_by<Combine::mul>(dtype);
    case Combine::max:
      return combine_by<Combine::max>(dtype);
    case Combine::min:
      return combine_by<Combine::min>(dtype);
    default:
      return combine_by<Combine::set>(dtype);
  }
}

// ---- places ----
Status long_index(const Call& c, const TensorObject& index, Value* made) {
  if (index.dtype() == DType::i64 && tensor_is_contiguous(index)) return hold_still(c, index, made);
  if (!is_integral(index.dtype(), false)) return c.fail("indices of dtype Long or Int", "%s", dtype_name(index.dtype()));
  return make_copy(c, index, DType::i64, Format::contiguous, made);
}

// place(k, index) for each element other than 0, in row-major order; their number. They are counted as steps before; here the caller is
// only asked whether to go on.
template <class T, class Place>
static Status for_nonzero_by(const Call& c, const TensorObject& t, T mask, int64_t* found, Place place) {
  constexpr int64_t kAskedEvery = 1 << 20;
  const int64_t numel = t.numel();
  *found = 0;
  if (numel == 0) return PEN_OK;
  const int last = t.rank() - 1;
  const int64_t n = last < 0 ? 1 : t.dim(last), step = last < 0 ? 0 : t.shape.strides[last];
  int64_t index[kMaxRank] = {}, count = 0, unasked = 0;
  const T* row = t.as<T>();
  for (int64_t done = 0; done < numel; done += n) {
    for (int64_t begin = 0; begin < n; begin += kAskedEvery) {
      const int64_t end = n - begin < kAskedEvery ? n : begin + kAskedEvery;
      for (int64_t i = begin; i < end; ++i) {
        if (!(row[i * step] & mask)) continue;
        if (last >= 0) index[last] = i;
        place(count++, index);
      }
      if ((unasked += end - begin) < kAskedEvery) continue;
      unasked = 0;
      PEN_TRY(c.spend(0));
    }
    for (int d = last - 1; d >= 0; --d) {
      row += t.shape.strides[d];
      if (++index[d] < t.dim(d)) break;
      row -= t.shape.strides[d] * t.dim(d);
      index[d] = 0;
    }
  }
  *found = count;
  return PEN_OK;
}
template <class Place>
static Status for_nonzero(const Call& c, const TensorObject& t, int64_t* found, Place place) {
  const bool is_float = is_floating(t.dtype());  // -0 is zero: its sign does not count
  switch (dtype_size(t.dtype())) {
    case 8:
      return for_nonzero_by<uint64_t>(c, t, is_float ? UINT64_MAX >> 1 : UINT64_MAX, found, place);
    case 4:
      return for_nonzero_by<uint32_t>(c, t, is_float ? UINT32_MAX >> 1 : UINT32_MAX, found, place);
    case 2:
      return for_nonzero_by<uint16_t>(c, t, static_cast<uint16_t>(is_float ? 0x7fff : 0xffff), found, place);
    default:
      return for_nonzero_by<uint8_t>(c, t, 0xff, found, place);
  }
}
static Status count_nonzero(const Call& c, const TensorObject& t, int64_t* count) {
  return for_nonzero(c, t, count, [](int64_t, const int64_t*) {});
}
// Places as rows of a tensor [count, rank], or, `by_dim`, as columns of [rank, count].
static Status make_places(const Call& c, const TensorObject& given, bool by_dim, Value* made) {
  Value still;
  PEN_TRY(hold_still(c, given, &still));
  const TensorObject& t = *still.tensor();
  int64_t count;
  PEN_TRY(count_nonzero(c, t, &count));
  int64_t rank = t.rank(), dims[] = {by_dim ? rank : count, by_dim ? count : rank};
  TensorObject* places = tensor_create(DType::i64, 2, dims);
  if (!places) return c.out_of_memory();
  *made = Value::own(places);
  int64_t* out = places->as<int64_t>();
  int64_t again;  // not `count`, which places are computed with meanwhile
  return for_nonzero(c, t, &again, [&](int64_t k, const int64_t* index) {
    for (int64_t d = 0; d < rank; ++d) out[by_dim ? d * count + k : k * rank + d] = index[d];
  });
}
Status places_in(const Call& c, const TensorObject& mask, Value* made) { return make_places(c, mask, true, made); }

PEN_OP(nonzero, "aten::nonzero(Tensor self) -> Tensor", "aten::argwhere(Tensor self) -> Tensor",
       "aten::nonzero.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") {
  // torch's lies by dims: each column is dense
  Value by_dim;
  PEN_TRY(make_places(c, c.tensor(0), true, &by_dim));
  const TensorObject& t = *by_dim.tensor();
  Shape shape;
  shape.rank = 2;
  shape.dims[0] = t.dim(1), shape.dims[1] = t.dim(0);
  int64_t strides[] = {1, t.dim(1) > 1 ? t.dim(1) : 1};
  return give_view(c, t, shape, strides);
}
PEN_OP(nonzero_columns, "aten::nonzero_numpy(Tensor self) -> Tensor[]", "aten::where(Tensor condition) -> Tensor[]") {
  Value by_dim, row;
  const TensorObject& t = c.tensor(0);
  if (t.rank() == 0) {
    Shape one;
    one.rank = 1, one.dims[0] = 1;
    PEN_TRY(reshaped(c, t, one, &row));
  }
  PEN_TRY(make_places(c, t.rank() ? t : *row.tensor(), true, &by_dim));
  const TensorObject& places = *by_dim.tensor();
  ListObject* list = list_create(places.dim(0));
  PEN_TRY(c.give(list));
  Shape shape;
  shape.rank = 1, shape.dims[0] = places.dim(1);
  for (int64_t d = 0; d < places.dim(0); ++d) {
    Value column;
    int64_t step = 1;
    PEN_TRY(make_view(c, places, shape, &step, d * places.shape.strides[0], &column));
    if (!list_append(list, column)) return c.out_of_memory();
  }
  return PEN_OK;
}

// ---- indexing ----
static bool is_mask(const TensorObject& t) { return t.dtype() == DType::boolean || t.dtype() == DType::u8; }

Status resolve(const Call& c, const TensorObject& x, const ListObject& indices, Indexed* made) {
  Value index[kMaxRank];  // by dim of x; None: all of it
  int dim = 0;
  for (int64_t i = 0; i < indices.count; ++i) {
    if (indices.items[i].is_none()) {
      if (++dim > x.rank()) return c.fail("at most as many indices as dims", "more than %d", x.rank());
      continue;
    }
    const TensorObject& t = *indices.items[i].tensor();
    int takes = is_mask(t) ? t.rank() : 1;
    if (takes == 0) return c.fail("masks with dims", "one of rank 0");
    if (dim + takes > x.rank()) return c.raise("IndexError: too many indices for tensor of dimension %d", x.rank());
    if (!is_mask(t)) {
      PEN_TRY(long_index(c, t, &index[dim]));
    } else {
      for (int k = 0; k < takes; ++k)
        if (t.dim(k) != x.dim(dim + k))
          return c.raise("IndexError: The shape of the mask at index %d does not match the shape of the indexed tensor at index %d", k,
                         dim + k);
      Value places;
      PEN_TRY(places_in(c, t, &places));
      Shape row;
      row.rank = 1, row.dims[0] = places.tensor()->dim(1);
      int64_t step = 1;
      for (int k = 0; k < takes; ++k)
        PEN_TRY(make_view(c, *places.tensor(), row, &step, k * places.tensor()->shape.strides[0], &index[dim + k]));
    }
    dim += takes;
  }
  // One shape for all; where the indexed dims are not neighbours, it comes first.
  Shape common;
  int first = -1, last = -1, count = 0;
  for (int d = 0; d < x.rank(); ++d) {
    if (index[d].is_none()) continue;
    PEN_TRY(broadcast_shapes(c, &common, shape_of(*index[d].tensor())));
    if (first < 0) first = d;
    last = d;
    ++count;
  }
  if (count == 0) return c.fail("an index or more", "none");
  bool together = last - first + 1 == count;
  made->at = together ? first : 0;
  made->rank = common.rank;
  made->shape.rank = x.rank() - count + common.rank;
  if (made->shape.rank > kMaxRank) return c.fail("a result of at most 8 dims", "%d", made->shape.rank);
  for (int d = 0, to = 0; d <= x.rank(); ++d) {
    if (to == made->at)
      for (int k = 0; k < common.rank; ++k, ++to) made->shape.dims[to] = common.dims[k], made->strides[to] = 0;
    if (d == x.rank() || !index[d].is_none()) continue;
    made->shape.dims[to] = x.dim(d);
    made->strides[to++] = x.shape.strides[d];
  }
  int64_t numel;
  PEN_TRY(numel_of(c, common, &numel));
  TensorObject* table = tensor_create(DType::i64, 1, &numel);
  if (!table) return c.out_of_memory();
  made->offsets = Value::own(table);
  int64_t* offsets = table->as<int64_t>();
  memset(offsets, 0, static_cast<size_t>(numel) * 8);
  made->operand_count = 1;
  for (int d = 0; d < x.rank(); ++d) {
    if (index[d].is_none()) continue;
    const TensorObject& t = *index[d].tensor();
    const int64_t *values = t.as<int64_t>(), size = x.dim(d), stride = x.shape.strides[d];
    Tensor seen;  // this index along the common shape
    seen.dtype = DType::i64;
    seen.rank = common.rank;
    for (int k = 0; k < common.rank; ++k) {
      int own = k - (common.rank - t.rank());
      seen.dims[k] = common.dims[k];
      seen.strides[k] = own < 0 || (t.dim(own) == 1 && common.dims[k] != 1) ? 0 : t.shape.strides[own];
    }
    int64_t at[kMaxRank] = {}, from = 0;
    PEN_TRY(in_pieces(c, numel, [&](int64_t begin, int64_t end) {
      int64_t place = from;
      for (int64_t i = begin; i < end; ++i) {
        int64_t value = values[place];
        if (value < -size || value >= size)
          return c.raise("IndexError: index %lld is out of bounds for dimension %d with size %lld", static_cast<long long>(value), d,
                         static_cast<long long>(size));
        offsets[i] += (value < 0 ? value + size : value) * stride;
        for (int k = common.rank - 1; k >= 0; --k) {
          place += seen.strides[k];
          if (++at[k] < common.dims[k]) break;
          place -= seen.strides[k] * common.dims[k];
          at[k] = 0;
        }
      }
      from = place;
      return PEN_OK;
    }));
    Tensor& operand = made->operands[made->operand_count++];
    operand.dtype = DType::i64;
    operand.rank = made->shape.rank;
    for (int k = 0; k < operand.rank; ++k) {
      bool own = k >= made->at && k < made->at + made->rank;
      operand.dims[k] = made->shape.dims[k];
      operand.strides[k] = own ? seen.strides[k - made->at] : made->shape.dims[k] == 1 ? 1 : 0;
    }
  }
  Tensor& whole = made->operands[0];
  whole.dtype = x.dtype();
  whole.rank = made->shape.rank;
  for (int k = 0; k < whole.rank; ++k) whole.dims[k] = made->shape.dims[k], whole.strides[k] = made->strides[k];
  return PEN_OK;
}

template <class T>
static Status gather_rows(const Call& c, const Indexed& i, const TensorObject& from, const TensorObject& to) {
  const int64_t* table = i.offsets.tensor()->as<int64_t>();
  return for_rows(c, i, to.shape.strides, [&](int64_t n, const int64_t* offsets, int64_t out_step, int64_t in_step, int64_t table_step) {
    T* out = to.as<T>() + offsets[0];
    const T* in = from.as<T>() + offsets[1];
    const int64_t* places = table + offsets[2];
    if (table_step == 0)
      return copy_run(reinterpret_cast<char*>(out), reinterpret_cast<const char*>(in + *places), n, out_step, in_step, sizeof(T));
    for (int64_t k = 0; k < n; ++k) out[k * out_step] = in[k * in_step + places[k * table_step]];
  });
}
static Status give_indexed(Call& c, const ListObject& indices) {
  const TensorObject& x = c.tensor(0);
  Indexed i;
  PEN_TRY(resolve(c, x, indices, &i));
  PEN_TRY(make_fresh(c, x.dtype(), i.shape, Format::contiguous, nullptr, &c.results[0]));
  TensorObject& y = *c.results[0].tensor();
  result_strides(i.shape, i.operands, i.operand_count, y.shape.strides);
  if (y.numel() == 0) return PEN_OK;
  int64_t size = dtype_size(x.dtype());
  return size == 4   ? gather_rows<uint32_t>(c, i, x, y)
         : size == 8 ? gather_rows<uint64_t>(c, i, x, y)
         : size == 2 ? gather_rows<uint16_t>(c, i, x, y)
                     : gather_rows<uint8_t>(c, i, x, y);
}
PEN_OP(index, "aten::{index[out],_unsafe_index}.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
       "aten::{index,_unsafe_index}.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor") {
  return give_indexed(c, c.list(1));
}

// Values into the places of x that the indices tell, in row-major order of the result.
static Status put(const Call& c, TensorObject* x, const ListObject& indices, const TensorObject& values, bool accumulate) {
  if (x->dtype() != values.dtype())
    return c.fail("values of the tensor's dtype", "%s for %s", dtype_name(values.dtype()), dtype_name(x->dtype()));
  Indexed i;
  PEN_TRY(resolve(c, *x, indices, &i));
  int64_t strides[kMaxRank];
  if (values.rank() > i.shape.rank)
    return c.fail("values that can be broadcast to the places", "rank %d for %d", values.rank(), i.shape.rank);
  for (int d = 0; d < i.shape.rank; ++d) {
    int own = d - (i.shape.rank - values.rank());
    int64_t size = own < 0 ? 1 : values.dim(own);
    if (size != 1 && size != i.shape.dims[d])
      return c.raise("RuntimeError: shape mismatch: value tensor cannot be broadcast to indexing result (size %lld for %lld in dim %d)",
                     static_cast<long long>(size), static_cast<long long>(i.shape.dims[d]), d);
    strides[d] = size == 1 ? 0 : values.shape.strides[own];
  }
  if (!tensor_make_writable(x)) return c.out_of_memory();
  int64_t numel;
  PEN_TRY(numel_of(c, i.shape, &numel));
  if (numel == 0) return PEN_OK;
  Value kept;
  const char* data = values.data();
  if (values.storage == x->storage) {
    PEN_TRY(make_copy(c, values, values.dtype(), Format::contiguous, &kept));
    data = kept.tensor()->data();
    for (int d = 0; d < i.shape.rank; ++d) {
      int own = d - (i.shape.rank - values.rank());
      strides[d] = strides[d] == 0 ? 0 : kept.tensor()->shape.strides[own];
    }
  }
  const int64_t *table = i.offsets.tensor()->as<int64_t>(), size = dtype_size(x->dtype());
  CombineFn into = combine_function(accumulate ? Combine::add : Combine::set, x->dtype());
  char* out = x->data();
  return for_rows(c, i, strides, [&](int64_t n, const int64_t* offsets, int64_t from_step, int64_t to_step, int64_t table_step) {
    const char* from = data + offsets[0] * size;
    if (table_step == 0 && !accumulate) return copy_run(out + (offsets[1] + table[offsets[2]]) * size, from, n, to_step, from_step, size);
    for (int64_t k = 0; k < n; ++k)
      into(out + (offsets[1] + k * to_step + table[offsets[2] + k * table_step]) * size, from + k * from_step * size);
  });
}
PEN_OP(index_put_in_place, "[direct]",
       "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
       "aten::index_put_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
       "aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor(a!)",
       "aten::_index_put_impl_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> "
       "Tensor(a!)") {
  PEN_TRY(put(c, &c.tensor(0), c.list(1), c.tensor(2), c.flag(3)));
  return c.give(Value(c.args[0]));
}
PEN_OP(index_put,
       "[out]aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor",
       "[out]aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
       "aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor") {
  PEN_TRY(make_copy(c, c.tensor(0), c.tensor(0).dtype(), Format::preserve, &c.results[0]));
  return put(c, c.results[0].tensor(), c.list(1), c.tensor(2), c.flag(3));
}

// ---- masks ----
// A tensor as the shape of both sees it, row-major; itself where it is that.
static Status spread(const Call& c, const TensorObject& t, const Shape& shape, Value* made) {
  bool same = t.rank() == shape.rank && tensor_is_contiguous(t);
  for (int d = 0; same && d < t.rank(); ++d) same = t.dim(d) == shape.dims[d];
  if (same) {
    *made = Value::share(const_cast<TensorObject*>(&t));
    return PEN_OK;
  }
  PEN_TRY(make_fresh(c, t.dtype(), shape, Format::contiguous, nullptr, made));
  return copy_into(c, made->tensor(), t);
}
template <class T>
static Status pick(const Call& c, T* to, const T* from, const uint8_t* holds, int64_t n) {
  return in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (holds[i]) *to++ = from[i];
  });
}
PEN_OP(masked_select, "[out]", "aten::masked_select(Tensor self, Tensor mask) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (!is_mask(c.tensor(1))) return c.fail("a mask of bools", "%s", dtype_name(c.tensor(1).dtype()));
  Shape shape = shape_of(x);
  PEN_TRY(broadcast_shapes(c, &shape, shape_of(c.tensor(1))));
  Value values, seen, mask;
  PEN_TRY(spread(c, x, shape, &values));
  PEN_TRY(spread(c, c.tensor(1), shape, &seen));
  PEN_TRY(hold_still(c, *seen.tensor(), &mask));
  int64_t count, numel = mask.tensor()->numel(), size = dtype_size(x.dtype());
  PEN_TRY(count_nonzero(c, *mask.tensor(), &count));
  TensorObject* y = tensor_create(x.dtype(), 1, &count);
  PEN_TRY(c.give(y));
  const char* from = values.tensor()->data();
  const uint8_t* holds = mask.tensor()->as<uint8_t>();
  return size == 4   ? pick(c, reinterpret_cast<uint32_t*>(y->data()), reinterpret_cast<const uint32_t*>(from), holds, numel)
         : size == 8 ? pick(c, reinterpret_cast<uint64_t*>(y->data()), reinterpret_cast<const uint64_t*>(from), holds, numel)
         : size == 2 ? pick(c, reinterpret_cast<uint16_t*>(y->data()), reinterpret_cast<const uint16_t*>(from), holds, numel)
                     : pick(c, reinterpret_cast<uint8_t*>(y->data()), reinterpret_cast<const uint8_t*>(from), holds, numel);
}
PEN_OP(masked_scatter, "[in_place][out]", "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor") {
  const TensorObject &x = c.tensor(0), &source = c.tensor(2);
  if (!is_mask(c.tensor(1))) return c.fail("a mask of bools", "%s", dtype_name(c.tensor(1).dtype()));
  if (x.dtype() != source.dtype())
    return c.fail("a source of the tensor's dtype", "%s for %s", dtype_name(source.dtype()), dtype_name(x.dtype()));
  Shape shape = shape_of(x);
  PEN_TRY(broadcast_shapes(c, &shape, shape_of(c.tensor(1))));
  Value values, mask;
  PEN_TRY(make_fresh(c, x.dtype(), shape, Format::contiguous, nullptr, &c.results[0]));
  PEN_TRY(copy_into(c, c.results[0].tensor(), x));
  PEN_TRY(spread(c, c.tensor(1), shape, &mask));
  PEN_TRY(make_copy(c, source, source.dtype(), Format::contiguous, &values));
  int64_t numel = mask.tensor()->numel(), size = dtype_size(x.dtype()), used = 0, count = source.numel();
  return in_pieces(c, numel, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!mask.tensor()->as<uint8_t>()[i]) continue;
      if (used == count) return c.fail("as many elements in the source as the mask holds", "%lld", static_cast<long long>(count));
      memcpy(c.results[0].tensor()->data() + i * size, values.tensor()->data() + used++ * size, static_cast<size_t>(size));
    }
    return PEN_OK;
  });
}

}  // namespace pen
