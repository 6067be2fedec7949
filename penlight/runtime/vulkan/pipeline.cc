#include "penlight/runtime/vulkan/pipeline.h"
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/base/sha256.h"
#include "penlight/runtime/vulkan/cache.h"

namespace pen::vulkan {

struct Layout {
  uint32_t buffers, push_bytes;
  VkDescriptorSetLayout set;
  VkPipelineLayout layout;
};

struct Pipelines {
  VkPipelineCache cache;
  uint64_t loaded_bytes;  // from the file
  size_t saved_bytes;     // what the driver had when it was last written or read
  int32_t saved_count;    // of `made`, when it was last looked at
  List<Pipeline*> made;
  List<Layout> layouts;
};

namespace {

constexpr int32_t kWorthThreads = 4;  // pipelines; one takes a millisecond and more to compile, two threads a tenth to start
constexpr int kThreads = 8;

Status no_memory(Device* device, pen_error* error) {
  return report(error, PEN_ERROR_MEMORY, device->info.name, "memory to make pipelines");
}

Status start(Device* device, pen_error* error) {
  if (device->pipelines) return PEN_OK;
  auto* p = static_cast<Pipelines*>(calloc(1, sizeof(Pipelines)));
  if (!p) return no_memory(device, error);
  size_t size;
  void* data = read_cache(device->info, &size);
  VkPipelineCacheCreateInfo info{};
  info.initialDataSize = size;
  info.pInitialData = data;
  VkResult result = device->f.CreatePipelineCache(device->handle, &info, nullptr, &p->cache);
  if (result != VK_SUCCESS && data) {
    info.initialDataSize = size = 0;
    info.pInitialData = nullptr;
    result = device->f.CreatePipelineCache(device->handle, &info, nullptr, &p->cache);
  }
  free(data);
  if (result != VK_SUCCESS) {
    free(p);
    return device_error(device, result, "a pipeline cache", error);
  }
  p->loaded_bytes = size;
  // Not what was read, as some drivers put a few bytes around that, every time. Without a file, the next save makes one.
  if (size) device->f.GetPipelineCacheData(device->handle, p->cache, &p->saved_bytes, nullptr);
  device->pipelines = p;
  return PEN_OK;
}

Status check(const Device* device, const PipelineRequest& r, pen_error* error) {
  const Program& program = *r.program;
  const Limits& l = device->info.limits;
  char expected[96], got[64];
  if (program.word_count < 5 || program.words[0] != 0x07230203)
    return report(error, {PEN_ERROR_ARGUMENT, device->info.name, program.name, "", "SPIR-V", "words that are none"});
  if (program.buffers > l.storage_buffers || program.push_bytes > l.push_bytes || program.push_bytes % 4) {
    set_text(expected, sizeof expected, "at most %u storage buffers and %u bytes of push constants, in words", l.storage_buffers,
             l.push_bytes);
    set_text(got, sizeof got, "%u and %u", program.buffers, program.push_bytes);
    return report(error, {PEN_ERROR_ARGUMENT, device->info.name, program.name, "", expected, got});
  }
  uint32_t size = r.subgroup_size;
  if (size && (!l.subgroup_choice || size < l.subgroup_min || size > l.subgroup_max || (size & (size - 1)))) {
    set_text(expected, sizeof expected, "a power of two from %u to %u for the subgroup size%s", l.subgroup_min, l.subgroup_max,
             l.subgroup_choice ? "" : ", or none, as this device lets nobody choose");
    set_text(got, sizeof got, "%u", size);
    return report(error, {PEN_ERROR_ARGUMENT, device->info.name, program.name, "", expected, got});
  }
  return PEN_OK;
}

void make_key(const PipelineRequest& r, const uint8_t* words, uint8_t* key) {
  uint32_t numbers[] = {r.program->buffers, r.program->push_bytes, r.subgroup_size, r.constant_count};
  Sha256 hash;
  hash.begin();
  hash.update(words, 32);
  hash.update(numbers, sizeof numbers);
  hash.update(r.constants, r.constant_count * sizeof(uint32_t));
  hash.finish(key);
}

const Pipeline* find(const Pipelines* p, const uint8_t* key) {
  for (int32_t i = 0; i < p->made.count; ++i)
    if (memcmp(p->made[i]->key, key, 32) == 0) return p->made[i];
  return nullptr;
}

VkResult find_layout(Device* device, const Program& program, Layout* layout) {
  Pipelines* p = device->pipelines;
  for (int32_t i = 0; i < p->layouts.count; ++i)
    if (p->layouts[i].buffers == program.buffers && p->layouts[i].push_bytes == program.push_bytes) {
      *layout = p->layouts[i];
      return VK_SUCCESS;
    }
  *layout = {program.buffers, program.push_bytes, {}, {}};
  auto* bindings = static_cast<VkDescriptorSetLayoutBinding*>(calloc(program.buffers + 1, sizeof(VkDescriptorSetLayoutBinding)));
  if (!bindings) return VK_ERROR_OUT_OF_HOST_MEMORY;
  for (uint32_t i = 0; i < program.buffers; ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo set{};
  set.bindingCount = program.buffers;
  set.pBindings = bindings;
  VkResult result = device->f.CreateDescriptorSetLayout(device->handle, &set, nullptr, &layout->set);
  free(bindings);
  if (result != VK_SUCCESS) return result;
  VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, program.push_bytes};
  VkPipelineLayoutCreateInfo info{};
  info.setLayoutCount = 1;
  info.pSetLayouts = &layout->set;
  info.pushConstantRangeCount = program.push_bytes ? 1 : 0;
  info.pPushConstantRanges = &push;
  result = device->f.CreatePipelineLayout(device->handle, &info, nullptr, &layout->layout);
  if (result == VK_SUCCESS && p->layouts.push(*layout)) return VK_SUCCESS;
  if (result == VK_SUCCESS) device->f.DestroyPipelineLayout(device->handle, layout->layout, nullptr);
  device->f.DestroyDescriptorSetLayout(device->handle, layout->set, nullptr);
  return result == VK_SUCCESS ? VK_ERROR_OUT_OF_HOST_MEMORY : result;
}

// What one call makes; all arrays have one entry a missing pipeline.
struct Batch {
  Device* device;
  Pool memory;
  int32_t count, chunk;
  VkComputePipelineCreateInfo* infos;
  VkPipeline* handles;
  VkResult* results;  // of each chunk, at its first entry
  Pipeline** pipelines;
  const Program** programs;
  VkShaderModule* modules;  // one a program, at its first entry; null at others
};

VkResult find_module(Batch* b, const Program& program, VkShaderModule* module) {
  for (int32_t i = 0; i < b->count; ++i)
    if (b->programs[i] == &program && b->modules[i] != VkShaderModule{}) {
      *module = b->modules[i];
      return VK_SUCCESS;
    }
  VkShaderModuleCreateInfo info{};
  info.codeSize = program.word_count * sizeof(uint32_t);
  info.pCode = program.words;
  VkResult result = b->device->f.CreateShaderModule(b->device->handle, &info, nullptr, module);
  if (result == VK_SUCCESS) b->modules[b->count] = *module;
  return result;
}

// Adds a request that the device has not yet.
Status add(Batch* b, const PipelineRequest& r, const uint8_t* key, pen_error* error) {
  const Program& program = *r.program;
  auto* pipeline = static_cast<Pipeline*>(calloc(1, sizeof(Pipeline)));
  auto* entries = b->memory.take_array<VkSpecializationMapEntry>(r.constant_count + 1);
  auto* special = b->memory.take_array<VkSpecializationInfo>(1);
  auto* subgroup = b->memory.take_array<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(1);
  if (!pipeline || !entries || !special || !subgroup) {
    free(pipeline);
    return no_memory(b->device, error);
  }
  Layout layout;
  VkShaderModule module{};
  VkResult result = find_layout(b->device, program, &layout);
  if (result == VK_SUCCESS) result = find_module(b, program, &module);
  if (result != VK_SUCCESS) {
    free(pipeline);
    return device_error(b->device, result, program.name, error);
  }
  for (uint32_t i = 0; i < r.constant_count; ++i) entries[i] = {i, i * 4, 4};
  *special = {r.constant_count, entries, r.constant_count * sizeof(uint32_t), r.constants};
  VkComputePipelineCreateInfo info{};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = r.constant_count ? special : nullptr;
  info.layout = layout.layout;
  info.basePipelineIndex = -1;
  if (r.subgroup_size) {
    *subgroup = {};
    subgroup->requiredSubgroupSize = r.subgroup_size;
    info.stage.pNext = subgroup;
  }
  pipeline->layout = layout.layout;
  pipeline->set = layout.set;
  pipeline->buffers = program.buffers;
  pipeline->push_bytes = program.push_bytes;
  memcpy(pipeline->key, key, 32);
  set_text(pipeline->name, sizeof pipeline->name, "%s", program.name);
  b->infos[b->count] = info;
  b->pipelines[b->count] = pipeline;
  b->programs[b->count++] = &program;
  return PEN_OK;
}

void compile(void* context, int64_t begin, int64_t end, int) {
  Batch* b = static_cast<Batch*>(context);
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = i * b->chunk, last = first + b->chunk < b->count ? first + b->chunk : b->count;
    b->results[first] = b->device->f.CreateComputePipelines(
        b->device->handle, b->device->pipelines->cache, static_cast<uint32_t>(last - first), b->infos + first, nullptr, b->handles + first);
  }
}

Status compile_all(Batch* b, ThreadPool* pool, pen_error* error) {
  if (!b->count) return PEN_OK;
  ThreadPool* own = nullptr;
  if (!pool && b->count >= kWorthThreads) {
    int threads = core_count() < kThreads ? core_count() : kThreads;
    pool = own = pool_create(threads < b->count ? threads : b->count);
  }
  int threads = pool ? pool_threads(pool) : 1;
  b->chunk = threads == 1 ? b->count : (b->count + threads * 4 - 1) / (threads * 4);
  int64_t chunks = (b->count + b->chunk - 1) / b->chunk;
  if (threads == 1)
    compile(b, 0, chunks, 0);
  else
    pool_run(pool, chunks, compile, b);
  pool_destroy(own);

  Status status = PEN_OK;
  Pipelines* p = b->device->pipelines;
  for (int32_t i = 0; i < b->count; ++i) {
    VkResult result = b->results[i / b->chunk * b->chunk];
    if (b->handles[i] != VkPipeline{}) {
      b->pipelines[i]->handle = b->handles[i];
      if (p->made.push(b->pipelines[i])) {
        b->pipelines[i] = nullptr;  // the device's now
        continue;
      }
      b->device->f.DestroyPipeline(b->device->handle, b->handles[i], nullptr);
      result = VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    char expected[96];
    set_text(expected, sizeof expected, "a pipeline of the shader %s", b->pipelines[i]->name);
    if (!status) status = device_error(b->device, result == VK_SUCCESS ? VK_ERROR_UNKNOWN : result, expected, error);
  }
  return status;
}

Status make_locked(Device* device, const PipelineRequest* requests, int32_t count, const Pipeline** pipelines, ThreadPool* pool, Batch* b,
                   pen_error* error) {
  if (Status s = start(device, error)) return s;
  b->infos = b->memory.take_array<VkComputePipelineCreateInfo>(count);
  b->handles = b->memory.take_array<VkPipeline>(count);
  b->results = b->memory.take_array<VkResult>(count);
  b->pipelines = b->memory.take_array<Pipeline*>(count);
  b->programs = b->memory.take_array<const Program*>(count);
  b->modules = b->memory.take_array<VkShaderModule>(count);
  auto* keys = b->memory.take_array<uint8_t[32]>(count);
  auto* words = b->memory.take_array<uint8_t[32]>(count);
  if (!b->infos || !b->handles || !b->results || !b->pipelines || !b->programs || !b->modules || !keys || !words)
    return no_memory(device, error);
  for (int32_t i = 0; i < count; ++i) {
    const PipelineRequest& r = requests[i];
    if (Status s = check(device, r, error)) return s;
    int32_t same = 0;
    while (requests[same].program != r.program) ++same;
    if (same < i) {
      memcpy(words[i], words[same], 32);
    } else {
      Sha256 hash;
      hash.begin();
      hash.update(r.program->words, r.program->word_count * sizeof(uint32_t));
      hash.finish(words[i]);
    }
    make_key(r, words[i], keys[i]);
    bool known = find(device->pipelines, keys[i]);
    for (int32_t k = 0; k < b->count && !known; ++k) known = memcmp(b->pipelines[k]->key, keys[i], 32) == 0;
    if (known) continue;
    if (Status s = add(b, r, keys[i], error)) return s;
  }
  if (Status s = compile_all(b, pool, error)) return s;
  for (int32_t i = 0; i < count; ++i) pipelines[i] = find(device->pipelines, keys[i]);
  return PEN_OK;
}

}  // namespace

Status make_pipelines(Device* device, const PipelineRequest* requests, int32_t count, const Pipeline** pipelines, ThreadPool* pool,
                      pen_error* error) {
  if (Status s = check_device(device, error)) return s;
  Batch batch{};
  batch.device = device;
  pthread_mutex_lock(device->lock);
  Status status = make_locked(device, requests, count, pipelines, pool, &batch, error);
  for (int32_t i = 0; i < batch.count; ++i) {
    if (batch.modules[i] != VkShaderModule{}) device->f.DestroyShaderModule(device->handle, batch.modules[i], nullptr);
    free(batch.pipelines[i]);  // what failed
  }
  pthread_mutex_unlock(device->lock);
  batch.memory.release();
  return status;
}

static void save(Device* device) {
  Pipelines* p = device->pipelines;
  if (!p || p->made.count == p->saved_count) return;
  p->saved_count = p->made.count;
  size_t size = 0;
  // A cache grows with all that it had not: one of the same size has nothing new.
  if (device->f.GetPipelineCacheData(device->handle, p->cache, &size, nullptr) != VK_SUCCESS || size == p->saved_bytes) return;
  void* data = malloc(size);
  if (data && device->f.GetPipelineCacheData(device->handle, p->cache, &size, data) == VK_SUCCESS) {
    p->saved_bytes = size;
    write_cache(device->info, data, size);
  }
  free(data);
}

void save_pipelines(Device* device) {
  if (check_device(device, nullptr)) return;
  pthread_mutex_lock(device->lock);
  save(device);
  pthread_mutex_unlock(device->lock);
}

PipelineCounts pipeline_counts(Device* device) {
  if (!is_own(device)) return {};
  pthread_mutex_lock(device->lock);
  const Pipelines* p = device->pipelines;
  PipelineCounts counts = p ? PipelineCounts{p->made.count, p->loaded_bytes} : PipelineCounts{};
  pthread_mutex_unlock(device->lock);
  return counts;
}

void destroy_pipelines(Device* device) {
  Pipelines* p = device->pipelines;
  if (!p) return;
  if (is_own(device)) {
    if (!device->lost) save(device);
    for (int32_t i = 0; i < p->made.count; ++i) device->f.DestroyPipeline(device->handle, p->made[i]->handle, nullptr);
    for (int32_t i = 0; i < p->layouts.count; ++i) {
      device->f.DestroyPipelineLayout(device->handle, p->layouts[i].layout, nullptr);
      device->f.DestroyDescriptorSetLayout(device->handle, p->layouts[i].set, nullptr);
    }
    device->f.DestroyPipelineCache(device->handle, p->cache, nullptr);
  }
  for (int32_t i = 0; i < p->made.count; ++i) free(p->made[i]);
  p->made.release();
  p->layouts.release();
  free(p);
  device->pipelines = nullptr;
}

}  // namespace pen::vulkan
