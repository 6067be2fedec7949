/* Counts what libpenlight*.so take from the allocator and copy, inside a Java virtual machine that does as much itself: preloaded before
 * libc, it looks where each call comes from. AllocationTest.java asks for the numbers. */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <string.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static struct {
  uintptr_t start, end;
  size_t least; /* bytes of a copy that counts */
} ours[8];
static int count; /* of ours */
static long taken, live, moved;

static int from_us(void* caller) {
  for (int i = 0; i < __atomic_load_n(&count, __ATOMIC_ACQUIRE); ++i)
    if ((uintptr_t)caller >= ours[i].start && (uintptr_t)caller < ours[i].end) return 1 + i;
  return 0;
}

/* Our memory that was not given back, by its address: whoever frees it may do so from elsewhere (a call at a function's end is a jump). */
enum { kSlots = 1 << 18 };
static uintptr_t held[kSlots];
static int lock;
static void note(void* p, int is_new) {
  if (!p) return;
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
  }
  size_t i = (uintptr_t)p / 16 % kSlots, first = kSlots;
  for (; held[i] && held[i] != (uintptr_t)p; i = (i + 1) % kSlots)
    if (held[i] == 1 && first == kSlots) first = i; /* 1: was there once */
  if (is_new) {
    held[first < kSlots ? first : i] = (uintptr_t)p;
    ++live;
  } else if (held[i]) {
    held[i] = 1;
    --live;
  }
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}
static void* took(void* p, void* caller) {
  if (!from_us(caller)) return p;
  __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
  note(p, 1);
  return p;
}
static void copied(size_t n, void* caller) {
  int library = from_us(caller);
  if (library && n >= ours[library - 1].least) __atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
}

void* malloc(size_t size) { return took(__libc_malloc(size), __builtin_return_address(0)); }
void* calloc(size_t n, size_t size) { return took(__libc_calloc(n, size), __builtin_return_address(0)); }
void* realloc(void* p, size_t size) {
  if (p && count) note(p, 0);
  return took(__libc_realloc(p, size), __builtin_return_address(0));
}
int posix_memalign(void** p, size_t alignment, size_t size) {
  void* made = took(__libc_memalign(alignment, size), __builtin_return_address(0));
  if (made) *p = made;
  return made ? 0 : 12;
}
void free(void* p) {
  if (p && count) note(p, 0);
  __libc_free(p);
}
void* memcpy(void* restrict to, const void* restrict from, size_t n) {
  copied(n, __builtin_return_address(0));
  void* start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  return start;
}
void* memmove(void* to, const void* from, size_t n) {
  copied(n, __builtin_return_address(0));
  void* start = to;
  if ((uintptr_t)to - (uintptr_t)from >= n) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  } else {
    to = (char*)to + n - 1, from = (const char*)from + n - 1;
    __asm__ volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  }
  return start;
}

static int look(struct dl_phdr_info* library, size_t size, void* data) {
  (void)size, (void)data;
  if (!strstr(library->dlpi_name, "/libpenlight")) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &library->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    ours[count].start = library->dlpi_addr + part->p_vaddr;
    ours[count].end = ours[count].start + part->p_memsz;
    ours[count].least = strstr(library->dlpi_name, "jni") ? 16 : 16384; /* kernels copy rows: a tensor is larger */
    __atomic_fetch_add(&count, 1, __ATOMIC_RELEASE);
  }
  return 0;
}

/* After the libraries were loaded: returns how many there are. */
int Java_org_penlight_AllocationTest_find(void* env, void* type) {
  (void)env, (void)type;
  if (!count) dl_iterate_phdr(look, NULL);
  return count;
}
long Java_org_penlight_AllocationTest_allocations(void* env, void* type) { return (void)env, (void)type, taken; }
long Java_org_penlight_AllocationTest_copies(void* env, void* type) { return (void)env, (void)type, moved; }
long Java_org_penlight_AllocationTest_held(void* env, void* type) { return (void)env, (void)type, live; }
