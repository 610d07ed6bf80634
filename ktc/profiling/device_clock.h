// When kernels ran on the device: from CUPTI, which stamps their start and end there, or from a pair of events around
// each launch where CUPTI is not installed. CUPTI is loaded when first needed; the few types are declared here as its
// ABI has them (the fields used have kept their places since CUDA 9).
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "driver.h"

namespace {

// What the device did from `start` to `end` (nanoseconds, on one clock).
struct Ran {
  enum Kind { KERNEL, COPY } kind;
  uint64_t start, end;
  uint32_t correlation;  // the call that it belongs to
  const char *symbol;    // of a kernel
  unsigned grid[3], block[3], shared;
  bool in_graph;
  uint64_t bytes;  // of a copy
};

struct Listener {
  std::function<void(const Ran &)> ran;
  std::function<void(uint32_t, uint64_t)> belongs;  // the call with this correlation is the launch with this tag
  std::function<void()> flushed;
};

template <class T> T field(const unsigned char *record, size_t offset) {
  T value;
  memcpy(&value, record + offset, sizeof value);
  return value;
}

class Cupti {
 public:
  // Empty: it works. Otherwise why it does not.
  std::string start(Listener listener) {
    const char *paths = getenv("KTC_PROFILE_CUPTI");
    if (!paths || !*paths) return "CUPTI was not found";
    std::string why;
    void *library = loaded(paths, why);
    if (!library) return why;
    auto find = [&](const char *name) { return real_dlsym()(library, name); };
    auto enable = reinterpret_cast<int (*)(int)>(find("cuptiActivityEnable"));
    auto callbacks = reinterpret_cast<int (*)(void (*)(unsigned char **, size_t *, size_t *),
                                              void (*)(void *, uint32_t, unsigned char *, size_t, size_t))>(
        find("cuptiActivityRegisterCallbacks"));
    auto api = reinterpret_cast<int (*)(int, uint8_t)>(find("cuptiActivityEnableDriverApi"));
    auto period = reinterpret_cast<int (*)(uint32_t)>(find("cuptiActivityFlushPeriod"));
    next_ = reinterpret_cast<Next>(find("cuptiActivityGetNextRecord"));
    flush_ = reinterpret_cast<int (*)(uint32_t)>(find("cuptiActivityFlushAll"));
    push_ = reinterpret_cast<int (*)(int, uint64_t)>(find("cuptiActivityPushExternalCorrelationId"));
    pop_ = reinterpret_cast<int (*)(int, uint64_t *)>(find("cuptiActivityPopExternalCorrelationId"));
    dropped_ = reinterpret_cast<int (*)(void *, uint32_t, size_t *)>(find("cuptiActivityGetNumDroppedRecords"));
    if (!enable || !callbacks || !next_ || !flush_ || !push_ || !pop_) return "this CUPTI is too old";
    listener_ = listener;
    self_ = this;
    int status = callbacks(request, complete);
    for (int kind : {EXTERNAL, CONCURRENT_KERNEL, MEMCPY, MEMSET})
      if (!status) status = enable(kind);
    // Tags come with the records of calls: of the launches alone where that can be said, else of all calls.
    bool launches_alone = api != nullptr;
    for (int call : LAUNCH_CALLS) launches_alone = launches_alone && api(call, 1) == 0;
    if (!status && !launches_alone) status = enable(DRIVER);
    if (status) return "CUPTI refuses to record (error " + std::to_string(status) + ")";
    if (period) period(500);
    return "";
  }
  void push(uint64_t tag) { push_(CUSTOM, tag); }
  void pop() {
    uint64_t last;
    pop_(CUSTOM, &last);
  }
  void flush() { flush_(1); }
  size_t dropped() const { return lost_; }

 private:
  typedef int (*Next)(unsigned char *, size_t, unsigned char **);
  static const int MEMCPY = 1, MEMSET = 2, DRIVER = 4, CONCURRENT_KERNEL = 10, EXTERNAL = 39, CUSTOM = 3;
  static constexpr int LAUNCH_CALLS[] = {307, 442, 477, 478, 652, 653};  // CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, ...
  static const size_t BUFFER = 1 << 20;

