/* The functions of penlight_trace.h, of builds that have them: trace CLASSIFIER CASE GOLDEN_V2 */
#include "case.h"
#include "penlight_trace.h"

static int released;
static void count(void* owner) {
  (void)owner;
  ++released;
}
/* What was held stays where it is when code gives the tensor other memory, also the caller's. */
static void hold(pen_operators* operators) {
  float data[4] = {1, 2, 3, 4};
  int64_t dims[1] = {4};
  pen_tensor t = {data, PEN_F32, 1, dims, NULL};
  pen_value *whole = pen_value_tensor(&t, count, NULL), *hundred = pen_value_int(100), *sizes = pen_value_list(&hundred, 1);
  pen_value *held[2] = {pen_value_hold(whole), pen_value_hold(whole)}, *args[2] = {whole, sizes}, *results[8];
  CHECK(held[0] && held[1] && !pen_value_hold(NULL) && !pen_value_hold(sizes));
  for (int64_t n = 100; n < 300; n += 100) { /* the second time it is the library's own */
    size_t results_count;
    CHECK(pen_operators_run(operators, "aten::resize_", args, 2, results, &results_count) == PEN_OK && results_count == 1);
    CHECK(pen_value_as_tensor(whole, &t) == PEN_OK && t.dims[0] == n && ((float*)t.data)[3] == 4);
    pen_value_release(results[0]);
    pen_value_release(held[1]);
    held[1] = pen_value_hold(whole);
    pen_value_release(sizes);
    pen_value_release(hundred);
    hundred = pen_value_int(200);
    args[1] = sizes = pen_value_list(&hundred, 1);
    CHECK(pen_value_as_tensor(held[0], &t) == PEN_OK && t.dims[0] == 4 && t.data == data && released == 0);
  }
  pen_value_release(whole);
  CHECK(pen_value_as_tensor(held[1], &t) == PEN_OK && t.dims[0] == 200 && ((float*)t.data)[3] == 4);
  pen_value_release(held[1]);
  pen_value_release(held[0]);
  pen_value_release(hundred);
  pen_value_release(sizes);
  CHECK(released == 1);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  case_file c;
  case_open(argv[2], &c);
  pen_error error;
  pen_model* model;
  pen_session* session;
  pen_trace* trace = pen_trace_create();
  CHECK(trace && pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK);
  pen_session_set_trace(session, trace);
  case_set_inputs(&c, session);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(&c, session);
  int32_t used = 0;
  for (int32_t i = -1; i <= pen_kernel_count(); ++i) used += pen_trace_used_kernel(trace, i);
  CHECK(used > 3 && used < 100);
  size_t size = 0;
  CHECK(pen_model_image(model, &size) && size > 1000 && pen_model_image(model, NULL) == pen_model_image(model, &size));
  CHECK(pen_backend_has_kernel(0, 0) == 1 && pen_backend_has_kernel(-1, 0) == 0 && pen_backend_has_kernel(1 << 30, 0) == 0);
  pen_session_destroy(session);
  pen_model_close(model);

  pen_module* module;
  CHECK(pen_model_open(argv[3], 0, &model, &error) == PEN_OK && pen_module_create(model, NULL, &module, &error) == PEN_OK);
  CHECK(pen_module_set_trace(module, trace) == PEN_OK && pen_module_set_trace(module, trace) == PEN_OK);
  CHECK(pen_trace_used_operator(trace, 0) == 0 && pen_trace_used_operator(trace, -1) == 0 && pen_trace_used_operator(trace, 1 << 30) == 0);
  pen_module_destroy(module);
  pen_model_close(model);

  /* NULL, wherever it comes */
  pen_operators* operators;
  CHECK(pen_operators_create(NULL, &operators, &error) == PEN_OK && pen_operators_set_trace(operators, trace) == PEN_OK);
  CHECK(pen_operators_set_trace(operators, NULL) == PEN_OK);
  hold(operators);
  pen_operators_destroy(operators);
  pen_trace_interpret(NULL, 1);
  pen_session_set_trace(NULL, trace);
  CHECK(pen_module_set_trace(NULL, trace) == PEN_ERROR_ARGUMENT && pen_operators_set_trace(NULL, NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_trace_used_kernel(NULL, 0) == 0 && pen_trace_used_operator(NULL, 0) == 0);
  size = 1;
  CHECK(!pen_model_image(NULL, &size) && size == 0 && !pen_model_image(NULL, NULL));
  pen_trace_destroy(trace);
  pen_trace_destroy(NULL);
  case_close(&c);
  printf("all noted\n");
  return 0;
}
