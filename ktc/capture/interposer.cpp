// Records the kernel launches of a program that uses the CUDA runtime as a shared library (nvcc -cudart shared).
//
// Preloaded (LD_PRELOAD) by `ktc capture`: it stands in front of the runtime's allocation and launch functions. For a
// chosen launch it waits for the device, copies all memory that the launch can reach, lets it run, copies again, and
// (KTC_CAPTURE_RERUN) puts the first copy back and runs it once more, to see whether the kernel gives the same bits
// twice. No CUDA header is needed: the few types are declared here as the runtime's ABI has them.
//
// Settings (environment): KTC_CAPTURE_DIR, _LAUNCHES (ordinals per kernel: "1,2,10"), _ONLY (substrings of names),
// _LAUNCH_BYTES, _TOTAL_BYTES, _RERUN (0 or 1). Output: DIR/launches.PID.jsonl, one object a line, and DIR/blobs/HASH.
#include "recorder.h"

namespace {

void allocated(int status, void *p, size_t bytes, const char *kind) {
  if (status != 0 || !p || inside) return;
  std::lock_guard<std::recursive_mutex> guard(lock_);
  state().memories[(uintptr_t)p] = {bytes, kind};
}

void freed(void *p) {
  if (inside) return;
  std::lock_guard<std::recursive_mutex> guard(lock_);
  state().memories.erase((uintptr_t)p);
}

}  // namespace

// ---- the runtime's functions

#define REAL(name, ...) static auto call = real<int (*)(__VA_ARGS__)>(name)
#define API extern "C" __attribute__((visibility("default"))) int

