#include "penlight/runtime/vulkan/device.h"
#include "penlight/runtime/vulkan/pipeline.h"
#include "penlight/runtime/vulkan/probe.h"

namespace pen::vulkan {

namespace {

// Under the process's lock.
Device* opened;
int opened_by;  // the process that these are of

// The way to all that this process may have of Vulkan. A driver has threads, locks and descriptors of its own, which a forked child has not
// or shares: with a device open at the fork, some drivers hang in the child for ever, so there is none for it.
Status enter(const Loader** loader, pen_error* error) {
  if (opened_by != getpid()) {
    if (opened)
      return report(error,
                    {kDeviceFailed, "Vulkan", "", "", "a process of its own", "a child of one that had a device open when it forked", "",
                     "Fork before anything uses Vulkan, or start a new process (Python's multiprocessing: \"spawn\"); the CPU works."});
    opened_by = getpid();
  }
  return loader_open(loader, error);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool contains(const char* text, const char* part) {
  for (; *text; ++text) {
    int i = 0;
    while (part[i] && lower(text[i]) == lower(part[i])) ++i;
    if (!part[i]) return true;
  }
  return false;
}

// The number of the device that `which` means; -1: none.
int32_t choose(const char* which, const Found* found, int32_t count) {
  if (!which[0]) {
    for (int32_t i = 0; i < count; ++i)
      if (!found[i].info.unfit[0]) return i;
    return 0;
  }
  int64_t number = 0;
  const char* p = which;
  for (; *p >= '0' && *p <= '9' && number < count; ++p) number = number * 10 + (*p - '0');
  if (!*p && number < count) return static_cast<int32_t>(number);
  for (int32_t i = 0; i < count && *p; ++i)
    if (contains(found[i].info.name, which)) return i;
  return -1;
}

Status no_such_device(const char* which, bool by_environment, const Found* found, int32_t count, pen_error* error) {
  char expected[96], got[96], advice[400] = "There are: ";
  set_text(expected, sizeof expected, "a number from 0 to %d or part of a device's name", count - 1);
  set_text(got, sizeof got, "\"%s\"", which);
  for (int32_t i = 0; i < count; ++i) {
    size_t used = strlen(advice);
    set_text(advice + used, sizeof advice - used, "%s%d %s", i ? ", " : "", i, found[i].info.name);
  }
  return report(
      error, {PEN_ERROR_ARGUMENT, by_environment ? "Vulkan: PENLIGHT_VULKAN_DEVICE" : "Vulkan device", "", "", expected, got, "", advice});
}

Status create(const Loader& loader, const Found& found, Device* d, pen_error* error) {
  const char* names[kExtensions];
  uint32_t count = 0;
  for (int i = 0; i < kExtensions; ++i)
    if (found.extensions.by_name[i]) names[count++] = kExtensionRows[i].name;
  const Limits& l = found.info.limits;
  // What is used and there, and no more: some features cost speed by being on.
  Features wanted;
  wanted.link_all(found.extensions);
  wanted.all.features.shaderInt16 = l.i16_arithmetic;
  wanted.all.features.shaderInt64 = l.i64_arithmetic;
  wanted.all.features.shaderFloat64 = l.f64_arithmetic;
  wanted.storage16.storageBuffer16BitAccess = l.f16_storage;
  wanted.storage8.storageBuffer8BitAccess = l.i8_storage;
  wanted.small.shaderFloat16 = l.f16_arithmetic;
  wanted.small.shaderInt8 = l.i8_arithmetic;
  wanted.model.vulkanMemoryModel = l.cooperative_khr || l.cooperative_nv;
  wanted.subgroup.subgroupSizeControl = l.subgroup_choice;
  wanted.dot.shaderIntegerDotProduct = l.integer_dot;
  wanted.khr.cooperativeMatrix = l.cooperative_khr;
  wanted.nv.cooperativeMatrix = l.cooperative_nv;

  float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.queueFamilyIndex = found.family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.pNext = &wanted.all;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = count;
  info.ppEnabledExtensionNames = names;
  d->info = found.info;
  d->physical = found.physical;
  d->family = found.family;
  VkResult result = loader.f.CreateDevice(found.physical, &info, nullptr, &d->handle);
  if (result != VK_SUCCESS) return device_error(d, result, "a device that opens", error);
  const char* missing = nullptr;
  auto get = [&loader, d](const char* name) { return loader.f.GetDeviceProcAddr(d->handle, name); };
  if (!fill(&d->f, PEN_VK_DEVICE_FUNCTIONS(PEN_VK_NAME), get, &missing)) {
    if (d->f.DestroyDevice) d->f.DestroyDevice(d->handle, nullptr);
    return report(error, {kDeviceFailed, d->info.name, "", "", missing, "a driver without it", "", "A newer driver is needed."});
  }
  d->f.GetDeviceQueue(d->handle, found.family, 0, &d->queue);
  loader.f.GetPhysicalDeviceMemoryProperties(found.physical, &d->memory);
  return PEN_OK;
}

Status open_locked(const char* which, Device** device, pen_error* error) {
  bool by_environment = false;
  const char* asked = getenv("PENLIGHT_VULKAN_DEVICE");
  if (asked && asked[0]) which = asked, by_environment = true;
  if (!which) which = "";
  const Loader* loader;
  if (Status s = enter(&loader, error)) return s;
  Found* found;
  int32_t count;
  if (Status s = find_devices(*loader, &found, &count, error)) return s;
  int32_t at = choose(which, found, count);
  Status status = PEN_OK;
  Device* d = nullptr;
  if (at < 0) {
    status = no_such_device(which, by_environment, found, count, error);
  } else if (found[at].info.unfit[0]) {
    status = report(error, {kDeviceFailed, found[at].info.name, "", "", "a device that can be used", found[at].info.unfit});
  } else {
    for (Device* o = opened; o && !d; o = o->next)
      if (o->physical == found[at].physical && !__atomic_load_n(&o->lost, __ATOMIC_RELAXED)) d = o;
    if (d) {
      retain_device(d);
    } else {
      void* memory = nullptr;
      if (posix_memalign(&memory, 64, sizeof(Device)) == 0) d = static_cast<Device*>(memset(memory, 0, sizeof(Device)));
      status = d ? create(*loader, found[at], d, error) : report(error, PEN_ERROR_MEMORY, found[at].info.name, "memory to open it");
      if (status) {
        free(d);
      } else {
        pthread_mutex_init(d->lock, nullptr);
        d->users = 1;
        d->process = opened_by;
        d->next = opened;
        opened = d;
      }
    }
  }
  free(found);
  if (!status) *device = d;
  return status;
}

}  // namespace

const char* type_name(VkPhysicalDeviceType type) {
  static const char* const names[] = {"discrete GPU", "integrated GPU", "virtual GPU", "other", "CPU"};
  return names[rank(type)];
}

Status list_devices(DeviceInfo* infos, int32_t room, int32_t* count, pen_error* error) {
  *count = 0;
  lock_process();
  const Loader* loader;
  Found* found = nullptr;
  Status status = enter(&loader, error);
  if (!status) status = find_devices(*loader, &found, count, error);
  unlock_process();
  for (int32_t i = 0; i < *count && i < room; ++i) infos[i] = found[i].info;
  free(found);
  return status;
}

Status open_device(const char* which, Device** device, pen_error* error) {
  *device = nullptr;
  lock_process();
  Status status = open_locked(which, device, error);
  unlock_process();
  return status;
}

void retain_device(Device* device) { __atomic_fetch_add(&device->users, 1, __ATOMIC_RELAXED); }

void release_device(Device* device) {
  if (!device) return;
  bool own = is_own(device);
  if (own) lock_process();  // so that nobody finds it in the table while it goes
  bool last = __atomic_sub_fetch(&device->users, 1, __ATOMIC_ACQ_REL) == 0;
  if (own) {
    if (last)
      for (Device** p = &opened; *p; p = &(*p)->next)
        if (*p == device) {
          *p = device->next;
          break;
        }
    unlock_process();
  }
  if (!last) return;
  destroy_pipelines(device);
  if (own) {
    device->f.DestroyDevice(device->handle, nullptr);
    pthread_mutex_destroy(device->lock);
  }
  free(device);
}

bool is_own(const Device* device) { return device->process == getpid(); }

Status check_device(const Device* device, pen_error* error) {
  if (!is_own(device))
    return report(error, {kDeviceFailed, device->info.name, "", "", "a device that this process has opened",
                          "one of the process that forked it", "", "Open it, and load models, after the fork."});
  if (__atomic_load_n(&device->lost, __ATOMIC_RELAXED))
    return report(error, {kDeviceFailed, device->info.name, "", "", "a device that works", "one that was lost (VK_ERROR_DEVICE_LOST)", "",
                          "Open it again, and load models again; the CPU works as before."});
  return PEN_OK;
}

Status device_error(Device* device, VkResult result, const char* expected, pen_error* error) {
  const char* advice = "";
  if (result == VK_ERROR_DEVICE_LOST) {
    __atomic_store_n(&device->lost, 1u, __ATOMIC_RELAXED);
    advice = "The device was reset, taken away or hung: open it again, and load models again; the CPU works as before.";
  }
  return report(error, {status_of(result), device->info.name, "", "", expected, result_name(result), "", advice});
}

}  // namespace pen::vulkan
