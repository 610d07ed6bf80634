// 4-bit floats of cuda_fp4.h and the 8-bit scale factors of cuda_fp8.h, after their documentation: bits with
// conversions. E2M1 rounds to nearest even and saturates at 6, where NaN goes too; E8M0 is a power of two, which the
// constructors round up to.
typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

__device__ inline unsigned char __nv_cvt_float_to_fp4(float x, int kind, int rounding) {
  const float size = fabsf(x);
  if (!(size <= 6.0f)) return (unsigned char)(isnan(x) ? 7u : x < 0.0f ? 15u : 7u);
  // Steps of a half below 2, of one below 4, of two from there.
  const float step = size < 2.0f ? 0.5f : size < 4.0f ? 1.0f : 2.0f;
  const unsigned int first = size < 2.0f ? 0u : size < 4.0f ? 2u : 4u;
  const float steps = size / step;
  const unsigned int code = first + (unsigned int)(rounding == cudaRoundZero ? truncf(steps) : rintf(steps));
  return (unsigned char)(code | (__float_as_uint(x) >> 28 & 8u));
}
__device__ inline unsigned char __nv_cvt_double_to_fp4(double x, int kind, int rounding) {
  // Toward zero with a sticky last bit: rounding the float then is rounding the double.
  const float down = __double2float_rz(x);
  const unsigned int sticky = (double)down != x && !isnan(x) ? 1u : 0u;
  return __nv_cvt_float_to_fp4(__uint_as_float(__float_as_uint(down) | sticky), kind, rounding);
}
__device__ inline unsigned char __nv_cvt_halfraw_to_fp4(__half x, int kind, int rounding) {
  return __nv_cvt_float_to_fp4(__half2float(x), kind, rounding);
}
__device__ inline unsigned char __nv_cvt_bfloat16raw_to_fp4(__nv_bfloat16 x, int kind, int rounding) {
  return __nv_cvt_float_to_fp4(__bfloat162float(x), kind, rounding);
}
__device__ inline float __ktc_fp4_to_float(unsigned int x) {
  const unsigned int e = (x >> 1) & 3u, m = x & 1u;
  const float size = e == 0u ? 0.5f * (float)m : (1.0f + 0.5f * (float)m) * (float)(1u << (e - 1u));
  return (x & 8u) != 0u ? -size : size;
}
__device__ inline __half __nv_cvt_fp4_to_halfraw(unsigned char x, int kind) { return __float2half(__ktc_fp4_to_float(x)); }

// ---- Two, the first in the low bits
__device__ inline unsigned char __nv_cvt_float2_to_fp4x2(float2 x, int kind, int rounding) {
  const unsigned int high = __nv_cvt_float_to_fp4(x.y, kind, rounding);
  return (unsigned char)((high << 4) | __nv_cvt_float_to_fp4(x.x, kind, rounding));
}
__device__ inline unsigned char __nv_cvt_double2_to_fp4x2(double2 x, int kind, int rounding) {
  const unsigned int high = __nv_cvt_double_to_fp4(x.y, kind, rounding);
  return (unsigned char)((high << 4) | __nv_cvt_double_to_fp4(x.x, kind, rounding));
}
__device__ inline unsigned char __nv_cvt_halfraw2_to_fp4x2(__half2 x, int kind, int rounding) {
  return __nv_cvt_float2_to_fp4x2(__half22float2(x), kind, rounding);
}
__device__ inline unsigned char __nv_cvt_bfloat16raw2_to_fp4x2(__nv_bfloat162 x, int kind, int rounding) {
  return __nv_cvt_float2_to_fp4x2(__bfloat1622float2(x), kind, rounding);
}
__device__ inline __half2 __nv_cvt_fp4x2_to_halfraw2(unsigned char x, int kind) {
  return __halves2half2(__nv_cvt_fp4_to_halfraw((unsigned char)(x & 15u), kind), __nv_cvt_fp4_to_halfraw((unsigned char)(x >> 4), kind));
}

// ---- Scale factors
__device__ inline unsigned char __nv_cvt_float_to_e8m0(float x, int saturate, int rounding) {
  const unsigned int size = __float_as_uint(x) & 0x7fffffffu;
  unsigned int out = size >> 23;
  const bool between = (size & 0x7fffffu) != 0u && size > 0x400000u && size < 0x7f800000u;
  if (rounding == cudaRoundPosInf && between) out += 1u;
  if (saturate == 1 && size <= 0x7f800000u && out == 255u) out = 254u;  // __NV_SATFINITE
  return (unsigned char)out;
}
__device__ inline unsigned char __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16 x, int saturate, int rounding) {
  return __nv_cvt_float_to_e8m0(__bfloat162float(x), saturate, rounding);
}
__device__ inline float __ktc_e8m0_to_float(unsigned int x) {
  return __uint_as_float(x == 255u ? 0x7fffffffu : x == 0u ? 0x400000u : x << 23);
}
__device__ inline __nv_bfloat16 __nv_cvt_e8m0_to_bf16raw(unsigned char x) { return __float2bfloat16(__ktc_e8m0_to_float(x)); }

