/* Penlight's C interface: load a .pen file, run it, read the results. The only way into the runtime; every binding
 * (Python, C++, Java, Swift) is thin over it.
 *
 *   pen_error err;
 *   pen_model* model;
 *   if (pen_model_open("mobilenet_v2.pen", 0, &model, &err) != PEN_OK) { puts(err.message); return 1; }
 *   pen_session* session;
 *   pen_session_create(model, "forward", NULL, &session, &err);
 *   int64_t dims[4] = {1, 3, 224, 224};
 *   pen_tensor image = {pixels, PEN_F32, 4, dims, NULL};
 *   pen_session_set_input(session, 0, &image);
 *   if (pen_session_run(session) != PEN_OK) { puts(pen_session_error(session)->message); return 1; }
 *   pen_tensor y;
 *   pen_session_output(session, 0, &y);
 *
 * A pen_model is immutable and may be used by many threads at once. A pen_session has one caller at a time; what a model keeps from run
 * to run (a key/value cache) is the session's own.
 *
 * What is checked: a NULL where something is needed, an index, count, size or stride that cannot be, are PEN_ERROR_ARGUMENT or
 * PEN_ERROR_INPUT (from functions that return no status: NULL, 0 or -1); every pen_error* may be NULL. (A library for models of f32 alone,
 * without VM code, is smaller: of functions that only tell about a model or a session, or set a seed, it takes NULL for what it is, and
 * the process ends. Nor do tables that kernels need count as memory there.) What no library can check, the caller promises; it is said
 * again where it matters, after "Promise:", and a debug build of the library (CMAKE_BUILD_TYPE=Debug) ends the process with words where it
 * sees that a promise in [brackets] is not kept:
 *  - [a handle is alive (created, not yet destroyed), and is what it is given for]; every function that takes one relies on it;
 *  - [one thread at a time is inside of a session, module, buffer or pen_operators], reading functions included;
 *  - [a handle outlives those that were made of it: a model its sessions and modules];
 *  - memory that is named to it is there: `rank` dims and strides, `count` items, tensors as far as their strides reach. It stays so as
 *    long as said below, and inputs do not change while a run reads them;
 *  - [outputs that are bound (pen_session_set_output) share no memory with inputs or each other];
 *  - texts end with a zero, and callbacks return (no exception or longjmp passes through a run);
 *  - a thread that calls has 64 KiB of stack (the library's own threads have what the system gives by default);
 *  - [a process that forks while another thread is in a run does not use that session or module in the child]. */
#ifndef PENLIGHT_H_
#define PENLIGHT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PEN_API /* penlight.dll exports them all, by a list of names; programs link with penlight.lib */
#else
#define PEN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pen_status {
  PEN_OK = 0,
  PEN_ERROR_IO = 1,        /* the file cannot be opened, read or mapped */
  PEN_ERROR_FORMAT = 2,    /* not a .pen file, or a damaged one */
  PEN_ERROR_VERSION = 3,   /* written by a newer Penlight than this runtime */
  PEN_ERROR_KERNEL = 4,    /* the file needs a kernel that this library was built without */
  PEN_ERROR_ARGUMENT = 5,  /* an index, name or option that does not exist */
  PEN_ERROR_INPUT = 6,     /* an input's dtype, rank or size does not fit the model */
  PEN_ERROR_SHAPE = 7,     /* shapes inside the model do not fit each other at this input size */
  PEN_ERROR_MEMORY = 8,    /* out of memory, or over the caller's memory_limit */
  PEN_ERROR_DATA = 9,      /* data used as an index is out of range */
  PEN_ERROR_CHECKSUM = 10, /* the content hash does not match (only when verification was asked for) */
  PEN_ERROR_RAISED = 11,   /* the model itself raised an exception: an assert, a raise */
  PEN_ERROR_LIMIT = 12,    /* over the steps that the caller allows (max_steps) */
  PEN_ERROR_CANCELLED = 13 /* `interrupted` of the options said so */
} pen_status;

/* What went wrong. `message` is whole by itself; the other fields are its parts, "" where they do not apply. */
typedef struct pen_error {
  int32_t status;
  char message[768];
  char op[64];     /* operator, with its kernel key */
  char tensor[64]; /* input or value */
  char expected[160];
  char got[160];
  char source[256]; /* the Python line that the operator came from */
} pen_error;

