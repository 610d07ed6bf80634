// What a kernel's buffers hold before its first launch, on request (KTC_PROFILE_CONTENTS: bytes in all).
//
// Copies are made on a stream of this library's own, which waits for no other one and none waits for: a graph that
// another stream records is not disturbed. Only the stream of the launch is waited for.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "launch_table.h"

namespace {

class Contents {
 public:
  bool wanted() const { return left_ > 0; }

  // Writes what lies from each pointer to the end of its allocation to DIR/contents/PID.FUNCTION.OFFSET. A buffer for
  // which there is no room, or which cannot be copied, has no file.
  void keep(size_t function, const std::vector<Pointer> &pointers, void *stream) {
    static auto exchange = driver<Result (*)(int *)>("cuThreadExchangeStreamCaptureMode");
    static auto wait = driver<Result (*)(void *)>("cuStreamSynchronize");
    std::lock_guard<std::mutex> guard(lock_);
    int mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
    if (exchange) exchange(&mode);
    void *own = wait && wait(stream) == 0 ? stream_of_context() : nullptr;
    for (const Pointer &p : pointers) {
      size_t bytes = p.base && p.address ? p.base + p.bytes - p.address : 0;
      if (own && bytes && bytes <= left_ && written(path_of(function, p.offset), p.address, bytes, own)) left_ -= bytes;
    }
    if (exchange) exchange(&mode);
  }

 private:
  static constexpr size_t AT_ONCE = 64 << 20;

  static size_t asked() {
    const char *given = getenv("KTC_PROFILE_CONTENTS");
    return given ? strtoull(given, nullptr, 10) : 0;
  }
  static std::string path_of(size_t function, size_t offset) {
    const char *folder = getenv("KTC_PROFILE_DIR");
    std::string contents = std::string(folder ? folder : ".") + "/contents";
    mkdir(contents.c_str(), 0777);
    return contents + "/" + std::to_string(getpid()) + "." + std::to_string(function) + "." + std::to_string(offset);
  }
  void *stream_of_context() {
    static auto current = driver<Result (*)(void **)>("cuCtxGetCurrent");
    static auto create = driver<Result (*)(void **, unsigned)>("cuStreamCreate");
    void *context = nullptr, *stream = nullptr;
    if (!current || !create || current(&context) != 0) return nullptr;
    auto known = streams_.find(context);
    if (known != streams_.end()) return known->second;
    if (create(&stream, 1) != 0) stream = nullptr;  // CU_STREAM_NON_BLOCKING
    return streams_[context] = stream;
  }
  static bool written(const std::string &path, uint64_t from, size_t bytes, void *stream) {
    static auto copy = driver<Result (*)(void *, uint64_t, size_t, void *)>("cuMemcpyDtoHAsync_v2");
    static auto wait = driver<Result (*)(void *)>("cuStreamSynchronize");
    std::vector<unsigned char> part(std::min(bytes, AT_ONCE));
    std::string unfinished = path + ".part";
    FILE *out = fopen(unfinished.c_str(), "wb");
    bool whole = out && copy;
    for (size_t done = 0; whole && done < bytes; done += part.size()) {
      size_t n = std::min(part.size(), bytes - done);
      whole = copy(part.data(), from + done, n, stream) == 0 && wait(stream) == 0 && fwrite(part.data(), 1, n, out) == n;
    }
    if (out && fclose(out) != 0) whole = false;
    if (whole && rename(unfinished.c_str(), path.c_str()) == 0) return true;
    if (out) unlink(unfinished.c_str());
    return false;
  }

  std::mutex lock_;
  std::map<void *, void *> streams_;  // by context
  size_t left_ = asked();
};

}  // namespace
