// What the tests of runtime/vulkan share: a program from a file that glslc wrote, arithmetic of the shaders on the host, errors that end
// the test.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
#include <pthread.h>

#include <string>
#include <vector>

#include "../case.h"

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/vulkan/commands.h"
#include "penlight/runtime/vulkan/hazards.h"

using namespace pen;
using namespace pen::vulkan;

static pen_error error;
#define OK(call)                                                                    \
  do {                                                                              \
    if ((call) != PEN_OK) {                                                         \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error.message); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)
#define FAILS(call, status_, ...)                                                                   \
  do {                                                                                              \
    CHECK((call) == (status_));                                                                     \
    for (const char* part : std::vector<const char*>{__VA_ARGS__}) CHECK_TEXT(error.message, part); \
  } while (0)

static std::string folder;  // of the compiled shaders

struct Shader {
  void* bytes;
  Program program;
  Shader(const char* name, uint32_t buffers, uint32_t push_bytes) {
    size_t size;
    bytes = case_read((folder + "/" + name + ".spv").c_str(), &size);
    program = {name, static_cast<uint32_t*>(bytes), static_cast<uint32_t>(size / 4), buffers, push_bytes};
  }
  ~Shader() { free(bytes); }
};

static inline const Pipeline* pipeline(Device* d, const Program& program, std::vector<uint32_t> constants, uint32_t subgroup = 0) {
  PipelineRequest r = {&program, constants.data(), static_cast<uint32_t>(constants.size()), subgroup};
  const Pipeline* p;
  OK(make_pipelines(d, &r, 1, &p, nullptr, &error));
  CHECK(p && p->handle != VkPipeline{});
  return p;
}

static inline uint32_t bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static inline double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

static inline uint32_t chain(uint32_t x, uint32_t i, uint32_t rounds, uint32_t factor) {
  for (uint32_t k = 0; k < rounds; ++k) x = x * 1664525u + 1013904223u;
  return x * factor + i;
}

static uint64_t random_state = 1;
static inline uint64_t below(uint64_t n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % n;
}