typedef enum pen_dtype {
  PEN_F32 = 0,
  PEN_F16 = 1,
  PEN_F64 = 2,
  PEN_I8 = 3,
  PEN_U8 = 4,
  PEN_I16 = 5,
  PEN_I32 = 6,
  PEN_I64 = 7,
  PEN_BOOL = 8,
  PEN_BF16 = 9
} pen_dtype;

/* A tensor that somebody else owns. Strides count elements; NULL means row-major. */
typedef struct pen_tensor {
  void* data;
  int32_t dtype;
  int32_t rank;
  const int64_t* dims;
  const int64_t* strides;
} pen_tensor;

typedef struct pen_model pen_model;
typedef struct pen_session pen_session;

enum {
  PEN_LOAD_VERIFY = 1, /* also compare the content hash: reads the whole file */
  PEN_LOAD_COPY = 2    /* copy the file into memory: for files that may change underneath */
};

PEN_API const char* pen_version(void);
PEN_API const char* pen_status_name(int32_t status);

/* --- model --------------------------------------------------------------------------------------------------- */
/* Promise: without PEN_LOAD_COPY nobody writes into the file, or makes it shorter, until pen_model_close. */
PEN_API pen_status pen_model_open(const char* path, uint32_t flags, pen_model** model, pen_error* error);
/* Promise: there are `size` bytes. They must stay valid and unchanged until pen_model_close, unless PEN_LOAD_COPY; any alignment. */
PEN_API pen_status pen_model_open_memory(const void* bytes, size_t size, uint32_t flags, pen_model** model, pen_error* error);
/* Part of an open file, such as an uncompressed Android asset; size 0: up to its end. The descriptor may be closed
 * afterwards. Promise: as for pen_model_open. */
PEN_API pen_status pen_model_open_fd(int fd, uint64_t offset, uint64_t size, uint32_t flags, pen_model** model, pen_error* error);
/* Values that its modules gave may live on: they keep what they need of it. NULL is allowed. Promise: [once, and after all its sessions
 * and modules are destroyed]; no text that it gave is read afterwards; bytes that pen_model_open_memory was given to use in place stay as
 * long as values of its modules do: weights among them lie there. */
PEN_API void pen_model_close(pen_model* model);

/* Whether this library can run a file, before an app takes it from elsewhere: PEN_OK, or what would go wrong. Nothing of it is kept. */
typedef struct pen_needs {
  uint32_t version;        /* of the file's format; 0: it is no .pen file */
  uint32_t newest_version; /* that this library reads */
  char hash[65];           /* SHA-256 of its content, in hexadecimal, as the file says it (PEN_LOAD_VERIFY: and as it is) */
  uint32_t missing_count;  /* kernels and VM operators that it needs and this library lacks … */
  char missing[512];       /* … by name, between commas; the last ones left out where they have no room */
} pen_needs;
PEN_API pen_status pen_model_check(const char* path, uint32_t flags, pen_needs* needs, pen_error* error);
PEN_API pen_status pen_model_check_memory(const void* bytes, size_t size, uint32_t flags, pen_needs* needs, pen_error* error);
PEN_API pen_status pen_model_check_fd(int fd, uint64_t offset, uint64_t size, uint32_t flags, pen_needs* needs, pen_error* error);

/* Texts that a model gives live as long as it does.
 * JSON text, "{}" where there is none: name, labels, preprocessing, licence. */
PEN_API const char* pen_model_metadata(const pen_model* model);
PEN_API int32_t pen_model_method_count(const pen_model* model);
PEN_API const char* pen_model_method_name(const pen_model* model, int32_t index);