  // The copy that the program has loaded itself, or the first of `paths` (A:B:C) that can be.
  static void *loaded(std::string paths, std::string &why) {
    for (const char *name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.2"})
      if (void *own = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return own;
    for (size_t from = 0; from < paths.size();) {
      size_t to = std::min(paths.find(':', from), paths.size());
      if (void *library = dlopen(paths.substr(from, to - from).c_str(), RTLD_NOW)) return library;
      if (why.empty()) why = std::string("CUPTI cannot be loaded: ") + dlerror();
      from = to + 1;
    }
    return nullptr;
  }
  static void request(unsigned char **buffer, size_t *size, size_t *most) {
    *buffer = static_cast<unsigned char *>(aligned_alloc(8, BUFFER));
    *size = *buffer ? BUFFER : 0;
    *most = 0;
  }
  static void complete(void *context, uint32_t stream, unsigned char *buffer, size_t, size_t valid) {
    Inside now;
    self_->read(buffer, valid);
    size_t lost = 0;
    if (self_->dropped_ && self_->dropped_(context, stream, &lost) == 0) self_->lost_ += lost;
    free(buffer);
    self_->listener_.flushed();
  }
  void read(unsigned char *buffer, size_t valid) {
    for (unsigned char *r = nullptr; valid && next_(buffer, valid, &r) == 0;) {
      int kind = field<int>(r, 0);
      if (kind == EXTERNAL) {
        if (field<int>(r, 4) == CUSTOM) listener_.belongs(field<uint32_t>(r, 16), field<uint64_t>(r, 8));
      } else if (kind == CONCURRENT_KERNEL) {
        Ran k{Ran::KERNEL, field<uint64_t>(r, 16), field<uint64_t>(r, 24), field<uint32_t>(r, 92),
              field<const char *>(r, 104), {}, {}, field<unsigned>(r, 80), field<uint64_t>(r, 144) != 0, 0};
        memcpy(k.grid, r + 52, sizeof k.grid);
        memcpy(k.block, r + 64, sizeof k.block);
        listener_.ran(k);
      } else if (kind == MEMCPY || kind == MEMSET) {
        listener_.ran({Ran::COPY, field<uint64_t>(r, 16), field<uint64_t>(r, 24), 0, nullptr, {}, {}, 0, false,
                       field<uint64_t>(r, 8)});
      }
    }
  }

  static Cupti *self_;
  Listener listener_;
  Next next_ = nullptr;
  int (*flush_)(uint32_t) = nullptr;
  int (*push_)(int, uint64_t) = nullptr;
  int (*pop_)(int, uint64_t *) = nullptr;
  int (*dropped_)(void *, uint32_t, size_t *) = nullptr;
  size_t lost_ = 0;
};
Cupti *Cupti::self_ = nullptr;

// Pairs of events. What lies between them is the launch and, on an idle stream, the time until the host submitted it.
class Events {
 public:
  struct Pair { void *from, *to, *context; uint64_t tag; };

  bool usable() const { return create_ && record_ && query_ && elapsed_ && current_; }
  // Records the first event of a launch; false: it cannot be timed.
  bool begin(void *stream, uint64_t tag, Pair &pair) {
    void *context = nullptr;
    if (!usable() || current_(&context) != 0 || !context) return false;
    {
      std::lock_guard<std::mutex> guard(lock_);
      for (size_t i = spare_.size(); i-- > 0;)
        if (spare_[i].context == context) {
          pair = spare_[i];
          spare_.erase(spare_.begin() + i);
          pair.tag = tag;
          return record_(pair.from, stream) == 0;
        }
    }
    pair = {nullptr, nullptr, context, tag};
    return create_(&pair.from, 0) == 0 && create_(&pair.to, 0) == 0 && record_(pair.from, stream) == 0;
  }
  void end(void *stream, Pair pair) {
    if (record_(pair.to, stream) != 0) return;
    std::lock_guard<std::mutex> guard(lock_);
    pending_.push_back(pair);
  }
  // Hands over (tag, seconds) of the launches that are done. `wait`: for those that are not, too.
  void drain(bool wait, const std::function<void(uint64_t, double)> &timed) {
    std::lock_guard<std::mutex> guard(lock_);
    for (size_t n = pending_.size(); n-- > 0;) {
      Pair p = pending_.front();
      if (wait ? wait_(p.to) != 0 : query_(p.to) != 0) {
        if (!wait) return;
        pending_.pop_front();
        continue;
      }
      float ms = 0;
      if (elapsed_(&ms, p.from, p.to) == 0) timed(p.tag, ms * 1e-3);
      pending_.pop_front();
      if (spare_.size() < 4096) spare_.push_back(p);
    }
  }
  size_t waiting() {
    std::lock_guard<std::mutex> guard(lock_);
    return pending_.size();
  }

 private:
  std::mutex lock_;
  std::deque<Pair> pending_;
  std::vector<Pair> spare_;
  int (*create_)(void **, unsigned) = driver<int (*)(void **, unsigned)>("cuEventCreate");
  int (*record_)(void *, void *) = driver<int (*)(void *, void *)>("cuEventRecord");
  int (*query_)(void *) = driver<int (*)(void *)>("cuEventQuery");
  int (*wait_)(void *) = driver<int (*)(void *)>("cuEventSynchronize");
  int (*elapsed_)(float *, void *, void *) = driver<int (*)(float *, void *, void *)>("cuEventElapsedTime");
  int (*current_)(void **) = driver<int (*)(void **)>("cuCtxGetCurrent");
};

}  // namespace
