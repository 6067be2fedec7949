/* The allocator's functions, in place of libc's: they count, and can be told to fail once. */
#ifndef COUNTING_MALLOC_H_
#define COUNTING_MALLOC_H_

#include <stddef.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);
static long allocations, frees, fail_at = -1; /* fail_at: this allocation, counted from 0, gives nothing */

static int refuse(void) { return __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED) == fail_at; }

void* malloc(size_t size) { return refuse() ? NULL : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return refuse() ? NULL : __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return refuse() ? NULL : __libc_realloc(p, size); }
int posix_memalign(void** p, size_t alignment, size_t size) {
  void* made = refuse() ? NULL : __libc_memalign(alignment, size);
  if (made) *p = made;
  return made ? 0 : 12;
}
void* aligned_alloc(size_t alignment, size_t size) { return refuse() ? NULL : __libc_memalign(alignment, size); }
void free(void* p) {
  if (p) __atomic_fetch_add(&frees, 1, __ATOMIC_RELAXED);
  __libc_free(p);
}

#endif
