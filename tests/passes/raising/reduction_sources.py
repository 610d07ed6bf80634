"""One block reduction, written in different ways; raising should find one ``reduce`` under each."""

HEAD = "__global__ void k(const float* __restrict__ in, float* __restrict__ out, int n) {\n"
TAIL = "\nvoid run(const float* in, float* out, int n, int rows) { k<<<rows, 256>>>(in, out, n); }\n"

TREE_BACKWARDS = (
    HEAD
    + """
  __shared__ float s[256];
  int t = threadIdx.x;
  const float* row = in + blockIdx.x * n;
  float v = 0.f;
  for (int i = t; i < n; i += blockDim.x) v += row[i];
  s[t] = v;
  __syncthreads();
  for (int w = blockDim.x / 2; w > 0; w >>= 1) {
    if (t < w) s[t] += s[t + w];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}"""
    + TAIL
)

TREE_FORWARDS = (
    HEAD
    + """
  __shared__ float sdata[256];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? in[i] : 0;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    int index = 2 * s * tid;
    if (index < blockDim.x) sdata[index] += sdata[index + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
void run(const float* in, float* out, int n) { k<<<(n + 255) / 256, 256>>>(in, out, n); }
"""
)

FIRST_ADD = (
    HEAD
    + """
  extern __shared__ float sm[];
  unsigned tid = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  float mySum = (i < n) ? in[i] : 0;
  if (i + blockDim.x < n) mySum += in[i + blockDim.x];
  sm[tid] = mySum;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sm[tid] = mySum = mySum + sm[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = mySum;
}
void run(const float* in, float* out, int n) { k<<<(n + 511) / 512, 256, 256 * sizeof(float)>>>(in, out, n); }
"""
)

SHUFFLE_DOWN = (
    HEAD
    + """
  __shared__ float part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += in[blockIdx.x * n + i];
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = (threadIdx.x < blockDim.x / 32) ? part[lane] : 0.f;
  if (warp == 0)
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}"""
    + TAIL
)

SHUFFLE_XOR = (
    """
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int m = 16; m > 0; m /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, m, 32));
  return x;
}
"""
    + HEAD
    + """
  __shared__ float buf[8];
  __shared__ float total;
  float best = -INFINITY;
  int i = threadIdx.x;
  while (i < n) { best = fmaxf(best, in[blockIdx.x * n + i]); i += 256; }
  best = warp_max(best);
  if (threadIdx.x % 32 == 0) buf[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    float b = buf[0];
    for (int w = 1; w < 8; ++w) b = fmaxf(b, buf[w]);
    total = b;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < n; j += 256) out[blockIdx.x * n + j] = in[blockIdx.x * n + j] - total;
}"""
    + TAIL
)

UNROLLED_WARP = (
    """
__device__ void last_warp(volatile float* s, int t) {
  s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8];
  s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
"""
    + HEAD
    + """
  __shared__ volatile float s[256];
  int t = threadIdx.x;
  float acc = 0.f;
  for (int i = blockIdx.x * n + t; i < (blockIdx.x + 1) * n; i += 256) acc += in[i];
  s[t] = acc;
  __syncthreads();
  if (t < 128) { s[t] = acc = acc + s[t + 128]; } __syncthreads();
  if (t < 64) { s[t] = acc = acc + s[t + 64]; } __syncthreads();
  if (t < 32) last_warp(s, t);
  if (t == 0) out[blockIdx.x] = s[0];
}"""
    + TAIL
)

SHARED_ATOMIC = (
    HEAD
    + """
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.f;
  __syncthreads();
  float v = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += in[blockIdx.x * n + i];
  atomicAdd(&total, v);
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}"""
    + TAIL
)

GLOBAL_ATOMIC = (
    HEAD
    + """
  __shared__ float s[256];
  float v = 0.f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += in[i];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int h = 128; h; h >>= 1) {
    if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
void run(const float* in, float* out, int n) { k<<<4, 256>>>(in, out, n); }
"""
)

SEVERAL = (
    HEAD
    + """
  __shared__ float s1[256], s2[256];
  int t = threadIdx.x;
  float a = 0.f, b = 0.f;
  for (int i = t; i < n; i += 256) { float x = in[blockIdx.x * n + i]; a += x; b += x * x; }
  s1[t] = a; s2[t] = b;
  __syncthreads();
  for (int w = 128; w > 0; w >>= 1) {
    if (t < w) { s1[t] += s1[t + w]; s2[t] += s2[t + w]; }
    __syncthreads();
  }
  float mean = s1[0] / n, var = s2[0] / n - mean * mean;
  for (int i = t; i < n; i += 256)
    out[blockIdx.x * n + i] = (in[blockIdx.x * n + i] - mean) * rsqrtf(var + 1e-5f);
}"""
    + TAIL
)

