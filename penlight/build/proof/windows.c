/* What runner.c calls, over what Windows has, and the start of a program without start files. Arguments and paths are UTF-8 throughout,
 * so that the library under test gets a path as a program in any language would give it. */
#include <stddef.h>
#include <stdint.h>

typedef struct FILE FILE;
extern int main(int, char**);
extern void exit(int);
extern void* malloc(size_t);
extern FILE* _wfopen(const wchar_t*, const wchar_t*);
extern FILE* __acrt_iob_func(unsigned);
extern int __stdio_common_vfprintf(uint64_t, FILE*, const char*, void*, __builtin_va_list);
extern int __stdio_common_vsprintf(uint64_t, char*, size_t, const char*, void*, __builtin_va_list);
extern int _configure_wide_argv(int);
extern int* __p___argc(void);
extern wchar_t*** __p___wargv(void);
extern int MultiByteToWideChar(uint32_t, uint32_t, const char*, int, wchar_t*, int);
extern int WideCharToMultiByte(uint32_t, uint32_t, const wchar_t*, int, char*, int, const char*, int*);
extern void* LoadLibraryW(const wchar_t*);
extern void* GetProcAddress(void*, const char*);
extern uint32_t GetLastError(void);

enum { kUtf8 = 65001, kPath = 4096 };
static wchar_t wide[kPath];
static const wchar_t* as_wide(const char* text) { return MultiByteToWideChar(kUtf8, 0, text, -1, wide, kPath) ? wide : L""; }

FILE* fopen(const char* path, const char* mode) { return _wfopen(as_wide(path), mode[0] == 'r' ? L"rb" : L"wb"); }
void* dlopen(const char* path, int flags) { return (void)flags, LoadLibraryW(as_wide(path)); }
void* dlsym(void* library, const char* name) { return GetProcAddress(library, name); }

static int print(char* to, size_t size, const char* format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  int n = __stdio_common_vsprintf(2, to, size, format, NULL, args);
  __builtin_va_end(args);
  return n;
}
char* dlerror(void) {
  static char text[32];
  print(text, sizeof text, "error %u", GetLastError());
  return text;
}
int printf(const char* format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  int n = __stdio_common_vfprintf(0, __acrt_iob_func(1), format, NULL, args);
  __builtin_va_end(args);
  return n;
}

void __main(void) {} /* which compilers for this target call at the start of main, for constructors */
void start(void) {
  static char* given[8];
  _configure_wide_argv(1);
  int count = *__p___argc();
  for (int i = 0; i < count && i < 8; ++i) {
    given[i] = malloc(kPath);
    WideCharToMultiByte(kUtf8, 0, (*__p___wargv())[i], -1, given[i], kPath, NULL, NULL);
  }
  exit(main(count, given));
}
