// What device code uses of PyTorch's C++ headers (ATen, c10): half precision under their names, the type to
// accumulate in, shuffles, atomics, complex numbers.
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;

// Nearest even as cuda_fp8.h has it, but what is beyond the largest number is not a number: 464 rounds to an even 448.
__device__ inline unsigned char __e4m3fn_bits(float v) {
  const unsigned int bits = __float_as_uint(v);
  const unsigned int size = bits & 0x7fffffffu;
  const unsigned char nearest = __nv_fp8_e4m3(v).__x;
  return size > 0x43e80000u ? (unsigned char)(((bits >> 24) & 0x80u) | 0x7fu) : nearest;
}
struct Float8_e4m3fn {
  unsigned char x;
  struct from_bits_t {};
  __device__ static constexpr from_bits_t from_bits() { return from_bits_t(); }
  Float8_e4m3fn() = default;
  __device__ constexpr Float8_e4m3fn(unsigned char bits, from_bits_t) : x(bits) {}
  __device__ Float8_e4m3fn(float v) : x(__e4m3fn_bits(v)) {}
  __device__ operator float() const {
    __nv_fp8_e4m3 a;
    a.__x = x;
    return float(a);
  }
};
// Of two, and of one and an integer, an operator's float is rounded to one again; beside a float or double it is not.
__device__ inline Float8_e4m3fn operator-(Float8_e4m3fn a) { return Float8_e4m3fn(-float(a)); }
#define KTC_C10_OPERATOR(op) \
  __device__ inline Float8_e4m3fn operator op(Float8_e4m3fn a, Float8_e4m3fn b) { return Float8_e4m3fn(float(a) op float(b)); } \
  __device__ inline Float8_e4m3fn operator op(Float8_e4m3fn a, int b) { return a op Float8_e4m3fn(float(b)); } \
  __device__ inline Float8_e4m3fn operator op(int a, Float8_e4m3fn b) { return Float8_e4m3fn(float(a)) op b; } \
  __device__ inline Float8_e4m3fn operator op(Float8_e4m3fn a, long b) { return a op Float8_e4m3fn(float(b)); } \
  __device__ inline Float8_e4m3fn operator op(long a, Float8_e4m3fn b) { return Float8_e4m3fn(float(a)) op b; } \
  __device__ inline float operator op(Float8_e4m3fn a, float b) { return float(a) op b; } \
  __device__ inline float operator op(float a, Float8_e4m3fn b) { return a op float(b); } \
  __device__ inline double operator op(Float8_e4m3fn a, double b) { return double(float(a)) op b; } \
  __device__ inline double operator op(double a, Float8_e4m3fn b) { return a op double(float(b)); } \
  __device__ inline Float8_e4m3fn& operator op##=(Float8_e4m3fn& a, const Float8_e4m3fn& b) { return a = a op b; } \
  __device__ inline float& operator op##=(float& a, const Float8_e4m3fn& b) { return a = a op float(b); }
KTC_C10_OPERATOR(+)
KTC_C10_OPERATOR(-)
KTC_C10_OPERATOR(*)
KTC_C10_OPERATOR(/)
struct Float8_e4m3fnuz {  // AMD's: as a name to choose by
  unsigned char x;
  struct from_bits_t {};
  __device__ static constexpr from_bits_t from_bits() { return from_bits_t(); }
  Float8_e4m3fnuz() = default;
  __device__ constexpr Float8_e4m3fnuz(unsigned char bits, from_bits_t) : x(bits) {}
};

enum class ScalarType : signed char { Byte, Char, Short, Int, Long, Half, Float, Double, Bool = 11, BFloat16 = 15,
                                     Float8_e4m3fn = 24 };
namespace impl {
template <ScalarType N> struct ScalarTypeToCPPType;
template <> struct ScalarTypeToCPPType<ScalarType::Byte> { using type = unsigned char; };
template <> struct ScalarTypeToCPPType<ScalarType::Char> { using type = signed char; };
template <> struct ScalarTypeToCPPType<ScalarType::Short> { using type = short; };
template <> struct ScalarTypeToCPPType<ScalarType::Int> { using type = int; };
template <> struct ScalarTypeToCPPType<ScalarType::Long> { using type = long; };
template <> struct ScalarTypeToCPPType<ScalarType::Half> { using type = __half; };
template <> struct ScalarTypeToCPPType<ScalarType::Float> { using type = float; };
template <> struct ScalarTypeToCPPType<ScalarType::Double> { using type = double; };
template <> struct ScalarTypeToCPPType<ScalarType::Bool> { using type = bool; };
template <> struct ScalarTypeToCPPType<ScalarType::BFloat16> { using type = __nv_bfloat16; };
template <> struct ScalarTypeToCPPType<ScalarType::Float8_e4m3fn> { using type = Float8_e4m3fn; };
template <ScalarType N> using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;
}  // namespace impl