/* What a method takes or gives back. A dim of -1 is free; `spec` is the JSON of the containers around the tensors. */
typedef struct pen_tensor_info {
  const char* name;
  int32_t dtype;
  int32_t rank;
  int64_t dims[8];
  int64_t min_dims[8];
  int64_t max_dims[8]; /* INT64_MAX: no bound */
} pen_tensor_info;
PEN_API int32_t pen_model_input_count(const pen_model* model, const char* method);
PEN_API int32_t pen_model_output_count(const pen_model* model, const char* method);
PEN_API pen_status pen_model_input_info(const pen_model* model, const char* method, int32_t index, pen_tensor_info* info);
PEN_API pen_status pen_model_output_info(const pen_model* model, const char* method, int32_t index, pen_tensor_info* info);
PEN_API const char* pen_model_input_spec(const pen_model* model, const char* method);
PEN_API const char* pen_model_output_spec(const pen_model* model, const char* method);

/* --- session ------------------------------------------------------------------------------------------------- */
/* Fields that a later version adds come last, and mean "as before" where they are 0: `size` tells which of them the caller knows.
 *   pen_session_options options = PEN_SESSION_OPTIONS;
 *   options.threads = 2; */
typedef struct pen_session_options {
  size_t size; /* sizeof(pen_session_options) */
  const char*
      device;      /* what it runs on: "cpu", "vulkan", "vulkan:1" (a number in pen_vulkan_device's list, or part of a name); NULL: "cpu" */
  int32_t threads; /* 0: one per core */
  int32_t plan_cache;    /* plans kept, one per set of input shapes (and per stage, where sizes depend on data); 0: 8 */
  uint64_t memory_limit; /* bytes of arena and scratch, of tables that a plan needs, of results, of any one tensor; 0: no limit but the
                            machine's */
  const char* isa;       /* NULL: the best this CPU has, or what PENLIGHT_ISA names */
  int32_t f16;           /* not 0: a GPU that can stores f32 values as f16; sums stay f32. The CPU takes no notice */
  /* Asked during a prepare or a run on the CPU, between pieces of work, by the thread that called it: not 0 ends it with
   * PEN_ERROR_CANCELLED. It is asked often, so it should be as quick as a look at a flag; it must not use the session. NULL: nobody is
   * asked. (A library for models of f32 alone, without VM code, does not ask.) */
  int32_t (*interrupted)(void* context);
  void* interrupt_context;
} pen_session_options;
#define PEN_SESSION_OPTIONS {sizeof(pen_session_options), NULL, 0, 0, 0, NULL, 0, NULL, NULL}

/* Promise: [the model outlives the session]; options->size bytes of options are there. */
PEN_API pen_status pen_session_create(const pen_model* model, const char* method, const pen_session_options* options, pen_session** session,
                                      pen_error* error);
/* NULL is allowed. Promise: [once; no call is inside of the session, that is not from `interrupted` either]; no output, state or text that
 * it gave is read afterwards. */
PEN_API void pen_session_destroy(pen_session* session);

/* Names the data of an input: read in place during pen_session_run, never copied here, never written. It may lie at any
 * address that suits its dtype. Promise: dims, and strides if any, are `rank` numbers each; all that they reach is memory that can be read,
 * until this input is set anew or the session is not run any more, and is not written during a run. */
PEN_API pen_status pen_session_set_input(pen_session* session, int32_t index, const pen_tensor* tensor);
/* Shapes, plan and memory for the inputs set so far, without running. Then outputs' shapes are known, but for those that
 * depend on the data (what nonzero gives, and all that is computed from it): these are known after the run. Promise, here and of
 * pen_session_run: [not from `interrupted` of the same session]. */
PEN_API pen_status pen_session_prepare(pen_session* session);
/* A caller's buffer for an output (row-major, `size` bytes), used by the next run only; after pen_session_prepare, for the inputs of which
 * it was planned: where others of another size or order are set since, the run is PEN_ERROR_ARGUMENT, and another prepare forgets it. An
 * error for an output whose size is not known before the run: that one lies in the session's own memory. Promise: `size` bytes can be
 * written, until that run is over and pen_session_output is not asked for them any more; [they are no input's and no other output's]. */
PEN_API pen_status pen_session_set_output(pen_session* session, int32_t index, void* data, size_t size);
PEN_API pen_status pen_session_run(pen_session* session);
/* State: buffers that the model writes into (key/value caches, running statistics, counters). Each session has its own, which starts from
 * what the model had when it was exported. After a run that failed it is as before that run, but for one case: where the run had begun to
 * change a large state in place, it is of no use, and runs are errors until a reset.
 *
 * Takes the state back to where it started from. (pen_session_reset and pen_session_state do not exist in a library that was built for
 * models without state.) */
