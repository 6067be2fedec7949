/* The C interface, call by call, from C: c_api MODEL CASE1 CASE2 FOLDER
 * MODEL is the classifier of networks.py: image f32[n, 3, h, w] and name i64[n] in, scores f32[n, 10] and map
 * f32[n, 16, (h + 1) / 2, (w + 1) / 2] out, n, h and w free. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "case.h"

static pen_error error;
static const char* folder;

static char* in_folder(const char* name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static const char* write_file(const char* name, const void* bytes, size_t size) {
  char* path = in_folder(name);
  FILE* f = fopen(path, "wb");
  CHECK(f && fwrite(bytes, 1, size, f) == size);
  fclose(f);
  return path;
}

static void expect_failure(pen_status status, pen_status expected, const char* part) {
  if (status != expected) {
    fprintf(stderr, "status %s instead of %s, for \"%s\": %s\n", pen_status_name(status), pen_status_name(expected), part, error.message);
    exit(1);
  }
  CHECK_TEXT(error.message, part);
  CHECK(error.status == (int32_t)expected);
}

/* --- loading -------------------------------------------------------------------------------------------------- */
static void test_load_failures(const char* path, const char* bytes, size_t size) {
  pen_model* model = (pen_model*)&error;
  expect_failure(pen_model_open(in_folder("missing.pen"), 0, &model, &error), PEN_ERROR_IO, "No such file");
  CHECK(model == NULL);
  CHECK_TEXT(error.message, "missing.pen");
  expect_failure(pen_model_open(folder, 0, &model, &error), PEN_ERROR_IO, "directory");
  expect_failure(pen_model_open(folder, PEN_LOAD_COPY, &model, &error), PEN_ERROR_IO, "directory");
  expect_failure(pen_model_open("", 0, &model, &error), PEN_ERROR_IO, "No such file");
  expect_failure(pen_model_open(NULL, 0, &model, &error), PEN_ERROR_IO, "No such file");
  expect_failure(pen_model_open(write_file("empty.pen", "", 0), 0, &model, &error), PEN_ERROR_FORMAT, "an empty file");
  expect_failure(pen_model_open(write_file("short.pen", "PEN", 3), 0, &model, &error), PEN_ERROR_FORMAT, "3 bytes");
  expect_failure(pen_model_open(write_file("zip.pen", "PK\3\4 and the rest of an archive", 30), 0, &model, &error), PEN_ERROR_FORMAT,
                 "penlight optimize");
  expect_failure(pen_model_open_memory(NULL, 0, 0, &model, &error), PEN_ERROR_FORMAT, "no bytes");
  expect_failure(pen_model_open_memory(bytes, size - 1, 0, &model, &error), PEN_ERROR_FORMAT, "truncated");
  expect_failure(pen_model_open_fd(-1, 0, 0, 0, &model, &error), PEN_ERROR_IO, "Bad file descriptor");
  CHECK(pen_model_open_memory(bytes, size - 1, 0, &model, NULL) == PEN_ERROR_FORMAT); /* no room for words: allowed */

  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  expect_failure(pen_model_open_fd(fd, size, 1, 0, &model, &error), PEN_ERROR_IO, "1 bytes at offset");
  expect_failure(pen_model_open_fd(fd, UINT64_MAX, UINT64_MAX, 0, &model, &error), PEN_ERROR_IO, "a file of");
  expect_failure(pen_model_open_fd(fd, 64, 0, 0, &model, &error), PEN_ERROR_FORMAT, "a .pen file");
  close(fd);
  int ends[2];
  CHECK(pipe(ends) == 0);
  expect_failure(pen_model_open_fd(ends[0], 0, 0, 0, &model, &error), PEN_ERROR_IO, "seek");
  close(ends[0]);
  close(ends[1]);

  char* changed = malloc(size);
  memcpy(changed, bytes, size);
  changed[8] = 9; /* version */
  expect_failure(pen_model_open_memory(changed, size, 0, &model, &error), PEN_ERROR_VERSION, "version 9");
  CHECK_TEXT(error.message, "format version 4 or older");
  memcpy(changed, bytes, size);
  changed[size - 1] ^= 0x10; /* a weight */
  CHECK(pen_model_open_memory(changed, size, 0, &model, &error) == PEN_OK);
  pen_model_close(model);
  expect_failure(pen_model_open_memory(changed, size, PEN_LOAD_VERIFY, &model, &error), PEN_ERROR_CHECKSUM, "SHA-256");
  free(changed);
  pen_model_close(NULL);
}

