// The part of HIP's kernel language that ktc's output uses, for clang -nogpulib -nogpuinc: compile checks for any AMD GPU
// on a machine without ROCm. Mathematical functions are declarations only (ROCm's device library would define them).
#ifndef KTC_HIP_STANDALONE_H
#define KTC_HIP_STANDALONE_H

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define HIP_VERSION_MAJOR 6
#define KTC_FN static inline __device__ __attribute__((always_inline))
#define KTC_EXTERN extern "C" __device__

// ---- hardware indices
struct ktc_thread_index {
  __declspec(property(get = get_x)) unsigned x;
  __declspec(property(get = get_y)) unsigned y;
  __declspec(property(get = get_z)) unsigned z;
  __device__ unsigned get_x() const { return __builtin_amdgcn_workitem_id_x(); }
  __device__ unsigned get_y() const { return __builtin_amdgcn_workitem_id_y(); }
  __device__ unsigned get_z() const { return __builtin_amdgcn_workitem_id_z(); }
};
struct ktc_block_index {
  __declspec(property(get = get_x)) unsigned x;
  __declspec(property(get = get_y)) unsigned y;
  __declspec(property(get = get_z)) unsigned z;
  __device__ unsigned get_x() const { return __builtin_amdgcn_workgroup_id_x(); }
  __device__ unsigned get_y() const { return __builtin_amdgcn_workgroup_id_y(); }
  __device__ unsigned get_z() const { return __builtin_amdgcn_workgroup_id_z(); }
};
struct ktc_block_dim {
  __declspec(property(get = get_x)) unsigned x;
  __declspec(property(get = get_y)) unsigned y;
  __declspec(property(get = get_z)) unsigned z;
  __device__ unsigned get_x() const { return __builtin_amdgcn_workgroup_size_x(); }
  __device__ unsigned get_y() const { return __builtin_amdgcn_workgroup_size_y(); }
  __device__ unsigned get_z() const { return __builtin_amdgcn_workgroup_size_z(); }
};
struct ktc_grid_dim {
  __declspec(property(get = get_x)) unsigned x;
  __declspec(property(get = get_y)) unsigned y;
  __declspec(property(get = get_z)) unsigned z;
  __device__ unsigned get_x() const { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
  __device__ unsigned get_y() const { return __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(); }
  __device__ unsigned get_z() const { return __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z(); }
};
#define threadIdx (ktc_thread_index())
#define blockIdx (ktc_block_index())
#define blockDim (ktc_block_dim())
#define gridDim (ktc_grid_dim())

// ---- vector types
#define KTC_VECTOR(type, name)                                          \
  typedef type name##2 __attribute__((ext_vector_type(2)));             \
  typedef type name##4 __attribute__((ext_vector_type(4)));             \
  KTC_FN name##2 make_##name##2(type x, type y) { return {x, y}; }      \
  KTC_FN name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
KTC_VECTOR(float, float)
KTC_VECTOR(double, double)
KTC_VECTOR(int, int)
KTC_VECTOR(unsigned, uint)
KTC_VECTOR(short, short)
KTC_VECTOR(unsigned short, ushort)
KTC_VECTOR(signed char, char)
KTC_VECTOR(unsigned char, uchar)
KTC_VECTOR(long long, longlong)
KTC_VECTOR(unsigned long long, ulonglong)

// ---- half and bfloat16
typedef _Float16 __half;
KTC_FN float __half2float(__half x) { return x; }
KTC_FN __half __float2half(float x) { return static_cast<__half>(x); }
KTC_FN int __half2int_rz(__half x) { return static_cast<int>(x); }
KTC_FN unsigned __half2uint_rz(__half x) { return static_cast<unsigned>(x); }
KTC_FN long long __half2ll_rz(__half x) { return static_cast<long long>(x); }
KTC_FN unsigned long long __half2ull_rz(__half x) { return static_cast<unsigned long long>(x); }
KTC_FN __half __int2half_rn(int x) { return static_cast<__half>(x); }
KTC_FN __half __uint2half_rn(unsigned x) { return static_cast<__half>(x); }
KTC_FN __half __ll2half_rn(long long x) { return static_cast<__half>(x); }
KTC_FN __half __ull2half_rn(unsigned long long x) { return static_cast<__half>(x); }
struct __hip_bfloat16 {
  unsigned short data;
};
KTC_FN float __bfloat162float(__hip_bfloat16 x) { return __builtin_bit_cast(float, static_cast<unsigned>(x.data) << 16); }
KTC_FN __hip_bfloat16 __float2bfloat16(float x) {
  const unsigned u = __builtin_bit_cast(unsigned, x);
  if ((u & 0x7fffffff) > 0x7f800000) return {0x7fff};
  return {static_cast<unsigned short>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}

// ---- reinterpretation
KTC_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
KTC_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
KTC_FN unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
KTC_FN float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
KTC_FN long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
KTC_FN double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
KTC_FN unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }
KTC_FN __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
KTC_FN short __half_as_short(__half x) { return __builtin_bit_cast(short, x); }
KTC_FN __half __short_as_half(short x) { return __builtin_bit_cast(__half, x); }

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))

