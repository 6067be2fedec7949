// Tables of embeddings in 8, 4 or 2 bits: real = stored * scale + offset, with a scale and an offset for each row. They come as packed
// parameters (EmbeddingPackedParamsBase: bytes, or two elements of 4 bits in each; zero points are real numbers), or as bytes with
// both numbers behind every row: f32 after bytes, f16 after nibbles.
#include "penlight/ops/quantized/packed.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

static float half_to_float(const void* p) {  // behind a row of odd length it lies at an odd address
  uint16_t half;
  memcpy(&half, p, sizeof half);
  return static_cast<float>(number_at(DType::f16, &half).number());
}
static float round_to_half(float f) {
  uint16_t half;
  number_into(Value(static_cast<double>(f)), DType::f16, &half);
  return half_to_float(&half);
}

namespace {

// Rows of a table, whatever holds them.
struct Rows {
  Value keep[3];
  int64_t rows, columns, row_bytes;
  int bits;  // 8, 4, 2
  const uint8_t* data;
  const float *scales, *zeros;  // of packed parameters; null: behind every row

  void numbers(int64_t row, float* scale, float* offset) const {
    if (scales) {
      *scale = scales[row], *offset = -zeros[row] * scales[row];
      if (bits != 8) *scale = round_to_half(*scale), *offset = round_to_half(*offset);  // as torch stores them
      return;
    }
    const uint8_t* behind = data + row * row_bytes + row_bytes - (bits == 8 ? 8 : 4);
    if (bits == 8) {
      memcpy(scale, behind, 4);
      memcpy(offset, behind + 4, 4);
    } else {
      *scale = half_to_float(behind), *offset = half_to_float(behind + 2);
    }
  }
  int element(int64_t row, int64_t k) const {
    const uint8_t* at = data + row * row_bytes;
    if (bits == 8) return at[k];
    int per_byte = 8 / bits;
    return at[k / per_byte] >> (k % per_byte * bits) & ((1 << bits) - 1);
  }
};
// A row-major list of ints, of i32 or i64.
struct Indices {
  Value keep;
  const int32_t* narrow;
  const int64_t* wide;
  int64_t count;
  int64_t operator[](int64_t i) const { return narrow ? narrow[i] : wide[i]; }
};

}  // namespace

static Status dense_rows(const Call& c, const TensorObject& t, Value* keep) {
  Status status;
  *keep = Value::own(ordered(c, t, Order::rows, &status));
  return status;
}
static Status bytes_table(const Call& c, int i, int bits, Rows* t) {
  const TensorObject& w = c.tensor(i);
  int64_t behind = bits == 8 ? 8 : 4;
  if (w.dtype() != DType::u8 || w.quantizer || w.rank() != 2 || w.dim(1) < behind)
    return c.fail("rows of bytes with a scale and an offset behind", "%s of rank %d", dtype_name(w.dtype()), w.rank());
  PEN_TRY(dense_rows(c, w, &t->keep[0]));
  t->rows = w.dim(0), t->row_bytes = w.dim(1), t->columns = (w.dim(1) - behind) * (8 / bits);
  t->bits = bits;
  t->data = t->keep[0].tensor()->as<uint8_t>();
  t->scales = t->zeros = nullptr;
  return PEN_OK;
}
static Status packed_table(const Call& c, int i, int bits, Rows* t) {
  Instance* object;
  PEN_TRY(packed_object(c, i, kEmbeddingParams, &object));
  int64_t rate;
  const TensorObject* parts[3];
  PEN_TRY(packed_int(c, *object, "bit_rate", &rate));
  PEN_TRY(packed_tensor(c, *object, "weight", false, &parts[0]));
  PEN_TRY(packed_tensor(c, *object, "scales", false, &parts[1]));
  PEN_TRY(packed_tensor(c, *object, "zero_points", false, &parts[2]));
  if (rate != bits) return c.fail("a table of the operator's number of bits", "%lld", static_cast<long long>(rate));
  const TensorObject& w = *parts[0];
  if (w.dtype() != DType::u8 || w.rank() != 2)
    return c.fail("a table of bytes, rows by columns", "%s of rank %d", dtype_name(w.dtype()), w.rank());
  for (int p = 0; p < 3; ++p) {
    bool fits = p == 0 || (parts[p]->dtype() == DType::f32 && parts[p]->rank() == 1 && parts[p]->dim(0) == w.dim(0));
    if (!fits) return c.fail("a scale and a zero point of f32 for each row", "others");
    PEN_TRY(dense_rows(c, *parts[p], &t->keep[p]));
  }
  t->rows = w.dim(0), t->row_bytes = w.dim(1), t->columns = w.dim(1) * (8 / bits);
  t->bits = bits;
  t->data = t->keep[0].tensor()->as<uint8_t>();
  t->scales = t->keep[1].tensor()->as<float>(), t->zeros = t->keep[2].tensor()->as<float>();
  return PEN_OK;
}

