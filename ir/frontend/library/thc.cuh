// What kernels of Torch 7 use of its CUDA library (cutorch's THC): conversions and operations by type, tensors that are
// passed with their extents and strides, and a sum of a block. Indices of Lua begin at 1.
enum { TH_INDEX_BASE = 1 };

struct THCState;
struct THLongStorage { long* data; long size; };
struct THCDescBuff { char str[64]; };
struct THCudaTensor { long* size; long* stride; int nDimension; };
struct THCudaLongTensor { long* size; long* stride; int nDimension; };

template <typename From, typename To> struct ScalarConvert {
  static __host__ __device__ To to(const From value) { return static_cast<To>(value); }
};

template <typename T> struct THCRange {
  static __host__ __device__ T least() { return T(-2147483647 - 1); }
  static __host__ __device__ T most() { return T(2147483647); }
};
template <> struct THCRange<float> {
  static __host__ __device__ float least() { return -3.402823466e+38f; }
  static __host__ __device__ float most() { return 3.402823466e+38f; }
};
template <> struct THCRange<double> {
  static __host__ __device__ double least() { return -1.7976931348623158e+308; }
  static __host__ __device__ double most() { return 1.7976931348623158e+308; }
};
template <> struct THCRange<long> {
  static __host__ __device__ long least() { return -9223372036854775807l - 1l; }
  static __host__ __device__ long most() { return 9223372036854775807l; }
};

template <typename T> struct THCNumerics {
  static __host__ __device__ T min() { return THCRange<T>::least(); }
  static __host__ __device__ T max() { return THCRange<T>::most(); }
  static __host__ __device__ bool lt(T a, T b) { return a < b; }
  static __host__ __device__ bool le(T a, T b) { return a <= b; }
  static __host__ __device__ bool gt(T a, T b) { return a > b; }
  static __host__ __device__ bool ge(T a, T b) { return a >= b; }
  static __host__ __device__ bool eq(T a, T b) { return a == b; }
  static __host__ __device__ bool ne(T a, T b) { return a != b; }
  static __host__ __device__ T add(T a, T b) { return a + b; }
  static __host__ __device__ T sub(T a, T b) { return a - b; }
  static __host__ __device__ T mul(T a, T b) { return a * b; }
  static __host__ __device__ T div(T a, T b) { return a / b; }
  static __host__ __device__ T neg(T a) { return -a; }
  static __host__ __device__ T cinv(T a) { return T(1) / a; }
  static __host__ __device__ T abs(T a) { return a < T(0) ? -a : a; }
  static __host__ __device__ T exp(T a) { return ::exp(a); }
  static __host__ __device__ T log(T a) { return ::log(a); }
  static __host__ __device__ T log1p(T a) { return ::log1p(a); }
  static __host__ __device__ T sqrt(T a) { return ::sqrt(a); }
  static __host__ __device__ T rsqrt(T a) { return ::rsqrt(a); }
  static __host__ __device__ T tanh(T a) { return ::tanh(a); }
  static __host__ __device__ T pow(T a, T b) { return ::pow(a, b); }
};
template <> inline __host__ __device__ float THCNumerics<float>::abs(float a) { return fabsf(a); }
template <> inline __host__ __device__ double THCNumerics<double>::abs(double a) { return fabs(a); }

template <typename T> __host__ __device__ T THCCeilDiv(T a, T b) { return (a + b - 1) / b; }
template <typename T> __host__ __device__ T THCRoundUp(T a, T b) { return THCCeilDiv(a, b) * b; }

template <typename U> struct THCDefaultPtrTraits { typedef U* PtrType; };

template <typename T, int Dim, typename IndexT, template <typename U> class PtrTraits> struct THCDeviceSubTensor {
  T* ptr;
  const IndexT* strides;
  const IndexT* sizes;
  __device__ THCDeviceSubTensor(T* p, const IndexT* by, const IndexT* n) : ptr(p), strides(by), sizes(n) {}
  __device__ IndexT getSize(int i) const { return sizes[i]; }
  __device__ IndexT getStride(int i) const { return strides[i]; }
  __device__ T* data() const { return ptr; }
  __device__ THCDeviceSubTensor<T, Dim - 1, IndexT, PtrTraits> operator[](IndexT i) const {
    return THCDeviceSubTensor<T, Dim - 1, IndexT, PtrTraits>(ptr + strides[0] * i, strides + 1, sizes + 1);
  }
};
template <typename T, typename IndexT, template <typename U> class PtrTraits>
struct THCDeviceSubTensor<T, 0, IndexT, PtrTraits> {
  T* ptr;
  __device__ THCDeviceSubTensor(T* p, const IndexT* by, const IndexT* n) : ptr(p) {}
  __device__ T* data() const { return ptr; }
  __device__ T ldg() const { return *ptr; }
  __device__ operator T&() const { return *ptr; }
  __device__ T& operator=(const T& value) { return *ptr = value; }
  __device__ T& operator+=(const T& value) { return *ptr += value; }
  __device__ T& operator=(const THCDeviceSubTensor<T, 0, IndexT, PtrTraits>& other) { return *ptr = *other.ptr; }
  __device__ T* operator&() const { return ptr; }
};

template <typename T, int Dim, typename IndexT = int, template <typename U> class PtrTraits = THCDefaultPtrTraits>
struct THCDeviceTensor {
  typename PtrTraits<T>::PtrType ptr;
  IndexT strides[Dim];
  IndexT sizes[Dim];
  __host__ __device__ IndexT getSize(int i) const { return sizes[i]; }
  __host__ __device__ IndexT getStride(int i) const { return strides[i]; }
  __host__ __device__ T* data() const { return ptr; }
  __host__ __device__ IndexT numElements() const {
    IndexT count = sizes[0];
    for (int i = 1; i < Dim; ++i) count *= sizes[i];
    return count;
  }
  __device__ THCDeviceSubTensor<T, Dim - 1, IndexT, PtrTraits> operator[](IndexT i) const {
    return THCDeviceSubTensor<T, Dim - 1, IndexT, PtrTraits>(ptr + strides[0] * i, strides + 1, sizes + 1);
  }
};

// The first thread gets what `op` makes of the values of the first `count` threads.
template <typename T, typename Op> __device__ T reduceBlock(T* shared, int count, T value, Op op, T init) {
  if (count == 0) return init;
  __syncthreads();
  if (threadIdx.x < count) shared[threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    T mine = threadIdx.x < count ? shared[threadIdx.x] : init;
    for (int i = threadIdx.x + 32; i < count; i += 32) mine = op(mine, shared[i]);
    shared[threadIdx.x] = mine;
  }
  __syncthreads();
  T whole = init;
  if (threadIdx.x == 0) {
    whole = shared[0];
    for (int i = 1; i < (count < 32 ? count : 32); ++i) whole = op(whole, shared[i]);
  }
  return whole;
}
