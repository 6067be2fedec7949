// Elementwise operators on a GPU: shaders generated from their rules (ops/elementwise/glsl.py), which differ in the number of inputs.
#include "penlight/runtime/gpu/elementwise.h"

#include "penlight/runtime/gpu/walk.h"

namespace pen {

namespace {

constexpr int kDims = 4, kThreads = 128, kFours = 4;

// Places of push constants, as ops/elementwise/glsl.py writes them: n, dims, strides of inputs and of the output, first elements, numbers.
struct Words {
  uint32_t words[1 + kDims + kDims * GpuWalk::kMost + GpuWalk::kMost + 4];
  int count = 0;
  void add(int64_t word) { words[count++] = static_cast<uint32_t>(word); }
};

// -1 but for the places of first elements.
struct Firsts {
  int8_t at[GpuWalk::kMost];
};
constexpr Firsts firsts(int inputs) {
  Firsts f = {};
  for (int i = 0; i <= inputs; ++i) f.at[i] = static_cast<int8_t>(1 + kDims + kDims * (inputs + 1) + i);
  return f;
}
constexpr Firsts kFirsts[] = {firsts(0), firsts(1), firsts(2), firsts(3)};

// Whether a tensor's elements fill its memory, in whatever order of dims.
bool in_order(const Tensor& t) {
  int64_t strides[1][kMaxRank];
  for (int d = 0; d < t.rank; ++d) strides[0][d] = t.strides[d];
  return walk_together(shape_of(t), strides, 1).dense(0);
}

// As elementwise_whole.glsl counts dtypes.
uint32_t stored_as(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0;
    case DType::i32:
      return 1;
    case DType::i64:
      return 2;
    case DType::boolean:
      return 3;
    case DType::u8:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

Status dispatch_elementwise(Gpu& b, const GpuEntry& entry, const Tensor* in, const Operand* read, int inputs, const Tensor& out,
                            const Operand& written, const float* numbers, int number_count) {
  Shape shape = shape_of(out);
  int64_t strides[GpuWalk::kMost][kMaxRank] = {};
  for (int i = 0; i < inputs; ++i) broadcast_strides(in[i], shape, strides[i]);
  broadcast_strides(out, shape, strides[inputs]);
  GpuWalk w = walk_together(shape, strides, inputs + 1);
  if (w.n == 0) return PEN_OK;
  const bool whole = entry.shader == shader::ElementwiseWhole::kNumber;  // one shader for up to three inputs
  // The others write truth values four at a time, in order: what lies otherwise is laid so afterwards.
  if (!whole && written.dtype == DType::boolean && (!in_order(out) || written.offset % kFours != 0)) {
    Tensor laid = out;
    Operand truths;
    int64_t bytes;
    lay_plain(&laid, &bytes);
    PEN_TRY(b.scratch(DType::boolean, w.n, &truths));
    PEN_TRY(dispatch_elementwise(b, entry, in, read, inputs, laid, truths, numbers, number_count));
    return dispatch_copy(b, laid, truths, out, written);
  }
  Operand operands[GpuWalk::kMost];
  for (int i = 0; i < inputs; ++i) operands[i] = read[i];
  operands[inputs] = written;
  if (w.rank > kDims) {  // rare: what does not lie as the output does is laid so first
    for (int i = 0; i < inputs; ++i) {
      Tensor laid = out, seen = out;
      laid.dtype = seen.dtype = in[i].dtype;
      for (int d = 0; d < shape.rank; ++d) seen.strides[d] = strides[i][d];
      int64_t bytes;
      lay_plain(&laid, &bytes);
      PEN_TRY(b.scratch(in[i].dtype, w.n, &operands[i]));
      PEN_TRY(dispatch_copy(b, seen, read[i], laid, operands[i]));
      for (int d = 0; d < shape.rank; ++d) strides[i][d] = laid.strides[d];
    }
    w = walk_together(shape, strides, inputs + 1);
    if (w.rank > kDims) return b.fail(-1, "an output that lies in order", "one of many gaps");
  }
  const int buffers = whole ? 4 : inputs + 1;
  Words push;
  push.add(w.n);
  for (int d = 0; d < kDims; ++d) push.add(d < w.rank ? w.dims[d] : 1);
  bool dense = w.n % kFours == 0;
  auto walked = [&](int buffer) { return buffer == buffers - 1 ? inputs : buffer < inputs ? buffer : -1; };
  for (int i = 0; i < buffers; ++i) {
    int o = walked(i);
    for (int d = 0; d < kDims; ++d) push.add(o >= 0 && d < w.rank ? w.strides[o][d] : 0);
    if (o >= 0) dense &= w.dense(o) && operands[o].offset % (kFours * dtype_size(operands[o].dtype)) == 0;
  }
  for (int i = 0; i < buffers; ++i) push.add(0);
  for (int i = 0; i < 4; ++i) {
    uint32_t word = 0;
    if (i < number_count) memcpy(&word, &numbers[i], 4);
    push.add(word);
  }
  size_t words = static_cast<size_t>(push.count);
  if (!whole) {
    uint32_t constants[] = {entry.number, dense};
    return b.add({entry.shader, buffers, 2, words, 1u << inputs, kFirsts[inputs].at}, operands, constants, push.words,
                 rounds(ceil_div(w.n, kFours), kThreads));
  }
  Operand bound[4];
  for (int i = 0; i < 4; ++i) bound[i] = walked(i) >= 0 ? operands[walked(i)] : b.none();
  uint32_t constants[] = {entry.number, static_cast<uint32_t>(inputs), stored_as(operands[0].dtype),
                          inputs > 1 ? stored_as(operands[1].dtype) : 0, stored_as(written.dtype)};
  return b.add({entry.shader, buffers, 5, words, 8, kFirsts[3].at}, bound, constants, push.words, rounds(w.n, kThreads));
}

Status elementwise_gpu(Gpu& b);
Status elementwise_gpu(Gpu& b) {
  PEN_TRY(b.output(0));
  int inputs = b.input_count();
  Tensor in[3];
  Operand read[3];
  for (int i = 0; i < inputs; ++i) {
    in[i] = b.in(i);
    read[i] = b.reads(i);
    if (in[i].dtype == b.out(0).dtype) b.may_reuse(0, i);  // others have elements of another size, here if not on the CPU
  }
  FloatList numbers = b.all_numbers();
  float args[4] = {};
  for (int i = 0; i < numbers.count && i < 4; ++i) args[i] = static_cast<float>(numbers[i]);
  return dispatch_elementwise(b, gpu_entry(*b.state->entry), in, read, inputs, b.out(0), b.writes(0), args, numbers.count);
}

// y = act(y), where the shader that computed y cannot.
Status dispatch_activation(Gpu& b, const char* name, const float* args, int count, const Tensor& t, const Operand& y) {
  char key[96];
  set_text(key, sizeof key, "%s.f32", name);
  const KernelEntry* found = find_kernel(key);
  if (!found || !gpu_entry(*found).rule) return b.fail(-1, "an activation that this device has", "%s", name);
  return dispatch_elementwise(b, gpu_entry(*found), &t, &y, 1, t, y, args, count);
}

}  // namespace pen
