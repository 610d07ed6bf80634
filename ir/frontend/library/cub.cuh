// cub's block-wide and warp-wide collectives, after the documentation of the CUDA Core Compute Libraries: shuffles
// inside a warp, one shared element a warp between them. The order of a reduction's operands is that of cub's warp
// reductions (its default algorithm): it decides how a float sum rounds. Its other algorithms are taken as that one.
namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };

// ---- functors
struct Sum { template <typename T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Difference { template <typename T> __device__ T operator()(T a, T b) const { return a - b; } };
struct Division { template <typename T> __device__ T operator()(T a, T b) const { return a / b; } };
struct Max { template <typename T> __device__ T operator()(T a, T b) const { return b > a ? b : a; } };
struct Min { template <typename T> __device__ T operator()(T a, T b) const { return b < a ? b : a; } };
struct Equality { template <typename T> __device__ bool operator()(T a, T b) const { return a == b; } };
struct Inequality { template <typename T> __device__ bool operator()(T a, T b) const { return a != b; } };

// ---- bits of keys that sort as unsigned numbers
template <typename U> struct __unsigned_traits {
  using UnsignedBits = U;
  static __device__ U TwiddleIn(U key) { return key; }
  static __device__ U TwiddleOut(U key) { return key; }
};
template <typename U> struct __signed_traits {
  using UnsignedBits = U;
  static constexpr U HIGH_BIT = (U)((U)1 << (sizeof(U) * 8 - 1));
  static __device__ U TwiddleIn(U key) { return key ^ HIGH_BIT; }
  static __device__ U TwiddleOut(U key) { return key ^ HIGH_BIT; }
};
template <typename U> struct __float_traits {
  using UnsignedBits = U;
  static constexpr U HIGH_BIT = (U)((U)1 << (sizeof(U) * 8 - 1));
  static __device__ U TwiddleIn(U key) { return key ^ ((key & HIGH_BIT) != 0 ? (U)~(U)0 : HIGH_BIT); }
  static __device__ U TwiddleOut(U key) { return key ^ ((key & HIGH_BIT) != 0 ? HIGH_BIT : (U)~(U)0); }
};
template <typename T> struct Traits;
template <> struct Traits<unsigned char> : __unsigned_traits<unsigned char> {};
template <> struct Traits<unsigned short> : __unsigned_traits<unsigned short> {};
template <> struct Traits<unsigned int> : __unsigned_traits<unsigned int> {};
template <> struct Traits<unsigned long long> : __unsigned_traits<unsigned long long> {};
template <> struct Traits<signed char> : __signed_traits<unsigned char> {};
template <> struct Traits<short> : __signed_traits<unsigned short> {};
template <> struct Traits<int> : __signed_traits<unsigned int> {};
template <> struct Traits<long long> : __signed_traits<unsigned long long> {};
template <> struct Traits<__half> : __float_traits<unsigned short> {};
template <> struct Traits<__nv_bfloat16> : __float_traits<unsigned short> {};
template <> struct Traits<float> : __float_traits<unsigned int> {};
template <> struct Traits<double> : __float_traits<unsigned long long> {};
template <typename T> using NumericTraits = Traits<T>;

// ---- the largest and the lowest finite number of a floating-point type
template <typename T> struct FpLimits {
  static __host__ __device__ T Max() { return std::numeric_limits<T>::max(); }
  static __host__ __device__ T Lowest() { return std::numeric_limits<T>::lowest(); }
};
template <> struct FpLimits<__half> {
  static __host__ __device__ __half Max() { return __ushort_as_half((unsigned short)0x7BFF); }
  static __host__ __device__ __half Lowest() { return __ushort_as_half((unsigned short)0xFBFF); }
};
template <> struct FpLimits<__nv_bfloat16> {
  static __host__ __device__ __nv_bfloat16 Max() { return __ushort_as_bfloat16((unsigned short)0x7F7F); }
  static __host__ __device__ __nv_bfloat16 Lowest() { return __ushort_as_bfloat16((unsigned short)0xFF7F); }
};

template <typename K, typename V> struct KeyValuePair {
  using Key = K;
  using Value = V;
  K key;
  V value;
  __device__ KeyValuePair() {}
  __device__ KeyValuePair(K k, V v) : key(k), value(v) {}
  __device__ bool operator!=(const KeyValuePair<K, V>& b) const { return value != b.value || key != b.key; }
};
struct ArgMax {
  template <typename P> __device__ P operator()(P a, P b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <typename P> __device__ P operator()(P a, P b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

// ---- storage, threads
template <typename T, int N> struct __storage { T item[N]; };
struct __unused { unsigned char item; };

template <int X, int Y, int Z> __device__ inline int __linear_thread() {
  int id = threadIdx.x;
  if constexpr (Y > 1) id += threadIdx.y * X;
  if constexpr (Z > 1) id += threadIdx.z * (X * Y);
  return id;
}
template <int Threads> __device__ inline unsigned int __warp_mask(int warp) {
  if constexpr (Threads % 32 == 0) {
    return 0xffffffffu;
  } else {
    return warp == Threads / 32 ? (1u << (Threads % 32)) - 1u : 0xffffffffu;
  }
}
__device__ inline unsigned int __thread_of_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ inline unsigned int LaneId() { return __thread_of_block() % 32u; }
__device__ inline unsigned int WarpId() { return __thread_of_block() / 32u; }
__device__ inline void CTA_SYNC() { __syncthreads(); }
__device__ inline void WARP_SYNC(unsigned int mask) { __syncwarp(mask); }
__device__ inline int RowMajorTid(int x, int y, int z) {
  return (z == 1 ? 0 : threadIdx.z * x * y) + (y == 1 ? 0 : threadIdx.y * x) + threadIdx.x;
}

// ---- steps inside (logical) warps of Size lanes
template <int Size, typename T, typename Op>
__device__ T __reduce_lanes(unsigned int mask, int lane, int last, T value, Op op) {
  T out = value;
#pragma unroll
  for (int distance = 1; distance < Size; distance *= 2) {
    const T other = __shfl_down_sync(mask, out, distance, Size);
    if (lane + distance <= last) out = op(out, other);
  }
  return out;
}
template <int Size, typename T, typename Op>
__device__ T __reduce_all_lanes(unsigned int mask, T value, Op op) {
  T out = value;
#pragma unroll
  for (int distance = 1; distance < Size; distance *= 2) {
    const T other = __shfl_down_sync(mask, out, distance, Size);
    out = op(out, other);
  }
  return out;
}
template <int Size, typename T, typename Op> __device__ T __scan_lanes(unsigned int mask, int lane, T value, Op op) {
  T out = value;
#pragma unroll
  for (int distance = 1; distance < Size; distance *= 2) {
    const T other = __shfl_up_sync(mask, out, distance, Size);
    if (lane >= distance) out = op(other, out);
  }
  return out;
}
template <int N, typename T, typename Op> __device__ T __reduce_items(T (&items)[N], Op op) {
  T out = items[0];
#pragma unroll
  for (int i = 1; i < N; ++i) out = op(out, items[i]);
  return out;
}

// ---- reduction over a block: the result is thread 0's
template <typename T, int X, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int Arch = 0>
struct BlockReduce {
  using TempStorage = __storage<T, (X * Y * Z + 31) / 32>;
  TempStorage* storage;

  __device__ BlockReduce(TempStorage& temp) : storage(&temp) {}
  template <typename Op> __device__ T Reduce(T input, Op op) {
    constexpr int threads = X * Y * Z;
    constexpr int warps = (threads + 31) / 32;
    const int thread = __linear_thread<X, Y, Z>();
    const int warp = thread / 32;
    const int lane = thread % 32;
    T out;
    if constexpr (threads % 32 == 0) {
      out = __reduce_all_lanes<32>(0xffffffffu, input, op);
    } else {
      const int last = warp == threads / 32 ? threads % 32 - 1 : 31;
      out = __reduce_lanes<32>(__warp_mask<threads>(warp), lane, last, input, op);
    }
    if (lane == 0) storage->item[warp] = out;
    __syncthreads();
    if (thread == 0) {
#pragma unroll
      for (int i = 1; i < warps; ++i) out = op(out, storage->item[i]);
    }
    return out;
  }
  template <typename Op> __device__ T Reduce(T input, Op op, int valid) {
    constexpr int threads = X * Y * Z;
    constexpr int warps = (threads + 31) / 32;
    const int thread = __linear_thread<X, Y, Z>();
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int left = valid - warp * 32;
    T out = __reduce_lanes<32>(__warp_mask<threads>(warp), lane, left < 32 ? left - 1 : 31, input, op);
    if (lane == 0) storage->item[warp] = out;
    __syncthreads();
    if (thread == 0) {
#pragma unroll
      for (int i = 1; i < warps; ++i) {
        if (i * 32 < valid) out = op(out, storage->item[i]);
      }
    }
    return out;
  }
  template <int N, typename Op> __device__ T Reduce(T (&items)[N], Op op) { return Reduce(__reduce_items(items, op), op); }
  __device__ T Sum(T input) { return Reduce(input, cub::Sum()); }
  __device__ T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
  template <int N> __device__ T Sum(T (&items)[N]) { return Reduce(__reduce_items(items, cub::Sum()), cub::Sum()); }
};

// ---- counts of a block's items by value: those of its default algorithm wait for all threads first
template <typename T, int X, int N, int Bins, BlockHistogramAlgorithm Algorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int Arch = 0>
struct BlockHistogram {
  using TempStorage = __storage<int, 1>;

  __device__ BlockHistogram(TempStorage& temp) {}
  template <typename C> __device__ void InitHistogram(C* histogram) {
    for (int bin = __linear_thread<X, Y, Z>(); bin < Bins; bin += X * Y * Z) histogram[bin] = 0;
  }
  template <typename C> __device__ void Composite(T (&items)[N], C* histogram) {
    if constexpr (Algorithm == BLOCK_HISTO_SORT) __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) atomicAdd(&histogram[items[i]], (C)1);
  }
  template <typename C> __device__ void Histogram(T (&items)[N], C* histogram) {
    InitHistogram(histogram);
    __syncthreads();
    Composite(items, histogram);
  }
};

// ---- scans over a block
template <typename T, int X, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int Arch = 0>
struct BlockScan {
  using TempStorage = __storage<T, (X * Y * Z + 31) / 32 + 1>;
  TempStorage* storage;

  __device__ BlockScan(TempStorage& temp) : storage(&temp) {}
  // The scan of all items before this thread in `before` (of nothing in thread 0) and with its own in `with`.
  template <typename Op> __device__ T __scan(T input, T& before, T& with, Op op) {
    constexpr int threads = X * Y * Z;
    constexpr int warps = (threads + 31) / 32;
    const int thread = __linear_thread<X, Y, Z>();
    const int warp = thread / 32;
    const int lane = thread % 32;
    const unsigned int mask = __warp_mask<threads>(warp);
    T own = __scan_lanes<32>(mask, lane, input, op);
    T previous = __shfl_up_sync(mask, own, 1, 32);
    if (lane == 31 || thread == threads - 1) storage->item[warp] = own;
    __syncthreads();
    T total = storage->item[0];
    T prefix = total;
#pragma unroll
    for (int i = 1; i < warps; ++i) {
      if (warp == i) prefix = total;
      total = op(total, storage->item[i]);
    }
    if (warp != 0) {
      own = op(prefix, own);
      previous = lane == 0 ? prefix : op(prefix, previous);
    }
    before = previous;
    with = own;
    return total;
  }
  // What the first thread's callback makes of the block's total, for all threads.
  template <typename Callback> __device__ T __prefix(T total, Callback& callback) {
    constexpr int warps = (X * Y * Z + 31) / 32;
    if (__linear_thread<X, Y, Z>() < 32) {
      const T found = callback(total);
      if (__linear_thread<X, Y, Z>() == 0) storage->item[warps] = found;
    }
    __syncthreads();
    return storage->item[warps];
  }

  template <typename Op> __device__ void InclusiveScan(T input, T& output, Op op) {
    T before;
    T with;
    __scan(input, before, with, op);
    output = with;
  }
  template <typename Op> __device__ void InclusiveScan(T input, T& output, Op op, T& aggregate) {
    T before;
    T with;
    aggregate = __scan(input, before, with, op);
    output = with;
  }
  template <typename Op, typename Callback> __device__ void InclusiveScan(T input, T& output, Op op, Callback& callback) {
    T before;
    T with;
    const T total = __scan(input, before, with, op);
    output = op(__prefix(total, callback), with);
  }
  template <typename Op> __device__ void ExclusiveScan(T input, T& output, Op op) {
    T before;
    T with;
    __scan(input, before, with, op);
    output = before;
  }
  template <typename I, typename Op> __device__ void ExclusiveScan(T input, T& output, I initial, Op op) {
    T before;
    T with;
    __scan(input, before, with, op);
    output = __linear_thread<X, Y, Z>() == 0 ? (T)initial : op((T)initial, before);
  }
  template <typename I, typename Op> __device__ void ExclusiveScan(T input, T& output, I initial, Op op, T& aggregate) {
    T before;
    T with;
    aggregate = __scan(input, before, with, op);
    output = __linear_thread<X, Y, Z>() == 0 ? (T)initial : op((T)initial, before);
  }
  __device__ void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
  __device__ void InclusiveSum(T input, T& output, T& aggregate) { InclusiveScan(input, output, cub::Sum(), aggregate); }
  template <typename Callback> __device__ void InclusiveSum(T input, T& output, Callback& callback) {
    InclusiveScan(input, output, cub::Sum(), callback);
  }
  __device__ void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, (T)0, cub::Sum()); }
  __device__ void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, (T)0, cub::Sum(), aggregate);
  }
  template <typename Callback> __device__ void ExclusiveSum(T input, T& output, Callback& callback) {
    T before;
    T with;
    const T total = __scan(input, before, with, cub::Sum());
    const T prefix = __prefix(total, callback);
    output = __linear_thread<X, Y, Z>() == 0 ? prefix : prefix + before;
  }

  // several consecutive items a thread
  template <int N, typename Op> __device__ void InclusiveScan(T (&input)[N], T (&output)[N], Op op) {
    T total;
    InclusiveScan(input, output, op, total);
  }
  template <int N, typename Op> __device__ void InclusiveScan(T (&input)[N], T (&output)[N], Op op, T& aggregate) {
    T before;
    T with;
    aggregate = __scan(__reduce_items(input, op), before, with, op);
    T sofar = __linear_thread<X, Y, Z>() == 0 ? input[0] : op(before, input[0]);
    output[0] = sofar;
#pragma unroll
    for (int i = 1; i < N; ++i) {
      sofar = op(sofar, input[i]);
      output[i] = sofar;
    }
  }
  template <int N, typename Op, typename Callback>
  __device__ void InclusiveScan(T (&input)[N], T (&output)[N], Op op, Callback& callback) {
    T before;
    T with;
    const T total = __scan(__reduce_items(input, op), before, with, op);
    const T prefix = __prefix(total, callback);
    T sofar = __linear_thread<X, Y, Z>() == 0 ? prefix : op(prefix, before);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sofar = op(sofar, input[i]);
      output[i] = sofar;
    }
  }
  template <int N, typename I, typename Op>
  __device__ void ExclusiveScan(T (&input)[N], T (&output)[N], I initial, Op op) {
    T total;
    ExclusiveScan(input, output, initial, op, total);
  }
  template <int N, typename I, typename Op>
  __device__ void ExclusiveScan(T (&input)[N], T (&output)[N], I initial, Op op, T& aggregate) {
    T before;
    T with;
    aggregate = __scan(__reduce_items(input, op), before, with, op);
    T sofar = __linear_thread<X, Y, Z>() == 0 ? (T)initial : op((T)initial, before);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const T own = input[i];
      output[i] = sofar;
      sofar = op(sofar, own);
    }
  }
  template <int N> __device__ void InclusiveSum(T (&input)[N], T (&output)[N]) { InclusiveScan(input, output, cub::Sum()); }
  template <int N> __device__ void InclusiveSum(T (&input)[N], T (&output)[N], T& aggregate) {
    InclusiveScan(input, output, cub::Sum(), aggregate);
  }
  template <int N> __device__ void ExclusiveSum(T (&input)[N], T (&output)[N]) {
    ExclusiveScan(input, output, (T)0, cub::Sum());
  }
  template <int N> __device__ void ExclusiveSum(T (&input)[N], T (&output)[N], T& aggregate) {
    ExclusiveScan(input, output, (T)0, cub::Sum(), aggregate);
  }
  template <int N, typename Callback> __device__ void ExclusiveSum(T (&input)[N], T (&output)[N], Callback& callback) {
    T before;
    T with;
    const T total = __scan(__reduce_items(input, cub::Sum()), before, with, cub::Sum());
    const T prefix = __prefix(total, callback);
    T sofar = __linear_thread<X, Y, Z>() == 0 ? prefix : prefix + before;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const T own = input[i];
      output[i] = sofar;
      sofar = sofar + own;
    }
  }
};

