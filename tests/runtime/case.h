/* Cases as case.py writes them: inputs of a model and the outputs that are expected. C and C++. */
#ifndef CASE_H_
#define CASE_H_

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penlight.h"

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define CHECK_TEXT(text, part)                                                                    \
  do {                                                                                            \
    if (!strstr((text), (part))) {                                                                \
      fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__, (text), (part)); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

typedef struct {
  int32_t dtype, rank;
  double scale;
  int64_t dims[8], strides[8];
  size_t count, size; /* elements, bytes of one */
  void* data;
} case_tensor;

typedef struct {
  float tolerance; /* of the largest value, for outputs in f32 and f64 */
  int32_t input_count, output_count;
  case_tensor tensors[64];
} case_file;

static inline size_t case_dtype_size(int32_t dtype) {
  static const size_t sizes[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  return sizes[dtype];
}

static inline void* case_read(const char* path, size_t* size) {
  FILE* f = fopen(path, "rb");
  CHECK(f);
  fseek(f, 0, SEEK_END);
  *size = (size_t)ftell(f);
  rewind(f);
  void* bytes = malloc(*size ? *size : 1);
  CHECK(bytes && fread(bytes, 1, *size, f) == *size);
  fclose(f);
  return bytes;
}

/* Reads a case that starts at `p`; returns its end. */
static inline const char* case_parse(const char* p, case_file* c) {
  memcpy(&c->tolerance, p, 4);
  memcpy(&c->input_count, p + 4, 4);
  memcpy(&c->output_count, p + 8, 4);
  p += 12;
  CHECK(c->input_count + c->output_count <= 64);
  for (int i = 0; i < c->input_count + c->output_count; ++i) {
    case_tensor* t = &c->tensors[i];
    memcpy(&t->dtype, p, 4);
    memcpy(&t->rank, p + 4, 4);
    memcpy(&t->scale, p + 8, 8);
    p += 8;
    CHECK(t->rank <= 8);
    size_t axes = 8 * (size_t)t->rank;
    int64_t span;
    memcpy(t->dims, p + 8, axes);
    memcpy(t->strides, p + 8 + axes, axes);
    memcpy(&span, p + 8 + 2 * axes, 8);
    p += 16 + 2 * axes;
    t->size = case_dtype_size(t->dtype);
    t->count = 1;
    for (int d = 0; d < t->rank; ++d) t->count *= (size_t)t->dims[d];
    t->data = malloc((size_t)span * t->size + 1); /* its own block: sanitizers see its end */
    CHECK(t->data);
    memcpy(t->data, p, (size_t)span * t->size);
    p += (size_t)span * t->size;
  }
  return p;
}

static inline void case_open(const char* path, case_file* c) {
  size_t size;
  char* bytes = (char*)case_read(path, &size);
  CHECK(case_parse(bytes, c) == bytes + size);
  free(bytes);
}

static inline void case_close(case_file* c) {
  for (int i = 0; i < c->input_count + c->output_count; ++i) free(c->tensors[i].data);
}

static inline void case_set_inputs(const case_file* c, pen_session* session) {
  for (int i = 0; i < c->input_count; ++i) {
    const case_tensor* t = &c->tensors[i];
    pen_tensor given = {t->data, t->dtype, t->rank, t->dims, t->strides};
    if (pen_session_set_input(session, i, &given) != PEN_OK) {
      fprintf(stderr, "%s\n", pen_session_error(session)->message);
      exit(1);
    }
  }
}

/* How far a result is from what is expected, as a fraction of the largest finite value; infinite where they differ in
 * what must be equal: integers, NaN and infinities. */
static inline double case_error(const case_tensor* want, const pen_tensor* got) {
  int wide = want->dtype == PEN_F64;
  if (want->dtype != PEN_F32 && !wide) return memcmp(got->data, want->data, want->count * want->size) ? INFINITY : 0;
  double largest = want->scale, error = 0;
  for (size_t k = 0; k < want->count; ++k) {
    double a = wide ? ((const double*)got->data)[k] : ((const float*)got->data)[k];
    double b = wide ? ((const double*)want->data)[k] : ((const float*)want->data)[k];
    if (isnan(b) ? !isnan(a) : isinf(b) ? a != b : !isfinite(a)) return INFINITY;
    if (!isfinite(b)) continue;
    largest = fmax(largest, fabs(b));
    error = fmax(error, fabs(a - b));
  }
  return error > 0 ? error / fmax(largest, 1e-30) : 0;
}

static inline void case_compare(const case_file* c, const pen_session* session) {
  for (int i = 0; i < c->output_count; ++i) {
    const case_tensor* want = &c->tensors[c->input_count + i];
    pen_tensor got;
    CHECK(pen_session_output(session, i, &got) == PEN_OK);
    CHECK(got.dtype == want->dtype && got.rank == want->rank && got.data);
    for (int d = 0; d < got.rank; ++d) CHECK(got.dims[d] == want->dims[d]);
    CHECK(case_error(want, &got) <= c->tolerance);
  }
}

#endif
