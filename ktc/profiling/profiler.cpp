// Profiles the kernel launches of a program: which kernels, how often, at what geometry and arguments, how long.
//
// Preloaded (LD_PRELOAD) by `ktc profile`. It stands in front of the driver's launch functions, however the program
// finds them (driver.h), and adds what the device did (device_clock.h) to a table of launches (launch_table.h). No
// memory is copied and nothing waits for the device before the program ends.
//
// Settings (environment): KTC_PROFILE_DIR, the folder; KTC_PROFILE_CUPTI, libcupti.so (empty: events).
// Output: DIR/profile.PID.json, written every other second and when the program ends.
#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "device_clock.h"
#include "driver.h"
#include "launch_table.h"

namespace {

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

struct Stray {  // kernels that ran and came from no launch seen here
  std::string symbol;
  Geometry geometry;
  bool in_graph;
  Times times;
};

struct Handle { std::string name; bool library; size_t function; };

struct Profile {
  LaunchTable table;
  std::map<void *, Handle> handles;
  std::map<std::string, size_t> by_symbol;
  std::unordered_map<uint32_t, uint64_t> tags;
  std::unordered_map<uint32_t, Ran> untagged;
  std::map<std::string, Stray> strays;
  std::vector<std::pair<uint64_t, uint64_t>> intervals;  // what ran, not yet in `busy`
  uint64_t first = 0, frontier = 0, busy = 0, copies = 0, copied_bytes = 0, copy_time = 0;
  uint64_t graphs = 0;
  Times graph_times;
  Cupti cupti;
  Events *events = nullptr;
  std::string clock = "none", why, device;
  double loaded = now(), first_launch = 0, last_launch = 0, written = now();
  pid_t owner = 0;
};

// Programs launch after destructors ran: this has none.
Profile &profile() {
  static Profile *p = new Profile;
  return *p;
}

void accumulate_busy(Profile &p) {
  std::sort(p.intervals.begin(), p.intervals.end());
  for (auto [start, end] : p.intervals) {
    if (!p.first) p.first = p.frontier = start;
    if (end > p.frontier) p.busy += end - std::max(start, p.frontier), p.frontier = end;
  }
  p.intervals.clear();
}

void stray(Profile &p, const Ran &r) {
  Geometry g;
  memcpy(g.grid, r.grid, sizeof g.grid);
  memcpy(g.block, r.block, sizeof g.block);
  g.shared = r.shared;
  std::string symbol = r.symbol ? r.symbol : "?";
  std::string key = symbol + triple(g.grid) + triple(g.block) + std::to_string(g.shared) + (r.in_graph ? "g" : "-");
  auto found = p.strays.emplace(key, Stray{symbol, g, r.in_graph, {}}).first;
  found->second.times.add(1e-9 * (r.end - r.start));
}

void timed(Profile &p, uint64_t tag, double seconds) {
  if (tag && tag <= p.table.rows.size()) p.table.rows[tag - 1].times.add(seconds);
}

void ran(const Ran &r) {
  Profile &p = profile();
  std::lock_guard<std::mutex> guard(p.table.lock);
  if (r.end < r.start || !r.start) return;
  p.intervals.push_back({r.start, r.end});
  if (p.intervals.size() > 1 << 20) accumulate_busy(p);
  if (r.kind == Ran::COPY) {
    ++p.copies, p.copied_bytes += r.bytes, p.copy_time += r.end - r.start;
  } else if (r.in_graph) {
    stray(p, r);
  } else if (auto known = p.tags.find(r.correlation); known != p.tags.end()) {
    timed(p, known->second, 1e-9 * (r.end - r.start));
    p.tags.erase(known);
  } else {
    p.untagged[r.correlation] = r;
  }
}

void belongs(uint32_t correlation, uint64_t tag) {
  Profile &p = profile();
  std::lock_guard<std::mutex> guard(p.table.lock);
  auto kernel = p.untagged.find(correlation);
  if (kernel == p.untagged.end()) return (void)(p.tags[correlation] = tag);
  timed(p, tag, 1e-9 * (kernel->second.end - kernel->second.start));
  p.untagged.erase(kernel);
}

void write(bool complete) {
  Profile &p = profile();
  const char *folder = getenv("KTC_PROFILE_DIR");
  if (!folder || !p.first_launch || getpid() != p.owner) return;
  std::lock_guard<std::mutex> guard(p.table.lock);
  p.written = now();
  accumulate_busy(p);
  if (complete) {
    for (auto &[correlation, r] : p.untagged) stray(p, r);
    p.untagged.clear();
  }
  char text[512];
  snprintf(text, sizeof text,
           "\"seconds\":%.6f,\"before\":%.6f,\"launching\":%.6f,\"span\":%.9f,\"busy\":%.9f,\"copies\":%llu,"
           "\"copied_bytes\":%llu,\"copy_seconds\":%.9f,\"graphs\":%llu,\"lost\":%zu,",
           now() - p.loaded, p.first_launch - p.loaded, p.last_launch - p.first_launch, 1e-9 * (p.frontier - p.first),
           1e-9 * p.busy, (unsigned long long)p.copies, (unsigned long long)p.copied_bytes, 1e-9 * p.copy_time,
           (unsigned long long)p.graphs, p.cupti.dropped());
  std::string path = std::string(folder) + "/profile." + std::to_string(getpid()) + ".json", part = path + ".part";
  FILE *out = fopen(part.c_str(), "w");
  if (!out) return;
  char program[4096] = "";
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  fprintf(out, "{\"pid\":%d,\"program\":%s,\"complete\":%s,\"clock\":%s,\"why\":%s,\"device\":%s,%s\"graph\":{%s},\n",
          (int)getpid(), quoted(std::string(program, n > 0 ? n : 0)).c_str(), complete ? "true" : "false",
          quoted(p.clock).c_str(), quoted(p.why).c_str(), quoted(p.device).c_str(), text, p.graph_times.json().c_str());
  std::vector<std::vector<std::string>> rows(p.table.functions.size());
  for (const Row &r : p.table.rows) rows[r.function].push_back(json_of(r));
  fprintf(out, "\"functions\":[\n");
  for (size_t i = 0; i < rows.size(); ++i)
    fprintf(out, "%s%s", i ? ",\n" : "", json_of(p.table.functions[i], rows[i]).c_str());
  fprintf(out, "],\n\"strays\":[\n");
  bool any = false;
  for (auto &[key, s] : p.strays) {
    fprintf(out, "%s{\"symbol\":%s,\"kernel\":%s,\"in_graph\":%s,%s,%s}", any ? ",\n" : "", quoted(s.symbol).c_str(),
            quoted(demangled(s.symbol)).c_str(), s.in_graph ? "true" : "false", json_of(s.geometry).c_str(),
            s.times.json().c_str());
    any = true;
  }
  bool whole = fprintf(out, "]}\n") > 0;
  if (fclose(out) == 0 && whole) rename(part.c_str(), path.c_str());
}

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
    p.why = p.cupti.start({ran, belongs, [] { if (now() - profile().written > 2) write(false); }});
    p.clock = "cupti";
    if (!p.why.empty()) {
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
  if (p.events && now() - p.written > 2) write(false);
  return result;
}

template <class Launch>
Result launched(void *handle, const Geometry &g, void **params, void **extra, void *stream, void *caller, Launch launch) {
  if (inside) return launch();
  start();
  Inside here;
  Profile &p = profile();
  bool captured = is_captured(stream);
  size_t row;
  {
    std::lock_guard<std::mutex> guard(p.table.lock);
    size_t f = function_of(p, handle, caller);
    row = p.table.row_of(f, g, arguments_of(p.table.functions[f], params, extra));
    ++p.table.functions[f].launches;
    ++(captured ? p.table.rows[row].captured : p.table.rows[row].launches);
    p.last_launch = now();
    if (!p.first_launch) p.first_launch = p.last_launch;
  }
  return timed_call(p, stream, row + 1, captured, launch);
}

template <class Launch> Result graph_launched(void *stream, Launch launch) {
  if (inside) return launch();
  start();
  Inside here;
  Profile &p = profile();
  {
    std::lock_guard<std::mutex> guard(p.table.lock);
    ++p.graphs;
    p.last_launch = now();
    if (!p.first_launch) p.first_launch = p.last_launch;
  }
  return timed_call(p, stream, 0, false, launch);
}

}  // namespace

#include "hooks.h"