ARGMAX = """
__global__ void k(const float* __restrict__ in, int* __restrict__ out, int n) {
  __shared__ float sv[256];
  __shared__ int si[256];
  int t = threadIdx.x;
  float best = -INFINITY; int where = 0;
  for (int i = t; i < n; i += 256) {
    float x = in[blockIdx.x * n + i];
    if (x > best) { best = x; where = i; }
  }
  sv[t] = best; si[t] = where;
  __syncthreads();
  for (int w = 128; w > 0; w >>= 1) {
    if (t < w && (sv[t + w] > sv[t] || (sv[t + w] == sv[t] && si[t + w] < si[t]))) {
      sv[t] = sv[t + w];
      si[t] = si[t + w];
    }
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = si[0];
}
void run(const float* in, int* out, int n, int rows) { k<<<rows, 256>>>(in, out, n); }
"""

COOPERATIVE_GROUPS = (
    """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(const float* in, float* out, int n) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  __shared__ float shared[32];
  int lane = threadIdx.x % warp.size(), wid = threadIdx.x / warp.size();
  float s = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += in[blockIdx.x * n + i];
  float w = cg::reduce(warp, s, cg::plus<float>{});
  if (lane == 0) shared[wid] = w;
  block.sync();
  w = lane < blockDim.x / 32 ? shared[lane] : 0.f;
  float total = cg::reduce(warp, w, cg::plus<float>{});
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}"""
    + TAIL
)

WARP_PER_ROW = """
__global__ void k(const float* __restrict__ in, float* __restrict__ out, int rows, int n) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int row = blockIdx.x * 4 + warp;
  if (row >= rows) return;
  float v = 0.f;
  for (int i = lane; i < n; i += 32) v += in[row * n + i];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  for (int i = lane; i < n; i += 32) out[row * n + i] = in[row * n + i] / v;
}
void run(const float* in, float* out, int rows, int n) { k<<<(rows + 3) / 4, 128>>>(in, out, rows, n); }
"""

WELFORD = (
    HEAD
    + """
  __shared__ float sm[256], sq[256], sn[256];
  int t = threadIdx.x;
  float mean = 0.f, m2 = 0.f, cnt = 0.f;
  for (int i = t; i < n; i += 256) {
    float x = in[blockIdx.x * n + i];
    cnt += 1.f;
    float d = x - mean;
    mean += d / cnt;
    m2 += d * (x - mean);
  }
  sm[t] = mean; sq[t] = m2; sn[t] = cnt;
  __syncthreads();
  for (int w = 128; w > 0; w >>= 1) {
    if (t < w && sn[t + w] > 0.f) {
      float na = sn[t], nb = sn[t + w], d = sm[t + w] - sm[t], nn = na + nb;
      sm[t] += d * nb / nn;
      sq[t] += sq[t + w] + d * d * na * nb / nn;
      sn[t] = nn;
    }
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sq[0] / sn[0];
}"""
    + TAIL
)

TREE_THEN_WARP = (
    HEAD
    + """
  extern __shared__ float s[];
  unsigned t = threadIdx.x;
  float v = 0.f;
  for (unsigned i = t; i < n; i += blockDim.x) v += in[blockIdx.x * n + i];
  s[t] = v;
  __syncthreads();
  for (unsigned w = blockDim.x / 2; w > 32; w >>= 1) {
    if (t < w) { v += s[t + w]; s[t] = v; }
    __syncthreads();
  }
  if (t < 32) {
    v += s[t + 32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
  }
  if (t == 0) out[blockIdx.x] = v;
}
void run(const float* in, float* out, int n, int rows) { k<<<rows, 256, 1024>>>(in, out, n); }
"""
)

CUB_BLOCK_SUM = """
#include <cub/block/block_reduce.cuh>
constexpr int THREADS = 256;
__global__ void __launch_bounds__(THREADS) row_sum(const float* __restrict__ in, float* __restrict__ out, int n) {
  using BlockReduce = cub::BlockReduce<float, THREADS>;
  __shared__ typename BlockReduce::TempStorage temp;
  const float4* row = reinterpret_cast<const float4*>(in + blockIdx.x * n);
  float v = 0.f;
  for (int i = threadIdx.x; i < n / 4; i += THREADS) {
    const float4 x = row[i];
    v += x.x + x.y + x.z + x.w;
  }
  const float total = BlockReduce(temp).Sum(v);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}
void sums(const float* in, float* out, int n, int rows) { row_sum<<<rows, THREADS>>>(in, out, n); }
"""

CUB_RMS_NORM = """
#include <cub/block/block_reduce.cuh>
template <int THREADS>
__global__ void rms_norm(float* __restrict__ out, const float* __restrict__ in, const float* __restrict__ gain,
                         const float eps, const int n) {
  using BlockReduce = cub::BlockReduce<float, THREADS>;
  __shared__ typename BlockReduce::TempStorage storage;
  __shared__ float scale;
  float square = 0.0f;
  for (int c = threadIdx.x; c < n; c += THREADS) {
    const float x = in[blockIdx.x * n + c];
    square += x * x;
  }
  square = BlockReduce(storage).Sum(square);
  if (threadIdx.x == 0) scale = rsqrtf(square / n + eps);
  __syncthreads();
  for (int c = threadIdx.x; c < n; c += THREADS)
    out[blockIdx.x * n + c] = in[blockIdx.x * n + c] * scale * gain[c];
}
void run(float* out, const float* in, const float* gain, float eps, int n, int rows) {
  rms_norm<256><<<rows, 256>>>(out, in, gain, eps, n);
}
"""

