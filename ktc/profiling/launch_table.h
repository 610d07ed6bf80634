// What was launched, how often and how long: one row for each kernel, geometry and values of its scalar arguments.
#pragma once
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "json_text.h"

namespace {

typedef std::vector<unsigned char> Bytes;

struct Geometry {
  unsigned grid[3], block[3], shared;
  unsigned cluster[3] = {1, 1, 1};
  bool cooperative = false;
};

// Times of one row: every `step`-th is kept, so that their median is that of all.
struct Times {
  uint64_t count = 0, step = 1;
  double sum = 0, least = 0, most = 0;
  std::vector<float> kept;

  void add(double seconds) {
    least = count ? std::min(least, seconds) : seconds;
    most = std::max(most, seconds);
    sum += seconds;
    if (count++ % step) return;
    kept.push_back((float)seconds);
    if (kept.size() < 1024) return;
    for (size_t i = 0; i < kept.size() / 2; ++i) kept[i] = kept[2 * i];
    kept.resize(kept.size() / 2);
    step *= 2;
  }
  std::string json() const {
    char text[160];
    snprintf(text, sizeof text, "\"timed\":%llu,\"seconds\":%.9g,\"least\":%.9g,\"most\":%.9g,\"times\":[",
             (unsigned long long)count, sum, least, most);
    std::string out = text;
    for (size_t i = 0; i < kept.size(); ++i) {
      snprintf(text, sizeof text, "%s%.6g", i ? "," : "", kept[i]);
      out += text;
    }
    return out + "]";
  }
};

struct Pointer {
  size_t offset;
  uint64_t address, base, bytes;  // base, bytes: of the allocation; 0: the driver knows none
};

struct Row {
  size_t function;
  Geometry geometry;
  Bytes arguments;  // of the first launch
  std::vector<Pointer> pointers;
  bool others = false;  // launches of this geometry with arguments that found no row of their own
  uint64_t launches = 0, captured = 0;
  uint64_t failed = 0;                // of `launches`
  uint64_t swapped = 0, refused = 0;  // launches that another kernel took, or could not
  const struct Swap *swap = nullptr;
  Times times;
};

enum class Word : char { UNKNOWN, POINTER, SCALAR };

struct Function {
  std::string symbol, image;  // image: the file whose code launched it first
  std::vector<std::pair<size_t, size_t>> parameters;
  bool sized = false;  // `parameters` are known
  size_t end = 0, rows = 0;
  std::vector<Word> words;    // by 8 bytes of the parameter block
  std::vector<uint64_t> seen;  // bits that any launch had set there: their trailing zeros are the alignment
  std::vector<std::pair<size_t, size_t>> equal;  // offsets of pointers that a launch had equal
  uint64_t launches = 0;
};

const size_t MOST_ROWS = 4096, ALL_ROWS = 32768;  // of one kernel, before its scalars are kept no more; of all
const size_t LARGEST = 128;    // bytes of a parameter that tells launches apart: more is a list, not a size

bool like_address(uint64_t w) { return w >= 1ull << 32 && w < 1ull << 48; }

// What was launched last in a stream: its row, and the addresses that it was passed, by offset.
struct Last {
  size_t row;
  std::vector<std::pair<size_t, uint64_t>> addresses;
};

// Launches of one row that came right after launches of another in one stream: how often, and the offsets of pointers
// of the first and of the second that were equal each time.
struct Succession {
  uint64_t count = 0;
  std::vector<std::pair<size_t, size_t>> equal;
};

const size_t MOST_SUCCESSIONS = 65536;

class LaunchTable {
 public:
  std::mutex lock;
  std::vector<Function> functions;
  std::vector<Row> rows;
  std::map<void *, Last> last;  // by stream
  std::map<std::pair<size_t, size_t>, Succession> successions;

  // Notes that `row` was launched in `stream`, with the parameter block `arguments`. Call with the lock held.
  void follows(void *stream, size_t row, const Bytes &arguments) {
    Last now{row, {}};
    const Function &f = functions[rows[row].function];
    for (size_t i = 0; i < f.words.size() && 8 * i + 8 <= arguments.size(); ++i) {
      uint64_t w = 0;
      if (f.words[i] == Word::POINTER) memcpy(&w, &arguments[8 * i], 8);
      if (w) now.addresses.push_back({8 * i, w});
    }
    auto before = last.find(stream);
    if (before != last.end()) note_succession(before->second, now);
    last[stream] = std::move(now);
  }

