// CUDA's vectors of one component (vector_types.h, vector_functions.h): records, as they have no operators.
struct char1 { signed char x; };
struct uchar1 { unsigned char x; };
struct short1 { short x; };
struct ushort1 { unsigned short x; };
struct int1 { int x; };
struct uint1 { unsigned int x; };
struct long1 { long x; };
struct ulong1 { unsigned long x; };
struct longlong1 { long long x; };
struct ulonglong1 { unsigned long long x; };
struct float1 { float x; };
struct double1 { double x; };
__device__ inline char1 make_char1(signed char x) { char1 v; v.x = x; return v; }
__device__ inline uchar1 make_uchar1(unsigned char x) { uchar1 v; v.x = x; return v; }
__device__ inline short1 make_short1(short x) { short1 v; v.x = x; return v; }
__device__ inline ushort1 make_ushort1(unsigned short x) { ushort1 v; v.x = x; return v; }
__device__ inline int1 make_int1(int x) { int1 v; v.x = x; return v; }
__device__ inline uint1 make_uint1(unsigned int x) { uint1 v; v.x = x; return v; }
__device__ inline long1 make_long1(long x) { long1 v; v.x = x; return v; }
__device__ inline ulong1 make_ulong1(unsigned long x) { ulong1 v; v.x = x; return v; }
__device__ inline longlong1 make_longlong1(long long x) { longlong1 v; v.x = x; return v; }
__device__ inline ulonglong1 make_ulonglong1(unsigned long long x) { ulonglong1 v; v.x = x; return v; }
__device__ inline float1 make_float1(float x) { float1 v; v.x = x; return v; }
__device__ inline double1 make_double1(double x) { double1 v; v.x = x; return v; }
