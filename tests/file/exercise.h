// Does with a file, of which nothing is known to be right, all that a caller might: loads it, reads what it says of
// itself, makes sessions, sets inputs of the declared shapes, runs, reads results. Shared by the fuzz runner and the
// libFuzzer target. Whatever the file says must end in an error or in numbers.
#pragma once
#include <stdlib.h>
#include <string.h>

#include <set>
#include <string>
#include <vector>

#include "penlight.h"

struct Rng {
  uint64_t state;
  explicit Rng(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 0x1234567u) { next(), next(); }
  uint64_t next() {  // splitmix64
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return n ? next() % n : 0; }
  bool one_in(uint64_t n) { return below(n) == 0; }
};

struct Report {
  bool loaded = false, ran = false;
  pen_error error = {};
};
struct Statistics {
  long files = 0, loaded = 0, prepared = 0, ran = 0;
  std::set<std::string> keys;  // of kernels that a whole run went through
};

constexpr size_t kElementSize[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
constexpr int64_t kMaxElements = 1 << 14;

// A block of its own for each input, so that its ends are guarded.
struct Input {
  std::vector<int64_t> dims, strides;
  char* data = nullptr;
};

inline void fill(Rng& rng, int dtype, char* data, size_t count) {
  static const float kSpecial[] = {
      0.0f, -0.0f, 1.0f, -1.0f, 3e38f, -3e38f, 1e-45f, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
  static const int64_t kSpecialInt[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 1 << 20};
  bool wild = rng.one_in(4);
  for (size_t i = 0; i < count; ++i) {
    char* p = data + i * kElementSize[dtype];
    float f = static_cast<float>(static_cast<int64_t>(rng.next() % 2001) - 1000) * 0.01f;
    if (wild && rng.one_in(4)) f = kSpecial[rng.below(10)];
    int64_t n = static_cast<int64_t>(rng.below(4)) - (wild ? 1 : 0);  // small: it may be an index
    if (wild && rng.one_in(8)) n = kSpecialInt[rng.below(8)];
    double d = f;
    if (dtype == PEN_F32)
      memcpy(p, &f, 4);
    else if (dtype == PEN_F64)
      memcpy(p, &d, 8);
    else if (dtype == PEN_BOOL)
      *p = static_cast<char>(rng.below(2));
    else
      memcpy(p, &n, kElementSize[dtype]);
  }
}

// False where the method asks for more than a test can give.
inline bool set_inputs(Rng& rng, const pen_model* model, const char* method, pen_session* session, std::vector<Input>& inputs) {
  int count = pen_model_input_count(model, method);
  if (count < 0 || count > 64) return false;
  inputs.resize(static_cast<size_t>(count));
  int64_t shared = static_cast<int64_t>(1 + rng.below(9));  // free dims are often the same
  for (int i = 0; i < count; ++i) {
    pen_tensor_info info;
    if (pen_model_input_info(model, method, i, &info) != PEN_OK) return false;
    Input& x = inputs[static_cast<size_t>(i)];
    int64_t elements = 1;
    x.dims.clear();
    x.strides.clear();
    for (int d = 0; d < info.rank; ++d) {
      int64_t size = info.dims[d];
      if (size < 0) {
        size = rng.one_in(8) ? static_cast<int64_t>(rng.below(12)) : shared;
        if (size < info.min_dims[d]) size = info.min_dims[d];
        if (size > info.max_dims[d]) size = info.max_dims[d];
      }
      if (size > kMaxElements) return false;
      elements *= size > 0 ? size : 1;
      if (elements > kMaxElements) return false;
      x.dims.push_back(size);
    }
    // row-major, or the dims in another order, or with gaps
    x.strides.assign(x.dims.size(), 1);
    std::vector<size_t> order;
    for (size_t d = x.dims.size(); d-- > 0;) order.push_back(d);
    if (rng.one_in(4))
      for (size_t d = 1; d < order.size(); ++d) std::swap(order[d], order[rng.below(d + 1)]);
    int64_t stride = 1 + (rng.one_in(8) ? static_cast<int64_t>(rng.below(3)) : 0);
    for (size_t d : order) {
      x.strides[d] = stride;
      stride *= x.dims[d] > 0 ? x.dims[d] : 1;
      if (rng.one_in(16)) stride += static_cast<int64_t>(rng.below(5));
    }
    int64_t reach = 1;
    for (size_t d = 0; d < x.dims.size(); ++d) reach += (x.dims[d] > 0 ? x.dims[d] - 1 : 0) * x.strides[d];
    free(x.data);
    size_t bytes = static_cast<size_t>(reach) * kElementSize[info.dtype];
    if (posix_memalign(reinterpret_cast<void**>(&x.data), 64, bytes) != 0) return false;
    fill(rng, info.dtype, x.data, static_cast<size_t>(reach));
    pen_tensor t = {x.data, info.dtype, info.rank, x.dims.data(), x.strides.data()};
    if (pen_session_set_input(session, i, &t) != PEN_OK) return false;
  }
  return true;
}

inline uint64_t read_outputs(const pen_session* session) {
  uint64_t sum = 0;
  pen_tensor y;
  for (int i = 0; pen_session_output(session, i, &y) == PEN_OK; ++i) {
    size_t bytes = kElementSize[y.dtype];
    for (int d = 0; d < y.rank; ++d) bytes *= static_cast<size_t>(y.dims[d]);
    for (size_t k = 0; y.data && k < bytes; ++k) sum = sum * 31 + static_cast<unsigned char*>(y.data)[k];
  }
  return sum;
}

inline uint64_t describe(const pen_model* model) {
  uint64_t sum = strlen(pen_model_metadata(model));
  for (int i = 0; i < pen_model_method_count(model) && i < 8; ++i) {
    const char* name = pen_model_method_name(model, i);
    sum += strlen(name) + strlen(pen_model_input_spec(model, name)) + strlen(pen_model_output_spec(model, name));
    pen_tensor_info info;
    for (int k = 0; pen_model_input_info(model, name, k, &info) == PEN_OK; ++k)
      sum += strlen(info.name) + static_cast<uint64_t>(info.dims[0]);
    for (int k = 0; pen_model_output_info(model, name, k, &info) == PEN_OK; ++k)
      sum += strlen(info.name) + static_cast<uint64_t>(info.dims[7]);
  }
  return sum;
}

inline Report exercise(const uint8_t* bytes, size_t size, Rng& rng, Statistics* statistics) {
  static volatile uint64_t sink;
  Report report;
  ++statistics->files;
  pen_model* model;
  // An aligned block of exactly this size: read in place, and sanitizers see its end.
  void* block = nullptr;
  if (posix_memalign(&block, 64, size ? size : 1) != 0) return report;
  memcpy(block, bytes, size);
  if (pen_model_open_memory(block, size, rng.one_in(64) ? PEN_LOAD_VERIFY : 0, &model, &report.error) == PEN_OK) {
    report.loaded = true;
    ++statistics->loaded;
    sink = sink + describe(model);
    for (int m = 0; m < pen_model_method_count(model) && m < 2; ++m) {
      const char* method = pen_model_method_name(model, m);
      int isas = 0;
      while (pen_isa_name(isas)) ++isas;
      pen_session_options options = {rng.one_in(32) ? 2 : 1, 2, 4 << 20,
                                     pen_isa_name(static_cast<int>(rng.below(static_cast<uint64_t>(isas))))};
      pen_session* session;
      if (pen_session_create(model, method, &options, &session, &report.error) != PEN_OK) continue;
      std::vector<Input> inputs;
      for (int round = 0; round < 2; ++round) {
        if (!set_inputs(rng, model, method, session, inputs)) break;
        if (pen_session_prepare(session) != PEN_OK) {
          report.error = *pen_session_error(session);
          break;
        }
        ++statistics->prepared;
        sink = sink + read_outputs(session);
        if (pen_session_run(session) != PEN_OK) {
          report.error = *pen_session_error(session);
          continue;
        }
        ++statistics->ran;
        report.ran = true;
        sink = sink + read_outputs(session);
        pen_step_profile p;
        pen_operand o;
        for (int i = 0; pen_session_step(session, i, &p) == PEN_OK; ++i) {
          statistics->keys.insert(p.key);
          for (int j = 0; pen_session_step_operand(session, i, j, &o) == PEN_OK; ++j) sink = sink + (o.name ? strlen(o.name) : 0);
        }
      }
      pen_session_destroy(session);
      for (Input& x : inputs) free(x.data);
    }
    pen_model_close(model);
  }
  free(block);
  return report;
}
