// Which bytes were read and written since the last barrier, and whether a step may run beside those that did.
#pragma once
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/vulkan/commands.h"

namespace pen::vulkan {

struct Hazards {
  struct Access {
    VkBuffer buffer;
    uint64_t begin, end;
    bool written;
  };
  List<Access> since;
  VkFlags stages = 0, writes = 0;  // of the steps since the last barrier

  // Whether a step must wait for one of them.
  bool conflict(const Range* ranges, int32_t count) const {
    for (int32_t i = 0; i < count; ++i) {
      const Range& r = ranges[i];
      for (int32_t k = 0; k < since.count; ++k) {
        const Access& a = since[k];
        if ((a.written || r.written) && a.buffer == r.buffer->handle && a.begin < r.offset + r.bytes && r.offset < a.end) return true;
      }
    }
    return false;
  }
  void forget() {
    since.count = 0;
    stages = writes = 0;
  }
  // False: out of memory.
  bool add(const Range* ranges, int32_t count, VkFlags stage, VkFlags write) {
    stages |= stage;
    for (int32_t i = 0; i < count; ++i) {
      if (ranges[i].written) writes |= write;
      if (!since.push({ranges[i].buffer->handle, ranges[i].offset, ranges[i].offset + ranges[i].bytes, ranges[i].written})) return false;
    }
    return true;
  }
};

}  // namespace pen::vulkan
