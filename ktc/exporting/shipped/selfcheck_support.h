// What the self-test of an exported kernel needs: device copies of its buffers, and their comparison.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#ifdef KTC_HIP
#include <hip/hip_runtime.h>
#define KTC_API(name) hip##name
#else
#include <cuda_runtime.h>
#define KTC_API(name) cuda##name
#endif

namespace selftest {

inline void check(KTC_API(Error_t) code, const char* what) {
  if (code == KTC_API(Success)) return;
  std::printf("FAIL  %s: %s\n", what, KTC_API(GetErrorString)(code));
  std::exit(1);
}

inline std::vector<char> read(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) {
    std::printf("FAIL  cannot read %s: run the self-test in its folder\n", path);
    std::exit(3);
  }
  std::vector<char> data;
  char part[1 << 16];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) data.insert(data.end(), part, part + n);
  std::fclose(file);
  return data;
}

// One buffer of a case: its bytes in the data file, and its copy on the device.
struct Buffer {
  const char* name;
  const char* dtype;
  bool written;
  std::vector<char> bytes;
  void* device = nullptr;

  Buffer(const char* name, const char* dtype, bool written, const std::vector<char>& data, std::size_t at, std::size_t size)
      : name(name), dtype(dtype), written(written), bytes(data.begin() + at, data.begin() + at + size) {
    check(KTC_API(Malloc)(&device, size > 0 ? size : 1), name);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { (void)KTC_API(Free)(device); }
};

inline double number(const char* p, const std::string& dtype) {
  if (dtype == "f64") { double v; std::memcpy(&v, p, 8); return v; }
  if (dtype == "f32") { float v; std::memcpy(&v, p, 4); return v; }
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  if (dtype == "bf16") {
    const std::uint32_t wide = std::uint32_t(bits) << 16;
    float v;
    std::memcpy(&v, &wide, 4);
    return v;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
      : exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -value : value;
}

// Whether `got` is `wanted`, or differs by what another order of summation explains.
inline bool agree(const std::vector<char>& got, const std::vector<char>& wanted, const std::string& dtype) {
  if (got == wanted) return true;
  const bool small = dtype == "f16" || dtype == "bf16";
  if (!small && dtype != "f32" && dtype != "f64") {
    for (std::size_t k = 0; k < got.size(); ++k) {  // 8-bit results may be rounded the other way
      if (dtype != "i8" && dtype != "u8" && dtype != "e4m3" && dtype != "e5m2") return false;
      if (std::abs(int(std::uint8_t(got[k])) - int(std::uint8_t(wanted[k]))) > 1) return false;
    }
    return true;
  }
  const std::size_t size = small ? 2 : dtype == "f32" ? 4 : 8, count = got.size() / size;
  const double epsilon = dtype == "f16" ? 0x1p-10 : dtype == "bf16" ? 0x1p-7 : dtype == "f32" ? 0x1p-23 : 0x1p-52;
  double mean = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const double v = std::fabs(number(&wanted[k * size], dtype));
    if (std::isfinite(v)) mean += v / double(count);
  }
  for (std::size_t k = 0; k < count; ++k) {
    const double a = number(&got[k * size], dtype), b = number(&wanted[k * size], dtype);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (!(a == b || std::fabs(a - b) <= 64 * epsilon * (std::fabs(b) + mean))) return false;
  }
  return true;
}

using Launch = std::function<KTC_API(Error_t)(int)>;

inline std::vector<std::vector<char>> results(const std::vector<Buffer*>& buffers, const Launch& launch, int which, bool& ran) {
  std::vector<std::vector<char>> out;
  for (Buffer* b : buffers) {
    check(KTC_API(Memcpy)(b->device, b->bytes.data(), b->bytes.size(), KTC_API(MemcpyHostToDevice)), b->name);
  }
  const KTC_API(Error_t) code = launch(which);
  ran = code != KTC_API(ErrorNotSupported);
  if (!ran) return out;
  check(code, "launch");
  check(KTC_API(DeviceSynchronize)(), "kernel");
  for (Buffer* b : buffers) {
    if (!b->written) continue;
    std::vector<char> bytes(b->bytes.size());
    check(KTC_API(Memcpy)(bytes.data(), b->device, bytes.size(), KTC_API(MemcpyDeviceToHost)), b->name);
    out.push_back(bytes);
  }
  return out;
}

// Every variant against the original; how many were wrong.
inline int compare(const char* name, const std::vector<Buffer*>& buffers, int variants, const Launch& launch) {
  bool ran = false;
  const auto wanted = results(buffers, launch, -1, ran);
  int failed = 0;
  for (int which = 0; which < variants; ++which) {
    const auto got = results(buffers, launch, which, ran);
    if (!ran) {
      std::printf("skip  %s: variant %d: its conditions do not hold at these sizes, where the original runs\n", name, which);
      continue;
    }
    bool good = true;
    std::size_t k = 0;
    for (Buffer* b : buffers) {
      if (b->written) { good = good && agree(got[k], wanted[k], b->dtype); ++k; }
    }
    std::printf("%s  %s: variant %d\n", good ? "ok  " : "FAIL", name, which);
    failed += !good;
  }
  return failed;
}

}  // namespace selftest
