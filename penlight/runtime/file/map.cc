// How a .pen file gets into memory: mapped from a path or descriptor, copied, or lent by the caller.
#include "penlight/runtime/file/model.h"

namespace pen {

#if defined(__wasm__)

static Status no_files(const char* name, pen_error* error) {
  return report(error, PEN_ERROR_IO, name, "a model in memory: pen_model_open_memory", "a file, and WebAssembly has none");
}
Status map_fd(int, uint64_t, uint64_t, bool, const char* name, Model*, pen_error* error) { return no_files(name, error); }
Status map_path(const char* path, bool, Model*, pen_error* error) { return no_files(path, error); }

#else

static Status io_error(pen_error* error, const char* name, const char* what) {
  return report(error, PEN_ERROR_IO, name, what, strerror(platform::last_error()));
}

static Status read_all(int fd, uint64_t offset, uint64_t size, const char* name, Model* model, pen_error* error) {
  void* buffer = nullptr;
  if (posix_memalign(&buffer, 64, size) != 0) return report(error, PEN_ERROR_MEMORY, name, "memory for a copy of the file");
  model->owned = buffer;
  uint64_t done = 0;
  while (done < size) {  // by position: others may read from the same descriptor at the same time
    ptrdiff_t n = pread(fd, static_cast<char*>(buffer) + done, size - done, static_cast<pen_offset>(offset + done));
    if (n < 0 && platform::last_error() == platform::kInterrupted) continue;
    if (n < 0) return io_error(error, name, "a readable file");
    if (n == 0) return report(error, PEN_ERROR_IO, name, "the whole file", "its end too early (it changed while it was read)");
    done += static_cast<uint64_t>(n);
  }
  model->bytes = static_cast<uint8_t*>(buffer);
  return PEN_OK;
}

Status map_fd(int fd, uint64_t offset, uint64_t size, bool copy, const char* name, Model* model, pen_error* error) {
  char first;
  if (pread(fd, &first, 1, 0) < 0) return io_error(error, name, "a file that can be read");  // a directory, a pipe
  pen_offset end = lseek(fd, 0, platform::kSeekEnd);
  if (end < 0) return io_error(error, name, "an open file that can be read at any position");
  if (offset > static_cast<uint64_t>(end) || size > static_cast<uint64_t>(end) - offset) {
    char expected[96], got[96];
    set_text(expected, sizeof expected, "%llu bytes at offset %llu", static_cast<unsigned long long>(size),
             static_cast<unsigned long long>(offset));
    set_text(got, sizeof got, "a file of %lld bytes", static_cast<long long>(end));
    return report(error, PEN_ERROR_IO, name, expected, got);
  }
  if (size == 0) size = static_cast<uint64_t>(end) - offset;
  if (size == 0) return report(error, PEN_ERROR_FORMAT, name, "a .pen file", "an empty file");
  model->size = size;
  uint64_t page = static_cast<uint64_t>(sysconf(platform::kPageSizeName));
  uint64_t lead = offset % page;  // mmap wants page offsets; an asset may lie anywhere
  // Kernels rely on 64-byte alignment of weights; a lead that breaks it (an unaligned asset) needs a copy.
  if (copy || lead % 64 != 0) return read_all(fd, offset, size, name, model, error);
  void* mapping = mmap(nullptr, size + lead, platform::kProtRead, platform::kMapPrivate, fd, static_cast<pen_offset>(offset - lead));
  if (mapping == reinterpret_cast<void*>(-1)) return io_error(error, name, "a file that can be mapped into memory");
  model->mapping = mapping;
  model->mapping_size = size + lead;
  model->bytes = static_cast<uint8_t*>(mapping) + lead;
  return PEN_OK;
}

Status map_path(const char* path, bool copy, Model* model, pen_error* error) {
  int fd = open(path, platform::kReadOnly);
  if (fd < 0) return io_error(error, path, "a file that can be opened");
  Status status = map_fd(fd, 0, 0, copy, path, model, error);
  close(fd);
  return status;
}

#endif

Status map_memory(const void* bytes, size_t size, bool copy, Model* model, pen_error* error) {
  if (!bytes || size == 0) return report(error, PEN_ERROR_FORMAT, "model in memory", "a .pen file", "no bytes");
  if (copy || reinterpret_cast<uintptr_t>(bytes) % 64 != 0) {
    void* buffer = nullptr;
    if (posix_memalign(&buffer, 64, size) != 0) return report(error, PEN_ERROR_MEMORY, "model in memory", "memory for a copy of the file");
    bytes = model->owned = memcpy(buffer, bytes, size);
  }
  model->bytes = static_cast<const uint8_t*>(bytes);
  model->size = size;
  return PEN_OK;
}

void unmap(Model* model) {
#if !defined(__wasm__)
  if (model->mapping) munmap(model->mapping, model->mapping_size);
#endif
  free(model->owned);
  model->mapping = model->owned = nullptr;
  model->bytes = nullptr;
}

}  // namespace pen
