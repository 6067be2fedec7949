/* Android's libc.so for a library that runs under glibc: what differs between the two, translated. Everything else of that name is
 * glibc's own, which this library brings along. Structures are no matter: the runtime leaves room for either's. */
extern void* dlopen(const char*, int);
extern void* dlsym(void*, const char*);
extern void abort(void);
extern int* __errno_location(void);

static void* real(const char* name) {
  void* libc = dlopen("libc.so.6", 2);
  void* found = libc ? dlsym(libc, name) : (void*)0; /* dlsym gives the default version: for conditions, not the oldest */
  if (!found) abort();
  return found;
}
#define EXPORT __attribute__((visibility("default")))

EXPORT int* __errno(void) { return __errno_location(); }

EXPORT long sysconf(int name) {
  if (name != 39 && name != 97) abort(); /* _SC_PAGESIZE, _SC_NPROCESSORS_ONLN: no other is asked for */
  return ((long (*)(int))real("sysconf"))(name == 39 ? 30 : 84);
}

/* glibc keeps conditions of another size under the same names, for programs older than 2.3.2. */
EXPORT int pthread_cond_init(void* c, const void* a) { return ((int (*)(void*, const void*))real("pthread_cond_init"))(c, a); }
EXPORT int pthread_cond_destroy(void* c) { return ((int (*)(void*))real("pthread_cond_destroy"))(c); }
EXPORT int pthread_cond_wait(void* c, void* m) { return ((int (*)(void*, void*))real("pthread_cond_wait"))(c, m); }
EXPORT int pthread_cond_signal(void* c) { return ((int (*)(void*))real("pthread_cond_signal"))(c); }
EXPORT int pthread_cond_broadcast(void* c) { return ((int (*)(void*))real("pthread_cond_broadcast"))(c); }

/* liblog's, found in the same way. */
extern int dprintf(int, const char*, ...);
extern int vdprintf(int, const char*, __builtin_va_list);
EXPORT int __android_log_write(int priority, const char* tag, const char* text) { return dprintf(2, "%d %s: %s\n", priority, tag, text); }
EXPORT int __android_log_print(int priority, const char* tag, const char* format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  int n = dprintf(2, "%d %s: ", priority, tag) + vdprintf(2, format, args) + dprintf(2, "\n");
  __builtin_va_end(args);
  return n;
}