PEN_API void pen_session_reset(pen_session* session);
/* The name of a state, and where it lies, row-major, until the next run; it may be read and written between runs. NULL past the last. f16
 * and bf16 buffers are kept as f32. Promise: nobody reads or writes it during a run, or after the session is destroyed. */
PEN_API const char* pen_session_state(const pen_session* session, int32_t index, pen_tensor* tensor);
/* Where random operators start from: after it, the runs of this session give the same numbers as those after the last time
 * it got this seed, for any number of threads. A new session has seed 0, and every run gives other numbers than the one
 * before it. They are Penlight's own (Philox 4x32-10): torch draws others from the same seed. */
PEN_API void pen_session_seed(pen_session* session, uint64_t seed);
/* An output of the last run (or, after prepare, its shape with data == NULL, and dims of -1 where they are not known).
 * Row-major. Lives until the session's next run or prepare. */
PEN_API pen_status pen_session_output(const pen_session* session, int32_t index, pen_tensor* tensor);
/* Gives the memory of an output of the last run to the caller, until pen_free; it begins with the data. NULL where there is
 * nothing to give: it is the caller's, was given already, or is mostly unused since more was planned for. Copy it then. Promise: until the
 * next run, nobody reads what pen_session_output names of it, or of another output that is the same tensor, once it is freed. */
PEN_API void* pen_session_take_output(pen_session* session, int32_t index);
/* What pen_session_take_output gave; NULL is allowed. Promise: once, and nothing else (memory of another C library's malloc may not be
 * what this one's free takes). */
PEN_API void pen_free(void* memory);
/* After prepare: 1 where an output's size does not depend on the data, so that pen_session_set_output takes it; else 0. */
PEN_API int32_t pen_session_output_is_fixed(const pen_session* session, int32_t index);
PEN_API const pen_error* pen_session_error(const pen_session* session);

PEN_API const char* pen_session_isa(const pen_session* session);
PEN_API uint64_t pen_session_arena_bytes(const pen_session* session); /* of the current plan, all threads' scratch counted */
/* Of these, what is in use at the step where most is: no arena could be smaller. */
PEN_API uint64_t pen_session_live_bytes(const pen_session* session);
PEN_API int32_t pen_session_plan_count(const pen_session* session); /* plans in the cache */

/* Time of each step of the last plan, summed since profiling was switched on. */
typedef struct pen_step_profile {
  const char* key;
  const char* output;
  const char* source;
  uint64_t nanoseconds;
  uint64_t calls;
} pen_step_profile;
PEN_API void pen_session_set_profiling(pen_session* session, int32_t on);
PEN_API int32_t pen_session_step_count(const pen_session* session);
PEN_API pen_status pen_session_step(const pen_session* session, int32_t index, pen_step_profile* profile);
/* What a step reads and writes, in the last plan: its inputs, then its outputs. */
typedef struct pen_operand {
  const char* name;  /* NULL: an optional input that was left out, all else is 0 then */
  pen_tensor tensor; /* without data; the dims of packed weights are those before packing */
  uint64_t bytes;    /* memory that the kernel goes through: of weights as they are packed; 0 in a step that makes views only */
  int32_t is_output;
  int32_t copied; /* an input that did not lie as the kernel reads it: the step copies it first */
} pen_operand;
PEN_API pen_status pen_session_step_operand(const pen_session* session, int32_t step, int32_t index, pen_operand* operand);

/* --- values: what TorchScript code takes and gives ------------------------------------------------------------
 * A pen_value is one reference to a value: a number, a string, a tensor, a list … Lists, dicts and tensors are shared, not
 * copied: writes are seen by all who hold them. Everything below that returns a pen_value* returns a new reference, which
 * the caller gives back with pen_value_release; NULL means that there was no memory, or no such thing. Values belong to the
 * thread that uses their module; any thread may release them, also while the module runs. Promise, of all functions that take one: [it
 * was not released before]; and values of one module, or tensors on one memory, are not used by two threads at once. */