static Status indices_of(const Call& c, const TensorObject& t, Indices* to) {
  if (t.dtype() != DType::i32 && t.dtype() != DType::i64) return c.fail("indices of Int or Long", "%s", dtype_name(t.dtype()));
  PEN_TRY(elements_of(c, t, t.dtype(), &to->keep));
  to->narrow = t.dtype() == DType::i32 ? to->keep.tensor()->as<int32_t>() : nullptr;
  to->wide = to->keep.tensor()->as<int64_t>();
  to->count = t.numel();
  return PEN_OK;
}

// Adds row `row` times `weight` to `to`.
static void add_row(const Rows& t, int64_t row, float weight, float* to) {
  float scale, offset;
  t.numbers(row, &scale, &offset);
  double by = static_cast<double>(weight * scale);
  float shift = weight * offset;
  for (int64_t k = 0; k < t.columns; ++k) to[k] = static_cast<float>(by * t.element(row, k) + static_cast<double>(to[k] + shift));
}

static Status embedding(Call& c, int bits) {
  Rows t;
  Indices at;
  PEN_TRY(packed_table(c, 0, bits, &t));
  const TensorObject& indices = c.tensor(1);
  PEN_TRY(indices_of(c, indices, &at));
  if (indices.rank() >= kMaxRank) return c.fail("indices of rank 7 at most", "%d", indices.rank());
  int64_t dims[kMaxRank];
  for (int d = 0; d < indices.rank(); ++d) dims[d] = indices.dim(d);
  dims[indices.rank()] = t.columns;
  Value made = Value::own(tensor_create(DType::f32, indices.rank() + 1, dims));
  if (made.is_none()) return c.out_of_memory();
  float* to = made.tensor()->as<float>();
  memset(to, 0, static_cast<size_t>(made.tensor()->numel()) * 4);
  for (int64_t i = 0; i < at.count; ++i) {
    PEN_TRY(c.walk(1));
    if (at[i] < 0 || at[i] >= t.rows)
      return c.fail("indices of rows of the table", "%lld of %lld", static_cast<long long>(at[i]), static_cast<long long>(t.rows));
  }
  PEN_TRY(in_parts(c, at.count, 1 + 4096 / (t.columns + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) add_row(t, at[i], 1.0f, to + i * t.columns);
  }));
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(embedding_byte,
       "quantized::embedding_byte(__torch__.torch.classes.quantized.EmbeddingPackedParamsBase weight, Tensor indices, bool "
       "pruned_weights=False) -> Tensor") {
  return embedding(c, 8);
}
PEN_OP(embedding_4bit,
       "quantized::embedding_4bit(__torch__.torch.classes.quantized.EmbeddingPackedParamsBase weight, Tensor indices, bool "
       "pruned_weights=False) -> Tensor") {
  return embedding(c, 4);
}

