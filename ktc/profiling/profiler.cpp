// Profiles the kernel launches of a program: which kernels, how often, at what geometry and arguments, how long.
//
// Preloaded (LD_PRELOAD) by `ktc profile`. It stands in front of the driver's launch functions, however the program
// finds them (driver.h), and adds what the device did (device_clock.h) to a table of launches (launch_table.h). No
// memory is copied and nothing waits for the device before the program ends, unless contents are asked for (contents.h).
//
// Settings (environment): KTC_PROFILE_DIR, the folder; KTC_PROFILE_CUPTI, libcupti.so (empty: events);
// KTC_PROFILE_CLOCK=none: no times; KTC_PROFILE_SWAPS: kernels to launch instead (swaps.h); KTC_PROFILE_CONTENTS: bytes
// of buffers to keep. Output: DIR/profile.PID.json, written every other second and when the program ends;
// DIR/sources/*.cu, what the program compiled as it ran; DIR/contents, what buffers held.
#include "profile_state.h"

namespace {

void drain(bool wait) {
  Profile &p = profile();
  p.events->drain(wait, [&](uint64_t tag, double seconds) {
    std::lock_guard<std::mutex> guard(p.table.lock);
    if (tag) timed(p, tag, seconds);
    else p.graph_times.add(seconds);
  });
}

void finish() {
  Inside here;
  Profile &p = profile();
  if (getpid() != p.owner) return;
  if (p.clock == "cupti") p.cupti.flush();
  if (p.events) drain(true);
  write(true);
}

// After the driver is up: its own exit handlers run after this one.
void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    Inside here;
    Profile &p = profile();
    p.owner = getpid();
    bool timing = strcmp(getenv("KTC_PROFILE_CLOCK") ? getenv("KTC_PROFILE_CLOCK") : "", "none") != 0;
    p.why = !timing ? "not asked for"
                    : p.cupti.start({ran, belongs, write_now_and_then});
    p.clock = p.why.empty() ? "cupti" : "none";
    if (timing && !p.why.empty()) {
      p.events = new Events;
      p.clock = p.events->usable() ? "events" : "none";
    }
    auto device = driver<Result (*)(int *, int)>("cuDeviceGet");
    auto name = driver<Result (*)(char *, int, int)>("cuDeviceGetName");
    char text[256] = "";
    int first = 0;
    if (device && name && device(&first, 0) == 0 && name(text, sizeof text, first) == 0) p.device = text;
    atexit(finish);
  });
}

void named(void *handle, const char *name, bool library) {
  Profile &p = profile();
  std::lock_guard<std::mutex> guard(p.table.lock);
  p.handles[handle] = {name ? name : "", library, SIZE_MAX};
}

// The function behind a handle; call with the lock held.
size_t function_of(Profile &p, void *handle, void *caller) {
  static auto function_name = driver<Result (*)(const char **, void *)>("cuFuncGetName");
  static auto kernel_name = driver<Result (*)(const char **, void *)>("cuKernelGetName");
  static auto function_parameter = driver<Result (*)(void *, size_t, size_t *, size_t *)>("cuFuncGetParamInfo");
  static auto kernel_parameter = driver<Result (*)(void *, size_t, size_t *, size_t *)>("cuKernelGetParamInfo");
  Handle &h = p.handles.emplace(handle, Handle{"", false, SIZE_MAX}).first->second;
  if (h.function != SIZE_MAX) return h.function;
  const char *name = nullptr;
  auto ask = h.library ? kernel_name : function_name;
  if (h.name.empty() && ask && ask(&name, handle) == 0 && name) h.name = name;
  if (h.name.empty()) h.name = "?";
  auto [known, fresh] = p.by_symbol.emplace(h.name, p.table.functions.size());
  h.function = known->second;
  if (!fresh) return h.function;
  Function f;
  f.symbol = h.name;
  Dl_info image;
  if (dladdr(caller, &image) && image.dli_fname) f.image = image.dli_fname;
  auto info = h.library ? kernel_parameter : function_parameter;
  f.sized = info != nullptr;
  for (size_t offset, size; info && info(handle, f.parameters.size(), &offset, &size) == 0;) {
    f.parameters.push_back({offset, size});
    f.end = std::max(f.end, offset + size);
  }
  p.table.functions.push_back(f);
  return h.function;
}