// ---- warps
template <typename T, int Size = 32, int Arch = 0> struct WarpReduce {
  using TempStorage = __unused;

  __device__ WarpReduce(TempStorage& temp) {}
  __device__ int __lane() const { return (int)(__thread_of_block() % Size); }
  __device__ unsigned int __mask() const {
    if constexpr (Size == 32) {
      return 0xffffffffu;
    } else {
      return ((1u << Size) - 1u) << (__thread_of_block() % 32u / Size * Size);
    }
  }
  template <typename Op> __device__ T Reduce(T input, Op op) { return __reduce_all_lanes<Size>(__mask(), input, op); }
  template <typename Op> __device__ T Reduce(T input, Op op, int valid) {
    return __reduce_lanes<Size>(__mask(), __lane(), valid - 1, input, op);
  }
  __device__ T Sum(T input) { return Reduce(input, cub::Sum()); }
  __device__ T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
  // Segments of lanes: each one's result is its first lane's. ``ends``: the last lanes of segments, a bit a lane.
  template <typename Op> __device__ T __segmented(T input, unsigned int ends, Op op) {
    const int lane = __lane();
    const int last = __ffs((int)((ends & (~0u << lane)) | (1u << (Size - 1)))) - 1;
    return __reduce_lanes<Size>(__mask(), lane, last, input, op);
  }
  __device__ unsigned int __flags(bool flag) {
    return (__ballot_sync(__mask(), flag) & __mask()) >> (__thread_of_block() % 32u / Size * Size);
  }
  template <typename Flag, typename Op> __device__ T HeadSegmentedReduce(T input, Flag head, Op op) {
    return __segmented(input, __flags(head) >> 1, op);
  }
  template <typename Flag, typename Op> __device__ T TailSegmentedReduce(T input, Flag tail, Op op) {
    return __segmented(input, __flags(tail), op);
  }
  template <typename Flag> __device__ T HeadSegmentedSum(T input, Flag head) {
    return HeadSegmentedReduce(input, head, cub::Sum());
  }
  template <typename Flag> __device__ T TailSegmentedSum(T input, Flag tail) {
    return TailSegmentedReduce(input, tail, cub::Sum());
  }
};
template <typename T, int Size = 32, int Arch = 0> struct WarpScan {
  using TempStorage = __unused;

  __device__ WarpScan(TempStorage& temp) {}
  __device__ int __lane() const { return (int)(__thread_of_block() % Size); }
  __device__ unsigned int __mask() const {
    if constexpr (Size == 32) {
      return 0xffffffffu;
    } else {
      return ((1u << Size) - 1u) << (__thread_of_block() % 32u / Size * Size);
    }
  }
  __device__ T Broadcast(T input, unsigned int source) { return __shfl_sync(__mask(), input, (int)source, Size); }
  template <typename Op> __device__ void InclusiveScan(T input, T& output, Op op) {
    output = __scan_lanes<Size>(__mask(), __lane(), input, op);
  }
  template <typename Op> __device__ void InclusiveScan(T input, T& output, Op op, T& aggregate) {
    output = __scan_lanes<Size>(__mask(), __lane(), input, op);
    aggregate = __shfl_sync(__mask(), output, Size - 1, Size);
  }
  template <typename Op> __device__ void ExclusiveScan(T input, T& output, Op op) {
    const T with = __scan_lanes<Size>(__mask(), __lane(), input, op);
    output = __shfl_up_sync(__mask(), with, 1, Size);
  }
  template <typename I, typename Op> __device__ void ExclusiveScan(T input, T& output, I initial, Op op) {
    const T with = __scan_lanes<Size>(__mask(), __lane(), input, op);
    const T before = __shfl_up_sync(__mask(), with, 1, Size);
    output = __lane() == 0 ? (T)initial : op((T)initial, before);
  }
  template <typename I, typename Op> __device__ void ExclusiveScan(T input, T& output, I initial, Op op, T& aggregate) {
    const T with = __scan_lanes<Size>(__mask(), __lane(), input, op);
    const T before = __shfl_up_sync(__mask(), with, 1, Size);
    aggregate = __shfl_sync(__mask(), with, Size - 1, Size);
    output = __lane() == 0 ? (T)initial : op((T)initial, before);
  }
  template <typename Op> __device__ void Scan(T input, T& inclusive, T& exclusive, Op op) {
    const T with = __scan_lanes<Size>(__mask(), __lane(), input, op);
    exclusive = __shfl_up_sync(__mask(), with, 1, Size);
    inclusive = with;
  }
  __device__ void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
  __device__ void InclusiveSum(T input, T& output, T& aggregate) { InclusiveScan(input, output, cub::Sum(), aggregate); }
  __device__ void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, (T)0, cub::Sum()); }
  __device__ void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, (T)0, cub::Sum(), aggregate);
  }
};

