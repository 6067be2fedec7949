/* Buffers from C: MODEL (one f32 input, one f32 output of its shape) gives the same from a buffer into a buffer as from memory into memory,
 * with nothing copied; wrong buffers are told of. Prints the device's name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penlight.h"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, error.message); \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

int main(int argc, char** argv) {
  pen_error error = {0};
  pen_device_info info = PEN_DEVICE_INFO;
  CHECK(argc == 3);
  CHECK(pen_vulkan_available(&error));
  CHECK(pen_vulkan_device(0, &info, &error) == PEN_OK && info.size == sizeof info && info.name[0]);
  struct {
    size_t size;
    char name[256], after;
  } older = {offsetof(pen_device_info, driver), "", 7};
  CHECK(pen_vulkan_device(0, (pen_device_info*)&older, &error) == PEN_OK && strcmp(older.name, info.name) == 0 && older.after == 7);
  older.size = SIZE_MAX;
  CHECK(pen_vulkan_device(0, (pen_device_info*)&older, &error) == PEN_ERROR_ARGUMENT && strstr(error.message, "PEN_DEVICE_INFO"));
  CHECK(pen_vulkan_device(64, &info, &error) == PEN_ERROR_ARGUMENT);

  pen_model* model;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  pen_tensor_info declared;
  CHECK(pen_model_input_info(model, "forward", 0, &declared) == PEN_OK);
  size_t count = 1;
  for (int d = 0; d < declared.rank; ++d) count *= (size_t)declared.dims[d];
  float *x = malloc(count * 4), *got = malloc(count * 4);
  for (size_t i = 0; i < count; ++i) x[i] = (float)i / 7 - 3;

  pen_session_options options = PEN_SESSION_OPTIONS;
  options.device = argv[2];
  pen_session *session, *cpu;
  CHECK(pen_session_create(model, "forward", &options, &session, &error) == PEN_OK);
  CHECK(pen_session_create(model, "forward", NULL, &cpu, &error) == PEN_OK);
  pen_tensor plain = {x, PEN_F32, declared.rank, declared.dims, NULL}, expected;
  CHECK(pen_session_set_input(session, 0, &plain) == PEN_OK && pen_session_run(session) == PEN_OK);
  CHECK(pen_session_output(session, 0, &expected) == PEN_OK);
  pen_device_report report;
  pen_session_device_report(session, &report);
  CHECK(report.copies == 2 && report.bytes_up == count * 4 && report.bytes_down == count * 4 && report.dispatches > 0);

  pen_buffer *in, *out;
  CHECK(pen_buffer_create(options.device, PEN_F32, declared.rank, declared.dims, &in, &error) == PEN_OK);
  CHECK(pen_buffer_create(options.device, PEN_F32, declared.rank, declared.dims, &out, &error) == PEN_OK);
  CHECK(pen_buffer_upload(in, x, count * 4, &error) == PEN_OK);
  CHECK(pen_buffer_upload(in, x, count * 4 - 1, &error) == PEN_ERROR_ARGUMENT);
  CHECK(!pen_session_takes_buffer(cpu, in) && pen_session_set_input_buffer(cpu, 0, in) == PEN_ERROR_ARGUMENT);
  float* kept = malloc(count * 4);
  memcpy(kept, expected.data, count * 4);
  for (int round = 0; round < 8; ++round) { /* also the other way round, and a buffer that is input and output at once */
    pen_buffer* from = round % 3 == 1 ? out : in;
    pen_buffer* to = round % 3 == 0 ? out : in;
    CHECK(pen_buffer_upload(from, x, count * 4, &error) == PEN_OK);
    CHECK(pen_session_set_input_buffer(session, 0, from) == PEN_OK && pen_session_prepare(session) == PEN_OK);
    CHECK(pen_session_set_output_buffer(session, 0, to) == PEN_OK && pen_session_run(session) == PEN_OK);
    pen_session_device_report(session, &report);
    CHECK(report.copies == 0);
    CHECK(pen_session_output(session, 0, &expected) == PEN_OK && expected.data == NULL);
    CHECK(pen_buffer_download(to, got, count * 4, &error) == PEN_OK);
    CHECK(memcmp(got, kept, count * 4) == 0);
  }
  puts(pen_buffer_device_name(in));
  pen_session_destroy(session); /* in any order */
  pen_buffer_destroy(in);
  pen_session_destroy(cpu);
  pen_model_close(model);
  pen_buffer_destroy(out);
  free(x), free(got), free(kept);
  return 0;
}