typedef struct pen_value pen_value;
typedef enum pen_kind {
  PEN_KIND_NONE = 0,
  PEN_KIND_BOOL = 1,
  PEN_KIND_INT = 2,
  PEN_KIND_FLOAT = 3,
  PEN_KIND_STRING = 4,
  PEN_KIND_TENSOR = 5,
  PEN_KIND_LIST = 6,
  PEN_KIND_TUPLE = 7,
  PEN_KIND_DICT = 8,
  PEN_KIND_OBJECT = 9
} pen_kind;

PEN_API pen_value* pen_value_none(void);
PEN_API pen_value* pen_value_bool(int32_t value);
PEN_API pen_value* pen_value_int(int64_t value);
PEN_API pen_value* pen_value_float(double value);
PEN_API pen_value* pen_value_string(const char* text, size_t size); /* UTF-8, `size` bytes; other bytes stay as they are */
/* A tensor in the caller's memory, used in place and written by in-place operators; `release(owner)` is called when the last
 * tensor on it is gone (release may be NULL: the memory outlives everything). Promise: all that dims and strides reach can be read and
 * written (after pen_value_make_read_only: read) until then. `release` may be called on any thread that lets go of a value, during a run or
 * the destruction of a module too: it returns, and [destroys no module that is running]. NULL is returned for what cannot be (a dtype or
 * rank that does not exist, a negative size, an address that does not suit the dtype), and then `release` is not called. */
PEN_API pen_value* pen_value_tensor(const pen_tensor* tensor, void (*release)(void* owner), void* owner);
/* Promises that nobody writes this tensor's memory while the value lives: what operators derive from it (packed weights) is kept
 * between calls. In-place operators copy it first. */
PEN_API pen_status pen_value_make_constant(pen_value* tensor);
/* The same without that promise: others may write the memory, this value never does. For memory that is mapped read-only, or that
 * somebody else counts on. In-place operators copy it first, for all tensors on it, and then write the copy. */
PEN_API pen_status pen_value_make_read_only(pen_value* tensor);
/* 1 for a tensor whose memory must not be written: it was made constant or read-only, or is a weight in the model's file. A weight of a
 * model that was opened from memory without PEN_LOAD_COPY lies in the caller's bytes. */
PEN_API int32_t pen_value_is_constant(const pen_value* value);
PEN_API pen_value* pen_value_list(pen_value* const* items, size_t count);
PEN_API pen_value* pen_value_tuple(pen_value* const* items, size_t count);
PEN_API pen_value* pen_value_dict(pen_value* const* keys, pen_value* const* values, size_t count);
PEN_API void pen_value_release(pen_value* value); /* NULL is allowed. Promise: [once] */

PEN_API int32_t pen_value_kind(const pen_value* value);
PEN_API int64_t pen_value_as_int(const pen_value* value); /* of an int or a bool */
PEN_API double pen_value_as_float(const pen_value* value);
PEN_API const char* pen_value_text(const pen_value* value, size_t* size); /* of a string; lives as long as the value */
/* A tensor's memory, shape and strides, which live as long as the value does and is not changed. */
PEN_API pen_status pen_value_as_tensor(const pen_value* value, pen_tensor* tensor);
/* Elements of a list, tuple or object; entries of a dict. */
PEN_API size_t pen_value_count(const pen_value* value);
PEN_API pen_value* pen_value_item(const pen_value* value, size_t index); /* of a dict: the value */
PEN_API pen_value* pen_value_key(const pen_value* value, size_t index);  /* of a dict */
/* The class of an object or of a named tuple, "" for all else; and the names of its parts. */
PEN_API const char* pen_value_type(const pen_value* value);
PEN_API const char* pen_value_field(const pen_value* value, size_t index);
/* real = (stored - zero_point) * scale of a tensor's integers (u8, i8 or i32, which hold the zero points). axis -1: one scale for all; else
 * `count` of each, along it. pen_value_quantization returns 0 for a tensor that is not quantized; its arrays live as long as the value
 * does and is not changed. */
typedef struct pen_quantization {
  int32_t axis;
  size_t count;
  const double* scales;
  const int64_t* zero_points;
} pen_quantization;
PEN_API pen_status pen_value_quantize(pen_value* tensor, const pen_quantization* quantization);
PEN_API int32_t pen_value_quantization(const pen_value* tensor, pen_quantization* quantization);

