// What this machine can do at most: `peak THREADS` prints GFLOP/s of multiply-adds in registers and GB/s of copying (bytes
// read plus bytes written) of THREADS threads together, the best of many short tries. Compiled for the machine it runs on.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float vec __attribute__((vector_size(VECTOR_BYTES)));

enum { kLanes = VECTOR_BYTES / 4, kChains = 12, kSteps = 1 << 18, kTries = 100, kMaxThreads = 256 };
static const size_t kCopyBytes = 64u << 20;  // far beyond any cache's share of one core

typedef struct {
  pthread_barrier_t* barrier;
  double flop_s, copy_s;  // best of the tries
  float sink;
} Job;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Twelve independent chains hide the latency of the multiply-add on every core we know (4 cycles, two units).
static float multiply_adds(void) {
  vec a[kChains], scale, shift;
  for (int i = 0; i < kLanes; ++i) scale[i] = 0.999f, shift[i] = 0.001f;
  for (int c = 0; c < kChains; ++c) a[c] = shift * (float)c;
#if defined(__clang__)
#pragma clang loop unroll(disable)
#endif
  for (int s = 0; s < kSteps; ++s) {
    a[0] = a[0] * scale + shift, a[1] = a[1] * scale + shift, a[2] = a[2] * scale + shift, a[3] = a[3] * scale + shift;
    a[4] = a[4] * scale + shift, a[5] = a[5] * scale + shift, a[6] = a[6] * scale + shift, a[7] = a[7] * scale + shift;
    a[8] = a[8] * scale + shift, a[9] = a[9] * scale + shift, a[10] = a[10] * scale + shift, a[11] = a[11] * scale + shift;
  }
  vec sum = a[0];
  for (int c = 1; c < kChains; ++c) sum += a[c];
  return sum[0];
}

static void* work(void* argument) {
  Job* job = argument;
  char* from = malloc(kCopyBytes);
  char* to = malloc(kCopyBytes);
  if (!from || !to) abort();
  memset(from, 1, kCopyBytes);
  memset(to, 2, kCopyBytes);
  job->flop_s = job->copy_s = 1e9;
  for (int t = 0; t < kTries; ++t) {
    pthread_barrier_wait(job->barrier);
    double start = now();
    job->sink += multiply_adds();
    double taken = now() - start;
    if (taken < job->flop_s) job->flop_s = taken;
    pthread_barrier_wait(job->barrier);
    start = now();
    memcpy(to, from, kCopyBytes);
    taken = now() - start;
    if (taken < job->copy_s) job->copy_s = taken;
    job->sink += to[t];
  }
  free(from);
  free(to);
  return NULL;
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1 || threads > kMaxThreads) {
    fprintf(stderr, "peak: expected 1 to %d threads, got %s\n", kMaxThreads, argv[1]);
    return 1;
  }
  static Job jobs[kMaxThreads];
  static pthread_t handles[kMaxThreads];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int t = 0; t < threads; ++t) {
    jobs[t].barrier = &barrier;
    if (pthread_create(&handles[t], NULL, work, &jobs[t])) return 1;
  }
  double gflops = 0, copy = 0;
  for (int t = 0; t < threads; ++t) {
    pthread_join(handles[t], NULL);
    gflops += 2.0 * kLanes * kChains * (double)kSteps / jobs[t].flop_s * 1e-9;
    copy += 2.0 * (double)kCopyBytes / jobs[t].copy_s * 1e-9;
  }
  printf("{\"gflops\": %.1f, \"copy_gbs\": %.1f}\n", gflops, copy);
  return 0;
}
