// What a launch reaches, and how it is recorded: copied before, run, copied after, run again from the same state.
#pragma once
#include "state.h"

namespace {

struct Reached {
  uintptr_t address;
  size_t bytes;
  std::string kind, name;  // name: of a variable
  bool by_parameter, pointers = false;
  Bytes before = {}, after = {};
  Bytes now = {};                   // what it holds after the latest run
  size_t unstable = 0;              // bytes that another run left differently, the most of any
  std::vector<std::string> again;   // the contents that other runs left, where they are not as after the first
  bool host() const { return kind == "pinned"; }
};

std::map<uintptr_t, Memory>::const_iterator holding(uintptr_t p) {
  const auto &known = state().memories;
  auto it = known.upper_bound(p);
  if (it == known.begin()) return known.end();
  --it;
  return p < it->first + std::max<size_t>(it->second.bytes, 1) ? it : known.end();
}

// Allocations that aligned 8-byte words of `data` point into.
std::set<uintptr_t> pointed_to(const unsigned char *data, size_t n) {
  std::set<uintptr_t> found;
  const auto &known = state().memories;
  if (known.empty()) return found;
  uintptr_t low = known.begin()->first, high = known.rbegin()->first + known.rbegin()->second.bytes;
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uintptr_t w;
    memcpy(&w, data + i, 8);
    if (w < low || w > high) continue;
    auto it = holding(w);
    if (it != known.end()) found.insert(it->first);
  }
  return found;
}

// All memory the launch can reach, with its content; empty `trouble` on success.
std::vector<Reached> reach(const Bytes &parameters, std::string &trouble) {
  static auto symbol_address = real<int (*)(void **, const void *)>("cudaGetSymbolAddress");
  size_t limit = strtoull(setting("LAUNCH_BYTES", "268435456"), nullptr, 10), total = 0;
  std::vector<Reached> out;
  std::set<uintptr_t> seen;
  auto add = [&](uintptr_t address, bool by_parameter) {
    if (!seen.insert(address).second) return;
    const Memory &m = state().memories[address];
    out.push_back({address, m.bytes, m.kind, "", by_parameter});
  };
  for (uintptr_t a : pointed_to(parameters.data(), parameters.size())) add(a, true);
  for (const Variable &v : state().variables) {
    void *p = nullptr;
    if (v.managed) p = *(void *const *)v.host;
    else if (symbol_address(&p, v.host) != 0) continue;
    if (p) out.push_back({(uintptr_t)p, v.bytes, v.constant ? "constant" : v.managed ? "managed variable" : "variable",
                          v.name, false});
  }
  for (size_t i = 0; i < out.size(); ++i) {
    total += out[i].bytes;
    if (total > limit) return trouble = "it reaches more than " + std::to_string(limit) + " bytes of memory", out;
    out[i].before.resize(out[i].bytes);
    if (!fetch(out[i].before.data(), out[i].address, out[i].bytes, out[i].host()))
      return trouble = "memory it reaches cannot be copied", out;
    std::set<uintptr_t> next = pointed_to(out[i].before.data(), out[i].bytes);
    out[i].pointers = !next.empty();
    for (uintptr_t a : next) add(a, false);
  }
  return out;
}

struct Call {
  const void *host, *handle;
  Dim3 grid, block;
  void **args;
  size_t shared;
  void *stream;
  bool cooperative;
  std::string trouble;
};

// The parameter block, as the device lays it out; the (offset, size) of each parameter in `places`.
Bytes parameters_of(const Call &c, std::vector<std::pair<size_t, size_t>> &places, std::string &trouble) {
  static auto get_kernel = reinterpret_cast<int (*)(void **, const void *)>(dlsym(RTLD_NEXT, "cudaGetKernel"));
  static auto info = driver<int (*)(const void *, size_t, size_t *, size_t *)>("cuKernelGetParamInfo");
  void *kernel = nullptr;
  if (!get_kernel || get_kernel(&kernel, c.host) != 0 || !kernel) kernel = const_cast<void *>(c.handle);
  Bytes out;
  if (!info || !kernel) return trouble = "parameter sizes are not known: a driver of CUDA 12.4 or newer is needed", out;
  for (size_t offset, size; info(kernel, places.size(), &offset, &size) == 0;) {
    out.resize(std::max(out.size(), offset + size));
    memcpy(&out[offset], c.args[places.size()], size);
    places.push_back({offset, size});
  }
  return out;
}

