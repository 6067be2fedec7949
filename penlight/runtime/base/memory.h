// Memory for code without a C++ library: a pool that frees all at once, a growing list of plain data, checked sums.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

static PEN_INLINE bool add_overflows(int64_t a, int64_t b, int64_t* r) { return __builtin_add_overflow(a, b, r); }
static PEN_INLINE bool mul_overflows(int64_t a, int64_t b, int64_t* r) { return __builtin_mul_overflow(a, b, r); }
static PEN_INLINE int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Zeroed memory handed out piece by piece, freed together. Returns null when the machine has no more.
struct Pool {
  struct Chunk {
    Chunk* next;
    size_t size, used;
  };
  Chunk* chunks = nullptr;

  void* take(size_t size);
  void* take_items(int64_t count, size_t size);
  void release();
  // Takes everything back and keeps a chunk for what comes next.
  void rewind();

  template <class T>
  PEN_INLINE T* take_array(int64_t count) {
    return static_cast<T*>(take_items(count, sizeof(T)));
  }
};

// Room for more items of `size` bytes behind the first `capacity`; false when out of memory, and nothing has changed then.
bool grow_list(void** data, int32_t* capacity, size_t size);

// A growing array of plain data.
template <class T>
struct List {
  T* data = nullptr;
  int32_t count = 0, capacity = 0;

  // False when out of memory; the list is then as before.
  PEN_INLINE bool push(const T& item) {
    void* held = data;
    if (count == capacity && !grow_list(&held, &capacity, sizeof(T))) return false;
    data = static_cast<T*>(held);
    data[count++] = item;
    return true;
  }
  PEN_INLINE T& operator[](int32_t i) const { return data[i]; }
  PEN_INLINE void release() {
    free(data);
    data = nullptr;
    count = capacity = 0;
  }
};

}  // namespace pen