// ---- Classes
struct __nv_fp4_e2m1 {
  __nv_fp4_storage_t __x;
  __nv_fp4_e2m1() = default;
  explicit __nv_fp4_e2m1(float f) : __x(__nv_cvt_float_to_fp4(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit __nv_fp4_e2m1(double f) : __x(__nv_cvt_double_to_fp4(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit __nv_fp4_e2m1(__half f) : __x(__nv_cvt_halfraw_to_fp4(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit __nv_fp4_e2m1(__nv_bfloat16 f) : __x(__nv_cvt_bfloat16raw_to_fp4(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit operator float() const { return __ktc_fp4_to_float(__x); }
  explicit operator double() const { return (double)__ktc_fp4_to_float(__x); }
  explicit operator __half() const { return __nv_cvt_fp4_to_halfraw(__x, __NV_E2M1); }
  explicit operator __nv_bfloat16() const { return __float2bfloat16(__ktc_fp4_to_float(__x)); }
};
struct __nv_fp4x2_e2m1 {
  __nv_fp4x2_storage_t __x;
  __nv_fp4x2_e2m1() = default;
  explicit __nv_fp4x2_e2m1(float2 f) : __x(__nv_cvt_float2_to_fp4x2(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit __nv_fp4x2_e2m1(double2 f) : __x(__nv_cvt_double2_to_fp4x2(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit __nv_fp4x2_e2m1(__half2 f) : __x(__nv_cvt_halfraw2_to_fp4x2(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit __nv_fp4x2_e2m1(__nv_bfloat162 f) : __x(__nv_cvt_bfloat16raw2_to_fp4x2(f, __NV_E2M1, cudaRoundNearest)) {}
  explicit operator float2() const { return make_float2(__ktc_fp4_to_float(__x & 15u), __ktc_fp4_to_float(__x >> 4)); }
  explicit operator __half2() const { return __nv_cvt_fp4x2_to_halfraw2(__x, __NV_E2M1); }
};
struct __nv_fp4x4_e2m1 {
  __nv_fp4x4_storage_t __x;
  __nv_fp4x4_e2m1() = default;
  explicit __nv_fp4x4_e2m1(float4 f) : __x((unsigned short)(((unsigned int)__nv_cvt_float2_to_fp4x2(make_float2(f.z, f.w), __NV_E2M1, cudaRoundNearest) << 8) | __nv_cvt_float2_to_fp4x2(make_float2(f.x, f.y), __NV_E2M1, cudaRoundNearest))) {}
  explicit __nv_fp4x4_e2m1(__half2 low, __half2 high) : __x((unsigned short)(((unsigned int)__nv_cvt_halfraw2_to_fp4x2(high, __NV_E2M1, cudaRoundNearest) << 8) | __nv_cvt_halfraw2_to_fp4x2(low, __NV_E2M1, cudaRoundNearest))) {}
  explicit __nv_fp4x4_e2m1(__nv_bfloat162 low, __nv_bfloat162 high) : __x((unsigned short)(((unsigned int)__nv_cvt_bfloat16raw2_to_fp4x2(high, __NV_E2M1, cudaRoundNearest) << 8) | __nv_cvt_bfloat16raw2_to_fp4x2(low, __NV_E2M1, cudaRoundNearest))) {}
  explicit operator float4() const { return make_float4(__ktc_fp4_to_float(__x & 15u), __ktc_fp4_to_float((__x >> 4) & 15u), __ktc_fp4_to_float((__x >> 8) & 15u), __ktc_fp4_to_float(__x >> 12)); }
};
struct __nv_fp8_e8m0 {
  unsigned char __x;
  __nv_fp8_e8m0() = default;
  explicit __nv_fp8_e8m0(float f) : __x(__nv_cvt_float_to_e8m0(f, 1, cudaRoundPosInf)) {}
  explicit __nv_fp8_e8m0(__nv_bfloat16 f) : __x(__nv_cvt_bfloat16raw_to_e8m0(f, 1, cudaRoundPosInf)) {}
  explicit operator float() const { return __ktc_e8m0_to_float(__x); }
  explicit operator __nv_bfloat16() const { return __nv_cvt_e8m0_to_bf16raw(__x); }
};