std::string dims(Dim3 d) {
  return "[" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + "]";
}

std::string head(const Function &f) {
  return "{\"symbol\":" + quoted(f.symbol) + ",\"kernel\":" + quoted(demangled(f.symbol)) +
         ",\"ordinal\":" + std::to_string(f.launches);
}

// `known`: what is known of the launch all the same, as :func:`geometry` gives it.
void skip(const Function &f, const std::string &why, const std::string &known = "") {
  line(head(f) + known + ",\"skipped\":" + quoted(why) + "}");
}

double clock_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// Geometry and arguments of a launch, and its seconds (with the time to submit it and to wait for it; 0: not known).
std::string geometry(const Call &c, const std::vector<std::pair<size_t, size_t>> &places, const Bytes &parameters,
                     double seconds) {
  std::string out = ",\"grid\":" + dims(c.grid) + ",\"block\":" + dims(c.block) + ",\"shared\":" +
                    std::to_string(c.shared) + ",\"cooperative\":" + (c.cooperative ? "true" : "false") +
                    ",\"seconds\":" + std::to_string(seconds) + ",\"parameters\":[";
  for (size_t i = 0; i < places.size(); ++i)
    out += (i ? ",[" : "[") + std::to_string(places[i].first) + "," + std::to_string(places[i].second) + "]";
  return out + "],\"arguments\":\"" + hexadecimal(parameters.data(), parameters.size()) + "\"";
}

// The allocations that a launch reaches by its parameters: (address, bytes) of each.
std::string reached_by(const Bytes &parameters) {
  std::string out = ",\"reaches\":[";
  for (uintptr_t a : pointed_to(parameters.data(), parameters.size()))
    out += (out.back() == '[' ? "[" : ",[") + std::to_string(a) + "," + std::to_string(state().memories[a].bytes) + "]";
  return out + "]";
}

// Seconds of a launch, until the device is done; its status.
template <class Launch> double timed(Launch launch, int &status) {
  double begun = clock_now();
  status = launch();
  if (status == 0 && !wait_for_device()) status = 1;
  return clock_now() - begun;
}

// Memory as it is after the launch, and as other runs from the same state leave it: a few of a launch that is
// repeatable, and RUNS of one that is not, whose own spread is the yardstick of other kernels. False: a copy failed.
template <class Launch>
bool observe(std::vector<Reached> &all, Launch launch, int &status, std::string &rerun, size_t &runs, double &seconds) {
  const size_t few = 3, most = strtoull(setting("RUNS", "8"), nullptr, 10);
  const size_t budget = strtoull(setting("TOTAL_BYTES", "2147483648"), nullptr, 10);
  seconds = timed(launch, status);
  if (status != 0) return true;
  for (Reached &r : all) {
    r.after.resize(r.bytes);
    if (!fetch(r.after.data(), r.address, r.bytes, r.host())) return false;
  }
  if (*setting("RERUN", "1") == '0') return true;
  for (Reached &r : all) r.now = r.after;
  bool repeatable = true;
  for (runs = 1; runs < (repeatable ? std::min(few, most) : most) && state().written <= budget; ++runs) {
    for (Reached &r : all)
      if (r.now != r.before && !put(r.address, r.before.data(), r.bytes, r.host())) return false;
    rerun = launch() == 0 && wait_for_device() ? "done" : "failed";
    for (Reached &r : all) {
      if (!fetch(r.now.data(), r.address, r.bytes, r.host())) return false;
      size_t differ = 0;
      for (size_t i = 0; i < r.bytes; ++i) differ += r.now[i] != r.after[i];
      if (!differ) continue;
      repeatable = false;
      r.unstable = std::max(r.unstable, differ);
      std::string kept = blob(r.now);
      if (!kept.empty()) r.again.push_back(kept);
    }
    if (rerun != "done") break;
  }
  return true;
}

