#include "penlight/runtime/vulkan_plans/weights.h"

#include "penlight/runtime/vulkan/commands.h"

namespace pen::vulkan {

namespace {

// Weights that were uploaded together, in one buffer.
struct Batch {
  Batch* next;
  Buffer buffer;
  Weight* weights;
  int32_t count;
};

// What one device has of a model.
struct Weights : Model::Held {
  Device* device;
  Batch* batches;
};

ForkLock lists;  // of all models

uint64_t device_bytes(const Weight& w) { return w.f16 ? w.bytes / 2 : w.bytes; }

void release(Model::Held* held) {
  Weights* all = static_cast<Weights*>(held);
  while (Batch* batch = all->batches) {
    all->batches = batch->next;
    destroy_buffer(&batch->buffer);
    free(batch->weights);
    free(batch);
  }
  release_device(all->device);
  free(all);
}

// Bytes [at, at + bytes) of a batch, as the device has them; between weights, what is there does not matter.
void fill(const void* context, uint64_t at, uint64_t bytes, void* to) {
  const Batch& batch = *static_cast<const Batch*>(context);
  for (int32_t i = 0; i < batch.count; ++i) {
    const Weight& w = batch.weights[i];
    uint64_t begin = w.offset > at ? w.offset : at, end = w.offset + device_bytes(w);
    if (end > at + bytes) end = at + bytes;
    if (begin >= end) continue;
    char* target = static_cast<char*>(to) + (begin - at);
    if (w.f16)
      narrow(static_cast<const float*>(w.data) + (begin - w.offset) / 2, reinterpret_cast<uint16_t*>(target), (end - begin) / 2);
    else
      memcpy(target, static_cast<const char*>(w.data) + (begin - w.offset), static_cast<size_t>(end - begin));
  }
}

const Weight* find(const Weights& all, const Weight& wanted) {
  for (const Batch* batch = all.batches; batch; batch = batch->next)
    for (int32_t i = 0; i < batch->count; ++i) {
      const Weight& w = batch->weights[i];
      if (w.data == wanted.data && w.bytes == wanted.bytes && w.f16 == wanted.f16) return &w;
    }
  return nullptr;
}

Status upload_missing(Weights* all, const Weight* wanted, int32_t count, pen_error* error) {
  Batch* batch = static_cast<Batch*>(calloc(1, sizeof(Batch)));
  if (batch) batch->weights = static_cast<Weight*>(calloc(static_cast<size_t>(count) + 1, sizeof(Weight)));
  if (!batch || !batch->weights) {
    free(batch);
    return report(error, PEN_ERROR_MEMORY, "weights", "memory for a list of them");
  }
  uint64_t total = 0;
  for (int32_t i = 0; i < count; ++i) {
    bool there = find(*all, wanted[i]) != nullptr;
    for (int32_t k = 0; k < batch->count && !there; ++k)
      there =
          batch->weights[k].data == wanted[i].data && batch->weights[k].f16 == wanted[i].f16 && batch->weights[k].bytes == wanted[i].bytes;
    if (there) continue;
    Weight& w = batch->weights[batch->count++];
    w = wanted[i];
    w.offset = total;
    total += (device_bytes(w) + 255) / 256 * 256;  // no device wants more than this of a buffer's offset
  }
  Status status = PEN_OK;
  if (batch->count) {
    status = create_buffer(all->device, Use::device, total, &batch->buffer, error);
    if (!status) status = upload_with(&batch->buffer, 0, total, fill, batch, error);
  }
  if (status || !batch->count) {
    destroy_buffer(&batch->buffer);
    free(batch->weights);
    free(batch);
    return status;
  }
  for (int32_t k = 0; k < batch->count; ++k) batch->weights[k].buffer = &batch->buffer;
  batch->next = all->batches;
  all->batches = batch;
  return PEN_OK;
}

}  // namespace

void narrow(const float* from, uint16_t* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, &from[i], 4);
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    uint32_t half;
    if (rest >= 0x47800000) {  // too large, infinite, NaN
      half = rest > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (rest < 0x38800000) {  // below the smallest normal f16: adding 0.5 leaves its bits at the end of the sum
      float magnitude;
      memcpy(&magnitude, &rest, 4);
      magnitude += 0.5f;
      memcpy(&half, &magnitude, 4);
      half -= 0x3f000000;
    } else {
      half = (rest + 0xc8000fff + (rest >> 13 & 1)) >> 13;
    }
    to[i] = static_cast<uint16_t>(sign | half);
  }
}

Status place_weights(Device* device, const Model& model, Weight* weights, int32_t count, pen_error* error) {
  lists.lock();
  Weights* all = nullptr;
  for (Model::Held* held = model.held; held && !all; held = held->next)
    if (held->release == release && static_cast<Weights*>(held)->device == device) all = static_cast<Weights*>(held);
  if (!all) {
    all = static_cast<Weights*>(calloc(1, sizeof(Weights)));
    if (all) {
      all->next = model.held;
      all->release = release;
      all->device = device;
      retain_device(device);
      model.held = all;
    }
  }
  Status status =
      all ? upload_missing(all, weights, count, error) : report(error, PEN_ERROR_MEMORY, "weights", "memory for a list of them");
  for (int32_t i = 0; i < count && !status; ++i) {
    const Weight* found = find(*all, weights[i]);
    weights[i].buffer = found->buffer;
    weights[i].offset = found->offset;
  }
  lists.unlock();
  return status;
}

}  // namespace pen::vulkan