template <typename T> struct complex {
  using value_type = T;
  T real_;
  T imag_;
  __device__ complex() : real_(T(0)), imag_(T(0)) {}
  __device__ complex(T re) : real_(re), imag_(T(0)) {}
  __device__ complex(T re, T im) : real_(re), imag_(im) {}
  __device__ T real() const { return real_; }
  __device__ T imag() const { return imag_; }
  __device__ void real(T value) { real_ = value; }
  __device__ void imag(T value) { imag_ = value; }
  __device__ complex<T>& operator=(T re) {
    real_ = re;
    imag_ = T(0);
    return *this;
  }
  __device__ complex<T>& operator+=(T re) {
    real_ += re;
    return *this;
  }
  __device__ complex<T>& operator-=(T re) {
    real_ -= re;
    return *this;
  }
  __device__ complex<T>& operator*=(T re) {
    real_ *= re;
    imag_ *= re;
    return *this;
  }
  __device__ complex<T>& operator/=(T re) {
    real_ /= re;
    imag_ /= re;
    return *this;
  }
  __device__ complex<T>& operator+=(const complex<T>& b) {
    real_ += b.real_;
    imag_ += b.imag_;
    return *this;
  }
  __device__ complex<T>& operator-=(const complex<T>& b) {
    real_ -= b.real_;
    imag_ -= b.imag_;
    return *this;
  }
  __device__ complex<T>& operator*=(const complex<T>& b) {
    const T re = real_;
    const T im = imag_;
    real_ = re * b.real_ - im * b.imag_;
    imag_ = re * b.imag_ + im * b.real_;
    return *this;
  }
  // Scaled by the larger part of the divisor (Smith, Algorithm 116, 1962), as NumPy and PyTorch do.
  __device__ complex<T>& operator/=(const complex<T>& b) {
    const T re = real_;
    const T im = imag_;
    const T c = b.real_;
    const T d = b.imag_;
    const T size_c = c < T(0) ? -c : c;
    const T size_d = d < T(0) ? -d : d;
    if (size_c >= size_d) {
      if (size_c == T(0) && size_d == T(0)) {
        real_ = re / size_c;
        imag_ = im / size_d;
      } else {
        const T ratio = d / c;
        const T scale = T(1) / (c + d * ratio);
        real_ = (re + im * ratio) * scale;
        imag_ = (im - re * ratio) * scale;
      }
    } else {
      const T ratio = c / d;
      const T scale = T(1) / (c * ratio + d);
      real_ = (re * ratio + im) * scale;
      imag_ = (im * ratio - re) * scale;
    }
    return *this;
  }
};
template <typename T> __device__ complex<T> operator+(const complex<T>& a) { return a; }
template <typename T> __device__ complex<T> operator-(const complex<T>& a) { return complex<T>(-a.real_, -a.imag_); }
template <typename T> __device__ complex<T> operator+(const complex<T>& a, const complex<T>& b) {
  complex<T> made = a;
  return made += b;
}
template <typename T> __device__ complex<T> operator-(const complex<T>& a, const complex<T>& b) {
  complex<T> made = a;
  return made -= b;
}
template <typename T> __device__ complex<T> operator*(const complex<T>& a, const complex<T>& b) {
  complex<T> made = a;
  return made *= b;
}
template <typename T> __device__ complex<T> operator/(const complex<T>& a, const complex<T>& b) {
  complex<T> made = a;
  return made /= b;
}
template <typename T> __device__ complex<T> operator+(const complex<T>& a, T b) { return complex<T>(a.real_ + b, a.imag_); }
template <typename T> __device__ complex<T> operator+(T a, const complex<T>& b) { return complex<T>(a + b.real_, b.imag_); }
template <typename T> __device__ complex<T> operator-(const complex<T>& a, T b) { return complex<T>(a.real_ - b, a.imag_); }
template <typename T> __device__ complex<T> operator-(T a, const complex<T>& b) { return complex<T>(a - b.real_, -b.imag_); }
template <typename T> __device__ complex<T> operator*(const complex<T>& a, T b) { return complex<T>(a.real_ * b, a.imag_ * b); }
template <typename T> __device__ complex<T> operator*(T a, const complex<T>& b) { return complex<T>(a * b.real_, a * b.imag_); }
template <typename T> __device__ complex<T> operator/(const complex<T>& a, T b) { return complex<T>(a.real_ / b, a.imag_ / b); }
template <typename T> __device__ complex<T> operator/(T a, const complex<T>& b) { return complex<T>(a) / b; }
template <typename T> __device__ bool operator==(const complex<T>& a, const complex<T>& b) {
  return a.real_ == b.real_ && a.imag_ == b.imag_;
}
template <typename T> __device__ bool operator!=(const complex<T>& a, const complex<T>& b) { return !(a == b); }
}  // namespace c10

