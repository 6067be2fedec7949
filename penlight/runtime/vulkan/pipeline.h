// Programs (SPIR-V) with their specialization constants, compiled by the driver: many at once, over several threads, each once a device.
// What the driver compiled is kept on disk (cache.h).
#pragma once
#include "penlight/runtime/exec/pool.h"
#include "penlight/runtime/vulkan/device.h"

namespace pen::vulkan {

// A compute shader with entry point "main": storage buffers at set 0, bindings 0 to buffers - 1, and push constants from byte 0.
struct Program {
  const char* name;  // for errors and profiles
  const uint32_t* words;
  uint32_t word_count;
  uint32_t buffers, push_bytes;
};

struct PipelineRequest {
  const Program* program;
  const uint32_t* constants;  // of ids 0, 1, ...: 32 bits each, whatever the type
  uint32_t constant_count;
  uint32_t subgroup_size;  // 0: as the driver likes; else limits.subgroup_choice, min and max say what there is
};

struct Pipeline {
  VkPipeline handle;
  VkPipelineLayout layout;
  VkDescriptorSetLayout set;
  uint32_t buffers, push_bytes;
  uint8_t key[32];  // SHA-256 of all that it was made of
  char name[64];
};

// Writes a pipeline for each request: those that the device has already, the others made now. They live as long as the device is open.
// `pool` compiles; null: threads of its own, if there is enough to do.
Status make_pipelines(Device* device, const PipelineRequest* requests, int32_t count, const Pipeline** pipelines, ThreadPool* pool,
                      pen_error* error);
// Writes the cache file if there is something new. Worth calling after a first run; closing a device does it too, but many an app ends
// without.
void save_pipelines(Device* device);

struct PipelineCounts {
  int32_t pipelines;     // of this device so far
  uint64_t cache_bytes;  // that the cache file gave; 0: there was none
};
PipelineCounts pipeline_counts(Device* device);

void destroy_pipelines(Device* device);  // when it closes

}  // namespace pen::vulkan
