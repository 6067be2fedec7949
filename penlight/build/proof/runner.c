/* Runs a model with a library that was built: runner LIBRARY MODEL CALLS RESULTS [ISA]. verify.py writes CALLS and reads RESULTS.
 * Without ISA it takes the best instruction set that is compiled in and that this processor has; it prints all of them.
 *
 *   call    u8 kind, text method; kind 0, planned: u32 count, tensors; kind 1, VM code: u32 index of the bundled input
 *   text    u32 size, bytes                        tensor  i32 dtype, i32 rank, i64 dims[rank], row-major data
 *   result  of a planned call: u32 count, tensors; of VM code: value
 *   value   u8 pen_kind, then: i64 | f64 | text | tensor with i32 axis, u32 count, f64 scales, i64 zero points | u32 count, values
 *
 * Little-endian, as all targets are. It needs no headers but the library's own: the same file serves every target. */
#include "penlight.h"

typedef struct FILE FILE;
extern FILE* fopen(const char*, const char*);
extern size_t fread(void*, size_t, size_t, FILE*);
extern size_t fwrite(const void*, size_t, size_t, FILE*);
extern int fclose(FILE*);
extern int printf(const char*, ...);
extern void* malloc(size_t);
extern void free(void*);
extern void exit(int);
extern void* dlopen(const char*, int);
extern void* dlsym(void*, const char*);
extern char* dlerror(void);

static void* library;
static FILE *calls, *results;
static const char* isa;

static void fail(const char* what, const char* why) {
  printf("%s: %s\n", what, why);
  exit(1);
}

/* ---- the library's functions, by name: those that it lacks are not called ---- */
static void* find(const char* name) {
  void* found = dlsym(library, name);
  if (!found) fail("the library has no function", name);
  return found;
}
#define CALL(name) ((__typeof__(&name))find(#name))

/* ---- files ---- */
static size_t try_read(void* to, size_t size) { return fread(to, 1, size, calls); }
static void get(void* to, size_t size) {
  if (try_read(to, size) != size) fail("calls", "the file ends too early");
}
static void put(const void* from, size_t size) {
  if (fwrite(from, 1, size, results) != size) fail("results", "cannot be written");
}
static void put_u8(int v) {
  uint8_t byte = (uint8_t)v;
  put(&byte, 1);
}
static void put_u32(size_t v) {
  uint32_t word = (uint32_t)v;
  put(&word, 4);
}
static uint32_t get_u32(void) {
  uint32_t v;
  get(&v, 4);
  return v;
}

