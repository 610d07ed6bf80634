// What the interposer knows of the program, the driver's calls that it makes, and its output.
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "json_text.h"

namespace {

struct Dim3 { unsigned x, y, z; };
struct PitchedPtr { void *ptr; size_t pitch, xsize, ysize; };
struct Extent { size_t width, height, depth; };
struct Attribute { int id; char pad[4]; char value[64]; };
struct Config { Dim3 grid, block; size_t shared; void *stream; Attribute *attributes; unsigned count; };
const int COOPERATIVE = 2, CLUSTER = 4;  // cudaLaunchAttributeID

struct Memory { size_t bytes; const char *kind; };
struct Variable { const void *host; std::string name; size_t bytes; bool constant, managed; };
struct Function { std::string symbol; unsigned launches = 0; };
typedef std::vector<unsigned char> Bytes;

std::recursive_mutex lock_;
thread_local bool inside = false;  // calls that the runtime or this file makes are none of the program's

struct State {
  std::map<uintptr_t, Memory> memories;
  std::vector<Variable> variables;
  std::map<const void *, Function> functions;      // by the address of the host's stub
  std::map<const void *, const void *> handles;    // cudaKernel_t to that address
  size_t written = 0;
};

// Libraries register kernels before this one's constructors run, programs launch after its destructors did.
State &state() {
  static State *s = new State;
  return *s;
}

struct Inside {
  bool before = inside;
  Inside() { inside = true; }
  ~Inside() { inside = before; }
};

const char *setting(const char *name, const char *otherwise) {
  const char *v = getenv((std::string("KTC_CAPTURE_") + name).c_str());
  return v && *v ? v : otherwise;
}

template <class F> F real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) {
    fprintf(stderr, "ktc capture: the CUDA runtime has no %s\n", name);
    abort();
  }
  return reinterpret_cast<F>(found);
}

// A function of the driver: its errors are not what the program's cudaGetLastError sees.
template <class F> F driver(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  static void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!found && library) found = dlsym(library, name);
  return reinterpret_cast<F>(found);
}

bool wait_for_device() {
  static auto make_context = real<int (*)(void *)>("cudaFree");
  static int made = make_context(nullptr);  // the driver has no context before the runtime's first call
  (void)made;
  static auto sync = driver<int (*)()>("cuCtxSynchronize");
  return sync && sync() == 0;
}

bool fetch(void *to, uintptr_t from, size_t n, bool host) {
  static auto copy = driver<int (*)(void *, unsigned long long, size_t)>("cuMemcpyDtoH_v2");
  if (host) return memcpy(to, (void *)from, n), true;
  return n == 0 || (copy && copy(to, from, n) == 0);
}

bool put(uintptr_t to, const void *from, size_t n, bool host) {
  static auto copy = driver<int (*)(unsigned long long, const void *, size_t)>("cuMemcpyHtoD_v2");
  if (host) return memcpy((void *)to, from, n), true;
  return n == 0 || (copy && copy(to, from, n) == 0);
}

// ---- output

void line(const std::string &object) {
  static FILE *out = nullptr;
  static pid_t owner = 0;
  if (owner != getpid()) {  // a child after fork writes its own file
    owner = getpid();
    out = fopen((std::string(setting("DIR", ".")) + "/launches." + std::to_string(owner) + ".jsonl").c_str(), "a");
  }
  if (!out) return;
  fprintf(out, "%s\n", object.c_str());
  fflush(out);
}

uint64_t mixed(uint64_t h) {  // the finaliser of MurmurHash3
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

std::string hash_of(const Bytes &data) {
  uint64_t a = 0x9e3779b97f4a7c15ULL ^ data.size(), b = 0xc2b2ae3d27d4eb4fULL;
  for (size_t i = 0; i < data.size(); i += 8) {
    uint64_t w = 0;
    memcpy(&w, &data[i], std::min<size_t>(8, data.size() - i));
    a = mixed(a ^ w) + b;
    b = (b ^ mixed(w + a)) * 0x9fb21c651e98df25ULL + i;
  }
  char text[40];
  snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)mixed(a), (unsigned long long)mixed(b));
  return text;
}

// The name of the file that holds `data`; written unless it is there already. Empty: it cannot be written.
std::string blob(const Bytes &data) {
  std::string folder = std::string(setting("DIR", ".")) + "/blobs", name = hash_of(data), path = folder + "/" + name;
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && (size_t)info.st_size == data.size()) return name;
  mkdir(folder.c_str(), 0777);
  std::string part = path + "." + std::to_string(getpid());
  FILE *f = fopen(part.c_str(), "wb");
  if (!f) return "";
  bool whole = fwrite(data.data(), 1, data.size(), f) == data.size();
  whole = fclose(f) == 0 && whole;
  if (!whole || rename(part.c_str(), path.c_str()) != 0) return unlink(part.c_str()), "";
  state().written += data.size();
  return name;
}

}  // namespace
