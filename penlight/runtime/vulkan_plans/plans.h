// Plans on Vulkan: what a device, a caller's memory and a plan's recording are to the backend, and how the recording is made.
#pragma once
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/gpu/gpu.h"
#include "penlight/runtime/vulkan/commands.h"

namespace pen::vulkan_plans {

// What a runner has of its device. The arena is all plans': it grows, and recordings made for an earlier one are made anew.
struct Target : GpuTarget {
  vulkan::Device* device;
  vulkan::Buffer arena;
  uint32_t arena_number;  // changes when it grows
};

// A caller's tensor on the device. Recordings know it by its number: an address may come again.
struct Memory {
  vulkan::Buffer buffer;
  uint64_t number;
};

// What a plan has there: a recording, and what belongs to it. One for each of the last few sets of callers' memory that it ran with.
struct Held {
  Held* next;
  uint64_t* bound;  // by plan buffer: the number of the caller's memory in its place, or 0
  uint64_t dispatches, copies, bytes_up, bytes_down;
  Target* target;
  uint32_t arena_number;
  bool timed, ran;
  vulkan::Recording* recording;
  int32_t* timed_steps;  // of each recorded step: the plan's, or -1 for what stands at the ends
  int32_t recorded;
  uint64_t* nanoseconds;
  // Inputs and outputs: where the shaders have them, and where the host has.
  vulkan::Buffer io, up, down;
  struct Port {
    uint64_t io, host, bytes;       // offsets in `io` and in `up` or `down`; bytes on the host
    const vulkan::Buffer* callers;  // what it has in place of `up` or `down`; null: nothing
    bool direct;                    // and in place of `io` too
  };
  Port* ports;  // by plan buffer
  // What begins anew in every run: faults, which are downloaded too, and kAlign bytes further what random numbers are made of. No bytes: no
  // shader asks for it.
  Port begun;
  uint64_t faults;  // where `down` has them
};

// The caller's memory that stands for a plan's input or output.
static inline const Memory* bound_to(const Runner& r, const Buffer& b) {
  bool port = b.kind == Buffer::Kind::input || b.kind == Buffer::Kind::output;
  return port && r.bound ? static_cast<const Memory*>(r.bound[b.index]) : nullptr;
}

constexpr uint64_t kAlign = 256;  // of what has a place of its own in a buffer: no device asks for more
static inline uint64_t aligned(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Bytes on the device, of what the planner counts as `bytes`.
static inline uint64_t stored(const Target& t, DType dtype, int64_t bytes) {
  return static_cast<uint64_t>(t.limits.f16 && dtype == DType::f32 ? bytes / 2 : bytes);
}
static inline int64_t element_bytes(const Target& t, DType dtype) { return t.limits.f16 && dtype == DType::f32 ? 2 : dtype_size(dtype); }

static inline int32_t root_of(const Plan& plan, int32_t buffer) {
  while (plan.buffers[buffer].merged >= 0) buffer = plan.buffers[buffer].merged;
  return buffer;
}

static inline bool is_timed(const Runner& r, const Target& t) { return r.profiling && t.device->info.limits.timestamp_bits; }

// Records a plan's dispatches, with the copies of inputs and outputs at both ends, into `h`, which has its target. After an error it is to
// be released all the same.
Status record(Runner* r, const Model& model, Plan* plan, Held* h);

}  // namespace pen::vulkan_plans
