// Schedules on a GPU: what an operator's rule says there. One rule, PEN_GPU(op, "keys"), does for every GPU what PEN_BIND does for the
// CPU: it says how inputs must lie and where outputs lie, and which shaders compute them. Vulkan runs it today; nothing here knows of it.
//
//   PEN_GPU(softmax, "f32") {                                    // the keys: of softmax, those that begin with f32
//     PEN_TRY(b.need(0, Need::rows));
//     PEN_TRY(b.output(0));
//     shader::Softmax s;                                         // generated from softmax.comp
//     s.push.rows = …;
//     return b.dispatch(s, {b.reads(0), b.writes(0)}, groups);   // buffers in the shader's order
//   }
//
// Values of dtype f32 are stored as f32 or, where the caller wants it and the device can, as f16; numbers are f32 in both. Sizes and
// places are counted in elements, so rules need not know which.
#pragma once
#include "gpu_shaders.h"  // generated from the shaders
#include "penlight/runtime/exec/bind.h"

namespace pen {

// What schedules are chosen by: as the device says of itself.
struct GpuLimits {
  uint32_t group_threads;  // at most, in a workgroup
  uint32_t shared_bytes;   // that a workgroup has
  bool f16;                // values are stored as f16
  bool matrix;             // 16 x 16 x 16 products of f16 by a subgroup of 32
};
// What Runner::device points at begins with this.
struct GpuTarget {
  GpuLimits limits;
};

// A buffer as a shader sees it, before memory has a place: offset and bytes as the planner counts them.
struct Operand {
  int32_t buffer;  // of the plan; kNone: for what a shader is told not to read; kFaults, kRandom
  static constexpr int32_t kNone = -1, kFaults = -2, kRandom = -3;
  int64_t offset, bytes;
  DType dtype;
};

constexpr int kFaultWords = 8;  // as faults.glsl has them: whether there is one, step, input, index (two), lowest, limit
constexpr int kMaxOperands = 8, kMaxConstants = 24, kMaxPush = 32;
struct Dispatch {
  Dispatch* next;
  uint16_t shader, operand_count, constant_count, push_words;
  uint32_t written;
  const int8_t* at;
  Operand operands[kMaxOperands];
  uint32_t constants[kMaxConstants], push[kMaxPush], groups[3];
};

constexpr int64_t kMostGroups = 65535;  // along each side of a grid: what every device has
struct Groups {
  int64_t x = 1, y = 1, z = 1;
};

// What follows a sum: the number that `activate` has for it in shaders, or -1 where it is a dispatch of its own; 0: nothing.
struct GpuActivation {
  const char* name;
  int number;
  float args[4];
};

class Gpu : public Lay {
 public:
  const GpuLimits& limits() const;
  Operand reads(int input) const;
  Operand writes(int output) const;
  Operand none() const { return {Operand::kNone, 0, 0, DType::f32}; }
  // Words in which a shader reports what the data shows to be wrong (faults.glsl); zero at the start of a run.
  Operand faults() const { return {Operand::kFaults, 0, kFaultWords * 4, DType::i32}; }
  // Two words of the session's seed and two of the number of the run.
  Operand random() const { return {Operand::kRandom, 0, sizeof(Random), DType::i32}; }
  // An input in this packed layout, with all the bytes that it takes: an error where it is not. All others must be plain.
  Status need_packed(int input, const char* layout, int64_t groups = 1);
  // The activation that these attributes name: an error where there is none such, or it takes other numbers.
  Status activation(const char* name_attribute, const char* args_attribute, GpuActivation* activation) const;
  // Memory for this node alone.
  Status scratch(DType dtype, int64_t elements, Operand* operand);
  // The shader, after what this node has dispatched so far. An empty grid is no dispatch.
  template <class S, int N>
  Status dispatch(const S& s, const Operand (&operands)[N], const Groups& groups) {
    static_assert(N == S::kBuffers, "a buffer for each that the shader has");
    static_assert(N <= kMaxOperands && S::kConstants <= kMaxConstants && sizeof(s.push) <= kMaxPush * 4, "");
    return add({S::kNumber, N, S::kConstants, sizeof(s.push) / 4, S::kWritten, S::kAt}, operands, s.constants(), &s.push, groups);
  }
  // Elementwise shaders are many and alike: by number, with what elementwise.cc fills.
  struct Form {
    uint16_t shader;
    int operands, constants;
    size_t push_words;
    uint32_t written;
    const int8_t* at;
  };
  Status add(const Form& form, const Operand* operands, const uint32_t* constants, const void* push, const Groups& groups);

  Dispatch** last;      // where the next one goes
  uint64_t packed = 0;  // a bit for each input that the rule knows to be packed
};
using GpuFn = Status (*)(Gpu&);

// The number of groups of `size` threads for n elements, when each thread goes round.
static inline Groups rounds(int64_t n, int64_t size) {
  int64_t groups = (n + size - 1) / size;
  return {groups < 8192 ? groups : 8192, 1, 1};
}
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The generated tables (build/gpu_rules.py). Of each kernel: which rule schedules it (0: none), and of elementwise ones the shader and
// its case.
struct GpuEntry {
  uint8_t rule;
  uint8_t number;
  uint16_t shader;
};
constexpr uint8_t kViewRule = 255;    // all of its outputs are views
extern const GpuEntry kGpuEntries[];  // as kKernels
GpuFn gpu_function(int number);       // from 1

struct ShaderProgram {
  const char* name;
  const uint8_t* packed;  // see unpack.h
  uint32_t size, unpacked;
  uint32_t words[2];  // of SPIR-V, with values as f32 and as f16; 0: there is none, or this library does not have it
  uint32_t buffers, push_bytes;
};
extern const ShaderProgram kShaderPrograms[];

const GpuEntry& gpu_entry(const KernelEntry& entry);

// What a GPU's backend has of Backend, whichever it is.
Status gpu_bind(Given::State& s);
Status gpu_bind_copy(Given::State& s, Copy* copy);
int64_t gpu_pitch(const Tensor& t);
bool gpu_has(const KernelEntry& kernel);

}  // namespace pen

// Inside namespace pen, at file scope, at the start of a line. The keys: what follows the operator's name, of all that it takes.
#define PEN_GPU(op, keys)                          \
  PEN_SMALL ::pen::Status op##_gpu(::pen::Gpu& b); \
  PEN_SMALL ::pen::Status op##_gpu(::pen::Gpu& b)