  // The row of a launch, and whether it is a new one; `arguments` is its parameter block. Call with the lock held.
  size_t row_of(size_t f, const Geometry &g, const Bytes &arguments, bool &fresh) {
    Function &function = functions[f];
    function.words.resize(arguments.size() / 8, Word::UNKNOWN);
    function.seen.resize(arguments.size() / 8, 0);
    Bytes masked = arguments;
    std::vector<size_t> places;
    std::vector<bool> listed(function.words.size());
    for (auto [offset, size] : function.parameters)
      if (size > LARGEST && offset + size <= masked.size()) {
        memset(&masked[offset], 0, size);
        for (size_t i = offset / 8; i < std::min((offset + size) / 8, listed.size()); ++i) listed[i] = true;
      }
    for (size_t i = 0; i < function.words.size(); ++i) {
      if (listed[i]) continue;
      uint64_t w;
      memcpy(&w, &arguments[8 * i], 8);
      if (function.words[i] == Word::UNKNOWN && like_address(w))
        function.words[i] = is_pointer(w) ? Word::POINTER : Word::SCALAR;
      if (function.words[i] != Word::POINTER) continue;
      places.push_back(8 * i);
      function.seen[i] |= w;
      memset(&masked[8 * i], w ? 255 : 0, 8);  // a missing buffer is another case of the kernel
    }
    note_equal(function, arguments, places);
    std::string key = key_of(f, g, masked.data(), masked.size());
    auto known = index_.find(key);
    if (known != index_.end()) return known->second;
    static const char *given = getenv("KTC_PROFILE_ROWS");
    static const size_t most = given ? strtoull(given, nullptr, 10) : MOST_ROWS;
    bool others = function.rows >= most || rows.size() >= ALL_ROWS;
    if (others) {
      key = key_of(f, g, nullptr, 0);
      known = index_.find(key);
      if (known != index_.end()) return known->second;
    }
    Row row{};
    row.function = f, row.geometry = g, row.arguments = arguments, row.others = others;
    for (size_t at : places) row.pointers.push_back(pointer_at(arguments, at));
    rows.push_back(row);
    function.rows += !others;
    fresh = true;
    return index_[key] = rows.size() - 1;
  }

 private:
  void note_succession(const Last &before, const Last &now) {
    std::pair<size_t, size_t> key{before.row, now.row};
    auto known = successions.find(key);
    if (known == successions.end() && successions.size() >= MOST_SUCCESSIONS) return;
    std::vector<std::pair<size_t, size_t>> equal;
    for (auto &[at, a] : before.addresses)
      for (auto &[offset, b] : now.addresses)
        if (a == b) equal.push_back({at, offset});
    if (known == successions.end()) {
      successions[key] = {1, equal};
      return;
    }
    Succession &s = known->second;
    ++s.count;
    auto gone = [&](auto &pair) { return std::find(equal.begin(), equal.end(), pair) == equal.end(); };
    s.equal.erase(std::remove_if(s.equal.begin(), s.equal.end(), gone), s.equal.end());
  }
  static std::string key_of(size_t f, const Geometry &g, const unsigned char *arguments, size_t n) {
    std::string key(reinterpret_cast<const char *>(&f), sizeof f);
    key.append(reinterpret_cast<const char *>(g.grid), sizeof g.grid);
    key.append(reinterpret_cast<const char *>(g.block), sizeof g.block);
    key.append(reinterpret_cast<const char *>(g.cluster), sizeof g.cluster);
    key.append(reinterpret_cast<const char *>(&g.shared), sizeof g.shared);
    key += g.cooperative ? "c" : "-";
    if (n) key.append(reinterpret_cast<const char *>(arguments), n);
    return key;
  }
  static bool is_pointer(uint64_t w) {
    static auto attribute = driver<Result (*)(void *, int, uint64_t)>("cuPointerGetAttribute");
    int type = 0;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    return attribute && attribute(&type, 2, w) == 0;
  }
  static Pointer pointer_at(const Bytes &arguments, size_t at) {
    static auto range = driver<Result (*)(uint64_t *, size_t *, uint64_t)>("cuMemGetAddressRange_v2");
    Pointer p{at, 0, 0, 0};
    memcpy(&p.address, &arguments[at], 8);
    size_t bytes = 0;
    if (p.address && range && range(&p.base, &bytes, p.address) == 0) p.bytes = bytes;
    else p.base = 0;
    return p;
  }
  static void note_equal(Function &f, const Bytes &arguments, const std::vector<size_t> &places) {
    if (places.size() > 16) return;
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t k = i + 1; k < places.size(); ++k) {
        uint64_t a, b;
        memcpy(&a, &arguments[places[i]], 8);
        memcpy(&b, &arguments[places[k]], 8);
        std::pair<size_t, size_t> pair{places[i], places[k]};
        if (a && a == b && std::find(f.equal.begin(), f.equal.end(), pair) == f.equal.end()) f.equal.push_back(pair);
      }
  }

