// Built-ins that are short functions of others. Each line is read only when its function is called.
__device__ unsigned int __fns(unsigned int mask, unsigned int base, int offset) { unsigned int found = 0xffffffffu; int left = offset < 0 ? -offset : offset; if (offset == 0) return (mask >> base) & 1u ? base : 0xffffffffu; for (int i = (int)base; left > 0 && i >= 0 && i < 32; i += offset < 0 ? -1 : 1) { if ((mask >> i) & 1u) { --left; if (left == 0) found = (unsigned int)i; } } return found; }
__device__ int __builtin_ctz(unsigned int x) { return __ffs((int)x) - 1; }
__device__ int __builtin_clz(unsigned int x) { return __clz((int)x); }
__device__ int __builtin_popcount(unsigned int x) { return __popc(x); }
__device__ int __builtin_ffs(int x) { return __ffs(x); }
__device__ float2 __half22float2(half2 a) { return make_float2(__half2float(a.x), __half2float(a.y)); }
__device__ float2 __bfloat1622float2(__nv_bfloat162 a) { return make_float2(__bfloat162float(a.x), __bfloat162float(a.y)); }
__device__ half2 __float22half2_rn(float2 a) { return make_half2(__float2half(a.x), __float2half(a.y)); }
__device__ __nv_bfloat162 __float22bfloat162_rn(float2 a) { return make_bfloat162(__float2bfloat16(a.x), __float2bfloat16(a.y)); }
__device__ half2 __float2half2_rn(float a) { return make_half2(__float2half(a), __float2half(a)); }
__device__ __nv_bfloat162 __float2bfloat162_rn(float a) { return make_bfloat162(__float2bfloat16(a), __float2bfloat16(a)); }
__device__ half __float2half_rz(float x) { half h = __float2half(x); return fabsf(__half2float(h)) > fabsf(x) ? __ushort_as_half(__half_as_ushort(h) - 1) : h; }
__device__ half __float2half_rd(float x) { half h = __float2half(x); unsigned short u = __half_as_ushort(h); if (__half2float(h) > x) h = __ushort_as_half(u & 0x8000 ? u + 1 : u - 1); return h; }
__device__ half __float2half_ru(float x) { half h = __float2half(x); unsigned short u = __half_as_ushort(h); if (__half2float(h) < x) h = __ushort_as_half(u & 0x8000 ? u - 1 : u + 1); return h; }
__device__ __nv_bfloat16 __float2bfloat16_rz(float x) { __nv_bfloat16 h = __float2bfloat16(x); return fabsf(__bfloat162float(h)) > fabsf(x) ? __ushort_as_bfloat16(__bfloat16_as_ushort(h) - 1) : h; }
__device__ __nv_bfloat16 __float2bfloat16_rd(float x) { __nv_bfloat16 h = __float2bfloat16(x); unsigned short u = __bfloat16_as_ushort(h); if (__bfloat162float(h) > x) h = __ushort_as_bfloat16(u & 0x8000 ? u + 1 : u - 1); return h; }
__device__ __nv_bfloat16 __float2bfloat16_ru(float x) { __nv_bfloat16 h = __float2bfloat16(x); unsigned short u = __bfloat16_as_ushort(h); if (__bfloat162float(h) < x) h = __ushort_as_bfloat16(u & 0x8000 ? u - 1 : u + 1); return h; }
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
template <typename V> __device__ V __hadd2_rn(V a, V b) { return V(__hadd_rn(a.x, b.x), __hadd_rn(a.y, b.y)); }
template <typename V> __device__ V __hsub2(V a, V b) { return V(__hsub(a.x, b.x), __hsub(a.y, b.y)); }
template <typename V> __device__ V __hsub2_rn(V a, V b) { return V(__hsub_rn(a.x, b.x), __hsub_rn(a.y, b.y)); }
template <typename V> __device__ V __hmul2(V a, V b) { return V(__hmul(a.x, b.x), __hmul(a.y, b.y)); }
template <typename V> __device__ V __hmul2_rn(V a, V b) { return V(__hmul_rn(a.x, b.x), __hmul_rn(a.y, b.y)); }
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
__device__ bool isnormal(float x) { return isfinite(x) && fabsf(x) >= 1.17549435e-38f; }
__device__ float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
__device__ double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
__device__ float rnorm3df(float a, float b, float c) { return rsqrtf(a * a + b * b + c * c); }
__device__ float norm4df(float a, float b, float c, float d) { return sqrtf(a * a + b * b + c * c + d * d); }
template <typename U, typename T> __device__ T modf(U v, T* whole) { const T x = v; *whole = trunc(x); return isinf(x) ? copysign((T)0, x) : copysign(x - trunc(x), x); }
__device__ float modff(float x, float* whole) { *whole = truncf(x); return isinf(x) ? copysignf(0.0f, x) : copysignf(x - truncf(x), x); }
template <typename T> __device__ T frexp(T x, int* exponent) { const bool plain = isfinite(x) && x != (T)0; const int e = plain ? ilogb(x) + 1 : 0; *exponent = e; return plain ? ldexp(x, -e) : x; }
__device__ float frexpf(float x, int* exponent) { const bool plain = isfinite(x) && x != 0.0f; const int e = plain ? ilogb(x) + 1 : 0; *exponent = e; return plain ? ldexpf(x, -e) : x; }
__device__ int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
__device__ int __double2loint(double x) { return (int)__double_as_longlong(x); }
__device__ double __hiloint2double(int hi, int lo) { return __longlong_as_double((long long)(((unsigned long long)(unsigned int)hi << 32) | (unsigned int)lo)); }
__device__ unsigned int __sad(int x, int y, unsigned int z) { return (unsigned int)(x > y ? (unsigned int)x - (unsigned int)y : (unsigned int)y - (unsigned int)x) + z; }
__device__ unsigned int __usad(unsigned int x, unsigned int y, unsigned int z) { return (x > y ? x - y : y - x) + z; }
__device__ int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
__device__ unsigned int __uhadd(unsigned int x, unsigned int y) { return (unsigned int)(((unsigned long long)x + y) >> 1); }
__device__ unsigned int __urhadd(unsigned int x, unsigned int y) { return (unsigned int)(((unsigned long long)x + y + 1) >> 1); }
__device__ unsigned int __funnelshift_l(unsigned int lo, unsigned int hi, unsigned int shift) { return (unsigned int)(((((unsigned long long)hi << 32) | lo) << (shift & 31u)) >> 32); }
__device__ unsigned int __funnelshift_r(unsigned int lo, unsigned int hi, unsigned int shift) { return (unsigned int)((((unsigned long long)hi << 32) | lo) >> (shift & 31u)); }
__device__ unsigned int __funnelshift_lc(unsigned int lo, unsigned int hi, unsigned int shift) { return shift >= 32u ? lo : (unsigned int)(((((unsigned long long)hi << 32) | lo) << shift) >> 32); }
__device__ unsigned int __funnelshift_rc(unsigned int lo, unsigned int hi, unsigned int shift) { return shift >= 32u ? hi : (unsigned int)((((unsigned long long)hi << 32) | lo) >> shift); }
template <typename H> __device__ bool __hequ(H a, H b) { return __hisnan(a) || __hisnan(b) || __heq(a, b); }
template <typename H> __device__ bool __hgtu(H a, H b) { return __hisnan(a) || __hisnan(b) || __hgt(a, b); }
template <typename H> __device__ bool __hltu(H a, H b) { return __hisnan(a) || __hisnan(b) || __hlt(a, b); }
template <typename H> __device__ H __hadd_sat(H a, H b) { return (H)__saturatef((float)__hadd(a, b)); }
template <typename H> __device__ H __hsub_sat(H a, H b) { return (H)__saturatef((float)__hsub(a, b)); }
template <typename H> __device__ H __hmul_sat(H a, H b) { return (H)__saturatef((float)__hmul(a, b)); }
template <typename H> __device__ H __hfma_sat(H a, H b, H c) { return (H)__saturatef((float)__hfma(a, b, c)); }
template <typename H> __device__ H __hfma_relu(H a, H b, H c) { const H r = __hfma(a, b, c); return __hisnan(r) || __hgt(r, (H)0.0f) ? r : (H)0.0f; }
template <typename H> __device__ H __hmax_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }
template <typename H> __device__ H __hmin_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }
template <typename V> __device__ V h2sin(V a) { return V(hsin(a.x), hsin(a.y)); }
template <typename V> __device__ V h2cos(V a) { return V(hcos(a.x), hcos(a.y)); }
template <typename V> __device__ V h2exp2(V a) { return V(hexp2(a.x), hexp2(a.y)); }
template <typename V> __device__ V h2exp10(V a) { return V(hexp10(a.x), hexp10(a.y)); }
template <typename V> __device__ V h2log2(V a) { return V(hlog2(a.x), hlog2(a.y)); }
template <typename V> __device__ V h2log10(V a) { return V(hlog10(a.x), hlog10(a.y)); }
template <typename V> __device__ V h2floor(V a) { return V(hfloor(a.x), hfloor(a.y)); }
template <typename V> __device__ V h2ceil(V a) { return V(hceil(a.x), hceil(a.y)); }
template <typename V> __device__ V h2rint(V a) { return V(hrint(a.x), hrint(a.y)); }
template <typename V> __device__ V h2trunc(V a) { return V(htrunc(a.x), htrunc(a.y)); }
template <typename V> __device__ V h2tanh(V a) { return V(htanh(a.x), htanh(a.y)); }
template <typename V> __device__ V __heq2(V a, V b) { return V(__heq(a.x, b.x) ? 1.0f : 0.0f, __heq(a.y, b.y) ? 1.0f : 0.0f); }
template <typename V> __device__ bool __hbeq2(V a, V b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
template <typename V> __device__ V __hne2(V a, V b) { return V(__hne(a.x, b.x) ? 1.0f : 0.0f, __hne(a.y, b.y) ? 1.0f : 0.0f); }
template <typename V> __device__ bool __hbne2(V a, V b) { return __hne(a.x, b.x) && __hne(a.y, b.y); }
template <typename V> __device__ V __hlt2(V a, V b) { return V(__hlt(a.x, b.x) ? 1.0f : 0.0f, __hlt(a.y, b.y) ? 1.0f : 0.0f); }
template <typename V> __device__ bool __hblt2(V a, V b) { return __hlt(a.x, b.x) && __hlt(a.y, b.y); }
template <typename V> __device__ V __hle2(V a, V b) { return V(__hle(a.x, b.x) ? 1.0f : 0.0f, __hle(a.y, b.y) ? 1.0f : 0.0f); }
template <typename V> __device__ bool __hble2(V a, V b) { return __hle(a.x, b.x) && __hle(a.y, b.y); }
template <typename V> __device__ V __hgt2(V a, V b) { return V(__hgt(a.x, b.x) ? 1.0f : 0.0f, __hgt(a.y, b.y) ? 1.0f : 0.0f); }
template <typename V> __device__ bool __hbgt2(V a, V b) { return __hgt(a.x, b.x) && __hgt(a.y, b.y); }
template <typename V> __device__ V __hge2(V a, V b) { return V(__hge(a.x, b.x) ? 1.0f : 0.0f, __hge(a.y, b.y) ? 1.0f : 0.0f); }
template <typename V> __device__ bool __hbge2(V a, V b) { return __hge(a.x, b.x) && __hge(a.y, b.y); }
template <typename V> __device__ V __hadd2_sat(V a, V b) { return V(__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)); }
template <typename V> __device__ V __hsub2_sat(V a, V b) { return V(__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)); }
template <typename V> __device__ V __hmul2_sat(V a, V b) { return V(__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)); }
template <typename V> __device__ V __hfma2_sat(V a, V b, V c) { return V(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)); }
template <typename V> __device__ V __hfma2_relu(V a, V b, V c) { return V(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)); }
template <typename V> __device__ V __hmax2_nan(V a, V b) { return V(__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)); }
template <typename V> __device__ V __hmin2_nan(V a, V b) { return V(__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)); }
template <typename V> __device__ V __hisnan2(V a) { return V(__hisnan(a.x) ? 1.0f : 0.0f, __hisnan(a.y) ? 1.0f : 0.0f); }
__device__ int __syncthreads_count(int predicate) { __shared__ unsigned int total; __syncthreads(); if (threadIdx.x + threadIdx.y + threadIdx.z == 0) total = 0u; __syncthreads(); if (predicate) atomicAdd(&total, 1u); __syncthreads(); const int found = (int)total; return found; }
__device__ int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }
__device__ int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
