// A CUDA runtime and driver with no GPU: device memory is host memory, a kernel is a host function that is registered as
// nvcc's code registers it. Only what a captured program and the interposer call.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <vector>

struct Dim3 { unsigned x, y, z; };
typedef void (*Body)(Dim3, Dim3, void **);
struct Kernel { Body body; std::vector<size_t> sizes; };
static std::map<const void *, Kernel> &kernels() { static auto *k = new std::map<const void *, Kernel>; return *k; }
static std::map<const void *, void *> &symbols() { static auto *s = new std::map<const void *, void *>; return *s; }

extern "C" {
int cudaMalloc(void **p, size_t n) { return *p = aligned_alloc(256, (n + 255) / 256 * 256), 0; }
int cudaFree(void *p) { return free(p), 0; }
int cudaMemcpy(void *to, const void *from, size_t n, int) { return memcpy(to, from, n), 0; }
int cudaDeviceSynchronize() { return 0; }
int cudaStreamIsCapturing(void *, int *status) { return *status = 0, 0; }
int cudaGetSymbolAddress(void **p, const void *host) { return *p = symbols()[host], 0; }
int cudaGetKernel(void **kernel, const void *f) { return *kernel = const_cast<void *>(f), 0; }
int __cudaGetKernel(void **kernel, const void *f) { return *kernel = const_cast<void *>(f), 0; }
int cudaLaunchKernel(const void *f, Dim3 grid, Dim3 block, void **args, size_t, void *) {
  if (!kernels().count(f)) return 98;
  kernels()[f].body(grid, block, args);
  return 0;
}
int __cudaLaunchKernel(const void *f, Dim3 grid, Dim3 block, void **args, size_t shared, void *stream) {
  return cudaLaunchKernel(f, grid, block, args, shared, stream);
}
int __cudaRegisterFunction(void **, const char *host, char *device, const char *, int, void *, void *, void *, void *,
                           int *) {
  kernels()[host].body = (Body)device;
  return 0;
}
int __cudaRegisterVar(void **, char *host, char *device, const char *, int, size_t, int, int) {
  symbols()[host] = device;
  return 0;
}
void fake_parameter(const void *f, size_t size) { kernels()[f].sizes.push_back(size); }

int cuCtxSynchronize() { return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t n) { return memcpy(to, (void *)from, n), 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t n) { return memcpy((void *)to, from, n), 0; }
int cuKernelGetParamInfo(const void *kernel, size_t i, size_t *offset, size_t *size) {
  const std::vector<size_t> &sizes = kernels()[kernel].sizes;
  if (i >= sizes.size()) return 1;
  size_t end = 0;
  for (size_t k = 0; k <= i; ++k) {
    size_t align = sizes[k] < 8 ? sizes[k] : 8;
    *offset = (end + align - 1) / align * align;
    end = *offset + (*size = sizes[k]);
  }
  return 0;
}
}
