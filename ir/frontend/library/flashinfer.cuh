// What kernels use of FlashInfer's vec_dtypes.cuh: a short vector in registers, loaded, stored and converted whole.
namespace flashinfer {
template <typename T, unsigned long N> struct vec_t {
  T data[N];
  __device__ T& operator[](unsigned long i) { return data[i]; }
  __device__ const T& operator[](unsigned long i) const { return data[i]; }
  __device__ T* ptr() { return data; }
  __device__ void fill(T value) {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) data[i] = value;
  }
  __device__ void load(const T* p) {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) data[i] = p[i];
  }
  __device__ void store(T* p) const {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) p[i] = data[i];
  }
  template <typename U> __device__ void cast_from(const vec_t<U, N>& from) {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) data[i] = T(from.data[i]);
  }
  template <typename U> __device__ void cast_load(const U* p) {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) data[i] = T(p[i]);
  }
  template <typename U> __device__ void cast_store(U* p) const {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) p[i] = U(data[i]);
  }
  __device__ static void memcpy(T* to, const T* from) {
#pragma unroll
    for (unsigned long i = 0; i < N; ++i) to[i] = from[i];
  }
};
}  // namespace flashinfer
