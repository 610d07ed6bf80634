// 8-bit floats of cuda_fp8.h: conversions by function, and pairs and quadruples. The single numbers are types of the
// language here, whose conversions are those of the constructors: nearest even, saturating.
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

// ---- One number
__device__ inline unsigned char __nv_cvt_float_to_fp8(float x, int saturate, int kind) {
  const unsigned char nearest = kind == __NV_E4M3 ? __nv_fp8_e4m3(x).__x : __nv_fp8_e5m2(x).__x;
  if (saturate == __NV_SATFINITE) return nearest;
  const unsigned int bits = __float_as_uint(x);
  const unsigned int size = bits & 0x7fffffffu;
  const unsigned int sign = (bits >> 24) & 0x80u;
  if (size > 0x7f800000u) return nearest;
  // Beyond the largest number and half a step: 464 rounds down to an even 448, 61440 up.
  if (kind == __NV_E4M3) return size > 0x43e80000u ? (unsigned char)(sign | 0x7fu) : nearest;
  return size >= 0x47700000u ? (unsigned char)(sign | 0x7cu) : nearest;
}
__device__ inline unsigned char __nv_cvt_double_to_fp8(double x, int saturate, int kind) {
  const unsigned char nearest = kind == __NV_E4M3 ? __nv_fp8_e4m3(x).__x : __nv_fp8_e5m2(x).__x;
  const unsigned long long bits = (unsigned long long)__double_as_longlong(x);
  const unsigned long long size = bits & 0x7fffffffffffffffull;
  const unsigned int sign = (unsigned int)(bits >> 56) & 0x80u;
  const unsigned int quiet = kind == __NV_E4M3 ? 0x7fu : 0x7eu | ((unsigned int)(bits >> 50) & 3u);
  if (size > 0x7ff0000000000000ull) return (unsigned char)(sign | quiet);
  if (saturate == __NV_SATFINITE) return nearest;
  if (kind == __NV_E4M3) return size > 0x407d000000000000ull ? (unsigned char)(sign | 0x7fu) : nearest;
  return size >= 0x40ee000000000000ull ? (unsigned char)(sign | 0x7cu) : nearest;
}
__device__ inline unsigned char __nv_cvt_halfraw_to_fp8(__half x, int saturate, int kind) {
  return __nv_cvt_float_to_fp8(__half2float(x), saturate, kind);
}
__device__ inline unsigned char __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16 x, int saturate, int kind) {
  return __nv_cvt_float_to_fp8(__bfloat162float(x), saturate, kind);
}
__device__ inline float __ktc_fp8_to_float(unsigned int x, int kind) {
  if (kind == __NV_E4M3) { __nv_fp8_e4m3 a; a.__x = (unsigned char)x; return float(a); }
  __nv_fp8_e5m2 b; b.__x = (unsigned char)x; return float(b);
}
__device__ inline __half __nv_cvt_fp8_to_halfraw(unsigned char x, int kind) {
  return __float2half(__ktc_fp8_to_float(x, kind));
}

// ---- Two, the first in the low byte
__device__ inline unsigned short __nv_cvt_float2_to_fp8x2(float2 x, int saturate, int kind) {
  const unsigned int high = __nv_cvt_float_to_fp8(x.y, saturate, kind);
  return (unsigned short)((high << 8) | __nv_cvt_float_to_fp8(x.x, saturate, kind));
}
__device__ inline unsigned short __nv_cvt_double2_to_fp8x2(double2 x, int saturate, int kind) {
  const unsigned int high = __nv_cvt_double_to_fp8(x.y, saturate, kind);
  return (unsigned short)((high << 8) | __nv_cvt_double_to_fp8(x.x, saturate, kind));
}
__device__ inline unsigned short __nv_cvt_halfraw2_to_fp8x2(__half2 x, int saturate, int kind) {
  return __nv_cvt_float2_to_fp8x2(__half22float2(x), saturate, kind);
}
__device__ inline unsigned short __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162 x, int saturate, int kind) {
  return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(x), saturate, kind);
}
__device__ inline __half2 __nv_cvt_fp8x2_to_halfraw2(unsigned short x, int kind) {
  return __halves2half2(__nv_cvt_fp8_to_halfraw((unsigned char)x, kind), __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), kind));
}

// ---- Classes
template <int Kind> struct __ktc_fp8x2 {
  __nv_fp8x2_storage_t __x;
  __ktc_fp8x2() = default;
  explicit __ktc_fp8x2(float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, Kind)) {}
  explicit __ktc_fp8x2(double2 f) : __x(__nv_cvt_double2_to_fp8x2(f, __NV_SATFINITE, Kind)) {}
  explicit __ktc_fp8x2(__half2 f) : __x(__nv_cvt_halfraw2_to_fp8x2(f, __NV_SATFINITE, Kind)) {}
  explicit __ktc_fp8x2(__nv_bfloat162 f) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(f, __NV_SATFINITE, Kind)) {}
  explicit operator float2() const { return make_float2(__ktc_fp8_to_float(__x & 255u, Kind), __ktc_fp8_to_float(__x >> 8, Kind)); }
  explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, Kind); }
};
template <int Kind> struct __ktc_fp8x4 {
  __nv_fp8x4_storage_t __x;
  __ktc_fp8x4() = default;
  explicit __ktc_fp8x4(float4 f) : __x(((unsigned int)__nv_cvt_float2_to_fp8x2(make_float2(f.z, f.w), __NV_SATFINITE, Kind) << 16) | __nv_cvt_float2_to_fp8x2(make_float2(f.x, f.y), __NV_SATFINITE, Kind)) {}
  explicit __ktc_fp8x4(double4 f) : __x(((unsigned int)__nv_cvt_double2_to_fp8x2(make_double2(f.z, f.w), __NV_SATFINITE, Kind) << 16) | __nv_cvt_double2_to_fp8x2(make_double2(f.x, f.y), __NV_SATFINITE, Kind)) {}
  explicit __ktc_fp8x4(__half2 low, __half2 high) : __x(((unsigned int)__nv_cvt_halfraw2_to_fp8x2(high, __NV_SATFINITE, Kind) << 16) | __nv_cvt_halfraw2_to_fp8x2(low, __NV_SATFINITE, Kind)) {}
  explicit __ktc_fp8x4(__nv_bfloat162 low, __nv_bfloat162 high) : __x(((unsigned int)__nv_cvt_bfloat16raw2_to_fp8x2(high, __NV_SATFINITE, Kind) << 16) | __nv_cvt_bfloat16raw2_to_fp8x2(low, __NV_SATFINITE, Kind)) {}
  explicit operator float4() const { return make_float4(__ktc_fp8_to_float(__x & 255u, Kind), __ktc_fp8_to_float((__x >> 8) & 255u, Kind), __ktc_fp8_to_float((__x >> 16) & 255u, Kind), __ktc_fp8_to_float(__x >> 24, Kind)); }
};
using __nv_fp8x2_e4m3 = __ktc_fp8x2<__NV_E4M3>;
using __nv_fp8x2_e5m2 = __ktc_fp8x2<__NV_E5M2>;
using __nv_fp8x4_e4m3 = __ktc_fp8x4<__NV_E4M3>;
using __nv_fp8x4_e5m2 = __ktc_fp8x4<__NV_E5M2>;