// ---- functions: device library entry points, declared
#define KTC_MATH1(name)                                   \
  KTC_EXTERN float __ocml_##name##_f32(float);            \
  KTC_EXTERN double __ocml_##name##_f64(double);          \
  KTC_FN float name##f(float x) { return __ocml_##name##_f32(x); } \
  KTC_FN double name(double x) { return __ocml_##name##_f64(x); }
#define KTC_MATH2(name)                                           \
  KTC_EXTERN float __ocml_##name##_f32(float, float);             \
  KTC_EXTERN double __ocml_##name##_f64(double, double);          \
  KTC_FN float name##f(float x, float y) { return __ocml_##name##_f32(x, y); } \
  KTC_FN double name(double x, double y) { return __ocml_##name##_f64(x, y); }
KTC_MATH1(exp) KTC_MATH1(exp2) KTC_MATH1(exp10) KTC_MATH1(expm1) KTC_MATH1(log) KTC_MATH1(log2) KTC_MATH1(log10)
KTC_MATH1(log1p) KTC_MATH1(sqrt) KTC_MATH1(rsqrt) KTC_MATH1(sin) KTC_MATH1(cos) KTC_MATH1(tan) KTC_MATH1(sinh)
KTC_MATH1(cosh) KTC_MATH1(tanh) KTC_MATH1(asin) KTC_MATH1(acos) KTC_MATH1(atan) KTC_MATH1(erf) KTC_MATH1(erfc)
KTC_MATH1(cbrt) KTC_MATH1(floor) KTC_MATH1(ceil) KTC_MATH1(trunc) KTC_MATH1(round) KTC_MATH1(rint) KTC_MATH1(fabs)
KTC_MATH2(pow) KTC_MATH2(fmod) KTC_MATH2(remainder) KTC_MATH2(atan2) KTC_MATH2(copysign) KTC_MATH2(hypot)
KTC_MATH2(fdim) KTC_MATH2(fmin) KTC_MATH2(fmax)
#define KTC_HALF(name, wide) \
  KTC_FN __half name(__half x) { return static_cast<__half>(wide(static_cast<float>(x))); }
KTC_HALF(hexp, expf) KTC_HALF(hexp2, exp2f) KTC_HALF(hexp10, exp10f) KTC_HALF(hlog, logf) KTC_HALF(hlog2, log2f)
KTC_HALF(hlog10, log10f) KTC_HALF(hsqrt, sqrtf) KTC_HALF(hrsqrt, rsqrtf) KTC_HALF(hsin, sinf) KTC_HALF(hcos, cosf)
KTC_HALF(hfloor, floorf) KTC_HALF(hceil, ceilf) KTC_HALF(htrunc, truncf) KTC_HALF(hrint, rintf) KTC_HALF(__habs, fabsf)
KTC_FN bool __hisnan(__half x) { return x != x; }
KTC_FN bool __hisinf(__half x) { return __builtin_isinf(static_cast<float>(x)); }
KTC_FN __half hrcp(__half x) { return static_cast<__half>(1) / x; }
KTC_FN __half __hfma(__half x, __half y, __half z) { return __builtin_fmaf16(x, y, z); }
KTC_FN float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
KTC_FN double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
KTC_FN bool isnan(float x) { return __builtin_isnan(x); }
KTC_FN bool isnan(double x) { return __builtin_isnan(x); }
KTC_FN bool isinf(float x) { return __builtin_isinf(x); }
KTC_FN bool isinf(double x) { return __builtin_isinf(x); }
KTC_FN bool isfinite(float x) { return __builtin_isfinite(x); }
KTC_FN bool isfinite(double x) { return __builtin_isfinite(x); }
KTC_FN bool signbit(float x) { return __builtin_signbit(x); }
KTC_FN bool signbit(double x) { return __builtin_signbit(x); }
KTC_FN float __expf(float x) { return expf(x); }
KTC_FN float __exp10f(float x) { return exp10f(x); }
KTC_FN float __logf(float x) { return logf(x); }
KTC_FN float __log2f(float x) { return log2f(x); }
KTC_FN float __log10f(float x) { return log10f(x); }
KTC_FN float __sinf(float x) { return sinf(x); }
KTC_FN float __cosf(float x) { return cosf(x); }
KTC_FN float __tanf(float x) { return tanf(x); }
KTC_FN float __powf(float x, float y) { return powf(x, y); }
KTC_FN float __fdividef(float x, float y) { return x / y; }
KTC_FN float __fsqrt_rn(float x) { return sqrtf(x); }
#define KTC_INT(type)                                                    \
  KTC_FN type min(type a, type b) { return a < b ? a : b; }              \
  KTC_FN type max(type a, type b) { return a > b ? a : b; }
KTC_INT(int) KTC_INT(unsigned) KTC_INT(long long) KTC_INT(unsigned long long)
KTC_FN int abs(int x) { return x < 0 ? -x : x; }
KTC_FN long long llabs(long long x) { return x < 0 ? -x : x; }
KTC_FN int __popc(unsigned x) { return __builtin_popcount(x); }
KTC_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
KTC_FN int __clz(int x) { return x ? __builtin_clz(x) : 32; }
KTC_FN int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
KTC_FN int __ffs(int x) { return __builtin_ffs(x); }
KTC_FN int __ffsll(long long x) { return __builtin_ffsll(x); }
KTC_FN unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
KTC_FN unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
KTC_FN int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
KTC_FN unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((1ull * a * b) >> 32); }

// ---- synchronisation, lanes, atomics
KTC_FN void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
  __builtin_amdgcn_s_barrier();
}
KTC_FN void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
KTC_FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
KTC_FN void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
KTC_FN unsigned __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
KTC_EXTERN unsigned long long __ockl_ballot(int);
KTC_FN unsigned long long __ballot(int predicate) { return __ockl_ballot(predicate); }
KTC_FN int ktc_permute(int v, int from) { return __builtin_amdgcn_ds_bpermute(from << 2, v); }
template <typename T>
KTC_FN T ktc_from(T v, int from) {
  if constexpr (sizeof(T) == 8) {
    const long long b = __builtin_bit_cast(long long, v);
    const unsigned lo = ktc_permute(static_cast<int>(b), from), hi = ktc_permute(static_cast<int>(b >> 32), from);
    return __builtin_bit_cast(T, static_cast<long long>(lo | (static_cast<unsigned long long>(hi) << 32)));
  } else {
    return __builtin_bit_cast(T, ktc_permute(__builtin_bit_cast(int, v), from));
  }
}
template <typename T>
KTC_FN T __shfl(T v, int lane, int width) {
  const int self = __lane_id();
  return ktc_from(v, (self & ~(width - 1)) + (lane & (width - 1)));
}
template <typename T>
KTC_FN T __shfl_up(T v, unsigned delta, int width) {
  const int self = __lane_id(), from = self - static_cast<int>(delta);
  return ktc_from(v, from < (self & ~(width - 1)) ? self : from);
}
template <typename T>
KTC_FN T __shfl_down(T v, unsigned delta, int width) {
  const int self = __lane_id(), from = self + static_cast<int>(delta);
  return ktc_from(v, from > (self | (width - 1)) ? self : from);
}
template <typename T>
KTC_FN T __shfl_xor(T v, int lanes, int width) {
  const int self = __lane_id(), from = self ^ lanes;
  return ktc_from(v, from > (self | (width - 1)) ? self : from);
}
template <typename T> struct ktc_same { using type = T; };  // the value is converted to what the pointer is to
#define KTC_ATOMIC(name, builtin)                                                             \
  template <typename T>                                                                       \
  KTC_FN T name(T* p, typename ktc_same<T>::type v) {                                         \
    return builtin(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                         \
  }
KTC_ATOMIC(atomicAdd, __hip_atomic_fetch_add)
KTC_ATOMIC(atomicMin, __hip_atomic_fetch_min)
KTC_ATOMIC(atomicMax, __hip_atomic_fetch_max)
KTC_ATOMIC(atomicAnd, __hip_atomic_fetch_and)
KTC_ATOMIC(atomicOr, __hip_atomic_fetch_or)
KTC_ATOMIC(atomicXor, __hip_atomic_fetch_xor)
KTC_ATOMIC(atomicExch, __hip_atomic_exchange)
KTC_FN unsigned atomicInc(unsigned* p, unsigned limit) {
  return __builtin_amdgcn_atomic_inc32(p, limit, __ATOMIC_RELAXED, "agent");
}
KTC_FN unsigned atomicDec(unsigned* p, unsigned limit) {
  return __builtin_amdgcn_atomic_dec32(p, limit, __ATOMIC_RELAXED, "agent");
}
template <typename T>
KTC_FN T atomicSub(T* p, T v) { return atomicAdd(p, static_cast<T>(-v)); }
template <typename T>
KTC_FN T atomicCAS(T* p, T compare, T v) {
  __hip_atomic_compare_exchange_strong(p, &compare, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return compare;
}

#endif  // KTC_HIP_STANDALONE_H
