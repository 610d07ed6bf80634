// DirectXMath's storage types, after its documentation: what Direct3D code shares with kernels are structures of these.
namespace DirectX {
#define KTC_STORED(name, T)                                                             \
  struct name##2 {                                                                      \
    T x, y;                                                                             \
    __host__ __device__ name##2() {}                                                    \
    __host__ __device__ name##2(T x_, T y_) : x(x_), y(y_) {}                           \
  };                                                                                    \
  struct name##3 {                                                                      \
    T x, y, z;                                                                          \
    __host__ __device__ name##3() {}                                                    \
    __host__ __device__ name##3(T x_, T y_, T z_) : x(x_), y(y_), z(z_) {}              \
  };                                                                                    \
  struct name##4 {                                                                      \
    T x, y, z, w;                                                                       \
    __host__ __device__ name##4() {}                                                    \
    __host__ __device__ name##4(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {} \
  };
KTC_STORED(XMFLOAT, float)
KTC_STORED(XMINT, int)
KTC_STORED(XMUINT, unsigned int)
}  // namespace DirectX
