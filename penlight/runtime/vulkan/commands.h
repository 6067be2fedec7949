// A row of dispatches and copies, recorded once into a command buffer and replayed at will. Barriers stand only where a step touches bytes
// that a step since the last barrier wrote, or writes bytes that such a step read: byte ranges count, not buffers, as values share an
// arena.
#pragma once
#include "penlight/runtime/vulkan/memory.h"
#include "penlight/runtime/vulkan/pipeline.h"

namespace pen::vulkan {

struct Range {
  const Buffer* buffer;
  uint64_t offset, bytes;
  bool written;  // else only read
};

struct Step {
  const Pipeline* pipeline;  // null: a copy from ranges[0] to ranges[1], which are of one size
  const Range* ranges;       // a pipeline's storage buffers, in the order of their bindings
  int32_t range_count;
  const void* push;  // the pipeline's push constants
  uint32_t groups[3];
};

struct Recording;

// Buffers must outlive it; steps and ranges are not needed any longer. `timed` measures every step, one after the other: none overlap then.
Status create_recording(Device* device, const Step* steps, int32_t count, bool timed, Recording** recording, pen_error* error);
// What is running is waited for.
void destroy_recording(Recording* recording);

// submit starts it, after all that was submitted to this device before; wait returns when it is done, and what it wrote to mapped buffers
// is there to read. A recording that is running is waited for before it starts anew. One thread at a time has a recording.
Status submit(Recording* recording, pen_error* error);
Status wait(Recording* recording, pen_error* error);
static inline Status run(Recording* recording, pen_error* error) {
  Status s = submit(recording, error);
  return s ? s : wait(recording, error);
}

// Of the last run of a timed recording: nanoseconds of each step.
Status read_times(Recording* recording, uint64_t* nanoseconds, pen_error* error);
int32_t barrier_count(const Recording* recording);

// Bytes between the host and a buffer, now: what a mapped buffer needs is a copy, others go through memory made for it. `fill` writes
// bytes [at, at + bytes) of what is uploaded.
using FillFn = void (*)(const void* context, uint64_t at, uint64_t bytes, void* to);
Status upload_with(const Buffer* to, uint64_t offset, uint64_t bytes, FillFn fill, const void* context, pen_error* error);
Status upload(const Buffer* to, uint64_t offset, const void* from, uint64_t bytes, pen_error* error);
Status download(const Buffer* from, uint64_t offset, void* to, uint64_t bytes, pen_error* error);

}  // namespace pen::vulkan
