// A program as nvcc would compile it: registers a kernel and two variables, allocates, launches, frees.
#include <stddef.h>
#include <stdio.h>

struct Dim3 { unsigned x, y, z; };
struct Range { const float *from; int first, count; };
extern "C" {
int cudaMalloc(void **, size_t);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaFree(void *);
int __cudaGetKernel(void **, const void *);
int __cudaLaunchKernel(const void *, Dim3, Dim3, void **, size_t, void *);
int __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
int __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void fake_parameter(const void *, size_t);
}

static float weights[4] = {0.5f, 1.5f, 2.5f, 3.5f}, weights_on_device[4] = {0.5f, 1.5f, 2.5f, 3.5f};
static int calls, calls_on_device = 7;

static void scale_body(Dim3 grid, Dim3 block, void **args) {
  float *out = *(float **)args[0], factor = *(float *)args[2];
  Range range = *(Range *)args[1];
  for (int i = 0; i < (int)(grid.x * block.x); ++i)
    if (i < range.count) out[i] = range.from[range.first + i] * factor * weights_on_device[i % 4];
  calls_on_device += 1;
}
static void scale_stub() {}

// Atomics come in any order: here in another one each time.
static void total_body(Dim3, Dim3, void **args) {
  float *out = *(float **)args[0];
  const float *in = *(const float **)args[1];
  int n = *(int *)args[2];
  static int turn = 0;
  turn += 37;
  for (int k = 0; k < n; ++k) {
    int i = (int)((unsigned)(k * 211 + turn) % n);
    out[i % 8] += in[i];
  }
}
static void total_stub() {}

static struct Registration {
  Registration() {
    const char *stub = (const char *)scale_stub;
    __cudaRegisterFunction(nullptr, stub, (char *)scale_body, "_ZN4work5scaleIfLi4EEEvPT_5RangeS1_", -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    __cudaRegisterVar(nullptr, (char *)weights, (char *)weights_on_device, "weights", 0, sizeof weights, 1, 0);
    __cudaRegisterVar(nullptr, (char *)&calls, (char *)&calls_on_device, "calls", 0, sizeof calls, 0, 0);
    __cudaRegisterFunction(nullptr, (const char *)total_stub, (char *)total_body, "_Z5totalPfPKfi", -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    fake_parameter((const void *)total_stub, 8);
    fake_parameter((const void *)total_stub, 8);
    fake_parameter((const void *)total_stub, 4);
    fake_parameter((const void *)scale_stub, 8);
    fake_parameter((const void *)scale_stub, 16);
    fake_parameter((const void *)scale_stub, 4);
  }
} registration;

static int totals() {
  const int n = 1000;
  float host[n], *in, *out;
  for (int i = 0; i < n; ++i) host[i] = (i >= 992 ? 0.0f : i / 8 % 2 ? -1e5f : 1e5f) + 0.1f * (i % 97);  // they nearly cancel
  cudaMalloc((void **)&in, sizeof host);
  cudaMalloc((void **)&out, 8 * sizeof(float));
  cudaMemcpy(in, host, sizeof host, 1);
  for (int i = 0; i < 8; ++i) out[i] = 0.0f;
  void *kernel, *args[] = {&out, &in, (void *)&n};
  __cudaGetKernel(&kernel, (const void *)total_stub);
  return __cudaLaunchKernel(kernel, {4, 1, 1}, {256, 1, 1}, args, 0, nullptr);
}

int main(int argc, char **) {
  if (argc > 1) return totals();
  const int n = 1000;
  float host[n], *in, *out, factor = 3.0f;
  for (int i = 0; i < n; ++i) host[i] = 0.1f * i - 20.0f;
  cudaMalloc((void **)&in, sizeof host);
  cudaMalloc((void **)&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, 1);
  void *kernel;
  __cudaGetKernel(&kernel, (const void *)scale_stub);
  for (int step = 0; step < 3; ++step) {
    float *target = out + 64 * step;  // pointers into the middle of an allocation
    Range range = {in, 10 * step, 700};
    void *args[] = {&target, &range, &factor};
    if (__cudaLaunchKernel(kernel, {3, 1, 1}, {256, 1, 1}, args, 0, nullptr)) return 1;
  }
  printf("calls %d, last %g\n", calls_on_device, out[827]);
  cudaFree(in);
  cudaFree(out);
}
