/* Modules and values as a C program sees them: module GOLDEN_V2
 * Builds values of every kind, runs methods, reads results, bundled inputs, state and errors; results outlive module and model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penlight.h"

#define CHECK(x)                                              \
  do {                                                        \
    if (!(x)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
      exit(1);                                                \
    }                                                         \
  } while (0)

static const float kW[3] = {0.5f, -2.0f, 1.25f};
static int released;
static void count_release(void* owner) {
  ++released;
  free(owner);
}

/* A tensor of rows of 3 in memory that is freed with the last value on it. */
static pen_value* rows(int64_t n, float first) {
  float* data = malloc(sizeof(float) * 3 * (size_t)n);
  for (int64_t i = 0; i < 3 * n; ++i) data[i] = first + 0.25f * (float)i;
  int64_t dims[2] = {n, 3};
  pen_tensor t = {data, PEN_F32, 2, dims, NULL};
  pen_value* v = pen_value_tensor(&t, count_release, data);
  CHECK(v);
  return v;
}

static void values(void) {
  pen_value* parts[5] = {pen_value_none(), pen_value_bool(1), pen_value_int(-7), pen_value_float(2.5), pen_value_string("a\0b", 3)};
  static const int kKinds[5] = {PEN_KIND_NONE, PEN_KIND_BOOL, PEN_KIND_INT, PEN_KIND_FLOAT, PEN_KIND_STRING};
  for (int i = 0; i < 5; ++i)
    CHECK(pen_value_kind(parts[i]) == kKinds[i] && pen_value_count(parts[i]) == 0 && !pen_value_item(parts[i], 0));
  size_t size;
  CHECK(memcmp(pen_value_text(parts[4], &size), "a\0b", 4) == 0 && size == 3);
  CHECK(pen_value_as_int(parts[2]) == -7 && pen_value_as_int(parts[1]) == 1 && pen_value_as_int(parts[4]) == 0);
  CHECK(pen_value_as_float(parts[3]) == 2.5 && pen_value_as_float(parts[2]) == -7 && !pen_value_text(parts[3], &size));
  pen_value* list = pen_value_list(parts, 5);
  pen_value* tuple = pen_value_tuple(&list, 1);
  pen_value* dict = pen_value_dict(&parts[2], &tuple, 1);
  CHECK(pen_value_count(list) == 5 && pen_value_count(dict) == 1 && !pen_value_item(list, 5) && !pen_value_key(list, 0));
  pen_value *key = pen_value_key(dict, 0), *inside = pen_value_item(dict, 0);
  CHECK(pen_value_as_int(key) == -7 && pen_value_kind(inside) == PEN_KIND_TUPLE);
  CHECK(!pen_value_dict(&list, &tuple, 1)); /* a list is no key */
  CHECK(pen_value_type(tuple)[0] == 0 && pen_value_field(tuple, 0)[0] == 0);
  for (int i = 0; i < 5; ++i) pen_value_release(parts[i]);
  pen_value_release(key);
  pen_value_release(inside);
  pen_value_release(list);
  pen_value_release(tuple);
  pen_value_release(dict);
  pen_value_release(NULL);
  /* tensors: what is refused, and whose memory it is */
  float data[6] = {0};
  int64_t dims[2] = {2, 3}, negative[2] = {2, -3}, huge[2] = {(int64_t)1 << 40, (int64_t)1 << 40};
  pen_tensor t = {data, PEN_F32, 2, dims, NULL}, out;
  pen_value* v = pen_value_tensor(&t, NULL, NULL);
  CHECK(v && pen_value_as_tensor(v, &out) == PEN_OK && out.data == data && out.strides[0] == 3 && !pen_value_is_constant(v));
  CHECK(pen_value_make_constant(v) == PEN_OK && pen_value_is_constant(v));
  double scale = 0.5;
  int64_t zero = 3;
  pen_quantization q = {-1, 1, &scale, &zero};
  CHECK(pen_value_quantize(v, &q) == PEN_ERROR_ARGUMENT && !pen_value_quantization(v, &q)); /* of integers only */
  pen_value_release(v);
  t.dtype = PEN_U8;
  v = pen_value_tensor(&t, NULL, NULL);
  const int64_t no_zeros[] = {INT64_MIN, -1, 256, INT64_MAX};
  for (int i = 0; i < 4; ++i) {
    zero = no_zeros[i];
    CHECK(pen_value_quantize(v, &q) == PEN_ERROR_ARGUMENT); /* that no u8 is */
  }
  zero = 255;
  CHECK(pen_value_quantize(v, &q) == PEN_OK && pen_value_quantization(v, &q) && q.zero_points[0] == 255);
  pen_value_release(v);
  t.dtype = PEN_F32;
  t.dims = negative;
  CHECK(!pen_value_tensor(&t, count_release, data));
  t.dims = huge;
  CHECK(!pen_value_tensor(&t, count_release, data));
  t.dims = dims, t.dtype = 99;
  CHECK(!pen_value_tensor(&t, count_release, data));
  t.dtype = PEN_F32, t.data = (char*)data + 1;
  CHECK(!pen_value_tensor(&t, count_release, data) && released == 0);
}