// weight, indices, offsets, scale_grad_by_freq, mode, pruned_weights, per_sample_weights, compressed_indices_mapping, include_last_offset.
// The mode is a sum, whatever `mode` says: so it is in torch.
static Status embedding_bag(Call& c, const Rows& t) {
  const TensorObject& indices = c.tensor(1);
  Indices at, offsets, mapping;
  PEN_TRY(indices_of(c, indices, &at));
  bool has_offsets = indices.rank() == 1, last = c.flag(8), mapped = c.flag(5) && c.given(7);
  int64_t bags;
  if (has_offsets) {
    if (!c.given(2)) return c.fail("offsets for indices in a row", "none");
    PEN_TRY(indices_of(c, c.tensor(2), &offsets));
    bags = offsets.count - last;
    if (bags < 0) return c.fail("an offset at least", "none");
  } else if (indices.rank() == 2) {
    bags = indices.dim(0);
  } else {
    return c.fail("indices of rank 1 or 2", "rank %d", indices.rank());
  }
  const float* weights = nullptr;
  Value kept_weights;
  if (c.given(6)) {
    const TensorObject& w = c.tensor(6);
    Status status;
    kept_weights = Value::own(tensor_cast(c, w, DType::f32, &status));
    PEN_TRY(status);
    if (w.numel() != at.count) return c.fail("a weight for each index", "%lld", static_cast<long long>(w.numel()));
    weights = kept_weights.tensor()->as<float>();
  }
  if (mapped) {
    PEN_TRY(indices_of(c, c.tensor(7), &mapping));
    mapped = !(mapping.count == 1 && mapping[0] == 0);  // nothing was pruned
  }
  int64_t dims[] = {bags, t.columns};
  Value made = Value::own(tensor_create(DType::f32, 2, dims));
  if (made.is_none()) return c.out_of_memory();
  float* to = made.tensor()->as<float>();
  memset(to, 0, static_cast<size_t>(made.tensor()->numel()) * 4);
  for (int64_t bag = 0; bag < bags; ++bag) {
    int64_t begin = has_offsets ? offsets[bag] : bag * indices.dim(1);
    int64_t end = !has_offsets ? begin + indices.dim(1) : bag + 1 < offsets.count ? offsets[bag + 1] : at.count;
    if (begin < 0 || end < begin || end > at.count)
      return c.fail("offsets that rise, within the indices", "%lld to %lld of %lld", static_cast<long long>(begin),
                    static_cast<long long>(end), static_cast<long long>(at.count));
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = at[i], known = mapped ? mapping.count : t.rows;
      if (row < 0 || row >= known)
        return c.fail("indices of rows of the table", "%lld of %lld", static_cast<long long>(row), static_cast<long long>(known));
      if (mapped) row = mapping[row];
      if (mapped && row == -1) continue;
      if (row < 0 || row >= t.rows) return c.fail("a mapping to rows of the table", "%lld", static_cast<long long>(row));
      add_row(t, row, weights ? weights[i] : 1.0f, to + bag * t.columns);
    }
  }
  return c.give(static_cast<Value&&>(made));
}
static Status packed_bag(Call& c, int bits) {
  Rows t;
  PEN_TRY(packed_table(c, 0, bits, &t));
  return embedding_bag(c, t);
}
static Status bytes_bag(Call& c, int bits) {
  Rows t;
  PEN_TRY(bytes_table(c, 0, bits, &t));
  return embedding_bag(c, t);
}
PEN_OP(embedding_bag_byte,
       "quantized::embedding_bag_byte(__torch__.torch.classes.quantized.EmbeddingPackedParamsBase weight, Tensor indices, Tensor? "
       "offsets=None, bool scale_grad_by_freq=False, int mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? "
       "compressed_indices_mapping=None, bool include_last_offset=False) -> Tensor") {
  return packed_bag(c, 8);
}
PEN_OP(embedding_bag_4bit,
       "quantized::embedding_bag_4bit(__torch__.torch.classes.quantized.EmbeddingPackedParamsBase weight, Tensor indices, Tensor? "
       "offsets=None, bool scale_grad_by_freq=False, int mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? "
       "compressed_indices_mapping=None, bool include_last_offset=False) -> Tensor") {
  return packed_bag(c, 4);
}
PEN_OP(
    embedding_bag_byte_rows,
    "quantized::embedding_bag_byte_rowwise_offsets(Tensor weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int "
    "mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool "
    "include_last_offset=False) -> Tensor") {
  return bytes_bag(c, 8);
}
PEN_OP(
    embedding_bag_4bit_rows,
    "quantized::embedding_bag_4bit_rowwise_offsets(Tensor weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int "
    "mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool "
    "include_last_offset=False) -> Tensor") {
  return bytes_bag(c, 4);
}
PEN_OP(
    embedding_bag_2bit_rows,
    "quantized::embedding_bag_2bit_rowwise_offsets(Tensor weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int "
    "mode=0, bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool "
    "include_last_offset=False) -> Tensor") {
  return bytes_bag(c, 2);
}

