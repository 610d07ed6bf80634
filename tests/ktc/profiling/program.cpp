// A program that reaches the driver in each of the ways that programs do.
//
// `runtime`: by cuGetProcAddress, as the CUDA runtime does, shared or static; `dlsym`: by name, as CuPy and Triton do;
// `linked` is another binary of the same text. `gaps`: an idle device; `counts`: memory with numbers in it; `compiles`: it compiles a kernel as it runs; `fails`: a launch is refused; `die`: it ends without its exit handlers.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef int (*Get)(const char *, void **, int, u64, int *);
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
struct Config { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; };
extern "C" int shadowed(int);  // of a library that stands in front of another one, and calls it by RTLD_NEXT

extern "C" int nvrtcCreateProgram(void **, const char *, const char *, int, const char *const *, const char *const *);

#ifdef LINKED
extern "C" int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                              void **);
#endif

static void *library;
static Get get_address;
template <class F> F find(const char *name, bool runtime, u64 flags = 0) {
  void *found = nullptr;
  if (runtime) get_address(name, &found, 13000, flags, nullptr);
  else found = dlsym(library, name);
  return (F)found;
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "runtime", *what = argc > 2 ? argv[2] : "";
  if (shadowed(20) != 21) return 9;
  bool runtime = !strcmp(how, "runtime");
  library = dlopen("libcuda.so.1", RTLD_NOW);
  get_address = (Get)dlsym(library, "cuGetProcAddress_v2");
  if (runtime) get_address("cuGetProcAddress", (void **)&get_address, 12000, 0, nullptr);
  find<int (*)(unsigned)>("cuInit", runtime)(0);
  auto allocate = find<int (*)(u64 *, size_t)>("cuMemAlloc_v2", runtime);
  auto set = (void (*)(u64, int))dlsym(library, "fake_set");
  void *scale, *step, *tuned;
  find<int (*)(void **, void *, const char *)>("cuLibraryGetKernel", runtime)(&scale, nullptr, "_Z5scalePfS_if");
  find<int (*)(void **, void *, const char *)>("cuModuleGetFunction", runtime)(&step, nullptr, "_Z4stepPfi");
  find<int (*)(void **, void *, const char *)>("cuModuleGetFunction", runtime)(&tuned, nullptr, "_Z5tunedPf");
#ifdef LINKED
  Launch launch = cuLaunchKernel;
#else
  auto launch = find<Launch>("cuLaunchKernel", runtime, runtime ? 2 : 0);
#endif
  if (!strcmp(what, "compiles")) {
    const char *text = "__global__ void scale(float *out, float *in, int n, float factor) {\n"
                       "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = in[i] * factor; }\n";
    void *made = nullptr;
    if (nvrtcCreateProgram(&made, text, "scale.cu", 0, nullptr, nullptr) || made != (void *)text) return 8;
  }
  u64 a, b;
  allocate(&a, 4096);
  allocate(&b, 8192);
  for (int i = 0; !strcmp(what, "counts") && i < 1024; ++i) ((float *)a)[i] = i - 5;
  if (!strcmp(what, "gaps")) set(30000, 0);
  for (int i = 0; i < 12; ++i) {
    int n = i < 9 ? 1000 : 77;
    float factor = 0.5f;
    u64 out = b + 64 * (i % 3), in = i == 11 ? out : a;
    void *args[] = {&out, &in, &n, &factor};
    launch(scale, i < 9 ? 4 : 1, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr);
  }
  for (int i = 0; i < 400; ++i) {
    void *args[] = {&a, &i};
    launch(step, 2, 1, 1, 64, 1, 1, 0, nullptr, args, nullptr);
  }
  if (!strcmp(what, "fails")) {
    void *args[] = {&a, &a};
    if (launch(step, 2, 65536, 1, 64, 1, 1, 0, nullptr, args, nullptr) != 1) return 7;
  }
  if (!strcmp(what, "die")) {
    sleep(3);
    void *args[] = {&a, &a};
    launch(step, 2, 1, 1, 64, 1, 1, 0, nullptr, args, nullptr);
    _exit(3);
  }
  u64 size = sizeof a;
  void *extra[] = {(void *)1, &a, (void *)2, &size, nullptr};
  auto launch_ex = find<int (*)(const Config *, void *, void **, void **)>("cuLaunchKernelEx", runtime);
  int attribute[18] = {4, 0, 2, 1, 1};  // a cluster of two blocks
  Config config{{6, 1, 1}, {32, 1, 1}, 512, nullptr, attribute, 1};
  launch_ex(&config, tuned, nullptr, extra);
  set(0, 1);
  void *args[] = {&a, &size};
  launch(step, 5, 1, 1, 64, 1, 1, 0, nullptr, args, nullptr);
  set(0, 0);
  auto graph = find<int (*)(void *, void *)>("cuGraphLaunch", runtime);
  for (int i = 0; i < 3; ++i) graph(nullptr, nullptr);
  ((void (*)())dlsym(library, "fake_unseen"))();
  int loaded = ((int (*)())dlsym(library, "fake_loaded"))();
  if (getenv("SHOW_LAST")) fputs(((const char *(*)())dlsym(library, "fake_last"))(), stderr);
  puts(loaded && getenv("WRONG_IF_SWAPPED") ? "wrong" : "done");
}
