#include "penlight/runtime/vm/tensor.h"

namespace pen {

constexpr int64_t kMaxStorageBytes = int64_t{1} << 46;

Storage* storage_create(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxStorageBytes) return nullptr;
  Storage* s = static_cast<Storage*>(calloc(1, sizeof(Storage)));
  void* data = nullptr;
  if (!s || posix_memalign(&data, 64, static_cast<size_t>(bytes < 64 ? 64 : bytes)) != 0) {
    free(s);
    return nullptr;
  }
  s->refs = 1;
  s->data = static_cast<char*>(data);
  s->bytes = bytes;
  s->owned = true;
  return s;
}
Storage* storage_borrow(void* data, int64_t bytes, bool read_only, void (*release)(void*), void* owner) {
  Storage* s = static_cast<Storage*>(calloc(1, sizeof(Storage)));
  if (!s) return nullptr;
  s->refs = 1;
  s->data = static_cast<char*>(data);
  s->bytes = bytes;
  s->read_only = read_only;
  s->release = release;
  s->owner = owner;
  return s;
}
void storage_release(Storage* s) {
  if (!s || --s->refs > 0) return;
  if (s->owned) free(s->data);
  if (s->release) s->release(s->owner);
  free(s);
}

Quantizer* quantizer_create(double scale, int64_t zero_point) {
  Quantizer* q = static_cast<Quantizer*>(calloc(1, sizeof(Quantizer)));
  if (!q) return nullptr;
  q->refs = 1;
  q->scale = scale;
  q->zero_point = zero_point;
  q->axis = -1;
  return q;
}
Quantizer* quantizer_create(int32_t axis, int64_t channels) {
  Quantizer* q = quantizer_create(1.0, 0);
  if (!q) return nullptr;
  q->axis = axis;
  q->channels = channels;
  q->scales = static_cast<double*>(calloc(static_cast<size_t>(channels) + 1, sizeof(double)));
  q->zero_points = static_cast<int64_t*>(calloc(static_cast<size_t>(channels) + 1, sizeof(int64_t)));
  if (q->scales && q->zero_points) return q;
  quantizer_release(q);
  return nullptr;
}
void quantizer_release(Quantizer* q) {
  if (!q || --q->refs > 0) return;
  free(q->scales);
  free(q->zero_points);
  free(q);
}

Shape shape_of(const TensorObject& t) {
  Shape s;
  s.rank = t.rank();
  for (int d = 0; d < s.rank; ++d) s.dims[d] = t.dim(d);
  return s;
}

void row_major_strides(int rank, const int64_t* dims, int64_t* strides) {
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= dims[d] > 1 ? dims[d] : 1;
  }
}

TensorObject* tensor_on(Storage* storage, const Tensor& shape, int64_t offset_bytes) {
  TensorObject* t = static_cast<TensorObject*>(calloc(1, sizeof(TensorObject)));
  if (!t) return nullptr;
  t->refs = 1;
  t->tag = Tag::tensor;
  t->storage = storage;
  ++storage->refs;
  t->shape = shape;
  t->shape.data = nullptr;
  t->offset = offset_bytes;
  return t;
}
TensorObject* tensor_create(DType dtype, int rank, const int64_t* dims) {
  if (rank < 0 || rank > kMaxRank) return nullptr;
  Tensor shape;
  shape.dtype = dtype;
  shape.rank = rank;
  int64_t bytes = dtype_size(dtype);
  bool empty = false;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] < 0) return nullptr;
    empty |= dims[d] == 0;
    if (mul_overflows(bytes, dims[d] > 1 ? dims[d] : 1, &bytes)) return nullptr;
    shape.dims[d] = dims[d];
  }
  row_major_strides(rank, dims, shape.strides);
  Storage* storage = storage_create(empty ? 0 : bytes);
  if (!storage) return nullptr;
  TensorObject* t = tensor_on(storage, shape, 0);
  storage_release(storage);  // the tensor holds it now
  return t;
}
TensorObject* tensor_view(const TensorObject& base, int rank, const int64_t* dims, const int64_t* strides, int64_t offset_bytes) {
  Tensor shape;
  shape.dtype = base.shape.dtype;
  shape.rank = rank;
  for (int d = 0; d < rank; ++d) {
    shape.dims[d] = dims[d];
    shape.strides[d] = strides[d];
  }
  TensorObject* t = tensor_on(base.storage, shape, offset_bytes);
  if (t && base.quantizer) {
    t->quantizer = base.quantizer;
    ++t->quantizer->refs;
  }
  return t;
}
void tensor_destroy(TensorObject* t) {
  storage_release(t->storage);
  quantizer_release(t->quantizer);
  free(t);
}
void tensor_set_quantizer(TensorObject* t, Quantizer* q) {
  quantizer_release(t->quantizer);
  t->quantizer = q;
}

static bool lies_in_order(const Tensor& t, const int* order) {
  int64_t expected = 1;
  for (int i = 0; i < t.rank; ++i) {
    int d = order[i];
    if (t.dims[d] == 0) return true;
    if (t.dims[d] == 1) continue;
    if (t.strides[d] != expected) return false;
    expected *= t.dims[d];
  }
  return true;
}
bool tensor_is_contiguous(const TensorObject& t) {
  int order[kMaxRank];
  for (int i = 0; i < t.rank(); ++i) order[i] = t.rank() - 1 - i;
  return lies_in_order(t.shape, order);
}
bool tensor_is_channels_last(const TensorObject& t) {
  static const int kOrder[4] = {1, 3, 2, 0};
  return t.rank() == 4 && lies_in_order(t.shape, kOrder);
}

bool tensor_make_writable(TensorObject* t) {
  Storage* s = t->storage;
  if (!s->read_only) return true;
  void* data = nullptr;
  if (posix_memalign(&data, 64, static_cast<size_t>(s->bytes < 64 ? 64 : s->bytes)) != 0) return false;
  if (s->bytes) memcpy(data, s->data, static_cast<size_t>(s->bytes));
  if (s->release) s->release(s->owner);
  s->release = nullptr;
  s->data = static_cast<char*>(data);
  s->owned = true;
  s->read_only = false;
  return true;
}

bool tensor_fits(const Storage& storage, const Tensor& shape, int64_t offset_bytes) {
  int64_t size = dtype_size(shape.dtype), reach = 0, span, end;
  if (offset_bytes < 0 || offset_bytes > storage.bytes) return false;
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.dims[d] < 0) return false;
    if (shape.dims[d] == 0) return true;
    if (shape.strides[d] < 0 || mul_overflows(shape.dims[d] - 1, shape.strides[d], &span) || add_overflows(reach, span, &reach))
      return false;
  }
  return !add_overflows(reach, 1, &end) && !mul_overflows(end, size, &end) && end <= storage.bytes - offset_bytes;
}

}  // namespace pen
