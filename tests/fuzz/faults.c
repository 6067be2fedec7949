/* Calls of the C library that fail when told to: a library for LD_PRELOAD, which a Python program arms through ctypes.
 *   fault_arm(kind, n, how)   the n-th call of this kind from now on, counted from 0, fails as `how` says; -1: none, but calls are counted
 *   fault_calls(kind)         how many there were since
 * kind 0: allocations of the libraries that fault_watch() named, four at most (malloc, calloc, realloc, posix_memalign, aligned_alloc); 1:
 * what reads a file (open, read, pread, mmap, lseek, fstat); 2: what writes one (open, write, fsync, rename, close, fchmod). how 0: fails,
 * with ENOMEM, EIO or ENOSPC; 1: comes short (read, pread, write: a part; else as 0); 2: the process is killed; 3: EINTR, once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

enum { ALLOCATES, READS, WRITES, KINDS };
static long calls[KINDS], fails_at[KINDS] = {-1, -1, -1};
static int armed[KINDS], how[KINDS];
static struct {
  const char *begin, *end;
} code[4]; /* of the libraries whose allocations are meant */
static int code_count;

void fault_arm(int kind, long n, int way) {
  armed[kind] = 0;
  calls[kind] = 0;
  fails_at[kind] = n;
  how[kind] = way;
  armed[kind] = 1;
}
void fault_disarm(int kind) { armed[kind] = 0; }
long fault_calls(int kind) { return calls[kind]; }

static int find_code(struct dl_phdr_info* info, size_t size, void* name) {
  (void)size;
  if (!strstr(info->dlpi_name, (const char*)name)) return 0;
  for (int i = 0; i < info->dlpi_phnum && code_count < 4; ++i)
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
      code[code_count].begin = (const char*)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      code[code_count].end = code[code_count].begin + info->dlpi_phdr[i].p_memsz;
      ++code_count;
    }
  return 1;
}
int fault_watch(const char* name) { return dl_iterate_phdr(find_code, (void*)name); }

/* 0: go on; else 1 + how. */
static int fault(int kind) {
  if (!armed[kind] || __atomic_fetch_add(&calls[kind], 1, __ATOMIC_RELAXED) != fails_at[kind]) return 0;
  if (how[kind] == 2) syscall(SYS_kill, getpid(), SIGKILL);
  errno = how[kind] == 3 ? EINTR : kind == ALLOCATES ? ENOMEM : kind == READS ? EIO : ENOSPC;
  return 1 + how[kind];
}
static int refuses(const void* caller) {
  if (!armed[ALLOCATES]) return 0;
  for (int i = 0; i < code_count; ++i)
    if ((const char*)caller >= code[i].begin && (const char*)caller < code[i].end) return fault(ALLOCATES);
  return 0;
}

#define CALLER __builtin_return_address(0)
void* malloc(size_t size) { return refuses(CALLER) ? NULL : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return refuses(CALLER) ? NULL : __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return refuses(CALLER) ? NULL : __libc_realloc(p, size); }
void* aligned_alloc(size_t alignment, size_t size) { return refuses(CALLER) ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void** p, size_t alignment, size_t size) {
  void* made = refuses(CALLER) ? NULL : __libc_memalign(alignment, size);
  if (made) *p = made;
  return made ? 0 : ENOMEM;
}

static int open_file(const char* path, int flags, mode_t mode) {
  if (fault(flags & (O_WRONLY | O_RDWR) ? WRITES : READS)) return -1;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
#define MODE                                        \
  mode_t mode = 0;                                  \
  va_list more;                                     \
  va_start(more, flags);                            \
  if (flags & O_CREAT) mode = va_arg(more, mode_t); \
  va_end(more)
int open(const char* path, int flags, ...) {
  MODE;
  return open_file(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE;
  return open_file(path, flags | O_LARGEFILE, mode);
}
ssize_t read(int fd, void* to, size_t size) {
  int f = fault(READS);
  if (f && f != 2) return -1;
  return syscall(SYS_read, fd, to, f ? size / 2 : size);
}
ssize_t pread(int fd, void* to, size_t size, off_t at) {
  int f = fault(READS);
  if (f && f != 2) return -1;
  return syscall(SYS_pread64, fd, to, f ? size / 2 : size, at);
}
ssize_t pread64(int fd, void* to, size_t size, off_t at) { return pread(fd, to, size, at); }
static void* map(void* address, size_t size, int protection, int flags, int fd, off_t at) {
  if (fd >= 0 && fault(READS)) return MAP_FAILED;
  return (void*)syscall(SYS_mmap, address, size, protection, flags, fd, at);
}
void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t at) {
  return map(address, size, protection, flags, fd, at);
}
void* mmap64(void* address, size_t size, int protection, int flags, int fd, off_t at) {
  return map(address, size, protection, flags, fd, at);
}
off_t lseek(int fd, off_t at, int from) { return fault(READS) ? -1 : (off_t)syscall(SYS_lseek, fd, at, from); }
off_t lseek64(int fd, off_t at, int from) { return lseek(fd, at, from); }
ssize_t write(int fd, const void* from, size_t size) {
  int f = fault(WRITES);
  if (f && f != 2) return -1;
  return syscall(SYS_write, fd, from, f ? (size + 1) / 2 : size);
}
int fsync(int fd) { return fault(WRITES) ? -1 : (int)syscall(SYS_fsync, fd); }
int fchmod(int fd, mode_t mode) { return fault(WRITES) ? -1 : (int)syscall(SYS_fchmod, fd, mode); }
int rename(const char* from, const char* to) { return fault(WRITES) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }
int close(int fd) {
  int failed = armed[WRITES] && fault(WRITES), e = errno; /* closed all the same, as Linux does */
  int done = (int)syscall(SYS_close, fd);
  if (failed) errno = e;
  return failed ? -1 : done;
}