bool wanted(const Function &f) {
  std::string ordinals = std::string(",") + setting("LAUNCHES", "1,2,10") + ",", only = setting("ONLY", "");
  if (ordinals.find("," + std::to_string(f.launches) + ",") == std::string::npos) return false;
  if (only.empty()) return true;
  std::string name = demangled(f.symbol);
  for (size_t from = 0; from <= only.size();) {
    size_t to = std::min(only.find(',', from), only.size());
    if (to > from && name.find(only.substr(from, to - from)) != std::string::npos) return true;
    from = to + 1;
  }
  return false;
}

template <class Launch> int record(Call c, Launch launch) {
  static auto capturing = real<int (*)(void *, int *)>("cudaStreamIsCapturing");
  if (inside) return launch();
  std::lock_guard<std::recursive_mutex> guard(lock_);
  Inside now;
  State &s = state();
  const void *called = c.host ? c.host : c.handle;
  c.host = s.handles.count(called) ? s.handles[called] : called;
  Function &f = s.functions[c.host];
  if (f.symbol.empty()) f.symbol = "?";
  ++f.launches;
  if (!wanted(f)) return launch();
  int status = 0;
  size_t budget = strtoull(setting("TOTAL_BYTES", "2147483648"), nullptr, 10);
  if (f.symbol == "?") c.trouble = "the runtime was not told its name";
  else if (capturing(c.stream, &status) == 0 && status != 0) c.trouble = "it is recorded into a CUDA graph, not run";
  else if (!wait_for_device()) c.trouble = "the device reports an error before it";
  std::vector<std::pair<size_t, size_t>> places;
  std::vector<Reached> all;
  Bytes parameters;
  if (c.trouble.empty()) parameters = parameters_of(c, places, c.trouble);
  if (c.trouble.empty() && s.written > budget)
    c.trouble = "the capture holds " + std::to_string(s.written) + " bytes already";
  if (c.trouble.empty()) all = reach(parameters, c.trouble);
  if (!c.trouble.empty()) {
    bool too_big = !all.empty();
    double seconds = too_big ? timed(launch, status) : 0.0;
    std::string known = places.empty() ? "" : geometry(c, places, parameters, seconds) + reached_by(parameters);
    skip(f, c.trouble, known);
    return too_big ? status : launch();
  }
  std::string rerun = "no";
  size_t runs = 1;
  double seconds = 0;
  bool copied = observe(all, launch, status, rerun, runs, seconds);
  if (!copied || status != 0) return skip(f, copied ? "the launch failed" : "memory could not be copied"), status;
  std::string out = head(f) + geometry(c, places, parameters, seconds) + ",\"rerun\":" + quoted(rerun) +
                    ",\"runs\":" + std::to_string(runs) + ",\"memories\":[";
  for (size_t i = 0; i < all.size(); ++i) {
    const Reached &r = all[i];
    std::string before = blob(r.before), after = blob(r.after);
    if (before.empty() || after.empty()) return skip(f, "its memory could not be written to the capture's folder"), status;
    out += std::string(i ? "," : "") + "{\"address\":" + std::to_string(r.address) + ",\"bytes\":" +
           std::to_string(r.bytes) + ",\"kind\":" + quoted(r.kind) + ",\"name\":" + quoted(demangled(r.name)) +
           ",\"by_parameter\":" + (r.by_parameter ? "true" : "false") + ",\"pointers\":" +
           (r.pointers ? "true" : "false") + ",\"unstable\":" + std::to_string(r.unstable) + ",\"before\":" +
           quoted(before) + ",\"after\":" + quoted(after) + ",\"again\":[";
    for (size_t k = 0; k < r.again.size(); ++k) out += (k ? "," : "") + quoted(r.again[k]);
    out += "]}";
  }
  line(out + "]}");
  return status;
}

}  // namespace