static void run_once(const pen_model* model, const case_file* c) {
  pen_session* session;
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK); /* NULL: "forward", defaults */
  case_set_inputs(c, session);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
  pen_session_destroy(session);
}

static void test_ways_of_loading(const char* path, const char* bytes, size_t size, const case_file* c) {
  pen_model* model;
  const uint32_t flags[] = {0, PEN_LOAD_COPY, PEN_LOAD_VERIFY, PEN_LOAD_COPY | PEN_LOAD_VERIFY};
  for (int i = 0; i < 4; ++i) {
    CHECK(pen_model_open(path, flags[i], &model, &error) == PEN_OK);
    run_once(model, c);
    pen_model_close(model);
    for (size_t shift = 0; shift < 3; ++shift) { /* at any alignment */
      char* moved = malloc(size + 64);
      memcpy(moved + shift, bytes, size);
      CHECK(pen_model_open_memory(moved + shift, size, flags[i], &model, &error) == PEN_OK);
      if (flags[i] & PEN_LOAD_COPY) memset(moved, 0x55, size + 64); /* a copy does not care */
      run_once(model, c);
      pen_model_close(model);
      free(moved);
    }
    const size_t offsets[] = {0, 64, 4096, 4160, 1, 100};
    for (int k = 0; k < 6; ++k) {
      int fd = open(in_folder("asset.bin"), O_RDWR | O_CREAT | O_TRUNC, 0600);
      CHECK(fd >= 0 && pwrite(fd, bytes, size, (off_t)offsets[k]) == (ssize_t)size);
      CHECK(pwrite(fd, "after", 5, (off_t)(offsets[k] + size)) == 5);
      CHECK(pen_model_open_fd(fd, offsets[k], size, flags[i], &model, &error) == PEN_OK);
      close(fd);
      run_once(model, c);
      pen_model_close(model);
    }
  }
}

/* --- what a model says of itself ------------------------------------------------------------------------------- */
static void test_description(const pen_model* model) {
  CHECK_TEXT(pen_model_metadata(model), "\"name\": \"classifier\"");
  CHECK_TEXT(pen_model_metadata(model), "b \xe2\x98\x80");
  CHECK(pen_model_method_count(model) == 1);
  CHECK(strcmp(pen_model_method_name(model, 0), "forward") == 0);
  CHECK(pen_model_method_name(model, 1) == NULL && pen_model_method_name(model, -1) == NULL);
  CHECK(pen_model_input_count(model, "forward") == 2 && pen_model_output_count(model, NULL) == 2);
  CHECK(pen_model_input_count(model, "backward") == -1 && pen_model_output_count(model, "") == -1);
  pen_tensor_info info;
  CHECK(pen_model_input_info(model, "forward", 0, &info) == PEN_OK);
  CHECK(info.dtype == PEN_F32 && info.rank == 4 && info.dims[0] == -1 && info.dims[1] == 3 && info.dims[2] == -1);
  CHECK(strcmp(info.name, "image") == 0 && info.min_dims[1] == 3 && info.max_dims[1] == 3);
  CHECK(info.min_dims[2] >= 0 && info.max_dims[2] > info.min_dims[2]);
  CHECK(pen_model_input_info(model, "forward", 1, &info) == PEN_OK);
  CHECK(info.dtype == PEN_I64 && info.rank == 1);
  CHECK(pen_model_output_info(model, "forward", 0, &info) == PEN_OK);
  CHECK(info.dtype == PEN_F32 && info.rank == 2 && info.dims[0] == -1 && info.dims[1] == 10);
  CHECK(pen_model_input_info(model, "forward", 2, &info) == PEN_ERROR_ARGUMENT);
  CHECK(pen_model_input_info(model, "forward", -1, &info) == PEN_ERROR_ARGUMENT);
  CHECK(pen_model_output_info(model, "no", 0, &info) == PEN_ERROR_ARGUMENT);
  CHECK_TEXT(pen_model_input_spec(model, "forward"), "{");
  CHECK_TEXT(pen_model_output_spec(model, "forward"), "scores");
  CHECK(pen_model_input_spec(model, "no") == NULL);
  CHECK(pen_version()[0] >= '0' && pen_kernel_count() > 50);
  for (int i = 1; i < pen_kernel_count(); ++i) CHECK(strcmp(pen_kernel_key(i - 1), pen_kernel_key(i)) < 0);
  CHECK(pen_kernel_key(-1) == NULL && pen_kernel_key(pen_kernel_count()) == NULL);
  CHECK(pen_isa_name(-1) == NULL);
  int isas = 0;
  while (pen_isa_name(isas)) ++isas;
  CHECK(isas >= 1 && strcmp(pen_isa_name(isas - 1), "base") == 0);
  for (int status = 0; status <= PEN_ERROR_CHECKSUM; ++status) CHECK(strcmp(pen_status_name(status), "unknown") != 0);
  CHECK(strcmp(pen_status_name(999), "unknown") == 0);
}