static size_t element_size(int32_t dtype) {
  static const uint8_t sizes[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  return sizes[dtype];
}
static int64_t element_count(const pen_tensor* t) {
  int64_t count = 1;
  for (int d = 0; d < t->rank; ++d) count *= t->dims[d];
  return count;
}

typedef struct {
  pen_tensor tensor;
  int64_t dims[8];
} Input;

static void get_tensor(Input* to) {
  get(&to->tensor.dtype, 4);
  get(&to->tensor.rank, 4);
  get(to->dims, 8 * (size_t)to->tensor.rank);
  to->tensor.dims = to->dims;
  to->tensor.strides = NULL;
  size_t bytes = (size_t)element_count(&to->tensor) * element_size(to->tensor.dtype);
  to->tensor.data = malloc(bytes + 1);
  if (!to->tensor.data) fail("input", "no memory");
  get(to->tensor.data, bytes);
}

static void put_rows(const pen_tensor* t, int dim, const char* data) {
  if (dim == t->rank) {
    put(data, element_size(t->dtype));
    return;
  }
  int64_t step = 1;
  if (t->strides)
    step = t->strides[dim];
  else
    for (int d = dim + 1; d < t->rank; ++d) step *= t->dims[d];
  for (int64_t i = 0; i < t->dims[dim]; ++i) put_rows(t, dim + 1, data + i * step * (int64_t)element_size(t->dtype));
}
static void put_tensor(const pen_tensor* t) {
  put(&t->dtype, 4);
  put(&t->rank, 4);
  put(t->dims, 8 * (size_t)t->rank);
  if (!t->strides)
    put(t->data, (size_t)element_count(t) * element_size(t->dtype));
  else
    put_rows(t, 0, (const char*)t->data);
}

/* ---- planned methods ---- */
static void run_planned(const pen_model* model, const char* method) {
  pen_error error;
  pen_session* session;
  uint32_t count = get_u32();
  Input* inputs = (Input*)malloc(sizeof(Input) * (count + 1));
  pen_session_options options = {sizeof options, NULL, 2, 0, 0, isa, 0};
  if (CALL(pen_session_create)(model, method, &options, &session, &error) != PEN_OK) fail(method, error.message);
  for (uint32_t i = 0; i < count; ++i) {
    get_tensor(&inputs[i]);
    if (CALL(pen_session_set_input)(session, (int32_t)i, &inputs[i].tensor) != PEN_OK)
      fail(method, CALL(pen_session_error)(session)->message);
  }
  if (CALL(pen_session_run)(session) != PEN_OK) fail(method, CALL(pen_session_error)(session)->message);
  int32_t outputs = CALL(pen_model_output_count)(model, method);
  put_u32((size_t)outputs);
  for (int32_t i = 0; i < outputs; ++i) {
    pen_tensor t;
    CALL(pen_session_output)(session, i, &t);
    put_tensor(&t);
  }
  CALL(pen_session_destroy)(session);
  for (uint32_t i = 0; i < count; ++i) free(inputs[i].tensor.data);
  free(inputs);
}

/* ---- VM code ---- */
static void put_value(const pen_value* value) {
  int32_t kind = CALL(pen_value_kind)(value);
  put_u8(kind);
  if (kind == PEN_KIND_BOOL || kind == PEN_KIND_INT) {
    int64_t v = CALL(pen_value_as_int)(value);
    put(&v, 8);
  } else if (kind == PEN_KIND_FLOAT) {
    double v = CALL(pen_value_as_float)(value);
    put(&v, 8);
  } else if (kind == PEN_KIND_STRING) {
    size_t size;
    const char* text = CALL(pen_value_text)(value, &size);
    put_u32(size);
    put(text, size);
  } else if (kind == PEN_KIND_TENSOR) {
    pen_tensor t;
    pen_quantization q = {-2, 0, NULL, NULL};
    CALL(pen_value_as_tensor)(value, &t);
    if (!CALL(pen_value_quantization)(value, &q)) q.axis = -2, q.count = 0;
    put_tensor(&t);
    put(&q.axis, 4);
    put_u32(q.count);
    put(q.scales, 8 * q.count);
    put(q.zero_points, 8 * q.count);
  } else if (kind != PEN_KIND_NONE) {
    size_t count = CALL(pen_value_count)(value);
    put_u32(count);
    for (size_t i = 0; i < count; ++i) {
      if (kind == PEN_KIND_DICT) {
        pen_value* key = CALL(pen_value_key)(value, i);
        put_value(key);
        CALL(pen_value_release)(key);
      }
      pen_value* item = CALL(pen_value_item)(value, i);
      put_value(item);
      CALL(pen_value_release)(item);
    }
  }
}

static void run_bundle(const pen_model* model, const char* method) {
  pen_error error;
  pen_bundle bundle;
  pen_module* module;
  pen_value *args[64], *result;
  pen_module_options options = {sizeof options, NULL, 2, 0, 0, isa, 0};
  if (CALL(pen_model_bundle)(model, (int32_t)get_u32(), &bundle, &error) != PEN_OK) fail(method, error.message);
  if (CALL(pen_module_create)(model, &options, &module, &error) != PEN_OK) fail(method, error.message);
  size_t count = CALL(pen_value_count)(bundle.args);
  if (count > 64) fail(method, "more than 64 arguments");
  for (size_t i = 0; i < count; ++i) args[i] = CALL(pen_value_item)(bundle.args, i);
  if (CALL(pen_module_run)(module, method, args, count, &result) != PEN_OK) fail(method, CALL(pen_module_error)(module)->message);
  put_value(result);
  CALL(pen_value_release)(result);
  for (size_t i = 0; i < count; ++i) CALL(pen_value_release)(args[i]);
  CALL(pen_value_release)(bundle.args);
  CALL(pen_value_release)(bundle.outputs);
  CALL(pen_module_destroy)(module);
}

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) fail("runner", "expected LIBRARY MODEL CALLS RESULTS [ISA]");
  library = dlopen(argv[1], PEN_DLOPEN);
  if (!library) fail("the library cannot be loaded", dlerror());
  isa = argc == 6 ? argv[5] : CALL(pen_isa_name)(0);
  calls = fopen(argv[3], "rb");
  results = fopen(argv[4], "wb");
  if (!calls || !results) fail("calls or results", "cannot be opened");
  pen_error error;
  pen_needs needs;
  pen_model* model;
  if (CALL(pen_model_check)(argv[2], 0, &needs, &error) != PEN_OK) fail("check", error.message);
  if (CALL(pen_model_open)(argv[2], PEN_LOAD_VERIFY, &model, &error) != PEN_OK) fail("open", error.message);
  uint8_t kind;
  while (try_read(&kind, 1)) {
    char method[256];
    uint32_t size = get_u32();
    if (size >= sizeof method) fail("calls", "a method's name is too long");
    get(method, size);
    method[size] = 0;
    (kind ? run_bundle : run_planned)(model, method);
  }
  CALL(pen_model_close)(model);
  for (int32_t i = 0; CALL(pen_isa_name)(i); ++i) printf("%s\n", CALL(pen_isa_name)(i));
  if (fclose(results)) fail("results", "cannot be written");
  return 0;
}

#if defined(PEN_START) /* linked without a C library's start files: this is what they do */
extern int __libc_start_main(int (*)(int, char**), int, char**, void*, void*, void*, void*);
__attribute__((used, noreturn)) static void start(long* stack) {
  __libc_start_main((int (*)(int, char**))main, (int)stack[0], (char**)(stack + 1), NULL, NULL, NULL, stack);
  __builtin_trap();
}
#if defined(__aarch64__)
__asm__(".globl _start\n_start: mov x0, sp\n b start\n");
#elif defined(__arm__)
__asm__(".globl _start\n.type _start, %function\n_start: mov r0, sp\n b start\n");
#elif defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start\n");
#elif defined(__i386__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %esp, %eax\n and $-16, %esp\n sub $12, %esp\n push %eax\n call start\n");
#endif
#endif
