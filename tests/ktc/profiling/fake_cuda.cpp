// A CUDA driver (libcuda.so.1) and CUPTI with no GPU, in one library: a launch moves a clock on by a microsecond a block,
// after the gap that the program asks for. Only what a profiled program and the profiler call.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

typedef unsigned long long u64;
struct Function { std::string name; std::vector<size_t> sizes; bool library, loaded; };
struct Config { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; };

static std::map<std::string, std::vector<size_t>> SIGNATURES = {
    {"_Z5scalePfS_if", {8, 8, 4, 4}}, {"_Z4stepPfi", {8, 4}}, {"_Z5tunedPf", {8}}, {"step", {8, 4, 4}},
    {"summed", {8, 8, 4, 4, 8, 8}}};
static u64 clock_ns = 1000, tag = 0, gap = 0;
static unsigned correlation = 0;
static int capturing = 0, loaded = 0;
static std::map<uintptr_t, size_t> memories;
static unsigned char *buffer = nullptr;
static size_t used = 0, size = 0;
static void (*request)(unsigned char **, size_t *, size_t *);
static void (*complete)(void *, unsigned, unsigned char *, size_t, size_t);
static std::vector<std::string *> names;

static void flush() {
  if (buffer) complete(nullptr, 0, buffer, size, used);
  buffer = nullptr;
  used = 0;
}
static unsigned char *record(int kind) {
  size_t most;
  if (!request) return nullptr;
  if (buffer && used + 160 > size) flush();
  if (!buffer) request(&buffer, &size, &most);
  unsigned char *r = buffer + used;
  used += 160;
  memset(r, 0, 160);
  memcpy(r, &kind, 4);
  return r;
}
template <class T> static void put(unsigned char *r, size_t at, T value) { memcpy(r + at, &value, sizeof value); }