CUB_LOG_SUM_EXP = """
#include <cub/block/block_reduce.cuh>
struct Larger {
  __device__ __forceinline__ float operator()(const float& a, const float& b) const { return fmaxf(a, b); }
};
__global__ void log_sum_exp(const float* __restrict__ in, float* __restrict__ out, int n) {
  typedef cub::BlockReduce<float, 256> Reduce;
  __shared__ typename Reduce::TempStorage temp;
  __shared__ float most;
  const float* row = in + blockIdx.x * n;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  m = Reduce(temp).Reduce(m, Larger());
  if (threadIdx.x == 0) most = m;
  __syncthreads();
  float s = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += __expf(row[i] - most);
  s = Reduce(temp).Sum(s);
  if (threadIdx.x == 0) out[blockIdx.x] = most + __logf(s);
}
void run(const float* in, float* out, int n, int rows) { log_sum_exp<<<rows, 256>>>(in, out, n); }
"""

CUB_WARP_MATVEC = """
#include <cub/warp/warp_reduce.cuh>
__global__ void mat_vec(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int rows,
                        int n) {
  using WarpReduce = cub::WarpReduce<float>;
  __shared__ typename WarpReduce::TempStorage temp[4];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x * 4 + warp;
  if (row >= rows) return;
  float dot = 0.f;
  for (int j = lane; j < n; j += 32) dot += a[row * n + j] * x[j];
  dot = WarpReduce(temp[warp]).Sum(dot);
  if (lane == 0) y[row] = dot;
}
void run(const float* a, const float* x, float* y, int rows, int n) {
  mat_vec<<<(rows + 3) / 4, 128>>>(a, x, y, rows, n);
}
"""

CUB_SQUARE_BLOCK = """
#include <cub/block/block_reduce.cuh>
__global__ void symmetric(const float* __restrict__ a, float* __restrict__ total, int n) {
  using BlockReduce = cub::BlockReduce<float, 16, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 8>;
  __shared__ typename BlockReduce::TempStorage temp;
  const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  float v = 0.f;
  if (i < n && j < n) v = a[i * n + j] * a[j * n + i];
  v = BlockReduce(temp).Sum(v);
  if (threadIdx.x == 0 && threadIdx.y == 0) total[blockIdx.y * gridDim.x + blockIdx.x] = v;
}
void run(const float* a, float* total, int n) {
  symmetric<<<dim3((n + 15) / 16, (n + 7) / 8), dim3(16, 8)>>>(a, total, n);
}
"""

AS_LONG_AS_THE_DATA = """
__global__ void sum(int* out, const int* in, int n) {
  extern __shared__ int part[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? in[i] : 0;
  for (int w = blockDim.x / 2; w > 0; w /= 2) {
    part[threadIdx.x] = v;
    __syncthreads();
    if (threadIdx.x < w) v += part[threadIdx.x + w];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, v);
}
void run(int* out, const int* in, int n) { sum<<<(n + 127) / 128, 128, n * sizeof(int)>>>(out, in, n); }
"""
"""Of the whole data's bytes of shared memory, of which a block has a use for as many as it has threads."""

REDUCTIONS = {
    "as-long-as-the-data": (AS_LONG_AS_THE_DATA, {"+"}),
    "tree-backwards": (TREE_BACKWARDS, {"+"}),
    "tree-forwards": (TREE_FORWARDS, {"+"}),
    "first-add": (FIRST_ADD, {"+"}),
    "shuffle-down": (SHUFFLE_DOWN, {"+"}),
    "shuffle-xor": (SHUFFLE_XOR, {"max"}),
    "unrolled-warp": (UNROLLED_WARP, {"+"}),
    "tree-then-warp": (TREE_THEN_WARP, {"+"}),
    "shared-atomic": (SHARED_ATOMIC, {"+"}),
    "global-atomic": (GLOBAL_ATOMIC, {"+"}),
    "several": (SEVERAL, {"+"}),
    "cooperative-groups": (COOPERATIVE_GROUPS, {"+"}),
    "argmax": (ARGMAX, {"max", "at"}),
    "warp-per-row": (WARP_PER_ROW, {"+"}),
    "welford": (WELFORD, {"+"}),
    "cub-block-sum": (CUB_BLOCK_SUM, {"+"}),
    "cub-rms-norm": (CUB_RMS_NORM, {"+"}),
    "cub-log-sum-exp": (CUB_LOG_SUM_EXP, {"max", "+"}),
    "cub-warp-matvec": (CUB_WARP_MATVEC, {"+"}),
    "cub-square-block": (CUB_SQUARE_BLOCK, {"+"}),
}