/* --- modules: models with VM code -------------------------------------------------------------------------------
 * TorchScript that cannot be planned as a whole (control flow on data, lists, dicts, strings, state) is interpreted. A
 * pen_module is the model with its state, which lives from run to run; one caller at a time.
 *
 *   pen_module* module;
 *   pen_module_create(model, NULL, &module, &err);
 *   pen_value* x = pen_value_tensor(&image, NULL, NULL), *y;
 *   if (pen_module_run(module, "forward", &x, 1, &y) != PEN_OK) puts(pen_module_error(module)->message); */
typedef struct pen_module pen_module;
typedef struct pen_module_options {
  size_t size;           /* sizeof(pen_module_options); see pen_session_options */
  const char* device;    /* what its planned parts run on; NULL: "cpu" */
  int32_t threads;       /* 0: one per core */
  uint64_t memory_limit; /* bytes of all values that it makes, and of arena and scratch; 0: no limit but the machine's */
  int64_t max_steps;     /* of one run: instructions, and elements of tensors, lists, dicts and text (16 bytes are one) that operators go
                            through, planned or not; over it, the run ends with PEN_ERROR_LIMIT. 0: no limit */
  const char* isa;       /* NULL: the best this CPU has, or what PENLIGHT_ISA names */
  int32_t f16;           /* see pen_session_options, for this and what follows */
  int32_t (*interrupted)(void* context);
  void* interrupt_context;
} pen_module_options;
#define PEN_MODULE_OPTIONS {sizeof(pen_module_options), NULL, 0, 0, 0, NULL, 0, NULL, NULL}
/* Promise: [the model outlives the module]; options->size bytes of options are there. */
PEN_API pen_status pen_module_create(const pen_model* model, const pen_module_options* options, pen_module** module, pen_error* error);
/* NULL is allowed. Promise: [once; no call is inside of the module]. */
PEN_API void pen_module_destroy(pen_module* module);
/* Runs a method. Arguments that have defaults may be left out at the end. `result` is a new reference. A run inside a run of the same
 * module (by a `release` or `interrupted` that calls it) is PEN_ERROR_ARGUMENT. Promise: `args` has `count` values, [which are alive]; no
 * other thread uses a value of this module, or writes a tensor's memory, during the run. */
PEN_API pen_status pen_module_run(pen_module* module, const char* method, pen_value* const* args, size_t count, pen_value** result);
/* The state as the file has it. Values that were given before stay as they are. Not while a method runs. */
PEN_API pen_status pen_module_reset(pen_module* module);
PEN_API void pen_module_seed(pen_module* module, uint64_t seed);
PEN_API const pen_error* pen_module_error(const pen_module* module);
PEN_API pen_value* pen_module_state(const pen_module* module); /* the object that is self: its attributes are its items */
/* A part of the VM code that was planned beforehand. It runs by its plan where the tensors fit that, and is interpreted, slowly,
 * where they do not. */
typedef struct pen_planned_part {
  const char* name;
  const char* source;        /* the Python line where it begins */
  uint64_t taken;            /* times that it ran by its plan */
  uint64_t unfit;            /* times that it was interpreted since a tensor had another kind or size than it was planned for */
  uint64_t failed;           /* times that it was interpreted since no plan could be made: no memory, or a bug */
  const char* unfit_reason;  /* of the first such time, in words; "": never */
  const char* failed_reason; /* likewise */
} pen_planned_part;
/* PEN_ERROR_ARGUMENT past the last one. Counts are since pen_module_create. */
PEN_API pen_status pen_module_planned_part(const pen_module* module, int32_t index, pen_planned_part* part);
/* Methods that VM code has, and a JSON text of each one's arguments and results. 0 where all methods are planned. */
PEN_API int32_t pen_model_function_count(const pen_model* model);
PEN_API const char* pen_model_function_name(const pen_model* model, int32_t index);
PEN_API const char* pen_model_function_schema(const pen_model* model, int32_t index);
/* How many of its arguments, the last ones, may be left out: they have defaults. */
PEN_API int32_t pen_model_function_default_count(const pen_model* model, int32_t index);
/* Operators that VM code calls and this library lacks: a run that meets one fails. NULL past the end. */
PEN_API const char* pen_model_missing_operator(const pen_model* model, int32_t index);
/* Bundled inputs: arguments (a tuple), what they should give (NULL: not told), and how far that may be off. */
typedef struct pen_bundle {
  const char* method;
  const char* info;
  pen_value* args;
  pen_value* outputs;
  double absolute, relative;
} pen_bundle;
PEN_API int32_t pen_model_bundle_count(const pen_model* model);
PEN_API pen_status pen_model_bundle(const pen_model* model, int32_t index, pen_bundle* bundle, pen_error* error);

