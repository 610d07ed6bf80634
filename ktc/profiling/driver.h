// The CUDA driver, as this library reaches it, and how it comes to stand in front of it.
//
// Every way to a kernel launch ends in a few functions of libcuda.so.1. Programs find them by linking (rare), by dlsym
// (CuPy, Triton, ctypes) or by cuGetProcAddress (the CUDA runtime, linked as a shared library or statically). All three
// are answered here with the functions of HOOKS. No CUDA header is needed: the few types are declared as the driver's
// ABI has them.
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include <atomic>

namespace {

typedef int Result;  // CUresult: 0 is success
struct LaunchAttribute { int id; char pad[4]; char value[64]; };
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned count;
};
const int COOPERATIVE = 2, CLUSTER = 4;  // CUlaunchAttributeID
const unsigned long long PER_THREAD = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, and the handle of that stream
void *const STREAM_PER_THREAD = reinterpret_cast<void *>(2);

thread_local bool inside = false;  // calls that this library makes are none of the program's
struct Inside {
  bool before = inside;
  Inside() { inside = true; }
  ~Inside() { inside = before; }
};

typedef void *(*Lookup)(void *, const char *) noexcept;
Lookup real_dlsym() {
  static Lookup found = [] {
    for (const char *version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
      if (void *f = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Lookup>(f);
    return Lookup(nullptr);
  }();
  return found;
}

void *driver_library() {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

// A function of the driver that this library calls; null if the driver has none of that name.
template <class F> F driver(const char *name) {
  void *library = driver_library();
  return reinterpret_cast<F>(library ? real_dlsym()(library, name) : nullptr);
}

// The driver's own function of a name, which a call that found its hook has set already.
template <class... Arguments> struct Real {
  const char *name;
  std::atomic<void *> at{nullptr};

  Result operator()(Arguments... arguments) {
    void *f = at.load();
    if (!f) at.store(f = driver<void *>(name));
    return f ? reinterpret_cast<Result (*)(Arguments...)>(f)(arguments...) : 500;  // CUDA_ERROR_NOT_FOUND
  }
};

struct Hook {
  const char *name;
  void *ours;
  std::atomic<void *> *real;
};

}  // namespace
