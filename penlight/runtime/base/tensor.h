// What the runtime knows of a tensor: dtype, dims, strides in elements. Plain data, shared by file, exec and kernels.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

constexpr int kMaxRank = 8;

// Codes are those of the .pen format (ir/types.py DTYPES) and of pen_dtype.
enum class DType : uint8_t { f32 = 0, f16, f64, i8, u8, i16, i32, i64, boolean, bf16 };
constexpr int kDTypeCount = 10;
constexpr char kDTypeNames[kDTypeCount][5] = {"f32", "f16", "f64", "i8", "u8", "i16", "i32", "i64", "bool", "bf16"};

static PEN_INLINE int64_t dtype_size(DType d) {
  switch (d) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    default:
      return 1;
  }
}

struct Shape {
  int rank = 0;
  int64_t dims[kMaxRank] = {};
};

// Whether a library knows quantized tensors, and weights that a file holds in f16; and whether it asks its caller if a run should end. One
// for models of f32 alone is smaller without.
#if defined(PEN_FLOATS_ONLY)
constexpr bool kHasBytes = false, kHasHalves = false, kAsks = false;
#else
constexpr bool kHasBytes = true, kHasHalves = true, kAsks = true;
#endif

// Whether methods may keep state. A library for models that keep none reads files of versions before that, and is smaller.
#if defined(PEN_STATELESS)
constexpr bool kHasState = false;
#else
constexpr bool kHasState = true;
#endif

// Whether a batch may go through steps in turns (exec/turns.h). A library for models that take one image at a time is smaller without.
#if defined(PEN_ONE_IMAGE)
constexpr bool kHasTurns = false;
#else
constexpr bool kHasTurns = true;
#endif

// Whether operators may have a phase for every step (Bind::repeat_tasks), as recurrent layers do: without, their steps are one task.
#if defined(PEN_WITHOUT_STEPS)
constexpr bool kHasSteps = false;
#else
constexpr bool kHasSteps = true;
#endif

// What the integers of a quantized tensor stand for: real = (stored - zero) * scale. Weights may have a scale for every place along
// `axis`, and zero points too.
struct Quant {
  double scale;  // where there is one for all
  int64_t zero;  // the first
  int axis;      // -1: one for all
  int64_t count;
  const float* scales;   // along the axis; null: one for all
  const int64_t* zeros;  // along the axis; null: one for all

  PEN_INLINE float scale_at(int64_t place) const { return scales ? scales[place] : static_cast<float>(scale); }
  PEN_INLINE int64_t zero_at(int64_t place) const { return zeros ? zeros[place] : zero; }
};

struct Tensor {
  char* data = nullptr;  // known to kernels in a run; null while binding, except for constants
  DType dtype = DType::f32;
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};  // in elements; 0 where broadcast
  const Quant* quant = nullptr;    // null: integers are themselves

  PEN_INLINE int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  template <class T>
  PEN_INLINE T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

static PEN_INLINE Shape shape_of(const Tensor& t) {
  Shape shape;
  shape.rank = t.rank;
  for (int d = 0; d < t.rank; ++d) shape.dims[d] = t.dims[d];
  return shape;
}

}  // namespace pen