static void run(const std::string &name, const unsigned *grid, const unsigned *block, unsigned shared, bool in_graph) {
  u64 start = clock_ns += gap, end = clock_ns += 1000ull * grid[0];
  unsigned char *r = record(10);
  if (!r) return;
  put(r, 16, start), put(r, 24, end), put(r, 80, shared), put(r, 92, correlation);
  memcpy(r + 52, grid, 12), memcpy(r + 64, block, 12);
  names.push_back(new std::string(name));
  put(r, 104, names.back()->c_str()), put(r, 144, (u64)in_graph);
}
static std::string last;  // the scalars of the last launch of a function that came from a file
static int launch(void *f, const unsigned *grid, const unsigned *block, unsigned shared, void **params) {
  if (capturing) return 0;
  if (grid[1] > 65535) return 1;
  ++correlation;
  Function *function = (Function *)f;
  loaded += function->loaded;
  if (function->loaded) last = function->name;
  for (size_t i = 0; function->loaded && i < function->sizes.size(); ++i)
    if (function->sizes[i] == 8 && !*(u64 *)params[i]) abort();  // an address that nobody gave
    else if (function->sizes[i] == 4) last += " " + std::to_string(*(int *)params[i]);
  if (tag)
    if (unsigned char *r = record(39)) put(r, 4, 3), put(r, 8, tag), put(r, 16, correlation);
  run(((Function *)f)->name, grid, block, shared, false);
  return 0;
}

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int *d, int) { return *d = 0, 0; }
int cuDeviceGetName(char *text, int n, int) { return strncpy(text, "NVIDIA H100 80GB HBM3", n), 0; }
int cuMemAlloc_v2(u64 *p, size_t n) { return *p = (u64)malloc(n), memories[*p] = n, 0; }
int cuMemsetD8Async(u64 p, unsigned char value, size_t n, void *) { return memset((void *)p, value, n), 0; }
static std::map<uintptr_t, size_t>::iterator holding(u64 p) {
  for (auto it = memories.begin(); it != memories.end(); ++it)
    if (it->first <= p && p < it->first + it->second) return it;
  return memories.end();
}
int cuPointerGetAttribute(void *, int, u64 p) { return holding(p) == memories.end(); }
int cuMemGetAddressRange_v2(u64 *base, size_t *n, u64 p) {
  auto it = holding(p);
  if (it == memories.end()) return 1;
  return *base = it->first, *n = it->second, 0;
}
int cuModuleGetFunction(void **f, void *m, const char *name) { return *f = new Function{name, SIGNATURES[name], false, m != nullptr}, 0; }
int cuLibraryGetKernel(void **k, void *, const char *name) { return *k = new Function{name, SIGNATURES[name], true, false}, 0; }
static int info(bool library, void *f, size_t i, size_t *offset, size_t *n) {
  Function *fn = (Function *)f;
  if (fn->library != library) abort();  // a kernel is no function: the driver may crash
  if (i >= fn->sizes.size()) return 1;
  size_t end = 0;
  for (size_t k = 0; k <= i; ++k) *offset = (end + fn->sizes[k] - 1) / fn->sizes[k] * fn->sizes[k], end = *offset + (*n = fn->sizes[k]);
  return 0;
}
int cuFuncGetParamInfo(void *f, size_t i, size_t *offset, size_t *n) { return info(false, f, i, offset, n); }
int cuKernelGetParamInfo(void *f, size_t i, size_t *offset, size_t *n) { return info(true, f, i, offset, n); }
int cuStreamIsCapturing(void *, int *status) { return *status = capturing, 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *, void **params, void **) {
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(f, grid, block, shared, params);
}
int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        void *s, void **p, void **e) {
  return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, p, e);
}
int cuLaunchKernelEx(const Config *c, void *f, void **p, void **) { return launch(f, c->grid, c->block, c->shared, p); }
int cuGraphLaunch(void *, void *) {
  ++correlation;
  unsigned grid[] = {5, 1, 1}, block[] = {64, 1, 1};
  run("_Z4stepPfi", grid, block, 0, true);
  run("_Z4stepPfi", grid, block, 0, true);
  return 0;
}
int cuStreamSynchronize(void *) { return 0; }
int cuStreamCreate(void **s, unsigned) { return *s = &gap, 0; }
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t n, void *s) { return s == &gap ? memcpy(to, (void *)from, n), 0 : 1; }
int cuCtxGetCurrent(void **c) { return *c = &clock_ns, 0; }
int cuEventCreate(u64 **e, unsigned) { return *e = new u64, 0; }
int cuEventRecord(u64 *e, void *) { return *e = clock_ns, 0; }
int cuEventQuery(u64 *) { return 0; }
int cuEventSynchronize(u64 *) { return 0; }
int cuEventElapsedTime(float *ms, u64 *a, u64 *b) { return *ms = (*b - *a) * 1e-6f, 0; }
void fake_set(u64 nanoseconds, int captured) { gap = nanoseconds, capturing = captured; }
int cuModuleLoad(void **m, const char *) { return *m = &capturing, 0; }
const char *fake_last() { return last.c_str(); }
int fake_loaded() { return loaded; }  // launches of functions that came from a file
void fake_unseen() {  // what reaches the device past all functions that can be watched
  ++correlation;
  unsigned grid[] = {40, 1, 1}, block[] = {32, 1, 1};
  run("_Z6hiddenv", grid, block, 0, false);
}
int cuGetProcAddress_v2(const char *name, void **found, int version, u64 flags, int *status);

int cuptiActivityRegisterCallbacks(decltype(request) a, decltype(complete) b) { return request = a, complete = b, 0; }
int cuptiActivityEnable(int) { return 0; }
int cuptiActivityEnableDriverApi(int, uint8_t) { return 0; }
int cuptiActivityFlushPeriod(unsigned) { return 0; }
int cuptiActivityFlushAll(unsigned) { return flush(), 0; }
int cuptiActivityPushExternalCorrelationId(int, u64 id) { return tag = id, 0; }
int cuptiActivityPopExternalCorrelationId(int, u64 *) { return tag = 0, 0; }
int cuptiActivityGetNextRecord(unsigned char *b, size_t valid, unsigned char **r) {
  *r = *r ? *r + 160 : b;
  return *r + 160 <= b + valid ? 0 : 1;
}
}

#include <dlfcn.h>
int cuGetProcAddress_v2(const char *name, void **found, int, u64 flags, int *) {
  static void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  std::string exact = name;
  *found = flags & 2 ? dlsym(self, (exact + "_ptsz").c_str()) : nullptr;
  if (!*found) *found = dlsym(self, exact == "cuGetProcAddress" ? "cuGetProcAddress_v2" : name);
  return *found == nullptr;
}
