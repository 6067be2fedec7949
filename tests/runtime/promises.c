/* Promises that a caller breaks end a debug build with words: promises CLASSIFIER CASE GOLDEN_V2
 * Each is broken in a child, which is to abort and to say what was wrong. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "penlight_trace.h"

static const char *classifier, *golden;
static case_file inputs;
static pen_error error;

static pen_model* open_model(const char* path) {
  pen_model* model;
  CHECK(pen_model_open(path, 0, &model, &error) == PEN_OK);
  return model;
}
static pen_session* open_session(const pen_model* model, int32_t (*interrupted)(void*), pen_session** context) {
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.threads = 1;
  options.interrupted = interrupted;
  options.interrupt_context = context;
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  case_set_inputs(&inputs, session);
  return session;
}
static pen_module* open_module(const pen_model* model) {
  pen_module_options options = PEN_MODULE_OPTIONS;
  options.threads = 1;
  pen_module* module;
  CHECK(pen_module_create(model, &options, &module, &error) == PEN_OK);
  return module;
}

static void model_before_session(void) {
  pen_model* model = open_model(classifier);
  open_session(model, NULL, NULL);
  pen_model_close(model);
}
static void model_before_module(void) {
  pen_model* model = open_model(golden);
  open_module(model);
  pen_model_close(model);
}
static void model_closed(void) {
  pen_model* model = open_model(classifier);
  pen_model_close(model);
  pen_model_metadata(model);
}
static void model_closed_before_session(void) {
  pen_model* model = open_model(classifier);
  pen_model_close(model);
  open_session(model, NULL, NULL);
}
static void trace_before_session(void) {
  pen_trace* trace = pen_trace_create();
  pen_session_set_trace(open_session(open_model(classifier), NULL, NULL), trace);
  pen_trace_destroy(trace);
}
static void trace_before_module(void) {
  pen_trace* trace = pen_trace_create();
  CHECK(pen_module_set_trace(open_module(open_model(golden)), trace) == PEN_OK);
  pen_trace_destroy(trace);
}
static void trace_destroyed(void) {
  pen_trace* trace = pen_trace_create();
  pen_trace_destroy(trace);
  pen_trace_used_operator(trace, 0);
}
static void session_destroyed(void) {
  pen_session* session = open_session(open_model(classifier), NULL, NULL);
  pen_session_destroy(session);
  pen_session_run(session);
}
static void session_destroyed_twice(void) {
  pen_session* session = open_session(open_model(classifier), NULL, NULL);
  pen_session_destroy(session);
  pen_session_destroy(session);
}
static void wrong_handle(void) {
  pen_model* model = open_model(classifier);
  pen_session_run((pen_session*)model);
}
static void value_released(void) {
  pen_value* v = pen_value_int(1);
  pen_value_release(v);
  pen_value_as_int(v);
}
static void value_released_twice(void) {
  pen_value* v = pen_value_int(1);
  pen_value_release(v);
  pen_value_release(v);
}
static void value_released_as_argument(void) {
  pen_value *v = pen_value_int(1), *w = pen_value_int(2), *both[2] = {v, w};
  pen_value_release(w);
  pen_value_list(both, 2);
}
static void module_destroyed(void) {
  pen_module* module = open_module(open_model(golden));
  pen_module_destroy(module);
  pen_module_reset(module);
}
static void operators_destroyed(void) {
  pen_operators* operators;
  CHECK(pen_operators_create(NULL, &operators, &error) == PEN_OK);
  pen_operators_destroy(operators);
  pen_operators_error(operators);
}

static void* look(void* session) {
  pen_tensor y;
  pen_session_output(session, 0, &y);
  return NULL;
}
static int32_t run_inside(void* context) {
  pen_session_run(*(pen_session**)context);
  return 0;
}
static void run_from_callback(void) {
  static pen_session* session;
  session = open_session(open_model(classifier), run_inside, &session);
  pen_session_run(session);
}
static int32_t fork_inside(void* context) {
  int status;
  const pid_t child = fork();
  pthread_t thread;
  if (child == 0) { /* where the thread of the run is another one */
    if (pthread_create(&thread, NULL, look, *(pen_session**)context) == 0) pthread_join(thread, NULL);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) abort();
  return 0;
}
static void used_after_fork(void) {
  static pen_session* session;
  session = open_session(open_model(classifier), fork_inside, &session);
  pen_session_run(session);
}
static int32_t destroy_inside(void* context) {
  pen_session_destroy(*(pen_session**)context);
  return 0;
}
static void destroyed_from_callback(void) {
  static pen_session* session;
  session = open_session(open_model(classifier), destroy_inside, &session);
  pen_session_run(session);
}
static int32_t look_from_another_thread(void* context) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, look, *(pen_session**)context) == 0);
  pthread_join(thread, NULL);
  return 0;
}
static void two_threads(void) {
  static pen_session* session;
  session = open_session(open_model(classifier), look_from_another_thread, &session);
  pen_session_run(session);
}

