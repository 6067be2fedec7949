// Tensors of the VM: counted, strided views of counted storages, in torch's layout and with torch's aliasing. Two tensors on
// one storage see each other's writes. A quantized tensor is its integers (u8, i8, i32) with a quantizer beside them.
#pragma once
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/vm/value.h"

namespace pen {

struct Storage {
  Count refs;
  char* data;
  int64_t bytes;
  bool owned;      // freed with the storage
  bool read_only;  // weights, a caller's read-only memory: a write makes them the module's own first (tensor_make_writable)
  bool constant;   // read-only, and nobody else writes it either: what is derived from it may be kept
  int64_t pitch;   // not 0: an image that lies channels-last whatever its strides say, this far from pixel to pixel (images.h)
  Packed packed;   // where its layout is not null, `data` is a packed weight, of at least `bytes`: see storage_unpack
  void (*release)(void* owner);
  void* owner;
  Account* account;  // that its own memory is counted by; null: none
  Storage* former;   // with memory that this one had before (storage_exchange); null: none
};
// The integers of a quantized tensor's dtype.
struct Levels {
  int64_t low, high;
};
static PEN_INLINE Levels levels_of(DType d) {
  return d == DType::u8 ? Levels{0, 255} : d == DType::i8 ? Levels{-128, 127} : Levels{INT32_MIN, INT32_MAX};
}
// real = (stored - zero_point) * scale. Per channel: one of each for every place along `axis`.
struct Quantizer {
  Count refs;
  double scale;
  int64_t zero_point;
  int32_t axis;      // -1: one scale for the whole tensor
  int64_t channels;  // of the arrays
  double* scales;
  int64_t* zero_points;
  Account* account;  // that it is counted by; null: none
};

struct TensorObject : Heap {
  Storage* storage;
  int64_t offset;  // in bytes, of the first element
  Tensor shape;    // dtype, dims, strides; its data is not set
  Quantizer* quantizer;

  char* data() const { return storage->data + offset; }
  // With its data, as kernels take it.
  Tensor view() const {
    Tensor t = shape;
    t.data = data();
    return t;
  }
  DType dtype() const { return shape.dtype; }
  int rank() const { return shape.rank; }
  int64_t dim(int d) const { return shape.dims[d]; }
  int64_t numel() const { return shape.numel(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
};

// All return null when out of memory, or for sizes that no memory has.
Storage* storage_create(int64_t bytes);  // 64-byte aligned, not cleared
// The memory alone, of a Storage that is nobody's, counted by this account. False when out of memory.
bool storage_fill(Storage* storage, int64_t bytes, Account* account);
void storage_empty(Storage* storage);
Storage* storage_borrow(void* data, int64_t bytes, bool read_only, void (*release)(void*), void* owner);
Storage* storage_adopt(void* data, int64_t bytes);  // takes over memory of malloc's; where it returns null, that is freed
// Unpacks a weight that lies packed in the file into memory of the module's own: needed before its numbers are read. Only attributes
// of objects may hold packed tensors; registers, lists, tuples and dicts never do. False when out of memory.
bool storage_unpack(Storage* storage);
// The same, of a value that is a tensor; others are left alone.
bool value_unpack(const Value& value);
void storage_release(Storage* storage);
// The memory of `fresh`, and who counts it, for all tensors on a storage. What that had stays as long as the storage where others have it
// too: one may be an array that a caller reads.
void storage_exchange(Storage* storage, Storage* fresh);
Quantizer* quantizer_create(double scale, int64_t zero_point);
Quantizer* quantizer_create(int32_t axis, int64_t channels);  // scales and zero points to be filled in
void quantizer_release(Quantizer* quantizer);

// A fresh row-major tensor, its memory not cleared. Dims are 0 or more; null where they are not or the product is too large.
TensorObject* tensor_create(DType dtype, int rank, const int64_t* dims);
// A view: the same storage, another shape. Takes a new reference to the storage (and the quantizer of `base`, if any).
TensorObject* tensor_view(const TensorObject& base, int rank, const int64_t* dims, const int64_t* strides, int64_t offset_bytes);
TensorObject* tensor_on(Storage* storage, const Tensor& shape, int64_t offset_bytes);  // shares the storage
void tensor_destroy(TensorObject* tensor);                                             // for heap_release
void tensor_set_quantizer(TensorObject* tensor, Quantizer* quantizer);                 // takes over the reference
Shape shape_of(const TensorObject& t);
void row_major_strides(int rank, const int64_t* dims, int64_t* strides);
bool tensor_is_contiguous(const TensorObject& t);
bool tensor_is_channels_last(const TensorObject& t);  // rank 4, nhwc without gaps
// torch's rule of memory formats: its dims lie in this order, from the innermost, gaps allowed; what could be either does not.
bool tensor_looks_ordered(const TensorObject& t, const int* order);
// Whether what is computed of an image of rank 4 is to lie nhwc: it does itself, perhaps as a part of a larger one, and is not row-major.
bool tensor_suggests_channels_last(const TensorObject& t);
// Before the first write into a tensor: weights are moved to memory of the module's own, for all who share the storage.
// False when out of memory.
bool tensor_make_writable(TensorObject* t);
// Whether all elements of a view of this shape lie inside the storage.
bool tensor_fits(const Storage& storage, const Tensor& shape, int64_t offset_bytes);

}  // namespace pen