static void expect(pen_module* module, pen_status status, const char* method, pen_value** args, size_t count, const char* part) {
  pen_value* result = (pen_value*)1;
  CHECK(pen_module_run(module, method, args, count, &result) == status && result == NULL);
  const pen_error* e = pen_module_error(module);
  if (e->status != (int32_t)status || !strstr(e->message, part)) fprintf(stderr, "%s\n", e->message), exit(1);
}

/* forward(x, n): ([Result({"positive": y, "n": n}, "sum: 1")], "z") */
static void check_result(const pen_value* result, const char* text, float first, int n) {
  CHECK(pen_value_kind(result) == PEN_KIND_TUPLE && pen_value_count(result) == 2);
  pen_value *list = pen_value_item(result, 0), *named = pen_value_item(list, 0), *scores = pen_value_item(named, 0);
  pen_value *said = pen_value_item(named, 1), *y = pen_value_item(scores, 0), *key = pen_value_key(scores, 0);
  CHECK(strcmp(pen_value_type(named), "__torch__.Result") == 0 && strcmp(pen_value_field(named, 1), "text") == 0);
  CHECK(strcmp(pen_value_text(said, NULL), text) == 0 && strcmp(pen_value_text(key, NULL), "positive") == 0);
  pen_tensor t;
  CHECK(pen_value_as_tensor(y, &t) == PEN_OK && t.rank == 2 && t.dims[1] == 3);
  for (int i = 0; i < 3; ++i) {
    double x = first + 0.25 * i, want = 1 / (1 + exp(-x * kW[i])) + (n > 1 ? n * (n - 1) / 2 : 0);
    CHECK(fabs(((float*)t.data)[i] - want) < 1e-5 * fabs(want) + 1e-6);
  }
  pen_value* all[] = {list, named, scores, said, y, key};
  for (int i = 0; i < 6; ++i) pen_value_release(all[i]);
}

