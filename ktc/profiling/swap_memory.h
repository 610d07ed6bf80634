// Working memory of the kernels that take a launch's place: zero before the first launch, left fit for the next by each.
//
// Launches that may run at the same time have memory of their own: each swap, in each context, on each stream. The
// handles 0 and 2 may mean a stream of the calling thread. What a graph captures may run beside itself: no memory is
// known to be its own, so that such launches stay as they are.
#pragma once
#include <stdio.h>

#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "driver.h"

namespace {

class SwapMemory {
 public:
  // The addresses of buffers of so many bytes, for the owner's launches on a stream; empty, said once: there is no room.
  std::vector<uint64_t> of(const void *owner, void *context, void *stream, const std::vector<size_t> &sizes) {
    static auto allocate = driver<Result (*)(uint64_t *, size_t)>("cuMemAlloc_v2");
    static auto fill = driver<Result (*)(uint64_t, unsigned char, size_t, void *)>("cuMemsetD8Async");
    bool of_thread = !stream || stream == STREAM_PER_THREAD;
    std::lock_guard<std::mutex> guard(lock_);
    Key key{owner, context, stream, of_thread ? std::this_thread::get_id() : std::thread::id()};
    auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    std::vector<uint64_t> out;
    for (size_t size : sizes) {
      uint64_t p = 0;
      if (!allocate || !fill || allocate(&p, size) != 0 || fill(p, 0, size, stream) != 0) {
        fprintf(stderr, "ktc: no %zu bytes of working memory for a tuned kernel: its launches stay as they are\n", size);
        out.clear();
        break;
      }
      out.push_back(p);
    }
    return made_[key] = out;
  }

 private:
  typedef std::tuple<const void *, void *, void *, std::thread::id> Key;
  std::mutex lock_;
  std::map<Key, std::vector<uint64_t>> made_;
};

}  // namespace
