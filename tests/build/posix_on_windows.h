/* What the C programs of tests/runtime call and Windows lacks, so that they are compiled for it as they are. */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void bytes_as_they_are(void) { _set_fmode(_O_BINARY); }
static inline int pipe(int* ends) { return _pipe(ends, 4096, _O_BINARY); }
static inline ptrdiff_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  return _lseeki64(fd, offset, SEEK_SET) == offset ? _write(fd, bytes, (unsigned)size) : -1;
}