  std::unordered_map<std::string, size_t> index_;
};

std::string triple(const unsigned *d) {
  return "[" + std::to_string(d[0]) + "," + std::to_string(d[1]) + "," + std::to_string(d[2]) + "]";
}

std::string json_of(const Geometry &g) {
  return "\"grid\":" + triple(g.grid) + ",\"block\":" + triple(g.block) + ",\"shared\":" + std::to_string(g.shared) +
         ",\"cluster\":" + triple(g.cluster) + ",\"cooperative\":" + (g.cooperative ? "true" : "false");
}

std::string json_of(const Row &r) {
  std::string out = "{" + json_of(r.geometry) + ",\"launches\":" + std::to_string(r.launches) + ",\"captured\":" +
                    std::to_string(r.captured) + ",\"failed\":" + std::to_string(r.failed) + ",\"swapped\":" + std::to_string(r.swapped) + ",\"refused\":" +
                    std::to_string(r.refused) + ",\"others\":" + (r.others ? "true" : "false") + ",\"arguments\":\"" +
                    hexadecimal(r.arguments.data(), r.arguments.size()) + "\",\"pointers\":[";
  for (size_t i = 0; i < r.pointers.size(); ++i) {
    const Pointer &p = r.pointers[i];
    out += std::string(i ? "," : "") + "[" + std::to_string(p.offset) + "," + std::to_string(p.address) + "," +
           std::to_string(p.base) + "," + std::to_string(p.bytes) + "]";
  }
  return out + "]," + r.times.json() + "}";
}

std::string json_of(const Function &f, const std::vector<std::string> &rows) {
  std::string out = "{\"symbol\":" + quoted(f.symbol) + ",\"kernel\":" + quoted(demangled(f.symbol)) + ",\"image\":" +
                    quoted(f.image) + ",\"launches\":" + std::to_string(f.launches) + ",\"sized\":" +
                    (f.sized ? "true" : "false") + ",\"parameters\":[";
  for (size_t i = 0; i < f.parameters.size(); ++i)
    out += std::string(i ? ",[" : "[") + std::to_string(f.parameters[i].first) + "," +
           std::to_string(f.parameters[i].second) + "]";
  out += "],\"alignments\":[";
  bool any = false;
  for (size_t i = 0; i < f.words.size(); ++i)
    if (f.words[i] == Word::POINTER && f.seen[i]) {
      out += std::string(any ? "," : "") + "[" + std::to_string(8 * i) + "," +
             std::to_string(f.seen[i] & -f.seen[i]) + "]";
      any = true;
    }
  out += "],\"equal\":[";
  for (size_t i = 0; i < f.equal.size(); ++i)
    out += std::string(i ? ",[" : "[") + std::to_string(f.equal[i].first) + "," + std::to_string(f.equal[i].second) + "]";
  out += "],\"rows\":[";
  for (size_t i = 0; i < rows.size(); ++i) out += (i ? "," : "") + rows[i];
  return out + "]}";
}

}  // namespace
