// Vulkan as a device: a plan's dispatches are recorded once into a command buffer, with the copies of inputs and outputs at its ends, and
// replayed in every run.
#include "penlight/runtime/vulkan_plans/plans.h"

namespace pen {
using namespace vulkan_plans;

namespace {

Status open(const char* which, bool f16, void** out, pen_error* error) {
  Target* t = static_cast<Target*>(calloc(1, sizeof(Target)));
  if (!t) return report(error, PEN_ERROR_MEMORY, "device", "memory");
  Status status = vulkan::open_device(which, &t->device, error);
  if (status) {
    free(t);
    return status;
  }
  const vulkan::Limits& l = t->device->info.limits;
  t->limits.group_threads = l.group_invocations;
  t->limits.shared_bytes = l.shared_bytes;
  t->limits.f16 = f16 && l.f16_storage;
  for (int32_t i = 0; i < l.shape_count && t->limits.f16 && l.cooperative_nv && l.f16_arithmetic; ++i)
    t->limits.matrix |= l.shapes[i].m == 16 && l.shapes[i].n == 16 && l.shapes[i].k == 16 && l.subgroup_size == 32;
  *out = t;
  return PEN_OK;
}

void close(void* device) {
  Target* t = static_cast<Target*>(device);
  vulkan::destroy_buffer(&t->arena);
  vulkan::release_device(t->device);
  free(t);
}

void release(Held* h) {
  vulkan::destroy_recording(h->recording);
  vulkan::destroy_buffer(&h->io);
  vulkan::destroy_buffer(&h->up);
  vulkan::destroy_buffer(&h->down);
  free(h->ports);
  free(h->bound);
  free(h->timed_steps);
  free(h->nanoseconds);
  free(h);
}
void release(Plan* plan) {
  for (Held* h = static_cast<Held*>(plan->held); h;) {
    Held* next = h->next;
    release(h);
    h = next;
  }
  plan->held = nullptr;
}

Status grow_arena(Runner* r, Target* t, int64_t bytes) {
  if (t->arena.device && t->arena.bytes >= static_cast<uint64_t>(bytes)) return PEN_OK;
  vulkan::destroy_buffer(&t->arena);
  ++t->arena_number;
  return vulkan::create_buffer(t->device, vulkan::Use::device, static_cast<uint64_t>(bytes > 64 ? bytes : 64), &t->arena, r->error);
}

// Recording waits until a run has the model.
Status prepare(Runner* r, Plan* plan) {
  Target* t = static_cast<Target*>(r->device);
  return grow_arena(r, t, plan->arena_bytes);
}

constexpr int kMostHeld = 4;

bool fits(const Held& h, const Runner& r, const Plan& plan) {
  const Target& t = *static_cast<const Target*>(r.device);
  if (!h.recording || h.arena_number != t.arena_number || h.timed != is_timed(r, t)) return false;
  for (int32_t i = 0; i < plan.buffers.count; ++i) {
    const Memory* callers = bound_to(r, plan.buffers[i]);
    if (h.bound[i] != (callers ? callers->number : 0)) return false;
  }
  return true;
}

// The recording for this run stands first afterwards. Those for an arena that has grown since, and the one used longest ago, make room.
Status make_ready(Runner* r, const Model& model, Plan* plan) {
  Target* t = static_cast<Target*>(r->device);
  Held* first = static_cast<Held*>(plan->held);
  if (first && fits(*first, *r, *plan)) return PEN_OK;
  int kept = 0;
  for (Held** at = &first; *at;) {
    Held* h = *at;
    bool found = fits(*h, *r, *plan);
    if (!found && h->arena_number == t->arena_number && ++kept < kMostHeld) {
      at = &h->next;
      continue;
    }
    *at = h->next;
    if (found) {
      h->next = first;
      plan->held = h;
      return PEN_OK;
    }
    release(h);
  }
  plan->held = first;
  Held* h = static_cast<Held*>(calloc(1, sizeof(Held)));
  if (!h) return report(r->error, PEN_ERROR_MEMORY, "", "memory for the plan");
  h->target = t;
  h->arena_number = t->arena_number;
  Status status = record(r, model, plan, h);
  if (status) {
    release(h);
    return status;
  }
  h->next = first;
  plan->held = h;
  return PEN_OK;
}

void begin(const Runner& r, const Held& h) {
  if (!h.begun.bytes) return;
  char* to = static_cast<char*>(h.up.mapped) + h.begun.host;
  memset(to, 0, h.begun.bytes);
  memcpy(to + kAlign, &r.random, sizeof r.random);
}

Status check_faults(Runner* r, const Model& model, const Plan& plan, const Held& h) {
  if (!h.begun.bytes) return PEN_OK;
  uint32_t words[kFaultWords];
  memcpy(words, static_cast<const char*>(h.down.mapped) + h.faults, sizeof words);
  if (!words[0]) return PEN_OK;
  r->fault = {};
  r->fault.input = static_cast<int32_t>(words[2]);
  memcpy(&r->fault.got, &words[3], 8);
  r->fault.low = static_cast<int32_t>(words[5]);
  r->fault.high = words[6];
  return report_fault(r, model, plan.steps[words[1] < static_cast<uint32_t>(plan.step_count) ? words[1] : 0]);
}

// Between the caller's memory and the device's staging; what is large is cut over the threads, as one of them alone does not fill a bus.
void move_bytes(Runner* r, void* to, const void* from, int64_t bytes) {
  constexpr int64_t kPiece = 256 << 10, kMany = 4 * kPiece;
  struct Job {
    char* to;
    const char* from;
    int64_t bytes;
  } job = {static_cast<char*>(to), static_cast<const char*>(from), bytes};
  auto copy = [](void* context, int64_t begin, int64_t end, int) {
    const Job& j = *static_cast<const Job*>(context);
    int64_t first = begin * kPiece, last = end * kPiece < j.bytes ? end * kPiece : j.bytes;
    memcpy(j.to + first, j.from + first, static_cast<size_t>(last - first));
  };
  int64_t pieces = (bytes + kPiece - 1) / kPiece;
  if (bytes < kMany)
    copy(&job, 0, pieces, 0);
  else
    pool_run(r->pool, pieces, copy, &job);
}

Status run(Runner* r, const Model& model, Plan* plan, const Tensor* registers) {
  PEN_TRY(make_ready(r, model, plan));
  Held* h = static_cast<Held*>(plan->held);
  for (int32_t i = 0; i < plan->buffers.count; ++i) {
    const Buffer& b = plan->buffers[i];
    if (b.kind == Buffer::Kind::input && b.size && !h->bound[i])
      move_bytes(r, static_cast<char*>(h->up.mapped) + h->ports[i].host, registers[b.index].data, b.size);
  }
  begin(*r, *h);
  PEN_TRY(vulkan::run(h->recording, r->error));
  PEN_TRY(check_faults(r, model, *plan, *h));
  for (int32_t i = 0; i < plan->buffers.count; ++i) {
    const Buffer& b = plan->buffers[i];
    if (b.kind == Buffer::Kind::output && b.size && !h->bound[i])
      move_bytes(r, registers[b.index].data, static_cast<const char*>(h->down.mapped) + h->ports[i].host, b.size);
  }
  if (!h->ran) vulkan::save_pipelines(h->target->device);
  h->ran = true;
  r->report.dispatches += h->dispatches;
  r->report.copies += h->copies;
  r->report.bytes_up += h->bytes_up;
  r->report.bytes_down += h->bytes_down;
  if (!h->timed) return PEN_OK;
  PEN_TRY(vulkan::read_times(h->recording, h->nanoseconds, r->error));
  for (int32_t i = 0; i < h->recorded; ++i)
    if (h->timed_steps[i] >= 0) plan->steps[h->timed_steps[i]].nanoseconds += h->nanoseconds[i];
  for (int32_t i = 0; i < plan->step_count; ++i) ++plan->steps[i].calls;
  return PEN_OK;
}

Status create_memory(void* device, uint64_t bytes, void** out, pen_error* error) {
  static uint64_t last;
  Memory* m = static_cast<Memory*>(calloc(1, sizeof(Memory)));
  if (!m) return report(error, PEN_ERROR_MEMORY, "buffer", "memory");
  // A shader may look at four elements at a time.
  Status status =
      vulkan::create_buffer(static_cast<Target*>(device)->device, vulkan::Use::device, (bytes + 15) / 16 * 16, &m->buffer, error);
  m->number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  if (status) free(m);
  *out = status ? nullptr : m;
  return status;
}
void destroy_memory(void* memory) {
  vulkan::destroy_buffer(&static_cast<Memory*>(memory)->buffer);
  free(memory);
}
Status upload_memory(void* memory, const void* from, uint64_t bytes, pen_error* error) {
  return bytes ? vulkan::upload(&static_cast<Memory*>(memory)->buffer, 0, from, bytes, error) : PEN_OK;
}
Status download_memory(const void* memory, void* to, uint64_t bytes, pen_error* error) {
  return bytes ? vulkan::download(&static_cast<const Memory*>(memory)->buffer, 0, to, bytes, error) : PEN_OK;
}
bool reaches(const void* device, const void* memory) {
  return static_cast<const Target*>(device)->device == static_cast<const Memory*>(memory)->buffer.device;
}
const char* name_of(const void* device) { return static_cast<const Target*>(device)->device->info.name; }

constexpr DeviceMemory kMemory = {create_memory, destroy_memory, upload_memory, download_memory, reaches};

}  // namespace

extern const Backend kVulkan;  // generated tables name it
const Backend kVulkan = {"vulkan",      "~gpu.",   open,    close, gpu_has, gpu_bind,
                         gpu_bind_copy, gpu_pitch, prepare, run,   release, vulkan::describe_device,
                         name_of,       &kMemory};

}  // namespace pen
