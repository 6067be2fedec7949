/* The pool survives fork(): fork MODEL CASE
 * Parent and child go on with the same session, also where one of them has more threads than before. */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"

static void run(pen_session* session, const case_file* c) {
  case_set_inputs(c, session);
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(c, session);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  case_file c;
  case_open(argv[2], &c);
  pen_error error;
  pen_model* model;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  for (int warm = 0; warm < 2; ++warm) { /* 0: the pool has no threads yet */
    pen_session_options options = {sizeof options, NULL, 4, 0, 0, NULL, 0, NULL, NULL};
    pen_session* session;
    CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
    if (warm) run(session, &c);
    for (int i = 0; i < 5; ++i) {
      pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        alarm(60);
        if (i != 1) run(session, &c);
        if (i == 2 && fork() == 0) { /* and a grandchild */
          alarm(60);
          run(session, &c);
          pen_session_destroy(session);
          _exit(0);
        }
        int status = 0;
        if (i == 2) CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        run(session, &c);
        pen_session_destroy(session);
        _exit(0);
      }
      run(session, &c); /* at the same time */
      int status;
      CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    run(session, &c);
    pen_session_destroy(session);
  }
  pen_model_close(model);
  case_close(&c);
  printf("survived\n");
  return 0;
}
