// Built-ins that are short functions of others. Each line is read only when its function is called.
template <typename T> __device__ auto ldexp(T x, int e) { return x * exp2((T)e); }
template <typename T> __device__ auto ldexpf(T x, int e) { return x * exp2((T)e); }
template <typename T> __device__ auto scalbnf(T x, int e) { return x * exp2((T)e); }
__device__ unsigned int __fns(unsigned int mask, unsigned int base, int offset) { unsigned int found = 0xffffffffu; int left = offset < 0 ? -offset : offset; if (offset == 0) return (mask >> base) & 1u ? base : 0xffffffffu; for (int i = (int)base; left > 0 && i >= 0 && i < 32; i += offset < 0 ? -1 : 1) { if ((mask >> i) & 1u) { --left; if (left == 0) found = (unsigned int)i; } } return found; }
__device__ int __float2int_rn(float x) { return (int)rintf(x); }
__device__ int lrintf(float x) { return (int)rintf(x); }
__device__ int __float2int_rd(float x) { return (int)floorf(x); }
__device__ int __float2int_ru(float x) { return (int)ceilf(x); }
__device__ float2 __half22float2(half2 a) { return make_float2(__half2float(a.x), __half2float(a.y)); }
__device__ float2 __bfloat1622float2(__nv_bfloat162 a) { return make_float2(__bfloat162float(a.x), __bfloat162float(a.y)); }
__device__ half2 __float22half2_rn(float2 a) { return make_half2(__float2half(a.x), __float2half(a.y)); }
__device__ __nv_bfloat162 __float22bfloat162_rn(float2 a) { return make_bfloat162(__float2bfloat16(a.x), __float2bfloat16(a.y)); }
__device__ half2 __float2half2_rn(float a) { return make_half2(__float2half(a), __float2half(a)); }
__device__ __nv_bfloat162 __float2bfloat162_rn(float a) { return make_bfloat162(__float2bfloat16(a), __float2bfloat16(a)); }
__device__ half2 __floats2half2_rn(float a, float b) { return make_half2(__float2half(a), __float2half(b)); }
__device__ __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return make_bfloat162(__float2bfloat16(a), __float2bfloat16(b)); }
__device__ half2 __halves2half2(half a, half b) { return make_half2(a, b); }
__device__ __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return make_bfloat162(a, b); }
__device__ half2 __lows2half2(half2 a, half2 b) { return make_half2(a.x, b.x); }
__device__ half2 __highs2half2(half2 a, half2 b) { return make_half2(a.y, b.y); }
__device__ half __low2half(half2 a) { return a.x; }
__device__ half __high2half(half2 a) { return a.y; }
template <typename V> __device__ float __low2float(V a) { return static_cast<float>(a.x); }
template <typename V> __device__ float __high2float(V a) { return static_cast<float>(a.y); }
__device__ __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
__device__ __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
__device__ half2 __half2half2(half a) { return make_half2(a, a); }
__device__ __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return make_bfloat162(a, a); }
__device__ half2 __low2half2(half2 a) { return make_half2(a.x, a.x); }
__device__ half2 __high2half2(half2 a) { return make_half2(a.y, a.y); }
__device__ half2 __lowhigh2highlow(half2 a) { return make_half2(a.y, a.x); }
template <typename V> __device__ V __hadd2(V a, V b) { return V(__hadd(a.x, b.x), __hadd(a.y, b.y)); }
template <typename V> __device__ V __hadd2_rn(V a, V b) { return V(__hadd(a.x, b.x), __hadd(a.y, b.y)); }
template <typename V> __device__ V __hsub2(V a, V b) { return V(__hsub(a.x, b.x), __hsub(a.y, b.y)); }
template <typename V> __device__ V __hsub2_rn(V a, V b) { return V(__hsub(a.x, b.x), __hsub(a.y, b.y)); }
template <typename V> __device__ V __hmul2(V a, V b) { return V(__hmul(a.x, b.x), __hmul(a.y, b.y)); }
template <typename V> __device__ V __hmul2_rn(V a, V b) { return V(__hmul(a.x, b.x), __hmul(a.y, b.y)); }
template <typename V> __device__ V __h2div(V a, V b) { return V(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }
template <typename V> __device__ V __hmax2(V a, V b) { return V(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
template <typename V> __device__ V __hmin2(V a, V b) { return V(__hmin(a.x, b.x), __hmin(a.y, b.y)); }
template <typename V> __device__ V __hfma2(V a, V b, V c) { return V(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
template <typename V> __device__ V __hneg2(V a) { return V(-a.x, -a.y); }
template <typename V> __device__ V __habs2(V a) { return V(__habs(a.x), __habs(a.y)); }
template <typename V> __device__ V h2exp(V a) { return V(hexp(a.x), hexp(a.y)); }
template <typename V> __device__ V h2log(V a) { return V(hlog(a.x), hlog(a.y)); }
template <typename V> __device__ V h2sqrt(V a) { return V(hsqrt(a.x), hsqrt(a.y)); }
template <typename V> __device__ V h2rsqrt(V a) { return V(hrsqrt(a.x), hrsqrt(a.y)); }
template <typename V> __device__ V h2rcp(V a) { return V(hrcp(a.x), hrcp(a.y)); }
