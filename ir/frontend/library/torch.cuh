// What device code uses of PyTorch's C++ headers (ATen, c10) as types: half precision under their names, the type to
// accumulate in, shuffles and atomics.
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace c10

constexpr int C10_WARP_SIZE = 32;

namespace at {
using Half = __half;
using BFloat16 = __nv_bfloat16;

template <typename T> struct __accumulator { using type = T; };
template <> struct __accumulator<__half> { using type = float; };
template <> struct __accumulator<__nv_bfloat16> { using type = float; };
template <> struct __accumulator<signed char> { using type = long long; };
template <> struct __accumulator<unsigned char> { using type = long long; };
template <> struct __accumulator<short> { using type = long long; };
template <> struct __accumulator<int> { using type = long long; };
template <typename T, bool OnDevice> using acc_type = typename __accumulator<T>::type;
template <typename T, bool OnDevice> struct AccumulateType { using type = typename __accumulator<T>::type; };

template <typename T> struct __computed { using type = T; };
template <> struct __computed<__half> { using type = float; };
template <> struct __computed<__nv_bfloat16> { using type = float; };
template <typename T> struct OpMathType { using type = typename __computed<T>::type; };
template <typename T> using opmath_type = typename __computed<T>::type;
}  // namespace at

template <typename T> __device__ T WARP_SHFL(T value, int lane, int width = 32, unsigned int mask = 0xffffffffu) {
  return __shfl_sync(mask, value, lane, width);
}
template <typename T> __device__ T WARP_SHFL_XOR(T value, int lanes, int width = 32, unsigned int mask = 0xffffffffu) {
  return __shfl_xor_sync(mask, value, lanes, width);
}
template <typename T>
__device__ T WARP_SHFL_UP(T value, unsigned int by, int width = 32, unsigned int mask = 0xffffffffu) {
  return __shfl_up_sync(mask, value, by, width);
}
template <typename T>
__device__ T WARP_SHFL_DOWN(T value, unsigned int by, int width = 32, unsigned int mask = 0xffffffffu) {
  return __shfl_down_sync(mask, value, by, width);
}
__device__ inline unsigned int WARP_BALLOT(int predicate, unsigned int mask = 0xffffffffu) {
  return __ballot_sync(mask, predicate);
}
template <typename T> __device__ T gpuAtomicAdd(T* at, T value) { return atomicAdd(at, value); }
template <typename T> __device__ void gpuAtomicAddNoReturn(T* at, T value) { atomicAdd(at, value); }
template <typename T> __device__ void fastAtomicAdd(T* base, long long i, long long n, T value, bool fast) {
  atomicAdd(base + i, value);
}