#define ALLOCATES(name, kind, bytes, types, params, args)  \
  API name params {                                        \
    static auto call = real<int(*) types>(#name);          \
    int status = call args;                                \
    allocated(status, status ? nullptr : *p, bytes, kind); \
    return status;                                         \
  }
ALLOCATES(cudaMalloc, "device", n, (void **, size_t), (void **p, size_t n), (p, n))
ALLOCATES(cudaMallocManaged, "managed", n, (void **, size_t, unsigned), (void **p, size_t n, unsigned f), (p, n, f))
ALLOCATES(cudaMallocHost, "pinned", n, (void **, size_t), (void **p, size_t n), (p, n))
ALLOCATES(cudaHostAlloc, "pinned", n, (void **, size_t, unsigned), (void **p, size_t n, unsigned f), (p, n, f))
ALLOCATES(cudaMallocAsync, "device", n, (void **, size_t, void *), (void **p, size_t n, void *s), (p, n, s))
ALLOCATES(cudaMallocAsync_ptsz, "device", n, (void **, size_t, void *), (void **p, size_t n, void *s), (p, n, s))
ALLOCATES(cudaMallocFromPoolAsync, "device", n, (void **, size_t, void *, void *),
          (void **p, size_t n, void *q, void *s), (p, n, q, s))
ALLOCATES(cudaMallocFromPoolAsync_ptsz, "device", n, (void **, size_t, void *, void *),
          (void **p, size_t n, void *q, void *s), (p, n, q, s))
ALLOCATES(cudaMallocPitch, "device", *pitch * h, (void **, size_t *, size_t, size_t),
          (void **p, size_t *pitch, size_t w, size_t h), (p, pitch, w, h))

API cudaMalloc3D(PitchedPtr *p, Extent e) {
  REAL("cudaMalloc3D", PitchedPtr *, Extent);
  int status = call(p, e);
  allocated(status, status ? nullptr : p->ptr, status ? 0 : p->pitch * e.height * e.depth, "device");
  return status;
}
API cudaHostRegister(void *p, size_t n, unsigned flags) {
  REAL("cudaHostRegister", void *, size_t, unsigned);
  int status = call(p, n, flags);
  allocated(status, p, n, "pinned");
  return status;
}

#define FREES(name, types, params, args)          \
  API name params {                               \
    static auto call = real<int(*) types>(#name); \
    freed(p);                                     \
    return call args;                             \
  }
FREES(cudaFree, (void *), (void *p), (p))
FREES(cudaFreeHost, (void *), (void *p), (p))
FREES(cudaHostUnregister, (void *), (void *p), (p))
FREES(cudaFreeAsync, (void *, void *), (void *p, void *s), (p, s))
FREES(cudaFreeAsync_ptsz, (void *, void *), (void *p, void *s), (p, s))

API cudaDeviceReset() {
  REAL("cudaDeviceReset", );
  {
    std::lock_guard<std::recursive_mutex> guard(lock_);
    state().memories.clear();
  }
  return call();
}

#define LAUNCHES(name, cooperative)                                                                         \
  API name(const void *f, Dim3 grid, Dim3 block, void **args, size_t shared, void *stream) {                \
    REAL(#name, const void *, Dim3, Dim3, void **, size_t, void *);                                         \
    return record({f, nullptr, grid, block, args, shared, stream, cooperative, ""},                         \
                  [&] { return call(f, grid, block, args, shared, stream); });                              \
  }
LAUNCHES(cudaLaunchKernel, false)
LAUNCHES(cudaLaunchKernel_ptsz, false)
LAUNCHES(cudaLaunchCooperativeKernel, true)
LAUNCHES(cudaLaunchCooperativeKernel_ptsz, true)

#define LAUNCHES_HANDLE(name)                                                                               \
  API name(const void *k, Dim3 grid, Dim3 block, void **args, size_t shared, void *stream) {                \
    REAL(#name, const void *, Dim3, Dim3, void **, size_t, void *);                                         \
    return record({nullptr, k, grid, block, args, shared, stream, false, ""},                               \
                  [&] { return call(k, grid, block, args, shared, stream); });                              \
  }
LAUNCHES_HANDLE(__cudaLaunchKernel)
LAUNCHES_HANDLE(__cudaLaunchKernel_ptsz)

#define LAUNCHES_CONFIG(name)                                                                               \
  API name(const Config *c, const void *f, void **args) {                                                   \
    REAL(#name, const Config *, const void *, void **);                                                     \
    bool cooperative = false;                                                                               \
    std::string trouble;                                                                                    \
    for (unsigned i = 0; i < c->count; ++i) {                                                               \
      cooperative |= c->attributes[i].id == COOPERATIVE;                                                    \
      if (c->attributes[i].id == CLUSTER) trouble = "it is launched with a cluster dimension";              \
    }                                                                                                       \
    return record({f, nullptr, c->grid, c->block, args, c->shared, c->stream, cooperative, trouble},        \
                  [&] { return call(c, f, args); });                                                        \
  }
LAUNCHES_CONFIG(cudaLaunchKernelExC)
LAUNCHES_CONFIG(cudaLaunchKernelExC_ptsz)

API __cudaGetKernel(void **kernel, const void *f) {
  REAL("__cudaGetKernel", void **, const void *);
  int status = call(kernel, f);
  std::lock_guard<std::recursive_mutex> guard(lock_);
  if (status == 0) state().handles[*kernel] = f;
  return status;
}
API __cudaRegisterFunction(void **fat, const char *host, char *device, const char *name, int limit, void *tid,
                           void *bid, void *block, void *grid, int *warp) {
  REAL("__cudaRegisterFunction", void **, const char *, char *, const char *, int, void *, void *, void *, void *,
       int *);
  {
    std::lock_guard<std::recursive_mutex> guard(lock_);
    state().functions[host].symbol = name;
  }
  return call(fat, host, device, name, limit, tid, bid, block, grid, warp);
}
API __cudaRegisterVar(void **fat, char *host, char *device, const char *name, int ext, size_t bytes, int constant,
                      int global) {
  REAL("__cudaRegisterVar", void **, char *, char *, const char *, int, size_t, int, int);
  {
    std::lock_guard<std::recursive_mutex> guard(lock_);
    state().variables.push_back({host, name, bytes, constant != 0, false});
  }
  return call(fat, host, device, name, ext, bytes, constant, global);
}
API __cudaRegisterManagedVar(void **fat, void **host, char *device, const char *name, int ext, size_t bytes,
                             int constant, int global) {
  REAL("__cudaRegisterManagedVar", void **, void **, char *, const char *, int, size_t, int, int);
  {
    std::lock_guard<std::recursive_mutex> guard(lock_);
    state().variables.push_back({host, name, bytes, constant != 0, true});
  }
  return call(fat, host, device, name, ext, bytes, constant, global);
}