/* --- single operators, by torch's names ("aten::add.Tensor") ---------------------------------------------------- */
typedef struct pen_operators pen_operators; /* threads, memory and plans for them; one caller at a time */
PEN_API pen_status pen_operators_create(const pen_session_options* options, pen_operators** operators, pen_error* error);
PEN_API void pen_operators_destroy(pen_operators* operators); /* NULL is allowed. Promise: [once; no call is inside of them] */
/* Fills `results` (room for 8) with new references and says how many there are. Arguments that have defaults may be left out
 * at the end. Promise: `args` has `count` values, [which are alive]. */
PEN_API pen_status pen_operators_run(pen_operators* operators, const char* name, pen_value* const* args, size_t count, pen_value** results,
                                     size_t* result_count);
PEN_API const pen_error* pen_operators_error(const pen_operators* operators);
PEN_API int32_t pen_operator_count(void);
PEN_API const char* pen_operator_name(int32_t index);

/* --- devices --------------------------------------------------------------------------------------------------
 * Where an app asks, before it loads a model for a GPU: 1 where there is a Vulkan device that can be used. Else 0, and `why` (may be
 * NULL) says what is missing: a library built without Vulkan, no loader, no driver, no device that is fit. */
PEN_API int32_t pen_vulkan_available(pen_error* why);
typedef struct pen_device_info {
  size_t size; /* sizeof(pen_device_info), set by the caller: a later version adds fields at the end */
  char name[256];
  char driver[256];
  char driver_info[256]; /* its version, as the driver tells it */
  char api[16];          /* version of the interface: "1.3.255" */
  const char* type;      /* "discrete GPU", "integrated GPU", "virtual GPU", "CPU", "other" */
  const char* unfit;     /* why it cannot be used; "": it can */
  uint64_t memory_bytes; /* of its own */
  uint64_t buffer_bytes; /* that one tensor may have */
  uint32_t subgroup_size, group_threads, shared_bytes;
  int32_t f16_storage, f16_arithmetic, i8_storage, i8_arithmetic, integer_dot, cooperative_matrix; /* not 0: it has this */
} pen_device_info;
#define PEN_DEVICE_INFO {sizeof(pen_device_info), "", "", "", "", NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* The machine's Vulkan devices, the likeliest first: what "vulkan:0", "vulkan:1" … name. PEN_ERROR_ARGUMENT past the last. */
PEN_API pen_status pen_vulkan_device(int32_t index, pen_device_info* info, pen_error* error);

/* A tensor in a device's own memory, row-major. Sessions on that device read and write it in place, so that what one model gives another
 * takes without a way through the host.
 *
 *   pen_buffer* image;
 *   pen_buffer_create("vulkan", PEN_F32, 4, dims, &image, &err);
 *   pen_buffer_upload(image, pixels, sizeof pixels, &err);
 *   pen_session_set_input_buffer(session, 0, image);
 *
 * One thread at a time has a buffer. (In a library for the CPU only, pen_buffer_* and pen_session_*_buffer do not exist.) */
typedef struct pen_buffer pen_buffer;
PEN_API pen_status pen_buffer_create(const char* device, int32_t dtype, int32_t rank, const int64_t* dims, pen_buffer** buffer,
                                     pen_error* error);
