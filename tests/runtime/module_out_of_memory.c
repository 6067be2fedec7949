/* Each allocation of a module fails once: module_out_of_memory GOLDEN_V2
 * Loading, making values and modules, running, resetting and reading bundled inputs must then end in words or in results, give back
 * what they took, and work the next time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counting_malloc.h"
#include "penlight.h"

#define CHECK(x)                                              \
  do {                                                        \
    if (!(x)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
      exit(1);                                                \
    }                                                         \
  } while (0)

static long failed;
static float data[6] = {-1, 0, 1, 2, 3, 4};
static void keep(void* owner) { (void)owner; }

static int attempt(const char* path, long n) {
  long start = allocations, held = allocations - frees;
  pen_error error = {0};
  pen_model* model;
  pen_module* module = NULL;
  pen_bundle bundle = {0};
  int short_of_values = 0;
  fail_at = start + n;
  pen_status status = pen_model_open(path, PEN_LOAD_COPY, &model, &error);
  if (status == PEN_OK) {
    pen_module_options options = {sizeof options, NULL, 1, 1 << 24, 100000, NULL, 0, NULL, NULL};
    status = pen_module_create(model, &options, &module, &error);
  }
  if (status == PEN_OK) {
    status = pen_model_bundle(model, 0, &bundle, &error);
    for (int64_t rank = 1; rank <= 2 && status == PEN_OK; ++rank) { /* rank 2 is planned, rank 1 is not */
      int64_t dims[2] = {rank == 1 ? 3 : 2, 3};
      pen_tensor t = {data, PEN_F32, (int32_t)rank, dims, NULL};
      pen_value *args[2] = {pen_value_tensor(&t, keep, data), pen_value_int(2)}, *result = NULL;
      short_of_values |= !args[0] || !args[1];
      if (!short_of_values) status = pen_module_run(module, "forward", args, 2, &result);
      if (status != PEN_OK) {
        error = *pen_module_error(module);
        CHECK(pen_module_run(module, "forward", args, 2, &result) == PEN_OK); /* only one fails */
      }
      for (int i = 0; i < 2; ++i) pen_value_release(args[i]);
      pen_value_release(result);
    }
    if (status == PEN_OK && (status = pen_module_reset(module)) != PEN_OK) error = *pen_module_error(module);
  }
  int reached = allocations > fail_at;
  fail_at = -1;
  CHECK(reached || (status == PEN_OK && !short_of_values));
  if (status != PEN_OK) {
    if (status != PEN_ERROR_MEMORY || error.status != PEN_ERROR_MEMORY || !strstr(error.message, "memory")) {
      fprintf(stderr, "allocation %ld: status %d: %s\n", n, (int)status, error.message);
      exit(1);
    }
    ++failed;
  }
  pen_value_release(bundle.args);
  pen_value_release(bundle.outputs);
  pen_module_destroy(module);
  pen_model_close(model);
  if (allocations - frees != held + reached) {
    fprintf(stderr, "allocation %ld: %ld not given back\n", n, allocations - frees - held - reached);
    exit(1);
  }
  return reached;
}

static int released;
static void count_release(void* owner) {
  (void)owner;
  ++released;
}
/* Values of each kind, their parts, and operators: NULL or an error where memory lacks, and `release` once for each tensor that was made.
 */
static int attempt_values(long n) {
  static int32_t integers[6] = {1, 2, 3, 4, 5, 6};
  long start = allocations, held = allocations - frees;
  int tensors = 0;
  int64_t dims[2] = {2, 3}, zeros[2] = {0, 1};
  double scales[2] = {0.5, 2};
  pen_tensor t = {data, PEN_F32, 2, dims, NULL}, q = {integers, PEN_I32, 2, dims, NULL};
  pen_quantization by = {0, 2, scales, zeros};
  pen_value* made[12] = {NULL};
  pen_operators* operators = NULL;
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.threads = 1;
  released = 0;
  fail_at = start + n;
  pen_status status = PEN_OK;
  made[0] = pen_value_tensor(&t, count_release, NULL);
  made[1] = pen_value_tensor(&q, count_release, NULL);
  tensors = (made[0] != NULL) + (made[1] != NULL);
  if (made[1]) status = pen_value_quantize(made[1], &by);
  CHECK(status == PEN_OK || (status == PEN_ERROR_MEMORY && !pen_value_quantization(made[1], &by)));
  made[2] = pen_value_string("key", 3);
  made[3] = pen_value_float(2.5);
  if (made[0] && made[1]) made[4] = pen_value_list(made, 2);
  if (made[4] && made[3]) made[5] = pen_value_tuple(made + 3, 2);
  if (made[2] && made[5]) made[6] = pen_value_dict(made + 2, made + 5, 1);
  if (made[6]) made[7] = pen_value_item(made[6], 0);
  if (made[6]) made[8] = pen_value_key(made[6], 0);
  size_t count = 0;
  if (pen_operators_create(&options, &operators, NULL) == PEN_OK && made[0] && made[3]) {
    pen_value* args[2] = {made[0], made[3]};
    if (pen_operators_run(operators, "aten::mul.Scalar", args, 2, &made[9], &count) == PEN_OK)
      CHECK(count == 1 && made[9]);
    else
      CHECK(!made[9] && count == 0 && strstr(pen_operators_error(operators)->message, "memory"));
  }
  int reached = allocations > fail_at;
  fail_at = -1;
  CHECK(reached || (made[7] && made[8] && made[9]));
  pen_operators_destroy(operators);
  for (int i = 0; i < 12; ++i) pen_value_release(made[i]);
  CHECK(released == tensors);
  if (allocations - frees != held + reached) {
    fprintf(stderr, "allocation %ld of values: %ld not given back\n", n, allocations - frees - held - reached);
    exit(1);
  }
  failed += reached;
  return reached;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  for (long n = 0; attempt_values(n); ++n) CHECK(n < 1000);
  CHECK(failed > 20);
  for (long n = 0; attempt(argv[1], n); ++n) CHECK(n < 100000);
  CHECK(failed > 100);
  printf("%ld failures survived\n", failed);
  return 0;
}
