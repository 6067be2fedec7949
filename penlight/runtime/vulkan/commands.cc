#include "penlight/runtime/vulkan/commands.h"
#include "penlight/runtime/vulkan/hazards.h"

namespace pen::vulkan {

struct Recording {
  Device* device;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkDescriptorPool sets;
  VkQueryPool queries;
  VkFence fence;
  int32_t count, barriers;
  bool timed, running, ran;
  List<VkMappedMemoryRange> fetched;  // memory that the host must fetch after a run
  uint64_t* ticks;
};

namespace {

constexpr VkFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr int64_t kSpin = 1000000;      // nanoseconds; a sleeping thread is some tens of microseconds late
constexpr uint64_t kLook = 1000000000;  // how long the driver waits before it is asked again whether the device is there

Status wrong(Device* device, const Step& step, int32_t index, const char* expected, const char* got, pen_error* error) {
  char op[64];
  set_text(op, sizeof op, "step %d (%.40s)", index, step.pipeline ? step.pipeline->name : "copy");
  return report(error, {PEN_ERROR_ARGUMENT, device->info.name, op, "", expected, got});
}

Status check_range(Device* device, const Step& step, int32_t index, int32_t which, pen_error* error) {
  const Range& r = step.ranges[which];
  const Limits& l = device->info.limits;
  char expected[128], got[96];
  bool inside = r.buffer && r.buffer->device == device && r.offset <= r.buffer->bytes && r.bytes <= r.buffer->bytes - r.offset;
  bool fits = !step.pipeline || (r.bytes > 0 && r.bytes <= l.storage_range && r.offset % l.storage_alignment == 0);
  if (inside && fits) return PEN_OK;
  if (!inside)
    set_text(expected, sizeof expected, "range %d inside a buffer of this device (%llu bytes)", which,
             static_cast<unsigned long long>(r.buffer ? r.buffer->bytes : 0));
  else
    set_text(expected, sizeof expected, "range %d of 1 to %llu bytes at a multiple of %u", which,
             static_cast<unsigned long long>(l.storage_range), l.storage_alignment);
  set_text(got, sizeof got, "%llu bytes at %llu", static_cast<unsigned long long>(r.bytes), static_cast<unsigned long long>(r.offset));
  return wrong(device, step, index, expected, got, error);
}

Status check_step(Device* device, const Step& step, int32_t index, pen_error* error) {
  char expected[96], got[96];
  int32_t ranges = step.pipeline ? static_cast<int32_t>(step.pipeline->buffers) : 2;
  if (step.range_count != ranges || (step.pipeline && step.pipeline->push_bytes && !step.push)) {
    set_text(expected, sizeof expected, "%d ranges and %u bytes of push constants", ranges, step.pipeline ? step.pipeline->push_bytes : 0);
    set_text(got, sizeof got, "%d and %s", step.range_count, step.push ? "some" : "none");
    return wrong(device, step, index, expected, got, error);
  }
  for (int32_t i = 0; i < ranges; ++i)
    if (Status s = check_range(device, step, index, i, error)) return s;
  if (step.pipeline) {
    const uint32_t *most = device->info.limits.group_count, *g = step.groups;
    if (g[0] <= most[0] && g[1] <= most[1] && g[2] <= most[2]) return PEN_OK;
    set_text(expected, sizeof expected, "at most %u x %u x %u groups", most[0], most[1], most[2]);
    set_text(got, sizeof got, "%u x %u x %u", g[0], g[1], g[2]);
    return wrong(device, step, index, expected, got, error);
  }
  const Range &from = step.ranges[0], &to = step.ranges[1];
  if (from.bytes != to.bytes) return wrong(device, step, index, "ranges of one size", "two sizes", error);
  if (from.buffer->handle == to.buffer->handle && from.offset < to.offset + to.bytes && to.offset < from.offset + from.bytes)
    return wrong(device, step, index, "ranges apart", "ranges that overlap", error);
  return PEN_OK;
}

void barrier(Recording* r, VkFlags from, VkFlags writes, VkFlags to, VkFlags reads) {
  VkMemoryBarrier memory{};
  memory.srcAccessMask = writes;
  memory.dstAccessMask = reads;
  r->device->f.CmdPipelineBarrier(r->commands, from, to, 0, writes ? 1 : 0, &memory, 0, nullptr, 0, nullptr);
}

VkFlags accesses(VkFlags stages) {
  return (stages & kCompute ? VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT : 0) |
         (stages & kTransfer ? VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT : 0);
}

// A descriptor set for each dispatch, all from one pool, written in one call.
VkResult make_sets(Recording* r, const Step* steps, int32_t count, Pool* memory, VkDescriptorSet** sets) {
  uint32_t dispatches = 0, ranges = 0;
  for (int32_t i = 0; i < count; ++i)
    if (steps[i].pipeline) ++dispatches, ranges += steps[i].pipeline->buffers;
  *sets = memory->take_array<VkDescriptorSet>(dispatches + 1);
  auto* layouts = memory->take_array<VkDescriptorSetLayout>(dispatches + 1);
  auto* writes = memory->take_array<VkWriteDescriptorSet>(dispatches + 1);
  auto* infos = memory->take_array<VkDescriptorBufferInfo>(ranges + 1);
  if (!*sets || !layouts || !writes || !infos) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!dispatches) return VK_SUCCESS;
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, ranges ? ranges : 1};
  VkDescriptorPoolCreateInfo pool{};
  pool.maxSets = dispatches;
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  const DeviceFunctions& f = r->device->f;
  VkResult result = f.CreateDescriptorPool(r->device->handle, &pool, nullptr, &r->sets);
  if (result != VK_SUCCESS) return result;
  uint32_t n = 0;
  for (int32_t i = 0; i < count; ++i)
    if (steps[i].pipeline) layouts[n++] = steps[i].pipeline->set;
  VkDescriptorSetAllocateInfo allocate{};
  allocate.descriptorPool = r->sets;
  allocate.descriptorSetCount = dispatches;
  allocate.pSetLayouts = layouts;
  result = f.AllocateDescriptorSets(r->device->handle, &allocate, *sets);
  if (result != VK_SUCCESS) return result;
  uint32_t set = 0, written = 0;
  for (int32_t i = 0; i < count; ++i) {
    const Step& step = steps[i];
    if (!step.pipeline) continue;
    VkDescriptorSet to = (*sets)[set++];
    if (!step.range_count) continue;
    VkWriteDescriptorSet w{};
    w.dstSet = to;  // one write goes on from binding to binding, as all are alike
    w.descriptorCount = static_cast<uint32_t>(step.range_count);
    w.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    w.pBufferInfo = infos;
    for (int32_t k = 0; k < step.range_count; ++k) *infos++ = {step.ranges[k].buffer->handle, step.ranges[k].offset, step.ranges[k].bytes};
    writes[written++] = w;
  }
  f.UpdateDescriptorSets(r->device->handle, written, writes, 0, nullptr);
  return VK_SUCCESS;
}

