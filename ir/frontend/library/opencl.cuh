// OpenCL C's built-ins that are short functions of CUDA's. Each line is read only when its function is called.
__device__ void mem_fence(int flags) { if (flags == 1) __threadfence_block(); else __threadfence(); }
__device__ void read_mem_fence(int flags) { if (flags == 1) __threadfence_block(); else __threadfence(); }
__device__ void write_mem_fence(int flags) { if (flags == 1) __threadfence_block(); else __threadfence(); }
template <typename T> __device__ T native_recip(T x) { return (T)1 / x; }
template <typename T> __device__ T half_recip(T x) { return (T)1 / x; }
template <typename T> __device__ T rootn(T x, int n) { return pow(x, (T)1 / (T)n); }
template <typename T> __device__ T mad24(T a, T b, T c) { return a * b + c; }
__device__ int mad_hi(int a, int b, int c) { return __mulhi(a, b) + c; }
template <typename T> __device__ T hadd(T a, T b) { return (a & b) + ((a ^ b) >> 1); }
template <typename T> __device__ T rhadd(T a, T b) { return (a | b) - ((a ^ b) >> 1); }
template <typename T> __device__ T rotate(T x, T n) { return sizeof(T) == 4 ? (T)(((unsigned)x << (n & 31)) | ((unsigned)x >> ((32 - n) & 31))) : (T)(((unsigned long)x << (n & 63)) | ((unsigned long)x >> ((64 - n) & 63))); }
template <typename T> __device__ T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }
template <typename T> __device__ T mix(T x, T y, T a) { return x + (y - x) * a; }
template <typename T> __device__ T step(T edge, T x) { return x < edge ? (T)0 : (T)1; }
template <typename T> __device__ T smoothstep(T e0, T e1, T x) { T t = min(max((x - e0) / (e1 - e0), (T)0), (T)1); return t * t * ((T)3 - (T)2 * t); }
template <typename T> __device__ T degrees(T x) { return (T)57.29577951308232 * x; }
template <typename T> __device__ T radians(T x) { return (T)0.017453292519943295 * x; }
template <typename T> __device__ T sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x == (T)0 ? x : (T)0; }
template <typename T> __device__ T maxmag(T x, T y) { return fabs(x) > fabs(y) ? x : fabs(y) > fabs(x) ? y : max(x, y); }
template <typename T> __device__ T minmag(T x, T y) { return fabs(x) < fabs(y) ? x : fabs(y) < fabs(x) ? y : min(x, y); }
template <typename T, typename C> __device__ T select(T a, T b, C c) { return c ? b : a; }
template <typename T> __device__ T bitselect(T a, T b, T c) { return (a & ~c) | (b & c); }
template <typename T> __device__ int isless(T x, T y) { return x < y; }
template <typename T> __device__ int isgreater(T x, T y) { return x > y; }
template <typename T> __device__ int islessequal(T x, T y) { return x <= y; }
template <typename T> __device__ int isgreaterequal(T x, T y) { return x >= y; }
template <typename T> __device__ int isequal(T x, T y) { return x == y; }
template <typename T> __device__ int isnotequal(T x, T y) { return x != y; }
template <typename T> __device__ int islessgreater(T x, T y) { return x < y || x > y; }
template <typename T> __device__ int isordered(T x, T y) { return x == x && y == y; }
template <typename T> __device__ int isunordered(T x, T y) { return x != x || y != y; }
template <typename T> __device__ T atomic_inc(T *p) { return atomicAdd(p, (T)1); }
template <typename T> __device__ T atom_inc(T *p) { return atomicAdd(p, (T)1); }
template <typename T> __device__ T atomic_dec(T *p) { return atomicSub(p, (T)1); }
template <typename T> __device__ T atom_dec(T *p) { return atomicSub(p, (T)1); }
template <typename T> __device__ T add_sat(T x, T y) { T top = (T)(-1) < (T)0 ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)-1; T low = (T)(-1) < (T)0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0; return y > (T)0 ? (x > (T)(top - y) ? top : (T)(x + y)) : (x < (T)(low - y) ? low : (T)(x + y)); }
template <typename T> __device__ T sub_sat(T x, T y) { T top = (T)(-1) < (T)0 ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)-1; T low = (T)(-1) < (T)0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0; return y > (T)0 ? (x < (T)(low + y) ? low : (T)(x - y)) : (x > (T)(top + y) ? top : (T)(x - y)); }
