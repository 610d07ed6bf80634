// The driver's functions that this library stands in front of, and the ways by which programs find them.
#pragma once

#define API extern "C" __attribute__((visibility("default")))

static void *stream_of(void *stream, bool per_thread) { return stream || !per_thread ? stream : STREAM_PER_THREAD; }

#define LAUNCH_PARAMS                                                                                       \
  void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,   \
      void *stream, void **params
#define LAUNCH_VALUES f, gx, gy, gz, bx, by, bz, shared, stream, params
#define LAUNCH_TYPES                                                                                        \
  void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **

#define LAUNCHES(name, per_thread)                                                                          \
  static Real<LAUNCH_TYPES, void **> real_##name{#name};                                                    \
  API Result name(LAUNCH_PARAMS, void **extra) {                                                            \
    return launched(f, {{gx, gy, gz}, {bx, by, bz}, shared}, params, extra, stream_of(stream, per_thread),  \
                    __builtin_return_address(0), [&] { return real_##name(LAUNCH_VALUES, extra); });        \
  }
LAUNCHES(cuLaunchKernel, false)
LAUNCHES(cuLaunchKernel_ptsz, true)

#define LAUNCHES_COOPERATIVE(name, per_thread)                                                              \
  static Real<LAUNCH_TYPES> real_##name{#name};                                                             \
  API Result name(LAUNCH_PARAMS) {                                                                          \
    Geometry g{{gx, gy, gz}, {bx, by, bz}, shared, {1, 1, 1}, true};                                        \
    return launched(f, g, params, nullptr, stream_of(stream, per_thread), __builtin_return_address(0),      \
                    [&] { return real_##name(LAUNCH_VALUES); });                                            \
  }
LAUNCHES_COOPERATIVE(cuLaunchCooperativeKernel, false)
LAUNCHES_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

static Geometry geometry_of(const LaunchConfig &c) {
  Geometry g{{c.grid[0], c.grid[1], c.grid[2]}, {c.block[0], c.block[1], c.block[2]}, c.shared};
  for (unsigned i = 0; i < c.count; ++i) {
    if (c.attributes[i].id == COOPERATIVE) g.cooperative = field<int>((unsigned char *)c.attributes[i].value, 0) != 0;
    if (c.attributes[i].id == CLUSTER) memcpy(g.cluster, c.attributes[i].value, sizeof g.cluster);
  }
  return g;
}

#define LAUNCHES_CONFIG(name, per_thread)                                                                   \
  static Real<const LaunchConfig *, void *, void **, void **> real_##name{#name};                           \
  API Result name(const LaunchConfig *c, void *f, void **params, void **extra) {                            \
    return launched(f, geometry_of(*c), params, extra, stream_of(c->stream, per_thread),                    \
                    __builtin_return_address(0), [&] { return real_##name(c, f, params, extra); });         \
  }
LAUNCHES_CONFIG(cuLaunchKernelEx, false)
LAUNCHES_CONFIG(cuLaunchKernelEx_ptsz, true)

#define LAUNCHES_GRAPH(name, per_thread)                                                                    \
  static Real<void *, void *> real_##name{#name};                                                           \
  API Result name(void *graph, void *stream) {                                                              \
    return graph_launched(stream_of(stream, per_thread), [&] { return real_##name(graph, stream); });       \
  }
LAUNCHES_GRAPH(cuGraphLaunch, false)
LAUNCHES_GRAPH(cuGraphLaunch_ptsz, true)

static Real<unsigned> real_cuInit{"cuInit"};
API Result cuInit(unsigned flags) {
  Result result = real_cuInit(flags);
  if (result == 0 && !inside) start();
  return result;
}

static Real<void **, void *, const char *> real_cuModuleGetFunction{"cuModuleGetFunction"};
API Result cuModuleGetFunction(void **function, void *module, const char *name) {
  Result result = real_cuModuleGetFunction(function, module, name);
  if (result == 0) named(*function, name, false);
  return result;
}
static Real<void **, void *, const char *> real_cuLibraryGetKernel{"cuLibraryGetKernel"};
API Result cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  Result result = real_cuLibraryGetKernel(kernel, library, name);
  if (result == 0) named(*kernel, name, true);
  return result;
}
static Real<void **, unsigned, void *> real_cuLibraryEnumerateKernels{"cuLibraryEnumerateKernels"};
API Result cuLibraryEnumerateKernels(void **kernels, unsigned count, void *library) {
  Result result = real_cuLibraryEnumerateKernels(kernels, count, library);
  for (unsigned i = 0; result == 0 && i < count; ++i) named(kernels[i], nullptr, true);
  return result;
}
static Real<void **, void *> real_cuKernelGetFunction{"cuKernelGetFunction"};
API Result cuKernelGetFunction(void **function, void *kernel) {
  Result result = real_cuKernelGetFunction(function, kernel);
  if (result == 0) named(*function, nullptr, false);
  return result;
}

// Sources that the program compiles as it runs (CuPy's raw kernels and others) are kept beside the profile.
typedef int (*CreateProgram)(void **, const char *, const char *, int, const char *const *, const char *const *);
static std::atomic<void *> real_nvrtcCreateProgram{nullptr};
API int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, const char *const *headers,
                           const char *const *names) {
  void *f = real_nvrtcCreateProgram.load();
  if (!f) real_nvrtcCreateProgram.store(f = real_dlsym()(RTLD_NEXT, "nvrtcCreateProgram"));
  if (!inside && source) keep_source(source);
  return f ? reinterpret_cast<CreateProgram>(f)(program, source, name, count, headers, names) : 1;
}

static Hook *hook_of(const char *name);

// With KTC_PROFILE_TRACE, says what the program asked for and was given a hook of: the first thing to look at where
// launches are not seen.
static void traced(const char *how, const char *name) {
  static bool wanted = getenv("KTC_PROFILE_TRACE") != nullptr;
  if (wanted) fprintf(stderr, "ktc profile: %s(%s)\n", how, name);
}

// Puts the hook in place of what cuGetProcAddress found for `name`.
static void answer(const char *name, void **found, int version, unsigned long long flags) {
  if (inside || !name || !found || !*found) return;
  std::string exact = name;
  if (exact == "cuGetProcAddress" && version >= 12000) exact += "_v2";
  Hook *hook = flags & PER_THREAD ? hook_of((exact + "_ptsz").c_str()) : nullptr;
  if (!hook) hook = hook_of(exact.c_str());
  if (!hook || *found == hook->ours) return;
  traced("cuGetProcAddress", hook->name);
  hook->real->store(*found);
  *found = hook->ours;
}

static Real<const char *, void **, int, unsigned long long> real_cuGetProcAddress{"cuGetProcAddress"};
API Result cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags) {
  Result result = real_cuGetProcAddress(name, found, version, flags);
  if (result == 0) answer(name, found, version, flags);
  return result;
}
static Real<const char *, void **, int, unsigned long long, int *> real_cuGetProcAddress_v2{"cuGetProcAddress_v2"};
API Result cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *status) {
  Result result = real_cuGetProcAddress_v2(name, found, version, flags, status);
  if (result == 0) answer(name, found, version, flags);
  return result;
}

#define HOOK(name) {#name, reinterpret_cast<void *>(name), &real_##name.at}
static Hook HOOKS[] = {
    HOOK(cuLaunchKernel), HOOK(cuLaunchKernel_ptsz), HOOK(cuLaunchKernelEx), HOOK(cuLaunchKernelEx_ptsz),
    HOOK(cuLaunchCooperativeKernel), HOOK(cuLaunchCooperativeKernel_ptsz), HOOK(cuGraphLaunch),
    HOOK(cuGraphLaunch_ptsz), HOOK(cuInit), HOOK(cuModuleGetFunction), HOOK(cuLibraryGetKernel),
    HOOK(cuLibraryEnumerateKernels), HOOK(cuKernelGetFunction), HOOK(cuGetProcAddress), HOOK(cuGetProcAddress_v2),
    {"nvrtcCreateProgram", reinterpret_cast<void *>(nvrtcCreateProgram), &real_nvrtcCreateProgram}};

static Hook *hook_of(const char *name) {
  for (Hook &h : HOOKS)
    if (strcmp(h.name, name) == 0) return &h;
  return nullptr;
}

// dlsym itself: a tail call keeps the caller's return address, which RTLD_NEXT goes by.
static __attribute__((noinline)) void *hooked_dlsym(void *library, const char *name) noexcept {
  void *found = real_dlsym()(library, name);
  Hook *hook = found ? hook_of(name) : nullptr;
  if (!hook || found == hook->ours) return found;
  traced("dlsym", name);
  hook->real->store(found);
  return hook->ours;
}
API void *dlsym(void *library, const char *name) noexcept {
  Lookup next = real_dlsym();
  bool of_cuda = (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v');
  if (inside || library == RTLD_NEXT || !of_cuda) return next(library, name);
  return hooked_dlsym(library, name);
}
