// OpenCL C's built-ins that are short functions of CUDA's. Each line is read only when its function is called.
__device__ void mem_fence(int flags) { if (flags == 1) __threadfence_block(); else __threadfence(); }
__device__ void read_mem_fence(int flags) { if (flags == 1) __threadfence_block(); else __threadfence(); }
__device__ void write_mem_fence(int flags) { if (flags == 1) __threadfence_block(); else __threadfence(); }
template <typename T> __device__ T native_recip(T x) { return (T)1 / x; }
template <typename T> __device__ T half_recip(T x) { return (T)1 / x; }
template <typename T> __device__ T rootn(T x, int n) { const T m = fabs(x); const T part = (T)1 / (T)n; T root = pow(m, part); if constexpr (sizeof(T) == 8) { if (m > (T)0 && m - m == (T)0 && n != 0) root += root * (fma(-part, (T)n, (T)1) / (T)n * log(m)); } return n & 1 ? copysign(root, x) : n == 0 || x < (T)0 ? (T)__int_as_float(0x7fc00000) : root; }
template <typename T> __device__ T pown(T x, int n) { if constexpr (sizeof(T) == 8) return pow(x, (T)n); else return n > -16777217 && n < 16777217 ? pow(x, (T)n) : pow(x, (T)(n - n % 256)) * pow(x, (T)(n % 256)); }
template <typename T> __device__ T powr(T x, T y) { return x >= (T)0 && (y != (T)0 || (x > (T)0 && x - x == (T)0)) && (x != (T)1 || y - y == (T)0) ? pow(fabs(x), y) : (T)__int_as_float(0x7fc00000); }
template <typename T> __device__ T mad24(T a, T b, T c) { return a * b + c; }
template <typename T> __device__ T mul_hi(T a, T b) { if constexpr (sizeof(T) == 8) { if constexpr ((T)-1 < (T)0) return __mul64hi(a, b); else return __umul64hi(a, b); } else if constexpr (sizeof(T) == 4) { if constexpr ((T)-1 < (T)0) return __mulhi(a, b); else return __umulhi(a, b); } else return (T)(((long)a * (long)b) >> (8 * sizeof(T))); }
template <typename T> __device__ T mad_sat(T a, T b, T c) { const T top = (T)(-1) < (T)0 ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)-1; const T low = (T)(-1) < (T)0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0; if constexpr (sizeof(T) < 8) { const long whole = (long)a * (long)b + (long)c; return whole > (long)top ? top : whole < (long)low ? low : (T)whole; } else { const T part = (T)(a * b); const T sum = (T)(part + c); const T high = (T)(mul_hi(a, b) + (c < (T)0 ? (T)-1 : (T)0) + (T)((unsigned long)sum < (unsigned long)part ? 1 : 0)); return high == ((T)(-1) < (T)0 ? (T)(sum >> 63) : (T)0) ? sum : high < (T)0 ? low : top; } }
template <typename T> __device__ T clz(T x) { if constexpr (sizeof(T) == 8) return (T)__clzll(x); else if constexpr (sizeof(T) == 4) return (T)__clz(x); else if constexpr (sizeof(T) == 2) return (T)(__clz((unsigned short)x) - 16); else return (T)(__clz((unsigned char)x) - 24); }
template <typename T> __device__ T popcount(T x) { if constexpr (sizeof(T) == 8) return (T)__popcll(x); else if constexpr (sizeof(T) == 4) return (T)__popc(x); else if constexpr (sizeof(T) == 2) return (T)__popc((unsigned short)x); else return (T)__popc((unsigned char)x); }
template <typename T> __device__ T ctz(T x) { return popcount((T)(~x & (x - 1))); }
template <typename T> __device__ T abs_diff(T x, T y) { if constexpr (sizeof(T) == 8) return x > y ? (T)((unsigned long)x - (unsigned long)y) : (T)((unsigned long)y - (unsigned long)x); else return x > y ? (T)((unsigned)x - (unsigned)y) : (T)((unsigned)y - (unsigned)x); }
template <typename T> __device__ T mad_hi(T a, T b, T c) { return (T)(mul_hi(a, b) + c); }
template <typename T> __device__ T hadd(T a, T b) { return (a & b) + ((a ^ b) >> 1); }
template <typename T> __device__ T rhadd(T a, T b) { return (a | b) - ((a ^ b) >> 1); }
template <typename T> __device__ T rotate(T x, T n) { if constexpr (sizeof(T) == 8) return (T)(((unsigned long)x << (n & 63)) | ((unsigned long)x >> ((64 - n) & 63))); else if constexpr (sizeof(T) == 4) return (T)(((unsigned)x << (n & 31)) | ((unsigned)x >> ((32 - n) & 31))); else if constexpr (sizeof(T) == 2) return (T)(((unsigned short)x << (n & 15)) | ((unsigned short)x >> ((16 - n) & 15))); else return (T)(((unsigned char)x << (n & 7)) | ((unsigned char)x >> ((8 - n) & 7))); }
template <typename T> __device__ T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }
template <typename T> __device__ T mix(T x, T y, T a) { return x + (y - x) * a; }
template <typename T> __device__ T step(T edge, T x) { return x < edge ? (T)0 : (T)1; }
template <typename T> __device__ T smoothstep(T e0, T e1, T x) { T t = min(max((x - e0) / (e1 - e0), (T)0), (T)1); return t * t * ((T)3 - (T)2 * t); }
template <typename T> __device__ T degrees(T x) { return (T)57.29577951308232 * x; }
template <typename T> __device__ T radians(T x) { return (T)0.017453292519943295 * x; }
template <typename T> __device__ T sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x == (T)0 ? x : (T)0; }
template <typename T> __device__ T maxmag(T x, T y) { return fabs(x) > fabs(y) ? x : fabs(y) > fabs(x) ? y : max(x, y); }
template <typename T> __device__ T minmag(T x, T y) { return fabs(x) < fabs(y) ? x : fabs(y) < fabs(x) ? y : min(x, y); }
template <typename T> __device__ T bitselect(T a, T b, T c) { return (a & ~c) | (b & c); }
template <typename T> __device__ bool isless(T x, T y) { return x < y; }
template <typename T> __device__ bool isgreater(T x, T y) { return x > y; }
template <typename T> __device__ bool islessequal(T x, T y) { return x <= y; }
template <typename T> __device__ bool isgreaterequal(T x, T y) { return x >= y; }
template <typename T> __device__ bool isequal(T x, T y) { return x == y; }
template <typename T> __device__ bool isnotequal(T x, T y) { return x != y; }
template <typename T> __device__ bool islessgreater(T x, T y) { return x < y || x > y; }
template <typename T> __device__ bool isordered(T x, T y) { return x == x && y == y; }
template <typename T> __device__ bool isunordered(T x, T y) { return x != x || y != y; }
template <typename T> __device__ bool isnormal(T x) { return x - x == (T)0 && fabs(x) >= (sizeof(T) == 8 ? (T)2.2250738585072014e-308 : (T)1.1754943508222875e-38f); }
template <typename T> __device__ T atomic_inc(T *p) { return atomicAdd(p, (T)1); }
template <typename T> __device__ T atom_inc(T *p) { return atomicAdd(p, (T)1); }
template <typename T> __device__ T atomic_dec(T *p) { return atomicSub(p, (T)1); }
template <typename T> __device__ T atom_dec(T *p) { return atomicSub(p, (T)1); }
template <typename T> __device__ T add_sat(T x, T y) { T top = (T)(-1) < (T)0 ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)-1; T low = (T)(-1) < (T)0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0; return y > (T)0 ? (x > (T)(top - y) ? top : (T)(x + y)) : (x < (T)(low - y) ? low : (T)(x + y)); }
template <typename T> __device__ T sub_sat(T x, T y) { T top = (T)(-1) < (T)0 ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)-1; T low = (T)(-1) < (T)0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0; return y > (T)0 ? (x < (T)(low + y) ? low : (T)(x - y)) : (x > (T)(top + y) ? top : (T)(x - y)); }