/* NULL is allowed. Promise: [once]; no session runs with it, or has it as an input that it will read in another run. */
PEN_API void pen_buffer_destroy(pen_buffer* buffer);
/* All of its bytes, `size` of them, from and to the host. Promise: there are so many. */
PEN_API pen_status pen_buffer_upload(pen_buffer* buffer, const void* data, size_t size, pen_error* error);
PEN_API pen_status pen_buffer_download(const pen_buffer* buffer, void* data, size_t size, pen_error* error);
PEN_API void pen_buffer_tensor(const pen_buffer* buffer, pen_tensor* tensor); /* dtype and shape; data is NULL */
PEN_API const char* pen_buffer_device_name(const pen_buffer* buffer);         /* as pen_device_info has it */
/* 1 where the session runs on the device that the buffer is of. The two below are an error where it does not. */
PEN_API int32_t pen_session_takes_buffer(const pen_session* session, const pen_buffer* buffer);
/* In place of pen_session_set_input: the buffer must live until the input is set anew, or the session has ended. */
PEN_API pen_status pen_session_set_input_buffer(pen_session* session, int32_t index, const pen_buffer* buffer);
/* In place of pen_session_set_output: for the next run only, after pen_session_prepare. pen_session_output then has no data. */
PEN_API pen_status pen_session_set_output_buffer(pen_session* session, int32_t index, pen_buffer* buffer);

/* What the last run had its device do. */
typedef struct pen_device_report {
  const char* device;            /* as pen_device_info names it; "cpu" */
  uint64_t dispatches;           /* programs that were started on it, and copies inside of it; 0 on the CPU */
  uint64_t copies;               /* of inputs and outputs between it and the host */
  uint64_t bytes_up, bytes_down; /* that these moved to the device, and to the host */
} pen_device_report;
PEN_API void pen_session_device_report(const pen_session* session, pen_device_report* report);
/* Of all planned parts that the last run of a method came by; "cpu" where it came by none. */
PEN_API void pen_module_device_report(const pen_module* module, pen_device_report* report);

/* --- what this library holds --------------------------------------------------------------------------------- */
PEN_API int32_t pen_kernel_count(void);
PEN_API const char* pen_kernel_key(int32_t index);
/* Devices that this library can run on, the CPU first, NULL past the end. */
PEN_API const char* pen_backend_name(int32_t index);
/* Names of the instruction sets compiled in that this CPU has, best first; NULL past the end. */
PEN_API const char* pen_isa_name(int32_t index);

/* What the processor says of its caches, or PENLIGHT_PROCESSOR in its place ("l1=32k,l2=512k/4,l3=0": 512 kB that 4 cores share), and the
 * blocking that follows: how far work is cut so that it stays in the second cache level. Results do not depend on it. */
typedef struct pen_processor {
  size_t size;                                /* sizeof(pen_processor), set by the caller: a later version adds fields at the end */
  int64_t l1_bytes, l2_bytes, l3_bytes;       /* of data, as one core sees them; l3 0: not known, or none */
  int32_t l1_sharers, l2_sharers, l3_sharers; /* logical cores that share each; 0: not known */
  int32_t cores;                              /* logical ones */
  int32_t whole_vectors;                      /* 0: the widest vectors go through units of half their width */
  const char* source;                         /* who says so: "cpuid", "/sys", "sysctl", "PENLIGHT_PROCESSOR"; "": assumed */
  int64_t near_bytes;                         /* one core's part of L2, 64 kB to 1 MB: all below follows from it */
  int64_t part_of_k;                          /* matrix products: how much of K is done at once */
  int64_t near_weights;                       /* convolutions: weights up to this size leave the order by pixels */
  int64_t strip_bytes;                        /* direct convolutions: input rows of one task */
  int64_t expanded_bytes, expand_input_bytes; /* expand_depthwise: rows between its two convolutions; input that is read again */
  int64_t turn_bytes;                         /* of a batch: what as many images as go through steps together read and write in one */
} pen_processor;
#define PEN_PROCESSOR {sizeof(pen_processor), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0}
/* An error where PENLIGHT_PROCESSOR has no meaning. (A library for Android and models of f32 alone assumes 256 kB of L2, and does without
 * this.) */
PEN_API pen_status pen_processor_describe(pen_processor* processor, pen_error* error);

#ifdef __cplusplus
}
#endif
#endif /* PENLIGHT_H_ */
