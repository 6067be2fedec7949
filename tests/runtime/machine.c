/* A machine that gives little: machine CLASSIFIER CASE GOLDEN_V2
 * Threads that cannot be made, signals all the time whose handlers end system calls, stacks of 64 KiB: results are the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "case.h"

static const char *classifier, *golden;
static case_file inputs;
static pen_error error;
static int made, most = 1 << 30; /* threads */

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  return made++ < most ? real(thread, attributes, start, argument) : EAGAIN;
}

static void run(int threads, uint32_t flags) {
  pen_model* model;
  CHECK(pen_model_open(classifier, flags, &model, &error) == PEN_OK);
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.threads = threads;
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  case_set_inputs(&inputs, session);
  for (int i = 0; i < 2; ++i) {
    CHECK(pen_session_run(session) == PEN_OK);
    case_compare(&inputs, session);
  }
  pen_session_destroy(session);
  pen_model_close(model);

  CHECK(pen_model_open(golden, flags, &model, &error) == PEN_OK);
  pen_module_options more = PEN_MODULE_OPTIONS;
  more.threads = threads;
  pen_module* module;
  CHECK(pen_module_create(model, &more, &module, &error) == PEN_OK);
  float data[6] = {1, -2, 3, -4, 5, -6};
  int64_t dims[2] = {2, 3};
  pen_tensor t = {data, PEN_F32, 2, dims, NULL};
  pen_value *args[2] = {pen_value_tensor(&t, NULL, NULL), pen_value_int(3)}, *result;
  CHECK(pen_module_run(module, NULL, args, 2, &result) == PEN_OK);
  CHECK(pen_value_count(result) > 0);
  pen_value_release(result);
  pen_value_release(args[0]);
  pen_value_release(args[1]);
  pen_module_destroy(module);
  pen_model_close(model);
}

static void test_few_threads(void) {
  for (most = 0; most < 5; ++most) {
    made = 0;
    run(4, 0);
  }
  most = 1 << 30;
}

static volatile sig_atomic_t signals;
static void count_signal(int number) { signals += number == SIGALRM; }
static void test_signals(void) {
  struct sigaction action = {0};
  action.sa_handler = count_signal; /* without SA_RESTART */
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (int i = 0; i < 100 || signals < 100; ++i) run(1 + i % 4, (uint32_t)i % 4);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void* run_here(void* unused) {
  run(1, PEN_LOAD_VERIFY);
  run(3, PEN_LOAD_COPY);
  return unused;
}
static void test_small_stack(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
  CHECK(pthread_create(&thread, &attributes, run_here, NULL) == 0 && pthread_join(thread, NULL) == 0);
  pthread_attr_destroy(&attributes);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  classifier = argv[1];
  case_open(argv[2], &inputs);
  golden = argv[3];
  test_few_threads();
  test_signals();
  test_small_stack();
  case_close(&inputs);
  printf("survived\n");
  return 0;
}
