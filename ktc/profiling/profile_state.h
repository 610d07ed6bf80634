// What a profile holds while the program runs, and how it is written.
#pragma once
#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "contents.h"
#include "device_clock.h"
#include "driver.h"
#include "launch_table.h"
#include "swaps.h"

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
  Swaps swaps;
  Contents contents;
  std::string clock = "none", why, device;
  double loaded = now(), first_launch = 0, last_launch = 0, written = now(), writing = 0;
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
  double begun = now();
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
  fprintf(out, "],\n\"successions\":[");
  std::vector<size_t> place(p.table.rows.size()), counted(p.table.functions.size());
  for (size_t i = 0; i < place.size(); ++i) place[i] = counted[p.table.rows[i].function]++;
  any = false;
  for (auto &[key, s] : p.table.successions) {
    if (s.equal.empty()) continue;
    auto [a, b] = key;
    fprintf(out, "%s[%zu,%zu,%zu,%zu,%llu,[", any ? ",\n" : "\n", p.table.rows[a].function, place[a],
            p.table.rows[b].function, place[b], (unsigned long long)s.count);
    for (size_t i = 0; i < s.equal.size(); ++i)
      fprintf(out, "%s[%zu,%zu]", i ? "," : "", s.equal[i].first, s.equal[i].second);
    fprintf(out, "]]");
    any = true;
  }
  bool whole = fprintf(out, "]}\n") > 0;
  if (fclose(out) == 0 && whole) rename(part.c_str(), path.c_str());
  p.written = now();
  p.writing = p.written - begun;
}

// Every other second, and less often if that would take more than a hundredth of the time.
void write_now_and_then() {
  Profile &p = profile();
  if (now() - p.written > std::max(2.0, 100 * p.writing)) write(false);
}

// Writes a source that is compiled at run time to DIR/sources/HASH.cu.
void keep_source(const std::string &text) {
  const char *folder = getenv("KTC_PROFILE_DIR");
  if (!folder || text.find("__global__") == std::string::npos) return;
  char name[32];
  snprintf(name, sizeof name, "/%016zx.cu", std::hash<std::string>{}(text));
  std::string sources = std::string(folder) + "/sources", path = sources + name;
  mkdir(sources.c_str(), 0777);
  FILE *out = access(path.c_str(), F_OK) == 0 ? nullptr : fopen(path.c_str(), "w");
  if (!out) return;
  fwrite(text.data(), 1, text.size(), out);
  fclose(out);
}

}  // namespace