/* --- sessions --------------------------------------------------------------------------------------------------- */
static void test_session_options(const pen_model* model) {
  pen_session* session = (pen_session*)&error;
  expect_failure(pen_session_create(model, "predict", NULL, &session, &error), PEN_ERROR_ARGUMENT, "one of forward");
  CHECK(session == NULL);
  pen_session_options options = {sizeof options, NULL, -1, 0, 0, NULL, 0, NULL, NULL};
  expect_failure(pen_session_create(model, NULL, &options, &session, &error), PEN_ERROR_ARGUMENT, "threads");
  options.threads = 1;
  options.isa = "mmx";
  expect_failure(pen_session_create(model, NULL, &options, &session, &error), PEN_ERROR_ARGUMENT, "base");
  CHECK_TEXT(error.message, "mmx");
  options.isa = "base";
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  CHECK(strcmp(pen_session_isa(session), "base") == 0);
  pen_session_destroy(session);
  pen_session_destroy(NULL);
  options.device = "abacus";
  expect_failure(pen_session_create(model, NULL, &options, &session, &error), PEN_ERROR_ARGUMENT, "abacus");
  CHECK_TEXT(error.message, "cpu");
  options.device = "cpu";
  options.size = 0;
  expect_failure(pen_session_create(model, NULL, &options, &session, &error), PEN_ERROR_ARGUMENT, "PEN_SESSION_OPTIONS");
  options.size = offsetof(pen_session_options, isa) + sizeof(char*) / 2; /* half a pointer */
  expect_failure(pen_session_create(model, NULL, &options, &session, &error), PEN_ERROR_ARGUMENT, "PEN_SESSION_OPTIONS");
  /* Of an older header: what it did not have is left as it is by default. */
  options.size = offsetof(pen_session_options, isa);
  options.isa = "mmx";
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  pen_session_destroy(session);
  /* Of a newer one: what it has more is fine as long as nobody wants it. */
  struct {
    pen_session_options known;
    int64_t more;
  } newer = {{sizeof newer, NULL, 1, 0, 0, NULL, 0, NULL, NULL}, 0};
  CHECK(pen_session_create(model, NULL, &newer.known, &session, &error) == PEN_OK);
  pen_session_destroy(session);
  newer.more = 1;
  expect_failure(pen_session_create(model, NULL, &newer.known, &session, &error), PEN_ERROR_ARGUMENT, "newer library");
}

static void expect_input_failure(pen_session* session, pen_status status, pen_status expected, const char* a, const char* b) {
  const pen_error* e = pen_session_error(session);
  if (status != expected) {
    fprintf(stderr, "status %s instead of %s (%s): %s\n", pen_status_name(status), pen_status_name(expected), a, e->message);
    exit(1);
  }
  CHECK_TEXT(e->message, a);
  CHECK_TEXT(e->message, b);
}

