// What kernels outside of CUTLASS use of its headers: its names of number types, and arrays of numbers in registers.
namespace cutlass {
using half_t = __half;
using bfloat16_t = __nv_bfloat16;
using float_e4m3_t = __nv_fp8_e4m3;
using float_e5m2_t = __nv_fp8_e5m2;

template <typename T> struct sizeof_bits { static constexpr int value = int(sizeof(T)) * 8; };
template <> struct sizeof_bits<bool> { static constexpr int value = 1; };
template <typename T> constexpr int sizeof_bits_v = sizeof_bits<T>::value;

template <typename T, int N> struct Array {
  using Element = T;
  using value_type = T;
  static constexpr int kElements = N;
  static constexpr unsigned long kStorageElements = N;
  T storage[N];
  __device__ T& operator[](int i) { return storage[i]; }
  __device__ const T& operator[](int i) const { return storage[i]; }
  __device__ T& at(int i) { return storage[i]; }
  __device__ const T& at(int i) const { return storage[i]; }
  __device__ T* data() { return storage; }
  __device__ const T* data() const { return storage; }
  __device__ static constexpr unsigned long size() { return N; }
  __device__ void fill(const T& value) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage[i] = value;
  }
  __device__ void clear() { fill(T(0)); }
};

template <typename T, int N, int Alignment = (sizeof_bits<T>::value * N + 7) / 8>
struct alignas(Alignment) AlignedArray : Array<T, N> {};

template <typename T, int N> __device__ Array<T, N> operator+(const Array<T, N>& a, const Array<T, N>& b) {
  Array<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = a[i] + b[i];
  return out;
}
template <typename T, int N> __device__ Array<T, N> operator-(const Array<T, N>& a, const Array<T, N>& b) {
  Array<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = a[i] - b[i];
  return out;
}
template <typename T, int N> __device__ Array<T, N> operator*(const Array<T, N>& a, const Array<T, N>& b) {
  Array<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = a[i] * b[i];
  return out;
}
template <typename T, int N> __device__ Array<T, N> operator*(T s, const Array<T, N>& a) {
  Array<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = s * a[i];
  return out;
}
template <typename T, int N> __device__ Array<T, N> operator*(const Array<T, N>& a, T s) {
  Array<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = a[i] * s;
  return out;
}

// To nearest even. Real numbers to integers saturate there as no cast does, so those are not built.
template <typename To, typename From> struct NumericConverter {
  using result_type = To;
  using source_type = From;
  __device__ static To convert(const From& x) {
    static_assert(!std::is_integral<To>::value || std::is_integral<From>::value, "a conversion that is not built");
    return To(x);
  }
  __device__ To operator()(const From& x) const { return convert(x); }
};
template <typename To, typename From, int N> struct NumericArrayConverter {
  using result_type = Array<To, N>;
  using source_type = Array<From, N>;
  __device__ static Array<To, N> convert(const Array<From, N>& x) {
    Array<To, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = NumericConverter<To, From>::convert(x[i]);
    return out;
  }
  __device__ Array<To, N> operator()(const Array<From, N>& x) const { return convert(x); }
};

template <typename T> __device__ void swap(T& a, T& b) {
  T kept = a;
  a = b;
  b = kept;
}
}  // namespace cutlass
