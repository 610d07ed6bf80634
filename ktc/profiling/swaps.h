// Launches that another kernel takes the place of: which, by what, and what must hold of the pointers.
//
// KTC_PROFILE_SWAPS names a file with one swap a line, numbers and words between blanks:
//   SYMBOL GRID(3) BLOCK(3) SHARED CLUSTER(3) ARGUMENTS(hex, or -) N OFFSET*N      the launch, and where its pointers are
//   FILE ENTRY GRID(3) BLOCK(3) SHARED                                            the module beside the file, its launch
//   CONSTANTS(hex, or -) N (OFFSET SIZE)*N      its parameters: in the arguments, followed by these constants
//   N (OFFSET ALIGN)*N  N (OFFSET FIRST END OFFSET FIRST END)*N                   alignments; bytes with none in common
//   N (OFFSET BYTES)*N                          its working memory: where in these bytes each address goes, and its size
#pragma once
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "launch_table.h"
#include "swap_memory.h"

namespace {

struct Range { size_t offset; int64_t first, end; };

struct Swap {
  std::string symbol, module, entry;
  Geometry from, to;
  Bytes arguments, constants;
  std::vector<size_t> pointers;
  std::vector<std::pair<size_t, size_t>> parameters, aligned;
  std::vector<std::pair<Range, Range>> apart;
  std::vector<size_t> memory_at, memory_bytes;

  // What its launches have in common: all but where pointers lead.
  static std::string key(const std::string &symbol, const Geometry &g, Bytes given, const std::vector<size_t> &pointers) {
    for (size_t at : pointers)
      if (at + 8 <= given.size()) memset(&given[at], word(given, at) ? 255 : 0, 8);
    std::string out = symbol + triple(g.grid) + triple(g.block) + triple(g.cluster) + std::to_string(g.shared);
    return out + (g.cooperative ? "c" : "-") + std::string(given.begin(), given.end());
  }
  bool allowed(const Bytes &given) const {
    for (auto [at, align] : aligned)
      if (word(given, at) % align) return false;
    for (auto &[a, b] : apart) {
      uint64_t x = word(given, a.offset), y = word(given, b.offset);
      if (x && y && x + a.first < y + b.end && y + b.first < x + a.end) return false;
    }
    return true;
  }
  static uint64_t word(const Bytes &bytes, size_t at) {
    uint64_t w;
    memcpy(&w, &bytes[at], 8);
    return w;
  }
};

std::istream &operator>>(std::istream &in, Geometry &g) {
  for (unsigned *d : {g.grid, g.block})
    for (int i = 0; i < 3; ++i) in >> d[i];
  return in >> g.shared;
}

Bytes bytes_of(const std::string &hex) {
  Bytes out;
  for (size_t i = 0; hex != "-" && i + 1 < hex.size(); i += 2)
    out.push_back((unsigned char)strtoul(hex.substr(i, 2).c_str(), nullptr, 16));
  return out;
}

template <class Read> void repeated(std::istream &in, Read read) {
  size_t n = 0;
  for (in >> n; n-- > 0 && in;) read();
}

class Swaps {
 public:
  Swaps() {
    const char *path = getenv("KTC_PROFILE_SWAPS");
    if (!path || !*path) return;
    folder_ = std::string(path).substr(0, std::string(path).rfind('/') + 1);
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream in(line);
      Swap s;
      std::string hex;
      in >> s.symbol >> s.from;
      for (unsigned &c : s.from.cluster) in >> c;
      in >> hex;
      s.arguments = bytes_of(hex);
      repeated(in, [&] { in >> s.pointers.emplace_back(); });
      in >> s.module >> s.entry >> s.to >> hex;
      s.constants = bytes_of(hex);
      for (auto *pairs : {&s.parameters, &s.aligned})
        repeated(in, [&] { auto &p = pairs->emplace_back(); in >> p.first >> p.second; });
      repeated(in, [&] {
        auto &[a, b] = s.apart.emplace_back();
        for (Range *r : {&a, &b}) in >> r->offset >> r->first >> r->end;
      });
      repeated(in, [&] { in >> s.memory_at.emplace_back() >> s.memory_bytes.emplace_back(); });
      if (in) {
        pointers_.emplace(s.symbol, s.pointers);
        all_.emplace(Swap::key(s.symbol, s.from, s.arguments, s.pointers), s);
      } else {
        fprintf(stderr, "ktc: a line of %s cannot be read: its launches stay as they are\n", path);
      }
    }
  }
  // The swap of a launch; null: it stays as it is.
  const Swap *of(const std::string &symbol, const Geometry &g, const Bytes &arguments) const {
    auto pointers = pointers_.find(symbol);
    if (pointers == pointers_.end()) return nullptr;
    auto found = all_.find(Swap::key(symbol, g, arguments, pointers->second));
    return found == all_.end() ? nullptr : &found->second;
  }
  // Whether a launch's place can be taken: ``arguments`` are then those of the swap, its constants and addresses
  // included. Nothing is loaded while a graph is captured, which that would end.
  bool ready(const Swap &s, bool capturing, void *stream, Bytes &arguments) {
    if (!s.allowed(arguments) || (capturing && !s.memory_at.empty()) || !function(s, capturing)) return false;
    std::vector<uint64_t> memory;
    if (!s.memory_at.empty()) memory = memory_.of(&s, context(), stream, s.memory_bytes);
    if (memory.size() < s.memory_at.size()) return false;
    arguments.insert(arguments.end(), s.constants.begin(), s.constants.end());
    for (size_t i = 0; i < memory.size(); ++i) memcpy(&arguments[s.memory_at[i]], &memory[i], sizeof memory[i]);
    return true;
  }
  // The function of a swap in the current context; null, said once: it cannot be loaded.
  void *function(const Swap &s, bool capturing) {
    static auto load = driver<Result (*)(void **, const char *)>("cuModuleLoad");
    static auto find = driver<Result (*)(void **, void *, const char *)>("cuModuleGetFunction");
    static auto set = driver<Result (*)(void *, int, int)>("cuFuncSetAttribute");
    void *in = context();
    if (!in) return nullptr;
    std::lock_guard<std::mutex> guard(lock_);
    auto known = functions_.find({in, s.module});
    if (known != functions_.end()) return known->second;
    if (capturing) return nullptr;
    void *module = nullptr, *f = nullptr;
    Result result = load ? load(&module, (folder_ + s.module).c_str()) : 500;
    if (result == 0) result = find(&f, module, s.entry.c_str());
    if (result == 0 && s.to.shared > 48 << 10 && set)  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
      result = set(f, 8, (int)s.to.shared);
    if (result != 0) {
      fprintf(stderr, "ktc: %s cannot be loaded (error %d): its launches stay as they are\n", s.module.c_str(), result);
      f = nullptr;
    }
    return functions_[{in, s.module}] = f;
  }

 private:
  static void *context() {
    static auto current = driver<Result (*)(void **)>("cuCtxGetCurrent");
    void *out = nullptr;
    return current && current(&out) == 0 ? out : nullptr;
  }

  std::mutex lock_;
  SwapMemory memory_;
  std::string folder_;
  std::unordered_map<std::string, Swap> all_;
  std::map<std::string, std::vector<size_t>> pointers_;  // by symbol
  std::map<std::pair<void *, std::string>, void *> functions_;
};

}  // namespace