static void test_inputs(const pen_model* model, const case_file* c) {
  pen_session* session;
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK);
  pen_tensor y;
  CHECK(pen_session_output(session, 0, &y) == PEN_ERROR_ARGUMENT);
  expect_input_failure(session, pen_session_run(session), PEN_ERROR_INPUT, "image", "to be set before the run");
  expect_input_failure(session, pen_session_set_output(session, 0, &y, 4), PEN_ERROR_ARGUMENT, "pen_session_prepare", "");

  const case_tensor* t = &c->tensors[0];
  pen_tensor good = {t->data, t->dtype, t->rank, t->dims, NULL}, x = good;
  expect_input_failure(session, pen_session_set_input(session, 2, &good), PEN_ERROR_ARGUMENT, "below 2", "2");
  expect_input_failure(session, pen_session_set_input(session, -1, &good), PEN_ERROR_ARGUMENT, "below 2", "-1");
  x.dtype = PEN_I32;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "expected f32 of rank 4", "got i32");
  x.dtype = 77;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "expected f32", "unknown dtype");
  x = good;
  x.rank = 3;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "rank 4", "of rank 3");
  x = good;
  x.data = NULL;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "image", "null pointer");
  x.data = t->data;
  x.dims = NULL;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "image", "null pointer");
  x.dims = t->dims;
  x.data = (char*)t->data + 1;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "image", "address");
  int64_t dims[4] = {1, 3, -1, 8}, strides[4] = {3 * 64, 64, 8, -1};
  x = good;
  x.dims = dims;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "image", "-1 in dim 2");
  dims[2] = (int64_t)1 << 60;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "image", "in dim 2");
  dims[2] = dims[3] = (int64_t)1 << 39;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "image", "64 TB");
  dims[2] = dims[3] = 8;
  x.strides = strides;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "strides", "contiguous()");
  strides[3] = INT64_MAX;
  expect_input_failure(session, pen_session_set_input(session, 0, &x), PEN_ERROR_INPUT, "strides", "in dim 3");

  /* sizes are looked at together, at prepare */
  case_set_inputs(c, session);
  dims[1] = 4;
  x.strides = NULL;
  CHECK(pen_session_set_input(session, 0, &x) == PEN_OK);
  expect_input_failure(session, pen_session_prepare(session), PEN_ERROR_INPUT, "size 3 in dim 1", "f32[1, 4, 8, 8]");
  CHECK(strcmp(pen_session_error(session)->tensor, "input 0 (image)") == 0);
  dims[1] = 3;
  dims[0] = 2;
  CHECK(pen_session_set_input(session, 0, &x) == PEN_OK);
  expect_input_failure(session, pen_session_run(session), PEN_ERROR_INPUT, "name", "follows from the other inputs");
  /* and the session still works */
  case_set_inputs(c, session);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
  pen_session_destroy(session);
}

/* Channels-last and padded inputs are read where they lie. */
static void test_strided_input(const pen_model* model, const case_file* c) {
  const case_tensor* t = &c->tensors[0];
  int64_t n = t->dims[0], k = t->dims[1], h = t->dims[2], w = t->dims[3], pitch = 5, row = w * pitch + 3, image = h * row + 7;
  float* spread = malloc(sizeof(float) * (size_t)(n * image));
  for (int64_t i = 0; i < n * image; ++i) spread[i] = NAN;
  for (int64_t i = 0; i < n * k * h * w; ++i) {
    int64_t x = i % w, y = i / w % h, ch = i / w / h % k, b = i / w / h / k;
    spread[b * image + y * row + x * pitch + ch] = ((float*)t->data)[i];
  }
  int64_t strides[4] = {image, 1, row, pitch};
  pen_tensor given = {spread, PEN_F32, 4, t->dims, strides};
  pen_session* session;
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK);
  case_set_inputs(c, session);
  CHECK(pen_session_set_input(session, 0, &given) == PEN_OK);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
  pen_session_destroy(session);
  free(spread);
}