void record_step(Recording* r, const Step& step, const VkDescriptorSet* set, const Pipeline* before) {
  const DeviceFunctions& f = r->device->f;
  if (!step.pipeline) {
    VkBufferCopy copy = {step.ranges[0].offset, step.ranges[1].offset, step.ranges[0].bytes};
    if (copy.size) f.CmdCopyBuffer(r->commands, step.ranges[0].buffer->handle, step.ranges[1].buffer->handle, 1, &copy);
    return;
  }
  const Pipeline& p = *step.pipeline;
  if (&p != before) f.CmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
  f.CmdBindDescriptorSets(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, set, 0, nullptr);
  if (p.push_bytes) f.CmdPushConstants(r->commands, p.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, p.push_bytes, step.push);
  f.CmdDispatch(r->commands, step.groups[0], step.groups[1], step.groups[2]);
}

// Remembers memory that is mapped and written: its end is for the host. False: out of memory.
bool note_mapped(Recording* r, const Range& range, bool* any) {
  if (!range.written || !range.buffer->mapped) return true;
  *any = true;
  if (range.buffer->coherent) return true;
  for (int32_t i = 0; i < r->fetched.count; ++i)
    if (r->fetched[i].memory == range.buffer->memory) return true;
  VkMappedMemoryRange whole{};
  whole.memory = range.buffer->memory;
  whole.size = ~uint64_t{0};
  return r->fetched.push(whole);
}

