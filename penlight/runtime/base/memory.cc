#include "penlight/runtime/base/memory.h"

namespace pen {

constexpr size_t kChunkBytes = PEN_ASAN ? 0 : 32 << 10;  // 0: every piece is a block of its own
constexpr size_t kAlign = 64;

void* Pool::take(size_t size) {
  size_t need = PEN_ASAN ? size : (size + kAlign - 1) / kAlign * kAlign;
  if (need < size) return nullptr;
  if (PEN_ASAN || !chunks || chunks->size - chunks->used < need) {
    size_t body = need > kChunkBytes ? need : kChunkBytes;
    void* raw = nullptr;
    if (body + kAlign < body || posix_memalign(&raw, kAlign, body + kAlign) != 0) return nullptr;
    memset(raw, 0, body + kAlign);
    Chunk* chunk = static_cast<Chunk*>(raw);
    chunk->next = chunks;
    chunk->size = body;
    chunk->used = 0;
    chunks = chunk;
  }
  void* p = reinterpret_cast<char*>(chunks) + kAlign + chunks->used;
  chunks->used += need;
  return p;
}

void* Pool::take_items(int64_t count, size_t size) {
  if (count < 0 || static_cast<uint64_t>(count) > SIZE_MAX / 2 / size) return nullptr;
  return take(static_cast<size_t>(count) * size);
}

bool grow_list(void** data, int32_t* capacity, size_t size) {
  if (*capacity > INT32_MAX / 2) return false;
  int32_t larger = *capacity ? *capacity * 2 : 16;
  void* grown = malloc(size * static_cast<size_t>(larger));
  if (!grown) return false;
  if (*data) memcpy(grown, *data, size * static_cast<size_t>(*capacity));
  free(*data);
  *data = grown;
  *capacity = larger;
  return true;
}

void Pool::rewind() {
  if (PEN_ASAN || !chunks) return release();  // AddressSanitizer shall see uses of what was taken back
  Chunk* kept = chunks;
  chunks = kept->next;
  release();
  memset(reinterpret_cast<char*>(kept) + kAlign, 0, kept->used);
  kept->next = nullptr;
  kept->used = 0;
  chunks = kept;
}

void Pool::release() {
  while (chunks) {
    Chunk* next = chunks->next;
    free(chunks);
    chunks = next;
  }
}

}  // namespace pen