static void test_outputs(const pen_model* model, const case_file* a, const case_file* b) {
  pen_session* session;
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK);
  case_set_inputs(a, session);
  CHECK(pen_session_prepare(session) == PEN_OK);
  pen_tensor y;
  CHECK(pen_session_output(session, 0, &y) == PEN_OK);
  const case_tensor* want = &a->tensors[a->input_count];
  CHECK(y.data == NULL && y.rank == 2 && y.dims[0] == want->dims[0] && y.dims[1] == 10 && y.strides[0] == 10 && y.strides[1] == 1);
  CHECK(pen_session_output(session, 2, &y) == PEN_ERROR_ARGUMENT && pen_session_output(session, -1, &y) == PEN_ERROR_ARGUMENT);

  size_t size = want->count * 4;
  float* mine = malloc(size);
  expect_input_failure(session, pen_session_set_output(session, 5, mine, size), PEN_ERROR_ARGUMENT, "index of an output", "");
  expect_input_failure(session, pen_session_set_output(session, 0, mine, size - 1), PEN_ERROR_ARGUMENT, "bytes", "output buffer");
  expect_input_failure(session, pen_session_set_output(session, 0, NULL, size), PEN_ERROR_ARGUMENT, "null pointer", "");
  CHECK(pen_session_set_output(session, 0, mine, size) == PEN_OK);
  CHECK(pen_session_run(session) == PEN_OK);
  CHECK(pen_session_output(session, 0, &y) == PEN_OK && y.data == mine);
  case_compare(a, session);

  /* for one run only: the next one leaves it alone */
  memset(mine, 0x55, size);
  CHECK(pen_session_run(session) == PEN_OK);
  CHECK(pen_session_output(session, 0, &y) == PEN_OK && y.data != mine && ((unsigned char*)mine)[0] == 0x55);
  case_compare(a, session);

  /* a buffer sized for other shapes is not written, and that is said; by prepare it is forgotten */
  CHECK(pen_session_prepare(session) == PEN_OK);
  CHECK(pen_session_set_output(session, 0, mine, size) == PEN_OK);
  case_set_inputs(b, session);
  expect_input_failure(session, pen_session_run(session), PEN_ERROR_ARGUMENT, "other inputs", "output buffer");
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(b, session);
  case_set_inputs(a, session);
  CHECK(pen_session_prepare(session) == PEN_OK);
  CHECK(pen_session_set_output(session, 0, mine, size) == PEN_OK);
  case_set_inputs(b, session);
  CHECK(pen_session_prepare(session) == PEN_OK && pen_session_run(session) == PEN_OK);
  case_compare(b, session);
  for (size_t i = 0; i < size; ++i) CHECK(((unsigned char*)mine)[i] == 0x55);
  free(mine);
  pen_session_destroy(session);
}

static void test_data_fault(const pen_model* model, const case_file* c) {
  pen_session* session;
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK);
  case_set_inputs(c, session);
  int64_t wrong[8], dims[1] = {c->tensors[1].dims[0]};
  memcpy(wrong, c->tensors[1].data, sizeof(int64_t) * (size_t)dims[0]);
  const int64_t bad[] = {7, -1, INT64_MIN, INT64_MAX};
  for (int i = 0; i < 4; ++i) {
    wrong[0] = bad[i];
    pen_tensor given = {wrong, PEN_I64, 1, dims, NULL};
    CHECK(pen_session_set_input(session, 1, &given) == PEN_OK);
    expect_input_failure(session, pen_session_run(session), PEN_ERROR_DATA, "embedding", "indices from 0 to 6");
    char got[32];
    snprintf(got, sizeof got, "%lld", (long long)bad[i]);
    CHECK(strcmp(pen_session_error(session)->got, got) == 0 && pen_session_error(session)->source[0]);
    pen_tensor y;
    CHECK(pen_session_output(session, 0, &y) == PEN_OK && y.data == NULL);
  }
  case_set_inputs(c, session);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
  pen_session_destroy(session);
}