// ---- making tables ----
static Status prepack(Call& c, int bits) {
  const TensorObject& w = c.tensor(0);
  if (w.dtype() != DType::f32 || w.rank() != 2)
    return c.fail("a table of f32, rows by columns", "%s of rank %d", dtype_name(w.dtype()), w.rank());
  if (bits != 8 && c.count > 1 && c.flag(1)) return c.fail("scales from the smallest and largest of a row", "optimized_qparams");
  int64_t rows = w.dim(0), columns = w.dim(1), per_byte = 8 / bits;
  if (columns % per_byte != 0) return c.fail("columns that fill bytes", "%lld", static_cast<long long>(columns));
  Value dense;
  PEN_TRY(dense_rows(c, w, &dense));
  int64_t dims[] = {rows, columns / per_byte + (bits == 8 ? 8 : 4)};
  Value made = Value::own(tensor_create(DType::u8, 2, dims));
  if (made.is_none()) return c.out_of_memory();
  memset(made.tensor()->data(), 0, static_cast<size_t>(dims[0] * dims[1]));
  for (int64_t r = 0; r < rows; ++r) {
    PEN_TRY(c.walk(columns));
    const float* x = dense.tensor()->as<float>() + r * columns;
    uint8_t* to = made.tensor()->as<uint8_t>() + r * dims[1];
    uint8_t* behind = to + columns / per_byte;
    float low = columns ? x[0] : 0, high = low;
    for (int64_t k = 0; k < columns; ++k) low = x[k] < low ? x[k] : low, high = x[k] > high ? x[k] : high;
    int most = (1 << bits) - 1;
    float scale, inverse;
    if (bits == 8) {
      scale = (high - low) / 255.0f, inverse = 255.0f / (high - low + 1e-8f);
      memcpy(behind, &scale, 4);
      memcpy(behind + 4, &low, 4);
    } else {
      low = round_to_half(low);
      float range = high - low;
      scale = round_to_half(range == 0.0f ? 1.0f : range / static_cast<float>(most));
      if (scale == 0.0f || 1.0f / scale > 3.4028235e38f) scale = 1.0f;
      inverse = 1.0f / scale;
      uint16_t halves[2];  // rows end at any byte
      number_into(Value(static_cast<double>(scale)), DType::f16, halves);
      number_into(Value(static_cast<double>(low)), DType::f16, halves + 1);
      memcpy(behind, halves, 4);
    }
    for (int64_t k = 0; k < columns; ++k) {
      int64_t v = limit(nearest((x[k] - low) * inverse), {0, most});
      to[k / per_byte] = static_cast<uint8_t>(to[k / per_byte] | v << (k % per_byte * bits));
    }
  }
  return c.give(static_cast<Value&&>(made));
}
static Status unpack(Call& c, int bits) {
  Rows t;
  PEN_TRY(bytes_table(c, 0, bits, &t));
  int64_t dims[] = {t.rows, t.columns};
  Value made = Value::own(tensor_create(DType::f32, 2, dims));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t r = 0; r < t.rows; ++r) {
    PEN_TRY(c.walk(t.columns));
    float scale, offset;
    t.numbers(r, &scale, &offset);
    float* to = made.tensor()->as<float>() + r * t.columns;
    for (int64_t k = 0; k < t.columns; ++k) to[k] = static_cast<float>(t.element(r, k)) * scale + offset;
  }
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(embedding_byte_prepack, "quantized::embedding_bag_byte_prepack(Tensor weight) -> Tensor") { return prepack(c, 8); }
PEN_OP(embedding_4bit_prepack,
       "quantized::embedding_bag_4bit_prepack(Tensor weight, bool optimized_qparams=False, int nbins=200, float ratio=0.16) -> Tensor") {
  return prepack(c, 4);
}
PEN_OP(embedding_2bit_prepack,
       "quantized::embedding_bag_2bit_prepack(Tensor weight, bool optimized_qparams=False, int nbins=200, float ratio=0.16) -> Tensor") {
  return prepack(c, 2);
}
PEN_OP(embedding_byte_unpack, "quantized::embedding_bag_byte_unpack(Tensor weight) -> Tensor") { return unpack(c, 8); }
PEN_OP(embedding_4bit_unpack, "quantized::embedding_bag_4bit_unpack(Tensor weight) -> Tensor") { return unpack(c, 4); }
PEN_OP(embedding_2bit_unpack, "quantized::embedding_bag_2bit_unpack(Tensor weight) -> Tensor") { return unpack(c, 2); }

