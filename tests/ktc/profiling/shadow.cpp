// Two libraries of one function: the first calls the second by RTLD_NEXT, which goes by who asks.
#include <dlfcn.h>
extern "C" int shadowed(int x) {
#ifdef BEHIND
  return x;
#else
  return ((int (*)(int))dlsym(RTLD_NEXT, "shadowed"))(x) + 1;
#endif
}