namespace std {
template <class T> class numeric_limits;
template <> class numeric_limits<c10::Float8_e4m3fn> {
 public:
  __device__ static constexpr c10::Float8_e4m3fn max() { return {0x7E, c10::Float8_e4m3fn::from_bits()}; }
  __device__ static constexpr c10::Float8_e4m3fn lowest() { return {0xFE, c10::Float8_e4m3fn::from_bits()}; }
  __device__ static constexpr c10::Float8_e4m3fn min() { return {0x08, c10::Float8_e4m3fn::from_bits()}; }
};
}  // namespace std

constexpr int C10_WARP_SIZE = 32;

namespace at {
using Half = __half;
using BFloat16 = __nv_bfloat16;
using c10::Float8_e4m3fn;
using c10::ScalarType;
template <typename T> __host__ __device__ constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }

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

// Tensors as kernels take them: where the elements begin, and the extent and the stride of each dimension.
template <typename T> struct DefaultPtrTraits { typedef T* PtrType; };
template <typename T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = long>
struct TensorAccessor {
  T* ptr;
  const index_t* sizes;
  const index_t* strides;
  __device__ TensorAccessor(T* p, const index_t* n, const index_t* by)
      : ptr(p), sizes(n), strides(by) {}
  __device__ index_t size(index_t i) const { return sizes[i]; }
  __device__ index_t stride(index_t i) const { return strides[i]; }
  __device__ T* data() const { return ptr; }
  __device__ TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return TensorAccessor<T, N - 1, PtrTraits, index_t>(ptr + strides[0] * i, sizes + 1, strides + 1);
  }
};
template <typename T, template <typename U> class PtrTraits, typename index_t>
struct TensorAccessor<T, 1, PtrTraits, index_t> {
  T* ptr;
  const index_t* sizes;
  const index_t* strides;
  __device__ TensorAccessor(T* p, const index_t* n, const index_t* by)
      : ptr(p), sizes(n), strides(by) {}
  __device__ index_t size(index_t i) const { return sizes[i]; }
  __device__ index_t stride(index_t i) const { return strides[i]; }
  __device__ T* data() const { return ptr; }
  __device__ T& operator[](index_t i) const { return ptr[strides[0] * i]; }
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = long>
struct GenericPackedTensorAccessor {
  typename PtrTraits<T>::PtrType ptr;
  index_t sizes[N];
  index_t strides[N];
  __device__ index_t size(index_t i) const { return sizes[i]; }
  __device__ index_t stride(index_t i) const { return strides[i]; }
  __device__ T* data() const { return ptr; }
  __device__ TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
    return TensorAccessor<T, N - 1, PtrTraits, index_t>(ptr + strides[0] * i, sizes + 1, strides + 1);
  }
};
template <typename T, template <typename U> class PtrTraits, typename index_t>
struct GenericPackedTensorAccessor<T, 1, PtrTraits, index_t> {
  typename PtrTraits<T>::PtrType ptr;
  index_t sizes[1];
  index_t strides[1];
  __device__ index_t size(index_t i) const { return sizes[0]; }
  __device__ index_t stride(index_t i) const { return strides[0]; }
  __device__ T* data() const { return ptr; }
  __device__ T& operator[](index_t i) const { return ptr[strides[0] * i]; }
};
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, long>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = long>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, index_t>;

namespace cuda { namespace detail {
// A tensor with as many dimensions as ``dims`` says; where a number of dimensions is a template argument, -1 is any.
enum { MAX_TENSORINFO_DIMS = 25 };
template <typename T, typename index_t> struct TensorInfo {
  T* data;
  index_t sizes[MAX_TENSORINFO_DIMS];
  index_t strides[MAX_TENSORINFO_DIMS];
  int dims;
  __device__ bool isContiguous() const { return dims == 1 && strides[0] == 1; }
};
template <typename T, typename index_t, int Dims> struct IndexToOffset {
  static __device__ index_t get(index_t linear, const TensorInfo<T, index_t>& info) {
    index_t offset = 0;
    for (int i = Dims - 1; i > 0; --i) {
      offset += (linear % info.sizes[i]) * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};
template <typename T, typename index_t> struct IndexToOffset<T, index_t, -1> {
  static __device__ index_t get(index_t linear, const TensorInfo<T, index_t>& info) {
    index_t offset = 0;
    for (int i = info.dims - 1; i > 0; --i) {
      offset += (linear % info.sizes[i]) * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};
} }  // namespace cuda::detail
namespace cuda {
template <typename T> __host__ __device__ constexpr T ATenCeilDiv(T a, T b) { return (a + b - 1) / b; }
}  // namespace cuda
}  // namespace at

namespace torch {
struct CustomClassHolder {};  // of what Python is shown
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
}  // namespace torch

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
template <typename T> __device__ T gpuAtomicMax(T* at, T value) { return atomicMax(at, value); }
template <typename T> __device__ T gpuAtomicMin(T* at, T value) { return atomicMin(at, value); }
template <typename T> __device__ void gpuAtomicAddNoReturn(T* at, T value) { atomicAdd(at, value); }
template <typename T> __device__ void fastAtomicAdd(T* base, long long i, long long n, T value, bool fast) {
  atomicAdd(base + i, value);
}