VkResult record_steps(Recording* r, const Step* steps, int32_t count, const VkDescriptorSet* sets, Hazards* hazards) {
  const DeviceFunctions& f = r->device->f;
  // Where dispatches and copies still follow: what comes after a barrier.
  int32_t last_dispatch = -1, last_copy = -1;
  for (int32_t i = 0; i < count; ++i) (steps[i].pipeline ? last_dispatch : last_copy) = i;
  VkFlags all = (last_dispatch >= 0 ? kCompute : 0) | (last_copy >= 0 ? kTransfer : 0);
  if (!all) return VK_SUCCESS;
  // What earlier recordings wrote is there for this one, even those that nobody has waited for.
  barrier(r, kCompute | kTransfer, kWrites, all, accesses(all));
  if (r->timed) f.CmdResetQueryPool(r->commands, r->queries, 0, static_cast<uint32_t>(count) * 2);
  const Pipeline* before = nullptr;
  bool for_host = false;
  for (int32_t i = 0; i < count; ++i) {
    const Step& step = steps[i];
    Range copy[2];
    const Range* ranges = step.ranges;
    if (!step.pipeline) {
      copy[0] = ranges[0], copy[1] = ranges[1];
      copy[0].written = false, copy[1].written = true;
      ranges = copy;
    }
    if (hazards->conflict(ranges, step.range_count) || (r->timed && i > 0)) {
      VkFlags to = (last_dispatch >= i ? kCompute : 0) | (last_copy >= i ? kTransfer : 0);
      barrier(r, hazards->stages, hazards->writes, to, accesses(to));
      hazards->forget();
      ++r->barriers;
    }
    bool noted = step.pipeline ? hazards->add(ranges, step.range_count, kCompute, VK_ACCESS_SHADER_WRITE_BIT)
                               : hazards->add(ranges, step.range_count, kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT);
    for (int32_t k = 0; k < step.range_count; ++k) noted = noted && note_mapped(r, ranges[k], &for_host);
    if (!noted) return VK_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t query = static_cast<uint32_t>(i) * 2;
    if (r->timed) f.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, r->queries, query);
    record_step(r, step, sets, before);
    if (r->timed) f.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->queries, query + 1);
    if (step.pipeline) ++sets, before = step.pipeline;
  }
  if (for_host) barrier(r, all, kWrites & accesses(all), VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  return VK_SUCCESS;
}

VkResult record(Recording* r, const Step* steps, int32_t count) {
  const DeviceFunctions& f = r->device->f;
  VkDevice device = r->device->handle;
  VkFenceCreateInfo fence{};
  VkResult result = f.CreateFence(device, &fence, nullptr, &r->fence);
  if (result != VK_SUCCESS) return result;
  VkCommandPoolCreateInfo pool{};
  pool.queueFamilyIndex = r->device->family;
  result = f.CreateCommandPool(device, &pool, nullptr, &r->pool);
  if (result != VK_SUCCESS) return result;
  VkCommandBufferAllocateInfo allocate{};
  allocate.commandPool = r->pool;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  result = f.AllocateCommandBuffers(device, &allocate, &r->commands);
  if (result != VK_SUCCESS) return result;
  if (r->timed && count) {
    VkQueryPoolCreateInfo queries{};
    queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
    queries.queryCount = static_cast<uint32_t>(count) * 2;
    result = f.CreateQueryPool(device, &queries, nullptr, &r->queries);
    if (result != VK_SUCCESS) return result;
    r->ticks = static_cast<uint64_t*>(calloc(static_cast<size_t>(count) * 2, sizeof(uint64_t)));
    if (!r->ticks) return VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  Pool memory;
  Hazards hazards;
  VkDescriptorSet* sets = nullptr;
  result = make_sets(r, steps, count, &memory, &sets);
  VkCommandBufferBeginInfo begin{};
  if (result == VK_SUCCESS) result = f.BeginCommandBuffer(r->commands, &begin);
  if (result == VK_SUCCESS) result = record_steps(r, steps, count, sets, &hazards);
  if (result == VK_SUCCESS) result = f.EndCommandBuffer(r->commands);
  hazards.since.release();
  memory.release();
  return result;
}

int64_t now() {
  pen_timespec t{};
  clock_gettime(platform::kMonotonic, &t);
  return static_cast<int64_t>(t.seconds) * 1000000000 + t.nanoseconds;
}

VkResult wait_for_fence(Recording* r) {
  const DeviceFunctions& f = r->device->f;
  VkDevice device = r->device->handle;
  // A device that is this very processor would be kept from its work.
  if (r->device->info.type != VK_PHYSICAL_DEVICE_TYPE_CPU)
    for (int64_t end = now() + kSpin; now() < end;) {
      VkResult result = f.GetFenceStatus(device, r->fence);
      if (result != VK_NOT_READY) return result;
    }
  for (;;) {
    VkResult result = f.WaitForFences(device, 1, &r->fence, 1, kLook);
    if (result != VK_TIMEOUT) return result;
    if (__atomic_load_n(&r->device->lost, __ATOMIC_RELAXED)) return VK_ERROR_DEVICE_LOST;  // as another thread was told
  }
}

}  // namespace