Bytes arguments_of(const Function &f, void **params, void **extra) {
  Bytes out;
  if (params && f.sized) {
    out.resize(f.end);
    for (size_t i = 0; i < f.parameters.size(); ++i) memcpy(&out[f.parameters[i].first], params[i], f.parameters[i].second);
  } else if (extra) {  // CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
    const unsigned char *buffer = nullptr;
    size_t size = 0;
    for (void **e = extra; *e; e += 2) {
      if ((uintptr_t)*e == 1) buffer = static_cast<unsigned char *>(e[1]);
      if ((uintptr_t)*e == 2) size = *static_cast<size_t *>(e[1]);
    }
    if (buffer) out.assign(buffer, buffer + size);
  }
  return out;
}

bool is_captured(void *stream) {
  static auto query = driver<Result (*)(void *, int *)>("cuStreamIsCapturing");
  int status = 0;
  return query && query(stream, &status) == 0 && status == 1;
}

template <class Launch>
Result timed_call(Profile &p, void *stream, uint64_t tag, bool captured, Launch launch) {
  if (p.clock == "cupti" && tag) {
    p.cupti.push(tag);
    Result result = launch();
    p.cupti.pop();
    return result;
  }
  Events::Pair pair;
  bool paired = p.events && !captured && p.events->begin(stream, tag, pair);
  Result result = launch();
  if (paired) p.events->end(stream, pair);
  if (p.events && p.events->waiting() > 256) drain(false);
  if (p.events) write_now_and_then();
  return result;
}

Result launch_swap(Profile &p, const Swap &s, Bytes &arguments, void *stream) {
  static auto call = driver<Result (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                       void *, void **, void **)>("cuLaunchKernel");
  std::vector<void *> parameters;
  for (auto [offset, size] : s.parameters) parameters.push_back(&arguments[offset]);
  const unsigned *g = s.to.grid, *b = s.to.block;
  return call(p.swaps.function(s, true), g[0], g[1], g[2], b[0], b[1], b[2], s.to.shared, stream, parameters.data(), nullptr);
}

template <class Launch>
Result launched(void *handle, const Geometry &g, void **params, void **extra, void *stream, void *caller, Launch launch) {
  if (inside) return launch();
  start();
  Inside here;
  Profile &p = profile();
  bool captured = is_captured(stream), fresh = false, first = false;
  size_t row, function;
  const Swap *swap;
  Bytes arguments;
  std::vector<Pointer> pointers;
  {
    std::lock_guard<std::mutex> guard(p.table.lock);
    size_t f = function = function_of(p, handle, caller);
    first = p.table.functions[f].launches == 0 && !captured && p.contents.wanted();
    arguments = arguments_of(p.table.functions[f], params, extra);
    row = p.table.row_of(f, g, arguments, fresh);
    Row &r = p.table.rows[row];
    if (fresh && !r.others) r.swap = p.swaps.of(p.table.functions[f].symbol, g, arguments);
    swap = r.swap;
    if (first) pointers = r.pointers;
    p.table.follows(stream, row, arguments);
    ++p.table.functions[f].launches;
    ++(captured ? p.table.rows[row].captured : p.table.rows[row].launches);
    p.last_launch = now();
    if (!p.first_launch) p.first_launch = p.last_launch;
  }
  if (first) p.contents.keep(function, pointers, stream);
  if (swap) {
    bool ready = p.swaps.ready(*swap, captured, stream, arguments);
    std::lock_guard<std::mutex> guard(p.table.lock);
    ++(ready ? p.table.rows[row].swapped : p.table.rows[row].refused);
    swap = ready ? swap : nullptr;
  }
  Result result = swap ? timed_call(p, stream, row + 1, captured,
                                    [&] { return launch_swap(p, *swap, arguments, stream); })
                       : timed_call(p, stream, row + 1, captured, launch);
  if (result != 0) {
    std::lock_guard<std::mutex> guard(p.table.lock);
    ++p.table.rows[row].failed;
  }
  return result;
}

template <class Launch> Result graph_launched(void *stream, Launch launch) {
  if (inside) return launch();
  start();
  Inside here;
  Profile &p = profile();
  {
    std::lock_guard<std::mutex> guard(p.table.lock);
    ++p.graphs;
    p.table.last.erase(stream);
    p.last_launch = now();
    if (!p.first_launch) p.first_launch = p.last_launch;
  }
  return timed_call(p, stream, 0, false, launch);
}

}  // namespace

#include "hooks.h"
