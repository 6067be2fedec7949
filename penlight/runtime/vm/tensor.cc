#include "penlight/runtime/vm/tensor.h"

namespace pen {

constexpr int64_t kMaxStorageBytes = int64_t{1} << 46;

// Fresh memory, counted by this account.
static char* new_memory(Account* account, int64_t bytes) {
  void* data = nullptr;
  if (static_cast<uint64_t>(bytes) > SIZE_MAX / 2 || !account_take(account, static_cast<size_t>(bytes))) return nullptr;
  if (posix_memalign(&data, 64, static_cast<size_t>(bytes < 64 ? 64 : bytes)) == 0) return static_cast<char*>(data);
  account_give(account, static_cast<size_t>(bytes));
  return nullptr;
}
static void free_memory(Storage* s) {
  if (!s->owned) return;
  free(s->data);
  account_give(s->account, static_cast<size_t>(s->bytes));
}

bool storage_fill(Storage* s, int64_t bytes, Account* account) {
  s->data = new_memory(account, bytes);
  s->owned = s->data != nullptr;
  s->bytes = bytes;
  s->account = account;
  return s->owned;
}
void storage_empty(Storage* s) { free_memory(s); }

Storage* storage_create(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxStorageBytes) return nullptr;
  Storage* s = storage_borrow(nullptr, bytes, false, nullptr, nullptr);
  if (!s) return nullptr;
  s->data = new_memory(s->account, bytes);
  s->owned = s->data != nullptr;
  if (s->owned) return s;
  storage_release(s);
  return nullptr;
}
Storage* storage_adopt(void* data, int64_t bytes) {
  Storage* s = storage_borrow(data, bytes, false, nullptr, nullptr);
  if (s && account_take(s->account, static_cast<size_t>(bytes))) {
    s->owned = true;
    return s;
  }
  storage_release(s);
  free(data);
  return nullptr;
}
Storage* storage_borrow(void* data, int64_t bytes, bool read_only, void (*release)(void*), void* owner) {
  Account* account = account_at_work();
  if (!account_take(account, sizeof(Storage))) return nullptr;
  Storage* s = static_cast<Storage*>(calloc(1, sizeof(Storage)));
  if (!s) {
    account_give(account, sizeof(Storage));
    return nullptr;
  }
  s->refs = 1;
  s->data = static_cast<char*>(data);
  s->bytes = bytes;
  s->read_only = read_only;
  s->release = release;
  s->owner = owner;
  s->account = account;
  if (s->account) __atomic_add_fetch(&s->account->refs, 1, __ATOMIC_RELAXED);
  return s;
}
void storage_release(Storage* s) {
  while (s && --s->refs == 0) {
    Storage* former = s->former;
    free_memory(s);
    if (s->release) s->release(s->owner);
    account_give(s->account, sizeof(Storage));
    account_release(s->account);
    free(s);
    s = former;
  }
}
void storage_exchange(Storage* s, Storage* fresh) {
  auto exchange = [](auto& a, auto& b) {
    auto was = a;
    a = b;
    b = was;
  };
  exchange(s->data, fresh->data);
  exchange(s->bytes, fresh->bytes);
  exchange(s->owned, fresh->owned);
  exchange(s->release, fresh->release);
  exchange(s->owner, fresh->owner);
  exchange(s->account, fresh->account);
  if (s->refs == 1) return storage_release(fresh);
  fresh->former = s->former;
  s->former = fresh;
}

static size_t quantizer_bytes(int64_t channels) { return sizeof(Quantizer) + 2 * sizeof(int64_t) * static_cast<size_t>(channels); }
static Quantizer* new_quantizer(int64_t channels) {
  Account* account = account_at_work();
  if (!account_take(account, quantizer_bytes(channels))) return nullptr;
  Quantizer* q = static_cast<Quantizer*>(calloc(1, sizeof(Quantizer)));
  if (!q) {
    account_give(account, quantizer_bytes(channels));
    return nullptr;
  }
  q->refs = 1;
  q->channels = channels;
  q->account = account;
  if (account) __atomic_add_fetch(&account->refs, 1, __ATOMIC_RELAXED);
  return q;
}
Quantizer* quantizer_create(double scale, int64_t zero_point) {
  Quantizer* q = new_quantizer(0);
  if (!q) return nullptr;
  q->scale = scale;
  q->zero_point = zero_point;
  q->axis = -1;
  return q;
}
Quantizer* quantizer_create(int32_t axis, int64_t channels) {
  Quantizer* q = new_quantizer(channels);
  if (!q) return nullptr;
  q->scale = 1.0;
  q->axis = axis;
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
  account_give(q->account, quantizer_bytes(q->channels));
  account_release(q->account);
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
    if (mul_overflows(step, dims[d] > 1 ? dims[d] : 1, &step)) step = INT64_MAX;  // reaches outside of anything: refused later
  }
}