// ---- arrangements: blocked (thread t has items t*N ...) and striped (item i of thread t is i*threads + t)
template <typename T, int X, int N, bool TimeSlicing = false, int Y = 1, int Z = 1, int Arch = 0> struct BlockExchange {
  using TempStorage = __storage<T, X * Y * Z * N>;
  TempStorage* storage;

  __device__ BlockExchange(TempStorage& temp) : storage(&temp) {}
  __device__ int __striped(int i) const { return i * (X * Y * Z) + __linear_thread<X, Y, Z>(); }
  __device__ int __blocked(int i) const { return __linear_thread<X, Y, Z>() * N + i; }
  __device__ int __warp_striped(int i) const {
    const int thread = __linear_thread<X, Y, Z>();
    return thread / 32 * 32 * N + i * 32 + thread % 32;
  }
  template <typename U> __device__ void StripedToBlocked(T (&input)[N], U (&output)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[__striped(i)] = input[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__blocked(i)];
  }
  template <typename U> __device__ void BlockedToStriped(T (&input)[N], U (&output)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[__blocked(i)] = input[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__striped(i)];
  }
  template <typename U> __device__ void WarpStripedToBlocked(T (&input)[N], U (&output)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[__warp_striped(i)] = input[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__blocked(i)];
  }
  template <typename U> __device__ void BlockedToWarpStriped(T (&input)[N], U (&output)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[__blocked(i)] = input[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__warp_striped(i)];
  }
  template <typename U, typename R> __device__ void ScatterToBlocked(T (&input)[N], U (&output)[N], R (&ranks)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[ranks[i]] = input[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__blocked(i)];
  }
  template <typename U, typename R> __device__ void ScatterToStriped(T (&input)[N], U (&output)[N], R (&ranks)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[ranks[i]] = input[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__striped(i)];
  }
  __device__ void StripedToBlocked(T (&items)[N]) { StripedToBlocked(items, items); }
  __device__ void BlockedToStriped(T (&items)[N]) { BlockedToStriped(items, items); }
  __device__ void WarpStripedToBlocked(T (&items)[N]) { WarpStripedToBlocked(items, items); }
  __device__ void BlockedToWarpStriped(T (&items)[N]) { BlockedToWarpStriped(items, items); }
  template <typename R> __device__ void ScatterToBlocked(T (&items)[N], R (&ranks)[N]) {
    ScatterToBlocked(items, items, ranks);
  }
  template <typename R> __device__ void ScatterToStriped(T (&items)[N], R (&ranks)[N]) {
    ScatterToStriped(items, items, ranks);
  }
};