static void test_plan_cache(const pen_model* model, const case_file* c) {
  pen_session_options options = {sizeof options, NULL, 1, 2, 0, NULL, 0, NULL, NULL};
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  CHECK(pen_session_plan_count(session) == 0 && pen_session_arena_bytes(session) == 0 && pen_session_step_count(session) == 0);
  CHECK(pen_session_live_bytes(session) == 0);
  float* room = calloc(3 * 64 * 64, sizeof(float));
  for (int round = 0; round < 3; ++round) {
    for (int64_t size = 64; size >= 8; size -= 8) {
      int64_t image[4] = {1, 3, size, 72 - size}, one[1] = {1}, name[1] = {3};
      pen_tensor x = {room, PEN_F32, 4, image, NULL}, id = {name, PEN_I64, 1, one, NULL};
      CHECK(pen_session_set_input(session, 0, &x) == PEN_OK && pen_session_set_input(session, 1, &id) == PEN_OK);
      CHECK(pen_session_run(session) == PEN_OK);
      CHECK(pen_session_plan_count(session) <= 2 && pen_session_arena_bytes(session) > 0);
      pen_tensor y;
      CHECK(pen_session_output(session, 1, &y) == PEN_OK && y.dims[2] == size / 2 && y.dims[3] == (72 - size) / 2);
      float sum = 0;
      for (int64_t i = 0; i < 16 * y.dims[2] * y.dims[3]; ++i) sum += ((float*)y.data)[i];
      CHECK(sum == sum);
    }
    case_set_inputs(c, session); /* between them, one whose result is known */
    CHECK(pen_session_run(session) == PEN_OK);
    case_compare(c, session);
  }
  free(room);
  pen_session_destroy(session);
}

static void test_memory_limit(const pen_model* model, const case_file* c) {
  pen_session_options options = {sizeof options, NULL, 1, 0, 0, NULL, 0, NULL, NULL};
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  case_set_inputs(c, session);
  CHECK(pen_session_prepare(session) == PEN_OK);
  uint64_t bytes = pen_session_arena_bytes(session), results = 0;
  pen_tensor t;
  for (int i = 0; pen_session_output(session, i, &t) == PEN_OK; ++i) {
    uint64_t elements = 1;
    for (int d = 0; d < t.rank; ++d) elements *= (uint64_t)t.dims[d];
    results += (elements * 8 + 63) / 64 * 64; /* at most */
  }
  pen_session_destroy(session);
  const uint64_t limits[] = {bytes - 1, bytes / 2, 64, 1};
  for (int i = 0; i < 4; ++i) {
    options.memory_limit = limits[i];
    CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
    case_set_inputs(c, session);
    expect_input_failure(session, pen_session_run(session), PEN_ERROR_MEMORY, "memory_limit", "bytes");
    pen_session_destroy(session);
  }
  options.memory_limit = bytes + results;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  case_set_inputs(c, session);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
  pen_session_destroy(session);
}

static void test_profile(const pen_model* model, const case_file* c) {
  pen_session* session;
  CHECK(pen_session_create(model, NULL, NULL, &session, &error) == PEN_OK);
  pen_session_set_profiling(session, 1);
  case_set_inputs(c, session);
  for (int i = 0; i < 3; ++i) CHECK(pen_session_run(session) == PEN_OK);
  int steps = pen_session_step_count(session), convolutions = 0;
  uint64_t total = 0;
  CHECK(steps > 5);
  pen_step_profile p;
  for (int i = 0; i < steps; ++i) {
    CHECK(pen_session_step(session, i, &p) == PEN_OK && p.calls == 3 && p.output[0]);
    total += p.nanoseconds;
    convolutions += strncmp(p.key, "conv2d.", 7) == 0;
    pen_operand o;
    int operands = 0, outputs = 0;
    for (; pen_session_step_operand(session, i, operands, &o) == PEN_OK; ++operands) {
      outputs += o.is_output;
      CHECK(o.name ? o.tensor.rank >= 0 && o.tensor.dims != NULL && !o.tensor.data : !o.is_output && o.bytes == 0);
      if (o.is_output && outputs == 1) CHECK(strcmp(o.name, p.output) == 0);
      if (strncmp(p.key, "conv2d.", 7) != 0 || operands != 1) continue;
      CHECK(o.tensor.rank == 4 && o.bytes >= 4u * (uint64_t)(o.tensor.dims[0] * o.tensor.dims[1] * o.tensor.dims[2] * o.tensor.dims[3]));
    }
    CHECK(outputs >= 1 && operands > outputs);
    CHECK(pen_session_step_operand(session, i, -1, &o) == PEN_ERROR_ARGUMENT);
  }
  uint64_t live = pen_session_live_bytes(session), arena = pen_session_arena_bytes(session);
  CHECK(live > 0 && live <= arena);
  CHECK(total > 0 && convolutions >= 3);
  pen_operand none;
  CHECK(pen_session_step(session, steps, &p) == PEN_ERROR_ARGUMENT);
  CHECK(pen_session_step_operand(session, steps, 0, &none) == PEN_ERROR_ARGUMENT);
  pen_session_set_profiling(session, 0);
  CHECK(pen_session_run(session) == PEN_OK && pen_session_step(session, 0, &p) == PEN_OK && p.calls == 0);
  pen_session_destroy(session);
}

