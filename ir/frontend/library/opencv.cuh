// What kernels on images use of OpenCV's core/cuda_types.hpp and core/cuda: pointers with the bytes from one row to the
// next, with extents too; conversions that stay within the type; vectors by element and length.
namespace cv { namespace cuda {
template <typename T> struct DevPtr {
  typedef T elem_type;
  enum { elem_size = sizeof(T) };
  T* data;
  __host__ __device__ DevPtr() : data(0) {}
  __host__ __device__ DevPtr(T* from) : data(from) {}
  __host__ __device__ size_t elemSize() const { return sizeof(T); }
  __host__ __device__ operator T*() { return data; }
  __host__ __device__ operator const T*() const { return data; }
};

template <typename T> struct PtrSz : public DevPtr<T> {
  size_t size;
  __host__ __device__ PtrSz() : size(0) {}
  __host__ __device__ PtrSz(T* from, size_t count) : DevPtr<T>(from), size(count) {}
};

template <typename T> struct PtrStep : public DevPtr<T> {
  size_t step;
  __host__ __device__ PtrStep() : step(0) {}
  __host__ __device__ PtrStep(T* from, size_t bytes) : DevPtr<T>(from), step(bytes) {}
  __host__ __device__ T* ptr(int y = 0) { return (T*)((char*)DevPtr<T>::data + y * step); }
  __host__ __device__ const T* ptr(int y = 0) const { return (const T*)((const char*)DevPtr<T>::data + y * step); }
  __host__ __device__ T& operator()(int y, int x) { return ptr(y)[x]; }
  __host__ __device__ const T& operator()(int y, int x) const { return ptr(y)[x]; }
};

template <typename T> struct PtrStepSz : public PtrStep<T> {
  int cols;
  int rows;
  __host__ __device__ PtrStepSz() : cols(0), rows(0) {}
  __host__ __device__ PtrStepSz(int height, int width, T* from, size_t bytes)
      : PtrStep<T>(from, bytes), cols(width), rows(height) {}
};

typedef PtrStepSz<unsigned char> PtrStepSzb;
typedef PtrStepSz<unsigned short> PtrStepSzus;
typedef PtrStepSz<float> PtrStepSzf;
typedef PtrStepSz<int> PtrStepSzi;
typedef PtrStep<unsigned char> PtrStepb;
typedef PtrStep<unsigned short> PtrStepus;
typedef PtrStep<float> PtrStepf;
typedef PtrStep<int> PtrStepi;

namespace device {
__host__ __device__ inline int divUp(int total, int grain) { return (total + grain - 1) / grain; }

template <typename D> struct saturated;
template <> struct saturated<unsigned char> {
  static __device__ unsigned char of(int v) { return (unsigned char)min(max(v, 0), 255); }
  static __device__ unsigned char of(unsigned int v) { return (unsigned char)min(v, 255u); }
  static __device__ unsigned char of(float v) { return of(__float2int_rn(v)); }
};
template <> struct saturated<signed char> {
  static __device__ signed char of(int v) { return (signed char)min(max(v, -128), 127); }
  static __device__ signed char of(unsigned int v) { return (signed char)min(v, 127u); }
  static __device__ signed char of(float v) { return of(__float2int_rn(v)); }
};
template <> struct saturated<unsigned short> {
  static __device__ unsigned short of(int v) { return (unsigned short)min(max(v, 0), 65535); }
  static __device__ unsigned short of(unsigned int v) { return (unsigned short)min(v, 65535u); }
  static __device__ unsigned short of(float v) { return of(__float2int_rn(v)); }
};
template <> struct saturated<short> {
  static __device__ short of(int v) { return (short)min(max(v, -32768), 32767); }
  static __device__ short of(unsigned int v) { return (short)min(v, 32767u); }
  static __device__ short of(float v) { return of(__float2int_rn(v)); }
};
template <> struct saturated<int> {
  static __device__ int of(int v) { return v; }
  static __device__ int of(float v) { return __float2int_rn(v); }
};
template <> struct saturated<float> {
  static __device__ float of(int v) { return (float)v; }
  static __device__ float of(unsigned int v) { return (float)v; }
  static __device__ float of(float v) { return v; }
};
template <typename D, typename S> __device__ inline D saturate_cast(S v) { return saturated<D>::of(v); }

template <typename T, int n> struct TypeVec;
template <> struct TypeVec<unsigned char, 1> { typedef unsigned char vec_type; };
template <> struct TypeVec<unsigned char, 3> { typedef uchar3 vec_type; };
template <> struct TypeVec<unsigned char, 4> { typedef uchar4 vec_type; };
template <> struct TypeVec<float, 1> { typedef float vec_type; };
template <> struct TypeVec<float, 3> { typedef float3 vec_type; };
template <> struct TypeVec<float, 4> { typedef float4 vec_type; };
}
} }
