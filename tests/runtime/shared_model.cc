// One mapped model, many threads, each with sessions of its own that have threads too: shared_model MODEL CASE...
// Run under ThreadSanitizer. All threads must get the same bits.
#include <pthread.h>

#include "case.h"

namespace {

constexpr int kThreads = 6, kRounds = 8;

struct Shared {
  const pen_model* model;
  case_file* cases;
  int count;
  char* first[16];  // output 0 of each case, by whoever came first
  size_t size[16];
  pthread_mutex_t lock;
};

struct Start {
  Shared* shared;
  int index;
};

void keep_or_compare(Shared* s, int at, const pen_session* session) {
  pen_tensor y;
  CHECK(pen_session_output(session, 0, &y) == PEN_OK);
  size_t size = case_dtype_size(y.dtype);
  for (int d = 0; d < y.rank; ++d) size *= static_cast<size_t>(y.dims[d]);
  pthread_mutex_lock(&s->lock);
  if (!s->first[at]) {
    s->first[at] = static_cast<char*>(malloc(size));
    s->size[at] = size;
    memcpy(s->first[at], y.data, size);
  }
  CHECK(s->size[at] == size && memcmp(s->first[at], y.data, size) == 0);
  pthread_mutex_unlock(&s->lock);
}

void* work(void* argument) {
  Start* start = static_cast<Start*>(argument);
  Shared* s = start->shared;
  for (int round = 0; round < kRounds; ++round) {
    pen_error error;
    pen_session_options options = {sizeof options, nullptr, 1 + (start->index + round) % 3, 2, 0, nullptr, 0, nullptr, nullptr};
    pen_session* session;
    CHECK(pen_session_create(s->model, "forward", &options, &session, &error) == PEN_OK);
    for (int i = 0; i < 2 * s->count; ++i) {
      int at = (i + start->index) % s->count;
      case_set_inputs(&s->cases[at], session);
      CHECK(pen_session_run(session) == PEN_OK);
      case_compare(&s->cases[at], session);
      keep_or_compare(s, at, session);
    }
    CHECK(pen_model_metadata(s->model)[0] == '{');
    pen_session_destroy(session);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3 && argc - 2 <= 16);
  Shared s = {};
  pthread_mutex_init(&s.lock, nullptr);
  s.count = argc - 2;
  s.cases = static_cast<case_file*>(malloc(sizeof(case_file) * static_cast<size_t>(s.count)));
  for (int i = 0; i < s.count; ++i) case_open(argv[i + 2], &s.cases[i]);
  pen_error error;
  pen_model* model;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  s.model = model;
  pthread_t threads[kThreads];
  Start starts[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    starts[i] = {&s, i};
    CHECK(pthread_create(&threads[i], nullptr, work, &starts[i]) == 0);
  }
  for (pthread_t t : threads) pthread_join(t, nullptr);
  pen_model_close(model);
  for (int i = 0; i < s.count; ++i) {
    case_close(&s.cases[i]);
    free(s.first[i]);
  }
  free(s.cases);
  printf("same bits\n");
  return 0;
}