static void test_many_sessions(const pen_model* model, const case_file* c) {
  for (int i = 0; i < 60; ++i) {
    pen_session_options options = {sizeof options, NULL, 1 + i % 5, 0, 0, NULL, 0, NULL, NULL};
    pen_session* session;
    CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
    if (i % 3 != 0) { /* others are destroyed before they did anything */
      case_set_inputs(c, session);
      CHECK(pen_session_run(session) == PEN_OK);
      case_compare(c, session);
    }
    pen_session_destroy(session);
  }
}

/* A NULL: an answer, wherever it comes. */
static void test_null(const pen_model* model) {
  pen_session* session;
  pen_tensor t;
  CHECK(pen_model_open(NULL, 0, &(pen_model*){NULL}, NULL) != PEN_OK && pen_model_check_memory(NULL, 9, 0, NULL, NULL) != PEN_OK);
  CHECK(!pen_model_metadata(NULL) && !pen_model_method_count(NULL) && !pen_model_method_name(NULL, 0) && !pen_model_input_spec(NULL, NULL));
  CHECK(pen_model_input_count(NULL, NULL) == -1 && pen_model_input_info(model, NULL, 0, NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_session_create(NULL, NULL, NULL, &session, &error) == PEN_ERROR_ARGUMENT && strcmp(error.message, "session: got none") == 0);
  CHECK(pen_session_create(model, NULL, NULL, NULL, NULL) == PEN_ERROR_ARGUMENT);
  expect_failure(pen_processor_describe(NULL, &error), PEN_ERROR_ARGUMENT, "processor: expected room for it");
  CHECK(pen_processor_describe(NULL, NULL) == PEN_ERROR_ARGUMENT);
  pen_processor processor = PEN_PROCESSOR;
  const size_t wrong[] = {0, 1, sizeof processor - 1, 4097, 1 << 20, SIZE_MAX};
  for (int i = 0; i < 6; ++i) {
    processor.size = wrong[i];
    expect_failure(pen_processor_describe(&processor, &error), PEN_ERROR_ARGUMENT, "PEN_PROCESSOR");
  }
  processor.size = sizeof processor;
  CHECK(pen_processor_describe(&processor, &error) == PEN_OK && processor.near_bytes > 0);
  CHECK(pen_session_set_input(NULL, 0, &t) == PEN_ERROR_ARGUMENT && pen_session_prepare(NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_session_set_output(NULL, 0, NULL, 0) == PEN_ERROR_ARGUMENT && pen_session_run(NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_session_output(NULL, 0, &t) == PEN_ERROR_ARGUMENT && !pen_session_take_output(NULL, 0) &&
        !pen_session_output_is_fixed(NULL, 0));
  CHECK(!pen_session_error(NULL) && !pen_session_isa(NULL) && !pen_session_arena_bytes(NULL) && !pen_session_live_bytes(NULL));
  CHECK(!pen_session_plan_count(NULL) && !pen_session_step_count(NULL) && pen_session_step(NULL, 0, NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_session_step_operand(NULL, 0, 0, NULL) == PEN_ERROR_ARGUMENT);
  pen_session_set_profiling(NULL, 1);
  pen_session_seed(NULL, 1);
  pen_session_device_report(NULL, NULL);
  pen_session_destroy(NULL);
  pen_model_close(NULL);
  CHECK(pen_session_create(model, NULL, NULL, &session, NULL) == PEN_OK);
  CHECK(pen_session_set_input(session, 0, NULL) == PEN_ERROR_INPUT && strstr(pen_session_error(session)->message, "null pointer"));
  expect_failure(pen_model_open_memory("", 0, 0, NULL, &error), PEN_ERROR_ARGUMENT, "memory for a model");
  expect_failure(pen_model_check_memory("", 0, 0, NULL, &error), PEN_ERROR_ARGUMENT, "room for what it needs");
  CHECK(pen_model_open(NULL, 0, NULL, NULL) == PEN_ERROR_ARGUMENT && pen_model_open_fd(0, 0, 0, 0, NULL, NULL) == PEN_ERROR_ARGUMENT);
  CHECK(pen_session_output(session, 0, NULL) == PEN_ERROR_ARGUMENT);
  pen_session_destroy(session);
}

static int asked;
static int32_t say_yes(void* context) {
  ++asked;
  return *(int32_t*)context;
}
/* A run ends where the caller says so, and the session is as before. */
static void test_interrupted(const pen_model* model, const case_file* c) {
  int32_t yes = 1;
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.interrupted = say_yes;
  options.interrupt_context = &yes;
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  case_set_inputs(c, session);
  CHECK(pen_session_run(session) == PEN_ERROR_CANCELLED && asked > 0 && strstr(pen_session_error(session)->message, "cancelled"));
  yes = 0;
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
  pen_session_destroy(session);
}

static int32_t say_yes_at_last(void* left) { /* after so many questions; slowly, since one is asked when the one before is 5 ms ago */
  for (clock_t until = clock() + CLOCKS_PER_SEC * 6 / 1000; clock() < until;) continue;
  return (*(int32_t*)left)-- <= 0;
}
/* A run that is ended while an index is wrong leaves nothing of that to the next one, whichever came first. */
static void test_interrupted_at_a_fault(const pen_model* model, const case_file* c) {
  int32_t left;
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.interrupted = say_yes_at_last;
  options.interrupt_context = &left;
  options.threads = 1;
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  int64_t wrong[8], dims[1] = {c->tensors[1].dims[0]};
  memcpy(wrong, c->tensors[1].data, sizeof(int64_t) * (size_t)dims[0]);
  wrong[0] = 7;
  pen_tensor given = {wrong, PEN_I64, 1, dims, NULL};
  pen_status status = PEN_ERROR_CANCELLED;
  for (int32_t questions = 0; status == PEN_ERROR_CANCELLED; ++questions) {
    case_set_inputs(c, session);
    CHECK(pen_session_set_input(session, 1, &given) == PEN_OK);
    left = questions;
    status = pen_session_run(session);
    CHECK(status == PEN_ERROR_CANCELLED || status == PEN_ERROR_DATA);
    left = 1 << 30;
    case_set_inputs(c, session);
    CHECK(pen_session_run(session) == PEN_OK);
    case_compare(c, session);
  }
  pen_session_destroy(session);
}

int main(int argc, char** argv) {
  CHECK(argc == 5);
  folder = argv[4];
  size_t size;
  char* bytes = case_read(argv[1], &size);
  case_file a, b;
  case_open(argv[2], &a);
  case_open(argv[3], &b);
  pen_model* model;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  test_load_failures(argv[1], bytes, size);
  test_ways_of_loading(argv[1], bytes, size, &a);
  test_description(model);
  test_session_options(model);
  test_inputs(model, &a);
  test_strided_input(model, &b);
  test_outputs(model, &a, &b);
  test_data_fault(model, &b);
  test_plan_cache(model, &b);
  test_memory_limit(model, &a);
  test_profile(model, &a);
  test_many_sessions(model, &a);
  test_null(model);
  test_interrupted(model, &a);
  test_interrupted_at_a_fault(model, &b);
  pen_model_close(model);
  case_close(&a);
  case_close(&b);
  free(bytes);
  printf("all well\n");
  return 0;
}