static const char* const kEmbeddingFields[] = {"weight", "bit_rate", "scales", "zero_points"};
static const ClassInfo kEmbeddingClass = {kEmbeddingParams, kEmbeddingFields, 4};
PEN_OP(embedding_bag_prepack, "[quantized]",
       "quantized::embedding_bag_prepack(Tensor weight) -> __torch__.torch.classes.quantized.EmbeddingPackedParamsBase W_prepack") {
  const TensorObject& w = c.tensor(0);
  if (!w.quantizer || w.dtype() != DType::u8 || w.quantizer->axis != 0 || w.rank() != 2)
    return c.fail("a table of quint8, rows by columns, with a scale for each row", "%s of rank %d", dtype_name(w.dtype()), w.rank());
  PEN_TRY(channels_fit(c, w));
  Value object = Value::own(instance_create(kEmbeddingParams, &kEmbeddingClass, 4));
  Value scales = Value::own(tensor_create(DType::f32, 1, &w.quantizer->channels));
  Value zeros = Value::own(tensor_create(DType::f32, 1, &w.quantizer->channels));
  if (object.is_none() || scales.is_none() || zeros.is_none()) return c.out_of_memory();
  for (int64_t r = 0; r < w.quantizer->channels; ++r) {
    scales.tensor()->as<float>()[r] = static_cast<float>(w.quantizer->scales[r]);
    zeros.tensor()->as<float>()[r] = static_cast<float>(w.quantizer->zero_points[r]);
  }
  Value* slots = object.object()->slots;
  slots[0] = c.args[0], slots[1] = Value(int64_t{8}), slots[2] = scales, slots[3] = zeros;
  return c.give(static_cast<Value&&>(object));
}
PEN_OP(embedding_bag_unpack,
       "quantized::embedding_bag_unpack(__torch__.torch.classes.quantized.EmbeddingPackedParamsBase W_prepack) -> Tensor") {
  Instance* object;
  const TensorObject* weight;
  PEN_TRY(packed_object(c, 0, kEmbeddingParams, &object));
  PEN_TRY(packed_tensor(c, *object, "weight", false, &weight));
  return c.give(Value::share(const_cast<TensorObject*>(weight)));
}

}  // namespace pen