/* A NULL, or a count or size that cannot be: an answer, wherever it comes. */
static void refusals(const pen_model* model) {
  pen_value* one = pen_value_int(1);
  pen_value* null = NULL;
  pen_value* made[8];
  size_t count;
  CHECK(!pen_value_string(NULL, 3) && !pen_value_string("x", SIZE_MAX) && !pen_value_tensor(NULL, NULL, NULL));
  CHECK(!pen_value_list(NULL, 1) && !pen_value_tuple(NULL, 1) && !pen_value_dict(NULL, NULL, 1));
  CHECK(!pen_value_list(&one, SIZE_MAX) && !pen_value_tuple(&one, SIZE_MAX) && !pen_value_dict(&one, &one, SIZE_MAX));
  CHECK(!pen_value_list(&null, 1) && !pen_value_tuple(&null, 1) && !pen_value_dict(&one, &null, 1));
  int64_t wide[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 2}, still[3] = {0, 0, 0}, far[2] = {1, 1}, strides[2] = {INT64_C(1) << 62, 1};
  float number = 1;
  pen_tensor huge = {&number, PEN_F32, 3, wide, still}, odd = {&number, PEN_F32, 2, far, strides};
  CHECK(!pen_value_tensor(&huge, NULL, NULL)); /* more elements than numbers have */
  pen_value* fits = pen_value_tensor(&odd, NULL, NULL);
  CHECK(fits && pen_value_make_read_only(fits) == PEN_OK && pen_value_is_constant(fits));
  pen_value_release(fits);
  CHECK(pen_value_make_constant(NULL) == PEN_ERROR_ARGUMENT && pen_value_make_read_only(one) == PEN_ERROR_ARGUMENT);
  CHECK(pen_value_kind(NULL) == PEN_KIND_NONE && !pen_value_count(NULL) && !pen_value_item(NULL, 0) && !pen_value_key(NULL, 0));
  CHECK(pen_value_as_int(NULL) == 0 && pen_value_as_float(NULL) == 0 && !pen_value_text(NULL, NULL) && !pen_value_is_constant(NULL));
  CHECK(pen_value_as_tensor(NULL, NULL) == PEN_ERROR_ARGUMENT && pen_value_type(NULL)[0] == 0 && pen_value_field(NULL, 0)[0] == 0);
  CHECK(pen_value_quantize(NULL, NULL) == PEN_ERROR_ARGUMENT && !pen_value_quantization(NULL, NULL));
  pen_module* module;
  CHECK(pen_module_create(NULL, NULL, &module, NULL) == PEN_ERROR_ARGUMENT &&
        pen_module_create(model, NULL, NULL, NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_module_run(NULL, NULL, NULL, 0, made) == PEN_ERROR_ARGUMENT && pen_module_reset(NULL) == PEN_ERROR_ARGUMENT);
  CHECK(!pen_module_error(NULL) && !pen_module_state(NULL) && pen_module_planned_part(NULL, 0, NULL) == PEN_ERROR_ARGUMENT);
  pen_module_seed(NULL, 1);
  pen_module_device_report(NULL, NULL);
  pen_module_destroy(NULL);
  CHECK(pen_module_create(model, NULL, &module, NULL) == PEN_OK);
  CHECK(pen_module_run(module, NULL, &null, 1, made) == PEN_ERROR_ARGUMENT && strstr(pen_module_error(module)->message, "NULL"));
  CHECK(pen_module_run(module, NULL, NULL, SIZE_MAX, made) == PEN_ERROR_ARGUMENT &&
        pen_module_run(module, NULL, &one, 1, NULL) == PEN_ERROR_ARGUMENT && strstr(pen_module_error(module)->message, "room for it"));
  pen_module_destroy(module);
  pen_operators* operators;
  CHECK(pen_operators_create(NULL, NULL, NULL) == PEN_ERROR_ARGUMENT && pen_operators_create(NULL, &operators, NULL) == PEN_OK);
  CHECK(pen_operators_run(NULL, "aten::neg", NULL, 0, made, &count) == PEN_ERROR_ARGUMENT);
  CHECK(pen_operators_run(operators, NULL, NULL, 0, made, &count) == PEN_ERROR_ARGUMENT &&
        strstr(pen_operators_error(operators)->message, "its name"));
  CHECK(pen_operators_run(operators, "aten::neg", &one, 1, NULL, &count) == PEN_ERROR_ARGUMENT &&
        strstr(pen_operators_error(operators)->message, "room for results"));
  CHECK(pen_operators_run(operators, "aten::neg", &one, 1, made, NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_operators_run(operators, "aten::neg", &null, 1, made, &count) == PEN_ERROR_ARGUMENT);
  CHECK(pen_operators_run(operators, "aten::neg", &one, SIZE_MAX, made, &count) == PEN_ERROR_ARGUMENT && !pen_operators_error(NULL));
  pen_operators_destroy(operators);
  CHECK(pen_model_function_count(NULL) == 0 && !pen_model_function_name(NULL, 0) && !pen_model_missing_operator(NULL, 0));
  CHECK(!pen_model_function_name(model, -1) && pen_model_bundle(model, -1, NULL, NULL) == PEN_ERROR_ARGUMENT &&
        pen_model_bundle_count(NULL) == 0);
  pen_value_release(one);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  values();
  pen_error error;
  pen_model* model;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  refusals(model);
  CHECK(pen_model_function_count(model) == 2 && strcmp(pen_model_function_name(model, 1), "count") == 0);
  CHECK(!pen_model_function_name(model, 2) && strstr(pen_model_function_schema(model, 0), "arguments"));
  CHECK(pen_model_function_default_count(model, 2) == 0);
  CHECK(!pen_model_missing_operator(model, 0));
  pen_module_options wrong = {sizeof wrong, NULL, -1, 0, 0, NULL, 0, NULL, NULL},
                     limited = {sizeof limited, NULL, 1, 1 << 20, 60, NULL, 0, NULL, NULL};
  pen_module *module, *small;
  CHECK(pen_module_create(model, &wrong, &module, &error) == PEN_ERROR_ARGUMENT && !module);
  pen_module_options elsewhere = PEN_MODULE_OPTIONS;
  pen_session_options operators_elsewhere = PEN_SESSION_OPTIONS;
  pen_operators* operators;
  elsewhere.device = operators_elsewhere.device = "abacus";
  CHECK(pen_module_create(model, &elsewhere, &module, &error) == PEN_ERROR_ARGUMENT && strstr(error.message, "abacus"));
  CHECK(pen_operators_create(&operators_elsewhere, &operators, &error) == PEN_ERROR_ARGUMENT && strstr(error.message, "abacus"));
  pen_session_options fewer = PEN_SESSION_OPTIONS;
  fewer.threads = -1;
  CHECK(pen_operators_create(&fewer, &operators, &error) == PEN_ERROR_ARGUMENT && strstr(error.message, "threads"));
  CHECK(pen_module_create(model, NULL, &module, &error) == PEN_OK);
  CHECK(pen_module_create(model, &limited, &small, &error) == PEN_OK);

  pen_value *args[4] = {rows(2, -0.5f), pen_value_int(3), pen_value_string("twice", 5), pen_value_none()}, *first, *second, *state;
  CHECK(pen_module_run(module, NULL, args, 2, &first) == PEN_OK);
  CHECK(pen_module_run(module, "forward", args, 3, &second) == PEN_OK);
  check_result(first, "sum: 1", -0.5f, 3);
  check_result(second, "twice: 2", -0.5f, 3);
  pen_value* counted;
  CHECK(pen_module_run(module, "count", NULL, 0, &counted) == PEN_OK);
  pen_value* number = pen_value_item(counted, 0);
  CHECK(pen_value_as_int(number) == 2);
  pen_value_release(number);
  pen_value_release(counted);

  /* errors: each leaves the module as it was */
  expect(module, PEN_ERROR_ARGUMENT, "backward", args, 2, "one of forward count");
  expect(module, PEN_ERROR_ARGUMENT, "forward", args, 1, "2 to 3");
  expect(module, PEN_ERROR_ARGUMENT, "forward", args, 4, "2 to 3");
  expect(module, PEN_ERROR_SHAPE, "forward", &args[1], 2, "a Tensor for self");
  pen_value* many = pen_value_int(1000);
  pen_value* long_args[2] = {args[0], many};
  expect(small, PEN_ERROR_LIMIT, "forward", long_args, 2, "at most 60 steps");
  pen_value_release(many);
  pen_value_release(rows(1, 0)); /* a value that no run sees */
  CHECK(released == 1);

  /* state */
  state = pen_module_state(module);
  CHECK(strcmp(pen_value_type(state), "__torch__.M") == 0 && strcmp(pen_value_field(state, 0), "steps") == 0 &&
        pen_value_count(state) == 4);
  pen_value* weight = pen_value_item(state, 2);
  CHECK(pen_value_is_constant(weight));
  CHECK(pen_module_reset(module) == PEN_OK);
  pen_module_seed(module, 7);
  pen_value* again;
  CHECK(pen_module_run(module, "forward", args, 2, &again) == PEN_OK);
  check_result(again, "sum: 1", -0.5f, 3);
  pen_value_release(again);
  pen_planned_part part;
  CHECK(pen_module_planned_part(module, 0, &part) == PEN_OK && strcmp(part.name, "scale") == 0);
  CHECK(part.taken == 3 && part.unfit == 1 && part.failed == 0 && !part.failed_reason[0]);
  CHECK(strcmp(part.unfit_reason, "input 0: expected a tensor, got int") == 0);
  CHECK(pen_module_planned_part(module, 1, &part) == PEN_ERROR_ARGUMENT &&
        pen_module_planned_part(module, INT32_MIN, &part) == PEN_ERROR_ARGUMENT);

  /* bundled inputs */
  CHECK(pen_model_bundle_count(model) == 2);
  pen_bundle bundle;
  CHECK(pen_model_bundle(model, 2, &bundle, &error) == PEN_ERROR_ARGUMENT && !bundle.args);
  CHECK(pen_model_bundle(model, 1, &bundle, &error) == PEN_OK && pen_value_count(bundle.args) == 0 && !bundle.outputs);
  pen_value_release(bundle.args);
  CHECK(pen_model_bundle(model, 0, &bundle, &error) == PEN_OK);
  CHECK(strcmp(bundle.method, "forward") == 0 && strcmp(bundle.info, "two rows") == 0 && bundle.absolute == 1e-6 && bundle.outputs);
  CHECK(pen_value_count(bundle.args) == 3);

  /* everything that was given lives on */
  for (int i = 0; i < 4; ++i) pen_value_release(args[i]);
  pen_module_destroy(module);
  pen_module_destroy(small);
  pen_module_destroy(NULL);
  pen_model_close(model);
  CHECK(released == 2);
  check_result(second, "twice: 2", -0.5f, 3);
  pen_tensor t;
  CHECK(pen_value_as_tensor(weight, &t) == PEN_OK && memcmp(t.data, kW, sizeof kW) == 0);
  CHECK(strcmp(pen_value_type(state), "__torch__.M") == 0);
  pen_value* x = pen_value_item(bundle.args, 0);
  CHECK(pen_value_as_tensor(x, &t) == PEN_OK && t.dims[0] == 2 && ((float*)t.data)[0] == -1.0f);
  pen_value* rest[] = {x, weight, state, first, second, bundle.args, bundle.outputs};
  for (int i = 0; i < 7; ++i) pen_value_release(rest[i]);
  puts("all well");
  return 0;
}
