// Two libraries of one function: the first calls the second by RTLD_NEXT, which goes by who asks.
#include <dlfcn.h>
extern "C" int shadowed(int x) {
#ifdef BEHIND
  return x;
#else
  return ((int (*)(int))dlsym(RTLD_NEXT, "shadowed"))(x) + 1;
#endif
}
#ifdef BEHIND
// What compiles sources at run time: its program is the source.
extern "C" int nvrtcCreateProgram(void **program, const char *source, const char *, int, const char *const *,
                                  const char *const *) {
  *program = (void *)source;
  return 0;
}
#endif