template <typename T, int N, int Size = 32, int Arch = 0> struct WarpExchange {
  using TempStorage = __storage<T, Size * N>;
  TempStorage* storage;

  __device__ WarpExchange(TempStorage& temp) : storage(&temp) {}
  __device__ int __lane() const { return (int)(__thread_of_block() % Size); }
  template <typename U> __device__ void BlockedToStriped(const T (&input)[N], U (&output)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[__lane() * N + i] = input[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[i * Size + __lane()];
  }
  template <typename U> __device__ void StripedToBlocked(const T (&input)[N], U (&output)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[i * Size + __lane()] = input[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; ++i) output[i] = storage->item[__lane() * N + i];
  }
  template <typename R> __device__ void ScatterToStriped(T (&items)[N], R (&ranks)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[ranks[i]] = items[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; ++i) items[i] = storage->item[i * Size + __lane()];
  }
};

// ---- loads and stores of a block's tile
template <typename T, int N, typename P> __device__ void LoadDirectBlocked(int thread, P from, T (&items)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) items[i] = from[thread * N + i];
}
template <typename T, int N, typename P> __device__ void LoadDirectBlocked(int thread, P from, T (&items)[N], int valid) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (thread * N + i < valid) items[i] = from[thread * N + i];
  }
}
template <typename T, int N, typename P, typename D>
__device__ void LoadDirectBlocked(int thread, P from, T (&items)[N], int valid, D other) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    items[i] = (T)other;
    if (thread * N + i < valid) items[i] = from[thread * N + i];
  }
}
template <int Threads, typename T, int N, typename P> __device__ void LoadDirectStriped(int thread, P from, T (&items)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) items[i] = from[thread + i * Threads];
}
template <int Threads, typename T, int N, typename P>
__device__ void LoadDirectStriped(int thread, P from, T (&items)[N], int valid) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (thread + i * Threads < valid) items[i] = from[thread + i * Threads];
  }
}
template <int Threads, typename T, int N, typename P, typename D>
__device__ void LoadDirectStriped(int thread, P from, T (&items)[N], int valid, D other) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    items[i] = (T)other;
    if (thread + i * Threads < valid) items[i] = from[thread + i * Threads];
  }
}
template <typename T, int N, typename P> __device__ void StoreDirectBlocked(int thread, P to, T (&items)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[thread * N + i] = items[i];
}
template <typename T, int N, typename P> __device__ void StoreDirectBlocked(int thread, P to, T (&items)[N], int valid) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (thread * N + i < valid) to[thread * N + i] = items[i];
  }
}
template <int Threads, typename T, int N, typename P> __device__ void StoreDirectStriped(int thread, P to, T (&items)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[thread + i * Threads] = items[i];
}
template <int Threads, typename T, int N, typename P>
__device__ void StoreDirectStriped(int thread, P to, T (&items)[N], int valid) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (thread + i * Threads < valid) to[thread + i * Threads] = items[i];
  }
}
template <typename T, int X, int N, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int Arch = 0>
struct BlockLoad {
  static constexpr bool transposed = Algorithm >= BLOCK_LOAD_TRANSPOSE;
  using TempStorage = __storage<T, (Algorithm >= BLOCK_LOAD_TRANSPOSE ? X * Y * Z * N : 1)>;
  TempStorage* storage;

