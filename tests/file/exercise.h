// Does with a file, of which nothing is known to be right, all that a caller might: loads it, reads what it says of
// itself, makes sessions, sets inputs of the declared shapes, runs, reads results; and runs its VM code as a module, on arguments
// of all kinds, within limits. Shared by the fuzz runner and the libFuzzer target. Whatever the file says must end in an error or in
// numbers.
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
  long modules = 0, module_runs = 0, module_results = 0;
};

// What is done on a second device with the inputs of the first (on_device.h); null: nothing.
inline void (*on_second_device)(const pen_model* model, const char* method, const pen_session* first, pen_status first_ended,
                                const std::vector<struct Input>& inputs) = nullptr;

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
  int64_t shared = static_cast<int64_t>(1 + rng.below(1 + rng.below(9)));  // free dims are often the same, and small ones are run sooner
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

inline uint64_t read_states(const pen_session* session) {
  uint64_t sum = 0;
  pen_tensor t;
  for (int i = 0; const char* name = pen_session_state(session, i, &t); ++i) {
    size_t bytes = kElementSize[t.dtype];
    for (int d = 0; d < t.rank; ++d) bytes *= static_cast<size_t>(t.dims[d]);
    for (size_t k = 0; k < bytes; ++k) sum = sum * 31 + static_cast<unsigned char*>(t.data)[k];
    sum += strlen(name);
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

// A tensor of a few elements, whole or strided, in a block of its own.
inline pen_value* any_tensor(Rng& rng) {
  int dtype = rng.one_in(2) ? int{PEN_F32} : rng.one_in(2) ? int{PEN_I64} : static_cast<int>(rng.below(10));
  int64_t dims[4], strides[4], stride = 1 + static_cast<int64_t>(rng.below(8) == 0);
  int rank = static_cast<int>(rng.below(5));
  int order[4] = {0, 1, 2, 3};
  for (int d = 0; d < rank; ++d) dims[d] = rng.one_in(16) ? 0 : static_cast<int64_t>(1 + rng.below(5));
  for (int d = 1; d < rank; ++d)
    if (rng.one_in(4)) std::swap(order[d], order[rng.below(static_cast<uint64_t>(d) + 1)]);
  for (int i = rank - 1; i >= 0; --i) {
    strides[order[i]] = rng.one_in(16) ? 0 : stride;
    stride *= dims[order[i]] > 0 ? dims[order[i]] : 1;
  }
  int64_t reach = 1;
  for (int d = 0; d < rank; ++d) reach += (dims[d] > 0 ? dims[d] - 1 : 0) * strides[d];
  char* data = nullptr;
  if (posix_memalign(reinterpret_cast<void**>(&data), 64, static_cast<size_t>(reach) * kElementSize[dtype]) != 0) return nullptr;
  fill(rng, dtype, data, static_cast<size_t>(reach));
  pen_tensor t = {data, dtype, rank, dims, strides};
  pen_value* made = pen_value_tensor(&t, free, data);
  if (!made) return free(data), pen_value_none();
  if (rng.one_in(8)) pen_value_make_constant(made);
  return made;
}
inline pen_value* any_value(Rng& rng, int depth = 0) {
  static const int64_t kInts[] = {0, 1, -1, 2, 3, 5, -7, 100, INT64_MIN, INT64_MAX, INT32_MAX, int64_t{1} << 40};
  static const double kFloats[] = {0, -0.0, 1, -1.5, 0.1, 1e300, 1e-300, __builtin_inf(), -__builtin_inf(), __builtin_nan("")};
  static const char* const kTexts[] = {"", "x", "sum", "{} {}", "%s%n%d", "\xc3\xbf\xff", "mean", "cpu"};
  switch (rng.below(depth < 2 ? 12 : 8)) {
    case 0:
      return pen_value_none();
    case 1:
      return pen_value_bool(static_cast<int>(rng.below(2)));
    case 2:
      return pen_value_int(kInts[rng.below(12)]);
    case 3:
      return pen_value_float(kFloats[rng.below(10)]);
    case 4: {
      const char* text = kTexts[rng.below(8)];
      return pen_value_string(text, strlen(text));
    }
    case 8:
    case 9:
    case 10: {
      std::vector<pen_value*> items(rng.below(4));
      for (pen_value*& item : items) item = any_value(rng, depth + 1);
      pen_value* made = rng.one_in(2) ? pen_value_list(items.data(), items.size()) : pen_value_tuple(items.data(), items.size());
      for (pen_value* item : items) pen_value_release(item);
      return made;
    }
    case 11: {
      pen_value *key = any_value(rng, 9), *value = any_value(rng, depth + 1), *made = pen_value_dict(&key, &value, 1);
      pen_value_release(key);
      pen_value_release(value);
      return made ? made : pen_value_none();
    }
    default:
      return any_tensor(rng);
  }
}

// Goes through a result as a binding would.
inline uint64_t read_value(const pen_value* v, int depth = 0) {
  uint64_t sum = static_cast<uint64_t>(pen_value_kind(v)) + static_cast<uint64_t>(pen_value_as_int(v)) + strlen(pen_value_type(v));
  size_t size = 0;
  if (const char* text = pen_value_text(v, &size)) sum += strlen(text) + size;
  pen_tensor t;
  if (pen_value_as_tensor(v, &t) == PEN_OK) {
    int64_t last = 0, count = 1;
    for (int d = 0; d < t.rank; ++d) {
      last += (t.dims[d] - 1) * t.strides[d];
      count = t.dims[d] ? count : 0;
    }
    for (size_t k = 0; count && k < kElementSize[t.dtype]; ++k)
      sum += static_cast<unsigned char*>(t.data)[k] +
             static_cast<unsigned char*>(t.data)[static_cast<size_t>(last) * kElementSize[t.dtype] + k];
    pen_quantization q;
    if (pen_value_quantization(v, &q) && q.count) sum += static_cast<uint64_t>(q.zero_points[q.count - 1]) + (q.scales[0] > 0);
  }
  for (size_t i = 0; depth < 8 && i < pen_value_count(v) && i < 8; ++i) {
    pen_value *item = pen_value_item(v, i), *key = pen_value_key(v, i);
    if (item) sum = sum * 31 + read_value(item, depth + 1) + strlen(pen_value_field(v, i));
    if (key) sum += read_value(key, depth + 1);
    pen_value_release(item);
    pen_value_release(key);
  }
  return sum;
}

// Runs VM code: each method a few times on values of any kind and on those that the file carries. Results and state outlive the
// module now and then, and the model too.
inline void exercise_module(const pen_model* model, Rng& rng, Statistics* statistics, Report* report, std::vector<pen_value*>* kept) {
  static volatile uint64_t sink;
  sink = sink + (pen_model_missing_operator(model, 0) != nullptr);
  std::vector<pen_bundle> bundles;
  for (int i = 0; i < pen_model_bundle_count(model) && i < 4; ++i) {
    pen_bundle b;
    pen_error error;
    if (pen_model_bundle(model, i, &b, &error) != PEN_OK) continue;
    sink = sink + read_value(b.args) + (b.outputs ? read_value(b.outputs) : 0) + strlen(b.method) + strlen(b.info);
    bundles.push_back(b);
  }
  int isas = 0;
  while (pen_isa_name(isas)) ++isas;
  pen_module_options options = {sizeof options,
                                nullptr,
                                rng.one_in(32) ? 2 : 1,
                                4 << 20,
                                3000,
                                pen_isa_name(static_cast<int>(rng.below(static_cast<uint64_t>(isas)))),
                                0,
                                nullptr,
                                nullptr};
  pen_module* module;
  if (pen_module_create(model, &options, &module, &report->error) == PEN_OK) {
    ++statistics->modules;
    for (int f = 0; f < pen_model_function_count(model) && f < 3; ++f) {
      const char* method = pen_model_function_name(model, f);
      sink = sink + strlen(pen_model_function_schema(model, f));
      for (int round = 0; round < 4; ++round) {
        std::vector<pen_value*> args;
        const pen_bundle* bundle = bundles.empty() || rng.one_in(3) ? nullptr : &bundles[rng.below(bundles.size())];
        if (bundle && strcmp(bundle->method, method) == 0)
          for (size_t i = 0; i < pen_value_count(bundle->args) && i < 16; ++i) args.push_back(pen_value_item(bundle->args, i));
        else
          for (uint64_t n = rng.below(4); n > 0; --n) args.push_back(any_value(rng));
        for (pen_value*& a : args)
          if (rng.one_in(8)) pen_value_release(a), a = any_value(rng);
        pen_value* result;
        ++statistics->module_runs;
        if (pen_module_run(module, method, args.data(), args.size(), &result) == PEN_OK) {
          ++statistics->module_results;
          report->ran = true;
          sink = sink + read_value(result);
          if (rng.one_in(4))
            kept->push_back(result);
          else
            pen_value_release(result);
        } else {
          report->error = *pen_module_error(module);
        }
        for (pen_value* a : args) pen_value_release(a);
        if (rng.one_in(8)) pen_module_reset(module);
      }
    }
    kept->push_back(pen_module_state(module));
    sink = sink + read_value(kept->back());
    pen_module_destroy(module);
  }
  for (pen_bundle& b : bundles) {
    pen_value_release(b.args);
    pen_value_release(b.outputs);
  }
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
      pen_session_options options = {sizeof options,
                                     nullptr,
                                     rng.one_in(32) ? 2 : 1,
                                     2,
                                     4 << 20,
                                     pen_isa_name(static_cast<int>(rng.below(static_cast<uint64_t>(isas)))),
                                     0,
                                     nullptr,
                                     nullptr};
      pen_session* session;
      if (pen_session_create(model, method, &options, &session, &report.error) != PEN_OK) continue;
      std::vector<Input> inputs;
      for (int round = 0; round < 2; ++round) {
        if (!set_inputs(rng, model, method, session, inputs)) break;
        pen_status ended = pen_session_prepare(session);
        const bool prepared = ended == PEN_OK;
        if (prepared) {
          ++statistics->prepared;
          sink = sink + read_outputs(session);
          ended = pen_session_run(session);
        }
        if (on_second_device && round == 0) on_second_device(model, method, session, ended, inputs);
        if (ended != PEN_OK) {
          report.error = *pen_session_error(session);
          if (!prepared) break;
          continue;
        }
        ++statistics->ran;
        report.ran = true;
        sink = sink + read_outputs(session) + read_states(session);
        if (rng.one_in(3)) pen_session_reset(session);
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
    std::vector<pen_value*> kept;
    if (pen_model_function_count(model)) exercise_module(model, rng, statistics, &report, &kept);
    pen_model_close(model);
    for (pen_value* v : kept) sink = sink + read_value(v), pen_value_release(v);
  }
  free(block);
  return report;
}