static void two_outputs_at_one_place(void) {
  pen_session* session = open_session(open_model(classifier), NULL, NULL);
  static float room[1 << 16];
  CHECK(pen_session_prepare(session) == PEN_OK);
  CHECK(pen_session_set_output(session, 0, room, sizeof room) == PEN_OK);
  CHECK(pen_session_set_output(session, 1, room + 1, sizeof room - 4) == PEN_OK);
  pen_session_run(session);
}
static void output_over_input(void) {
  pen_session* session = open_session(open_model(classifier), NULL, NULL);
  CHECK(pen_session_prepare(session) == PEN_OK);
  CHECK(pen_session_set_output(session, 0, inputs.tensors[0].data, 1 << 20) == PEN_OK);
  pen_session_run(session);
}

static const struct {
  const char* name;
  void (*breaks)(void);
  const char *function, *words;
} kCases[] = {
    {"model before session", model_before_session, "pen_model_close", "something that is alive needs this pen_model still"},
    {"model before module", model_before_module, "pen_model_close", "something that is alive needs this pen_model still"},
    {"model closed", model_closed, "pen_model_metadata", "a pen_model that was destroyed"},
    {"model closed before session", model_closed_before_session, "session_create", "a pen_model that was destroyed"},
    {"trace before session", trace_before_session, "pen_trace_destroy", "something that is alive needs this pen_trace still"},
    {"trace before module", trace_before_module, "pen_trace_destroy", "something that is alive needs this pen_trace still"},
    {"trace destroyed", trace_destroyed, "pen_trace_used_operator", "a pen_trace that was destroyed"},
    {"session destroyed", session_destroyed, "pen_session_run", "a pen_session that was destroyed"},
    {"session destroyed twice", session_destroyed_twice, "pen_session_destroy", "a pen_session that was destroyed"},
    {"wrong handle", wrong_handle, "pen_session_run", "this is no pen_session, or none that is alive"},
    {"value released", value_released, "pen_value_as_int", "a pen_value that was destroyed"},
    {"value released twice", value_released_twice, "pen_value_release", "a pen_value that was destroyed"},
    {"value released, as argument", value_released_as_argument, "all_there", "a pen_value that was destroyed"},
    {"module destroyed", module_destroyed, "pen_module_reset", "a pen_module that was destroyed"},
    {"operators destroyed", operators_destroyed, "pen_operators_error", "a pen_operators that was destroyed"},
    {"run from a callback", run_from_callback, "pen_session_run", "this thread is inside of this pen_session already"},
    {"destroyed from a callback", destroyed_from_callback, "pen_session_destroy", "this thread is inside of this pen_session already"},
    {"two threads", two_threads, "pen_session_output", "another thread is inside of this pen_session"},
    {"used after fork", used_after_fork, "pen_session_output",
     "another thread is inside of this pen_session (or was when the process forked)"},
    {"two outputs at one place", two_outputs_at_one_place, "pen_session_run", "two outputs are bound to the same memory"},
    {"output over input", output_over_input, "pen_session_run", "an output is bound to memory of an input"},
};

int main(int argc, char** argv) {
  CHECK(argc == 4);
  classifier = argv[1];
  case_open(argv[2], &inputs);
  golden = argv[3];
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      signal(SIGABRT, SIG_DFL);
      dup2(ends[1], 2);
      close(ends[0]);
      alarm(60);
      kCases[i].breaks();
      _exit(0);
    }
    close(ends[1]);
    char said[4096] = "";
    size_t size = 0;
    for (ssize_t n; size < sizeof said - 1 && (n = read(ends[0], said + size, sizeof said - 1 - size)) > 0;) size += (size_t)n;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    char start[160];
    snprintf(start, sizeof start, "penlight: %s: a promise of the caller's is broken: ", kCases[i].function);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strncmp(said, start, strlen(start)) == 0 && strstr(said, kCases[i].words))
      continue;
    fprintf(stderr, "%s: status %d, said: %s\n", kCases[i].name, status, said);
    return 1;
  }
  /* what is kept passes */
  pen_model* model = open_model(classifier);
  pen_session* session = open_session(model, NULL, NULL);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(&inputs, session);
  pen_session_destroy(session);
  pen_model_close(model);
  case_close(&inputs);
  printf("all promises\n");
  return 0;
}