  __device__ BlockLoad(TempStorage& temp) : storage(&temp) {}
  __device__ void __turn(T (&items)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[i * (X * Y * Z) + __linear_thread<X, Y, Z>()] = items[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) items[i] = storage->item[__linear_thread<X, Y, Z>() * N + i];
  }
  template <typename P> __device__ void Load(P from, T (&items)[N]) {
    if constexpr (transposed || Algorithm == BLOCK_LOAD_STRIPED) {
      LoadDirectStriped<X * Y * Z>(__linear_thread<X, Y, Z>(), from, items);
    } else {
      LoadDirectBlocked(__linear_thread<X, Y, Z>(), from, items);
    }
    if constexpr (transposed) __turn(items);
  }
  template <typename P> __device__ void Load(P from, T (&items)[N], int valid) {
    if constexpr (transposed || Algorithm == BLOCK_LOAD_STRIPED) {
      LoadDirectStriped<X * Y * Z>(__linear_thread<X, Y, Z>(), from, items, valid);
    } else {
      LoadDirectBlocked(__linear_thread<X, Y, Z>(), from, items, valid);
    }
    if constexpr (transposed) __turn(items);
  }
  template <typename P, typename D> __device__ void Load(P from, T (&items)[N], int valid, D other) {
    if constexpr (transposed || Algorithm == BLOCK_LOAD_STRIPED) {
      LoadDirectStriped<X * Y * Z>(__linear_thread<X, Y, Z>(), from, items, valid, other);
    } else {
      LoadDirectBlocked(__linear_thread<X, Y, Z>(), from, items, valid, other);
    }
    if constexpr (transposed) __turn(items);
  }
};
template <typename T, int X, int N, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int Arch = 0>
struct BlockStore {
  static constexpr bool transposed = Algorithm >= BLOCK_STORE_TRANSPOSE;
  using TempStorage = __storage<T, (Algorithm >= BLOCK_STORE_TRANSPOSE ? X * Y * Z * N : 1)>;
  TempStorage* storage;