TensorObject* tensor_on(Storage* storage, const Tensor& shape, int64_t offset_bytes) {
  Account* account = account_at_work();
  bool empty = false;
  int64_t bytes = dtype_size(shape.dtype);
  for (int d = 0; d < shape.rank; ++d) {
    empty |= shape.dims[d] == 0;
    if (shape.dims[d] > 1 && mul_overflows(bytes, shape.dims[d], &bytes)) bytes = INT64_MAX;
  }
  // One that is expanded counts as what it says that it is: operators go through all of its elements.
  if (account && !empty && account->limit && static_cast<uint64_t>(bytes) > account->limit && bytes > storage->bytes) {
    account->refused = true;
    return nullptr;
  }
  if (!account_take(account, sizeof(TensorObject))) return nullptr;
  TensorObject* t = static_cast<TensorObject*>(calloc(1, sizeof(TensorObject)));
  if (!t) {
    account_give(account, sizeof(TensorObject));
    return nullptr;
  }
  t->refs = 1;
  t->tag = Tag::tensor;
  account_join(account, t);
  t->storage = storage;
  ++storage->refs;
  t->shape = shape;
  t->shape.data = nullptr;
  // Strides that no element is found by may be anything in a file or in as_strided: sums of them must not overflow.
  for (int d = 0; d < shape.rank; ++d)
    if ((empty || shape.dims[d] == 1) && shape.strides[d] > kMaxStorageBytes) t->shape.strides[d] = kMaxStorageBytes;
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
  bool empty = false, fits = rank >= 0 && rank <= kMaxRank;
  int64_t bytes = dtype_size(shape.dtype);
  for (int d = 0; fits && d < rank; ++d) {
    shape.dims[d] = dims[d];
    shape.strides[d] = strides[d];
    empty |= dims[d] == 0;
    fits = dims[d] >= 0 && !mul_overflows(bytes, dims[d] > 1 ? dims[d] : 1, &bytes);  // strides may be 0: dims may be anything
  }
  if (empty) offset_bytes = 0;
  if (!fits || !tensor_fits(*base.storage, shape, offset_bytes)) return nullptr;
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
  Account* account = t->account;
  account_give(account, sizeof(TensorObject));
  account_leave(account, t);
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
static const int kChannelsLast[4] = {1, 3, 2, 0};
bool tensor_is_channels_last(const TensorObject& t) { return t.rank() == 4 && lies_in_order(t.shape, kChannelsLast); }
bool tensor_looks_ordered(const TensorObject& t, const int* order) {
  int64_t least = 0;
  if (t.shape.strides[1] == 0) return false;
  for (int k = 0; k < t.rank(); ++k) {
    int d = order[k];
    if (t.dim(d) == 0 || t.shape.strides[d] < least) return false;
    if (d == 0 && least == t.shape.strides[1]) return false;
    least = t.shape.strides[d];
    if (t.dim(d) > 1 && mul_overflows(least, t.dim(d), &least)) return false;
  }
  return true;
}
bool tensor_suggests_channels_last(const TensorObject& t) {
  if (t.rank() != 4 || tensor_is_contiguous(t)) return false;
  return tensor_is_channels_last(t) || tensor_looks_ordered(t, kChannelsLast);
}

bool storage_unpack(Storage* s) {
  if (!s->packed.layout) return true;
  char* data = new_memory(s->account, s->bytes);
  if (!data) return false;
  unpack_weight(s->packed, reinterpret_cast<const uint32_t*>(s->data), reinterpret_cast<uint32_t*>(data));
  s->packed = {};
  s->data = data;
  s->owned = true;
  return true;
}
bool value_unpack(const Value& v) { return v.tag() != Tag::tensor || storage_unpack(v.tensor()->storage); }

bool tensor_make_writable(TensorObject* t) {
  Storage* s = t->storage;
  if (!s->read_only) return true;
  if (!storage_unpack(s)) return false;
  if (s->owned) {  // nobody else's memory
    s->read_only = s->constant = false;
    return true;
  }
  char* data = new_memory(s->account, s->bytes);
  if (!data) return false;
  if (s->bytes) memcpy(data, s->data, static_cast<size_t>(s->bytes));
  if (s->release) s->release(s->owner);
  s->release = nullptr;
  s->data = data;
  s->owned = true;
  s->read_only = s->constant = false;
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
