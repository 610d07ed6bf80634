// Cooperative groups, after the CUDA C++ Programming Guide, section "Cooperative Groups": groups are values without
// storage (a tile, a block, the grid) or one mask (coalesced threads); what they do is barriers, shuffles and votes.
// The order of a reduction's operands is that of NVIDIA's headers: it decides how a float sum rounds.
// Tiles of several warps meet at barriers of the whole block, which allows fewer overlaps than the original and no other
// result: code in which only some tiles meet is refused as divergent.
namespace cooperative_groups {

__device__ inline unsigned int __block_rank() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ inline unsigned int __block_size() { return blockDim.x * blockDim.y * blockDim.z; }
__device__ inline unsigned int __lane() { return __block_rank() & 31u; }

// ---- grid
struct grid_group {
  __device__ void sync() const { __ktc_grid_sync(); }
  __device__ bool is_valid() const { return true; }
  __device__ unsigned long long num_blocks() const {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  __device__ unsigned long long block_rank() const {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  __device__ unsigned long long num_threads() const { return num_blocks() * __block_size(); }
  __device__ unsigned long long size() const { return num_threads(); }
  __device__ unsigned long long thread_rank() const { return block_rank() * __block_size() + __block_rank(); }
  __device__ dim3 group_dim() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  __device__ dim3 dim_blocks() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  __device__ dim3 block_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
__device__ inline grid_group this_grid() { return grid_group{}; }

// ---- block
struct thread_block {
  __device__ void sync() const { __syncthreads(); }
  __device__ void barrier_wait() const { __syncthreads(); }
  __device__ unsigned int thread_rank() const { return __block_rank(); }
  __device__ unsigned int num_threads() const { return __block_size(); }
  __device__ unsigned int size() const { return __block_size(); }
  __device__ dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  __device__ dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  __device__ dim3 dim_threads() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
};
__device__ inline thread_block this_thread_block() { return thread_block{}; }
// What tiles of several warps exchange is in arrays of the functions that do.
template <unsigned int Threads = 1024> struct block_tile_memory { unsigned int unused; };
template <unsigned int Threads> __device__ thread_block this_thread_block(block_tile_memory<Threads>& scratch) {
  return thread_block{};
}

// ---- coalesced threads: the lanes of a mask
struct coalesced_group {
  unsigned int lanes;
  unsigned int meta_rank;
  unsigned int meta_size;

  __device__ void sync() const { __syncwarp(lanes); }
  __device__ unsigned int num_threads() const { return __popc(lanes); }
  __device__ unsigned int size() const { return __popc(lanes); }
  __device__ unsigned int thread_rank() const { return __popc(lanes & ((1u << __lane()) - 1u)); }
  __device__ unsigned int meta_group_rank() const { return meta_rank; }
  __device__ unsigned int meta_group_size() const { return meta_size; }
  __device__ unsigned int __pack(unsigned int found) const {
    unsigned int packed = 0, rank = 0;
    for (unsigned int lane = 0; lane < 32u; ++lane) {
      if ((lanes >> lane) & 1u) {
        packed |= ((found >> lane) & 1u) << rank;
        ++rank;
      }
    }
    return packed;
  }
  template <typename T> __device__ T shfl(T value, int rank) const {
    return __shfl_sync(lanes, value, (int)__fns(lanes, 0u, rank + 1), 32);
  }
  template <typename T> __device__ T shfl_down(T value, unsigned int delta) const {
    const unsigned int source = __fns(lanes, __lane(), (int)delta + 1);
    return __shfl_sync(lanes, value, (int)(source < 32u ? source : __lane()), 32);
  }
  template <typename T> __device__ T shfl_up(T value, int delta) const {
    const unsigned int source = __fns(lanes, __lane(), -(delta + 1));
    return __shfl_sync(lanes, value, (int)(source < 32u ? source : __lane()), 32);
  }
  __device__ int any(int predicate) const { return __any_sync(lanes, predicate); }
  __device__ int all(int predicate) const { return __all_sync(lanes, predicate); }
  __device__ unsigned int ballot(int predicate) const { return __pack(__ballot_sync(lanes, predicate)); }
  template <typename T> __device__ unsigned int match_any(T value) const { return __pack(__match_any_sync(lanes, value)); }
  template <typename T> __device__ unsigned int match_all(T value, int& predicate) const {
    const unsigned int found = __match_all_sync(lanes, value);
    predicate = found != 0u;
    return __pack(found);
  }
};
__device__ inline coalesced_group coalesced_threads() { return coalesced_group{__activemask(), 0u, 1u}; }

// ---- tiles of a power of two; shuffles and votes up to a warp
template <unsigned int Size, typename Parent = void>
struct thread_block_tile {
  static constexpr unsigned int numThreads = Size;

  __device__ thread_block_tile() {
    static_assert(Size > 0 && Size <= 1024 && (Size & (Size - 1)) == 0, "a tile has a power of two of threads");
  }
  template <typename Other> __device__ thread_block_tile(const thread_block_tile<Size, Other>& other) {
    static_assert(!__is_tile<Other>::value, "a tile of a tile converts to no other type of tile here: declare it auto");
  }
  __device__ unsigned int __mask() const {
    static_assert(Size <= 32, "shuffles and votes of tiles of several warps are not built here: use reduce, or the block");
    if constexpr (Size == 32) {
      return 0xffffffffu;
    } else {
      return ((1u << Size) - 1u) << (__lane() & ~(Size - 1u));
    }
  }
  __device__ void sync() const {
    if constexpr (Size > 32) {
      __syncthreads();
    } else {
      __syncwarp(__mask());
    }
  }
  __device__ unsigned int thread_rank() const { return __block_rank() & (Size - 1u); }
  __device__ constexpr unsigned int num_threads() const { return Size; }
  __device__ constexpr unsigned int size() const { return Size; }
  __device__ unsigned int meta_group_rank() const {
    if constexpr (__is_tile<Parent>::value) {
      return Parent().thread_rank() / Size;
    } else {
      return __block_rank() / Size;
    }
  }
  __device__ unsigned int meta_group_size() const {
    if constexpr (__is_tile<Parent>::value) {
      return Parent().size() / Size;
    } else {
      return (__block_size() + Size - 1u) / Size;
    }
  }
  template <typename T> __device__ T shfl(T value, int rank) const { return __shfl_sync(__mask(), value, rank, Size); }
  template <typename T> __device__ T shfl_down(T value, unsigned int delta) const {
    return __shfl_down_sync(__mask(), value, delta, Size);
  }
  template <typename T> __device__ T shfl_up(T value, unsigned int delta) const {
    return __shfl_up_sync(__mask(), value, delta, Size);
  }
  template <typename T> __device__ T shfl_xor(T value, unsigned int lane_mask) const {
    return __shfl_xor_sync(__mask(), value, (int)lane_mask, Size);
  }
  __device__ int any(int predicate) const { return __any_sync(__mask(), predicate); }
  __device__ int all(int predicate) const { return __all_sync(__mask(), predicate); }
  __device__ unsigned int ballot(int predicate) const {
    if constexpr (Size == 32) {
      return __ballot_sync(0xffffffffu, predicate);
    } else {
      return __ballot_sync(__mask(), predicate) >> (__lane() & ~(Size - 1u));
    }
  }
  template <typename T> __device__ unsigned int match_any(T value) const {
    return __match_any_sync(__mask(), value) >> (__lane() & ~(Size - 1u) & 31u);
  }
  template <typename T> __device__ unsigned int match_all(T value, int& predicate) const {
    const unsigned int found = __match_all_sync(__mask(), value);
    predicate = found != 0u;
    return found >> (__lane() & ~(Size - 1u) & 31u);
  }
};
template <typename T> struct __is_tile { static constexpr bool value = false; };
template <unsigned int Size, typename Parent> struct __is_tile<thread_block_tile<Size, Parent>> {
  static constexpr bool value = true;
};

// ---- groups whose size is known while running: a block (tile 0) or a tile of it
struct thread_group {
  unsigned int tile;

  __device__ thread_group(thread_block block) : tile(0u) {}
  template <unsigned int Size, typename Parent>
  __device__ thread_group(const thread_block_tile<Size, Parent>& group) : tile(Size) {
    static_assert(Size <= 32, "a tile of several warps converts to no thread_group here: declare it auto");
  }
  __device__ thread_group(unsigned int size, int kind) : tile(size) {}
  __device__ unsigned int thread_rank() const { return tile == 0u ? __block_rank() : __block_rank() & (tile - 1u); }
  __device__ unsigned int num_threads() const { return tile == 0u ? __block_size() : tile; }
  __device__ unsigned int size() const { return num_threads(); }
  __device__ unsigned int __mask() const {
    return tile == 32u ? 0xffffffffu : ((1u << tile) - 1u) << (__lane() & ~(tile - 1u));
  }
  __device__ void sync() const {
    if (tile == 0u) {
      __syncthreads();
    } else {
      __syncwarp(__mask());
    }
  }
  template <typename T> __device__ T shfl(T value, int rank) const { return __shfl_sync(__mask(), value, rank, (int)tile); }
  template <typename T> __device__ T shfl_down(T value, unsigned int delta) const {
    return __shfl_down_sync(__mask(), value, delta, (int)tile);
  }
  template <typename T> __device__ T shfl_up(T value, unsigned int delta) const {
    return __shfl_up_sync(__mask(), value, delta, (int)tile);
  }
  template <typename T> __device__ T shfl_xor(T value, unsigned int lane_mask) const {
    return __shfl_xor_sync(__mask(), value, (int)lane_mask, (int)tile);
  }
  __device__ int any(int predicate) const { return __any_sync(__mask(), predicate); }
  __device__ int all(int predicate) const { return __all_sync(__mask(), predicate); }
  __device__ unsigned int ballot(int predicate) const {
    return __ballot_sync(__mask(), predicate) >> (__lane() & ~(tile - 1u));
  }
};

// ---- making groups of groups
template <unsigned int Size, typename Group> __device__ thread_block_tile<Size, Group> tiled_partition(const Group& parent) {
  return thread_block_tile<Size, Group>();
}
__device__ inline thread_group tiled_partition(const thread_block& parent, unsigned int size) {
  return thread_group(size, 1);
}
__device__ inline thread_group tiled_partition(const thread_group& parent, unsigned int size) {
  return thread_group(size, 1);
}
template <typename Group> __device__ coalesced_group labeled_partition(const Group& group, int label) {
  const unsigned int lanes = __match_any_sync(__mask_of(group), label);
  return coalesced_group{lanes, 0u, 1u};
}
template <typename Group> __device__ coalesced_group binary_partition(const Group& group, bool predicate) {
  const unsigned int whole = __mask_of(group);
  const unsigned int yes = __ballot_sync(whole, predicate);
  return coalesced_group{predicate ? yes : whole & ~yes, 0u, 1u};
}
template <unsigned int Size, typename Parent> __device__ unsigned int __mask_of(const thread_block_tile<Size, Parent>& tile) {
  return tile.__mask();
}
__device__ inline unsigned int __mask_of(const coalesced_group& group) { return group.lanes; }
__device__ inline unsigned int __mask_of(const thread_group& group) { return group.__mask(); }

// ---- group functions
template <typename Group> __device__ void sync(const Group& group) { group.sync(); }
template <typename Group> __device__ unsigned int thread_rank(const Group& group) { return group.thread_rank(); }
template <typename Group> __device__ unsigned int group_size(const Group& group) { return group.size(); }

template <typename T = void> struct plus {
  template <typename X> __device__ X operator()(X a, X b) const { return a + b; }
};
template <typename T = void> struct less {
  template <typename X> __device__ X operator()(X a, X b) const { return b < a ? b : a; }
};
template <typename T = void> struct greater {
  template <typename X> __device__ X operator()(X a, X b) const { return a < b ? b : a; }
};
template <typename T = void> struct bit_and {
  template <typename X> __device__ X operator()(X a, X b) const { return a & b; }
};
template <typename T = void> struct bit_or {
  template <typename X> __device__ X operator()(X a, X b) const { return a | b; }
};
template <typename T = void> struct bit_xor {
  template <typename X> __device__ X operator()(X a, X b) const { return a ^ b; }
};

template <unsigned int Size, typename Parent, typename T, typename Op>
__device__ T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op) {
  if constexpr (Size > 32) {
    return __reduce_warps<Size / 32>(value, op);
  } else {
    T out = value;
#pragma unroll
    for (int distance = Size / 2; distance > 0; distance >>= 1) out = op(out, tile.shfl_xor(out, distance));
    return out;
  }
}
// Each warp by itself, then the warps' results in every warp.
template <unsigned int Warps, typename T, typename Op> __device__ T __reduce_warps(T value, Op op) {
  __shared__ T of_warp[32];
  const thread_block_tile<32> warp;
  const T own = reduce(warp, value, op);
  const unsigned int at = __block_rank() / 32u;
  __syncthreads();  // the call before has been read
  if (__lane() == 0u) of_warp[at] = own;
  __syncthreads();
  const thread_block_tile<Warps> part;
  return reduce(part, of_warp[at / Warps * Warps + part.thread_rank()], op);
}
template <typename T, typename Op> __device__ T reduce(const coalesced_group& group, T value, Op op) {
  const T scanned = inclusive_scan(group, value, op);
  return __shfl_sync(group.lanes, scanned, 31 - __clz((int)group.lanes), 32);
}
template <typename Group, typename T, typename Op> __device__ T inclusive_scan(const Group& group, T value, Op op) {
  T out = value;
  for (unsigned int distance = 1u; distance < group.size(); distance <<= 1) {
    const T other = group.shfl_up(out, distance);
    if (group.thread_rank() >= distance) out = op(out, other);
  }
  return out;
}
template <typename Group, typename T> __device__ T inclusive_scan(const Group& group, T value) {
  return inclusive_scan(group, value, plus<T>{});
}
template <typename Group, typename T> __device__ T exclusive_scan(const Group& group, T value) {
  const T scanned = inclusive_scan(group, value, plus<T>{});
  const T before = group.shfl_up(scanned, 1);
  return group.thread_rank() == 0u ? (T)0 : before;
}

// ---- copies by the whole group: done when the group has waited
template <typename Group, typename T>
__device__ void memcpy_async(const Group& group, T* destination, const T* source, unsigned long long bytes) {
  for (unsigned int i = group.thread_rank(); i < bytes / sizeof(T); i += group.size()) destination[i] = source[i];
}
template <typename Group> __device__ void wait(const Group& group) { group.sync(); }
template <unsigned int Stages, typename Group> __device__ void wait_prior(const Group& group) { group.sync(); }
template <typename G> __device__ void synchronize(const G& group) { group.sync(); }
}  // namespace cooperative_groups