Status create_recording(Device* device, const Step* steps, int32_t count, bool timed, Recording** recording, pen_error* error) {
  *recording = nullptr;
  if (Status s = check_device(device, error)) return s;
  if (timed && !device->info.limits.timestamp_bits)
    return report(error, PEN_ERROR_ARGUMENT, device->info.name, "a device that measures time", "one without timestamps");
  for (int32_t i = 0; i < count; ++i)
    if (Status s = check_step(device, steps[i], i, error)) return s;
  auto* r = static_cast<Recording*>(calloc(1, sizeof(Recording)));
  if (!r) return report(error, PEN_ERROR_MEMORY, device->info.name, "memory for a recording");
  retain_device(device);
  r->device = device;
  r->count = count;
  r->timed = timed;
  VkResult result = record(r, steps, count);
  if (result != VK_SUCCESS) {
    char expected[64];
    set_text(expected, sizeof expected, "a recording of %d steps", count);
    Status status = device_error(device, result, expected, error);
    destroy_recording(r);
    return status;
  }
  *recording = r;
  return PEN_OK;
}

void destroy_recording(Recording* r) {
  if (!r) return;
  Device* device = r->device;
  if (is_own(device)) {
    const DeviceFunctions& f = device->f;
    if (r->running) wait(r, nullptr);
    f.DestroyQueryPool(device->handle, r->queries, nullptr);
    f.DestroyDescriptorPool(device->handle, r->sets, nullptr);
    f.DestroyCommandPool(device->handle, r->pool, nullptr);
    f.DestroyFence(device->handle, r->fence, nullptr);
  }
  r->fetched.release();
  free(r->ticks);
  free(r);
  release_device(device);
}

Status submit(Recording* r, pen_error* error) {
  if (Status s = check_device(r->device, error)) return s;
  if (r->running)
    if (Status s = wait(r, error)) return s;
  const DeviceFunctions& f = r->device->f;
  VkSubmitInfo info{};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &r->commands;
  VkResult result = r->ran ? f.ResetFences(r->device->handle, 1, &r->fence) : VK_SUCCESS;
  if (result == VK_SUCCESS) {
    pthread_mutex_lock(r->device->lock);
    result = f.QueueSubmit(r->device->queue, 1, &info, r->fence);
    pthread_mutex_unlock(r->device->lock);
  }
  if (result != VK_SUCCESS) return device_error(r->device, result, "a recording that starts", error);
  r->running = r->ran = true;
  return PEN_OK;
}

Status wait(Recording* r, pen_error* error) {
  if (Status s = check_device(r->device, error)) return s;
  if (!r->running) return PEN_OK;
  VkResult result = wait_for_fence(r);
  r->running = false;
  const DeviceFunctions& f = r->device->f;
  if (result == VK_SUCCESS && r->fetched.count)
    result = f.InvalidateMappedMemoryRanges(r->device->handle, static_cast<uint32_t>(r->fetched.count), r->fetched.data);
  return result == VK_SUCCESS ? PEN_OK : device_error(r->device, result, "a recording that ends", error);
}

Status read_times(Recording* r, uint64_t* nanoseconds, pen_error* error) {
  if (Status s = check_device(r->device, error)) return s;
  if (!r->timed || !r->ran)
    return report(error, PEN_ERROR_ARGUMENT, r->device->info.name, "a timed recording that has run",
                  r->timed ? "one that has not" : "one that is not timed");
  if (Status s = wait(r, error)) return s;
  if (!r->count) return PEN_OK;
  size_t n = static_cast<size_t>(r->count) * 2;
  VkResult result = r->device->f.GetQueryPoolResults(r->device->handle, r->queries, 0, static_cast<uint32_t>(n), n * sizeof(uint64_t),
                                                     r->ticks, sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
  if (result != VK_SUCCESS) return device_error(r->device, result, "timestamps", error);
  uint32_t bits = r->device->info.limits.timestamp_bits;
  uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  for (int32_t i = 0; i < r->count; ++i) {
    uint64_t ticks = (r->ticks[i * 2 + 1] - r->ticks[i * 2]) & mask;  // the counter may have begun anew
    nanoseconds[i] = static_cast<uint64_t>(static_cast<double>(ticks) * static_cast<double>(r->device->info.limits.timestamp_period));
  }
  return PEN_OK;
}

int32_t barrier_count(const Recording* r) { return r->barriers; }

}  // namespace pen::vulkan
