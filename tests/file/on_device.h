// A method of a file on a second device, with the inputs that it had on the CPU (FUZZ_DEVICE=vulkan:llvmpipe of the fuzz runner): it ends
// in words or in the same numbers.
#pragma once
#include <math.h>
#include <stdio.h>

#include "exercise.h"

namespace on_device {

struct Counts {
  long asked = 0, made = 0, ran = 0, compared = 0;
};
inline Counts counts;
inline const char* name = "";

// FUZZ_KEEP_GOING=1 tells all of them: a GPU that takes the smallest numbers for 0, as it may, gives them another sign and logarithm.
inline void differ(const char* what, const pen_session* session, const char* detail) {
  fprintf(stderr, "the second device: %s: %s; steps:", what, detail);
  pen_step_profile p;
  for (int i = 0; session && pen_session_step(session, i, &p) == PEN_OK; ++i) fprintf(stderr, " %s", p.key);
  fprintf(stderr, "\n");
  if (!getenv("FUZZ_KEEP_GOING")) abort();
}

inline size_t elements_of(const pen_tensor& t) {
  size_t n = 1;
  for (int d = 0; d < t.rank; ++d) n *= static_cast<size_t>(t.dims[d]);
  return n;
}

// How far apart, of the largest number; -1: nothing that can be compared (numbers that are none, or so large that a sum of them is).
inline double distance(const pen_tensor& a, const pen_tensor& b) {
  double largest = 0, apart = 0;
  for (size_t i = 0, n = elements_of(a); i < n; ++i) {
    const float x = static_cast<const float*>(a.data)[i], y = static_cast<const float*>(b.data)[i];
    if (!isfinite(x) || fabsf(x) > 1e6f) return -1;
    largest = fmax(largest, fabs(double(x)));
    apart = fmax(apart, isfinite(y) ? fabs(double(x) - double(y)) : 1e9);
  }
  return apart / fmax(largest, 1e-2);
}

// In a product of very large and very small numbers, the order decides whether it is 0, infinite or none.
inline bool has_product(const pen_session* session) {
  pen_step_profile p;
  for (int i = 0; pen_session_step(session, i, &p) == PEN_OK; ++i)
    if (strncmp(p.key, "prod.", 5) == 0 || strncmp(p.key, "cumprod.", 8) == 0) return true;
  return false;
}

inline void compare(const pen_session* first, const pen_session* second) {
  const bool numbers = !has_product(first);
  pen_tensor a, b;
  for (int i = 0; pen_session_output(first, i, &a) == PEN_OK; ++i) {
    char text[200];
    if (pen_session_output(second, i, &b) != PEN_OK) return differ("an output is missing", first, "");
    bool same = a.rank == b.rank && a.dtype == b.dtype;
    for (int d = 0; same && d < a.rank; ++d) same = a.dims[d] == b.dims[d];
    if (!same) {
      snprintf(text, sizeof text, "output %d: rank %d and %d, dtype %d and %d", i, a.rank, b.rank, a.dtype, b.dtype);
      return differ("another shape", first, text);
    }
    if (a.dtype != PEN_F32 || !numbers || !a.data || !b.data) continue;
    ++counts.compared;
    const double apart = distance(a, b);
    if (apart > 2e-3) {
      snprintf(text, sizeof text, "output %d of %zu elements: %g of the largest", i, elements_of(a), apart);
      return differ("other numbers", first, text);
    }
  }
}

inline void run(const pen_model* model, const char* method, const pen_session* first, pen_status ended, const std::vector<Input>& inputs) {
  ++counts.asked;
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.device = name;
  options.memory_limit = 4 << 20;
  pen_session* session;
  pen_error error;
  if (pen_session_create(model, method, &options, &session, &error) != PEN_OK) return;  // operators that it lacks
  ++counts.made;
  pen_status status = PEN_OK;
  for (size_t i = 0; i < inputs.size() && status == PEN_OK; ++i) {
    pen_tensor_info info;
    pen_model_input_info(model, method, static_cast<int32_t>(i), &info);
    const Input& x = inputs[i];
    pen_tensor t = {x.data, info.dtype, info.rank, x.dims.data(), x.strides.data()};
    status = pen_session_set_input(session, static_cast<int32_t>(i), &t);
  }
  if (status == PEN_OK) status = pen_session_run(session);
  if (status == PEN_OK) {
    ++counts.ran;
    if (ended == PEN_OK) compare(first, session);  // each device has layouts of its own, in which it may take what the other refuses
  }
  pen_session_destroy(session);
}

}  // namespace on_device