  __device__ BlockStore(TempStorage& temp) : storage(&temp) {}
  __device__ void __turn(T (&items)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) storage->item[__linear_thread<X, Y, Z>() * N + i] = items[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) items[i] = storage->item[i * (X * Y * Z) + __linear_thread<X, Y, Z>()];
  }
  template <typename P> __device__ void Store(P to, T (&items)[N]) {
    if constexpr (transposed) __turn(items);
    if constexpr (transposed || Algorithm == BLOCK_STORE_STRIPED) {
      StoreDirectStriped<X * Y * Z>(__linear_thread<X, Y, Z>(), to, items);
    } else {
      StoreDirectBlocked(__linear_thread<X, Y, Z>(), to, items);
    }
  }
  template <typename P> __device__ void Store(P to, T (&items)[N], int valid) {
    if constexpr (transposed) __turn(items);
    if constexpr (transposed || Algorithm == BLOCK_STORE_STRIPED) {
      StoreDirectStriped<X * Y * Z>(__linear_thread<X, Y, Z>(), to, items, valid);
    } else {
      StoreDirectBlocked(__linear_thread<X, Y, Z>(), to, items, valid);
    }
  }
};

// ---- differences of neighbours
template <typename T, int X, int Y = 1, int Z = 1, int Arch = 0> struct BlockAdjacentDifference {
  using TempStorage = __storage<T, X * Y * Z>;
  TempStorage* storage;

  __device__ BlockAdjacentDifference(TempStorage& temp) : storage(&temp) {}
  template <int N, typename U, typename Op> __device__ void SubtractLeft(T (&input)[N], U (&output)[N], Op op) {
    const int thread = __linear_thread<X, Y, Z>();
    storage->item[thread] = input[N - 1];
    __syncthreads();
#pragma unroll
    for (int i = N - 1; i > 0; --i) output[i] = op(input[i], input[i - 1]);
    if (thread == 0) {
      output[0] = input[0];
    } else {
      output[0] = op(input[0], storage->item[thread - 1]);
    }
  }
  template <int N, typename U, typename Op> __device__ void SubtractRight(T (&input)[N], U (&output)[N], Op op) {
    const int thread = __linear_thread<X, Y, Z>();
    storage->item[thread] = input[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N - 1; ++i) output[i] = op(input[i], input[i + 1]);
    if (thread == X * Y * Z - 1) {
      output[N - 1] = input[N - 1];
    } else {
      output[N - 1] = op(input[N - 1], storage->item[thread + 1]);
    }
  }
};

// ---- memory with a cache modifier: what is read and written, not how
template <CacheLoadModifier Modifier, typename P> __device__ auto ThreadLoad(P from) { return *from; }
template <CacheStoreModifier Modifier, typename P, typename T> __device__ void ThreadStore(P to, T value) { *to = value; }
template <int Size, typename T> __device__ T ShuffleUp(T value, int delta, int first, unsigned int mask) {
  return __shfl_up_sync(mask, value, delta, Size);
}
template <int Size, typename T> __device__ T ShuffleDown(T value, int delta, int last, unsigned int mask) {
  return __shfl_down_sync(mask, value, delta, Size);
}
template <int Size, typename T> __device__ T ShuffleIndex(T value, int lane, unsigned int mask) {
  return __shfl_sync(mask, value, lane, Size);
}
}  // namespace cub
namespace hipcub = cub;
