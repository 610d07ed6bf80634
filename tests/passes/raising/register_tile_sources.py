"""Products tiled by hand twice, in shared memory and in threads' registers, written in the ways people write them."""

TILES = """
#define BM 16
#define BN 32
#define BK 8
#define QUAD(x) (*reinterpret_cast<float4*>(&(x)))
__global__ void product(float* a, float* b, float* __restrict__ c, int m, int n, int len) {
  __shared__ float sa[BM][BK], sb[BK][BN];
  int tx = threadIdx.x, ty = threadIdx.y, id = ty * blockDim.x + tx;
  int row = id / 2, first = id % 2 == 0 ? 0 : 4;
  float sums[4][4] = {0.0f};
  for (int t = 0; t < len / BK; ++t) {
    if (id < BM * BK / 4) COPY_A
    for (int r = id / 8; r < BK; r += 4) COPY_B
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += sa[ty * 4 + i][k] * sb[k][tx * 4 + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) QUAD(c[(blockIdx.y * BM + ty * 4 + i) * n + blockIdx.x * BN + tx * 4]) = QUAD(sums[i][0]);
}
void run(float* a, float* b, float* c, int m, int n, int len) {
  product<<<dim3(n / BN, m / BM), dim3(8, 4)>>>(a, b, c, m, n, len);
}
"""
"""A thread moves four neighbours of each tile."""

IN_QUADS = TILES.replace(
    "COPY_A", "QUAD(sa[row][first]) = QUAD(a[(blockIdx.y * BM + row) * len + t * BK + first]);"
).replace("COPY_B", "QUAD(sb[r][id % 8 * 4]) = QUAD(b[(t * BK + r) * n + blockIdx.x * BN + id % 8 * 4]);")

ONE_BY_ONE = TILES.replace(
    "COPY_A", "for (int q = 0; q < 4; ++q) sa[row][first + q] = a[(blockIdx.y * BM + row) * len + t * BK + first + q];"
).replace(
    "COPY_B",
    "for (int q = 0; q < 4; ++q) sb[r][id % 8 * 4 + q] = b[(t * BK + r) * n + blockIdx.x * BN + id % 8 * 4 + q];",
)

HEAD = """
#define BM 16
#define BN 32
#define BK 8
#define QUAD(x) (*reinterpret_cast<float4*>(&(x)))
"""
LAUNCH = """
void run(float* a, float* b, float* c, int m, int n, int len) {
  product<<<dim3(n / BN, m / BM), 32>>>(a, b, c, m, n, len);
}
"""

FROM_REGISTERS = (
    HEAD
    + """
__global__ void product(float* a, float* b, float* __restrict__ c, int m, int n, int len) {
  __shared__ float sa[BM * BK];
  __shared__ float sb[BK * BN];
  const int col = threadIdx.x % 8, row = threadIdx.x / 8;
  a += blockIdx.y * BM * len;
  b += blockIdx.x * BN;
  c += blockIdx.y * BM * n + blockIdx.x * BN;
  float sums[16] = {0.0f}, down[4] = {0.0f}, across[4] = {0.0f};
  for (int t = 0; t < len; t += BK) {
    COPY
    __syncthreads();
    a += BK;
    b += BK * n;
    for (int k = 0; k < BK; ++k) {
      for (int i = 0; i < 4; ++i) down[i] = sa[A_AT(row * 4 + i, k)];
      for (int j = 0; j < 4; ++j) across[j] = sb[k * BN + col * 4 + j];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sums[i * 4 + j] += down[i] * across[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) c[(row * 4 + i) * n + col * 4 + j] = sums[i * 4 + j];
}
"""
    + LAUNCH
)
"""Flat tiles, a part of which each thread keeps in registers for one term, behind pointers that move on."""

IN_ROUNDS = FROM_REGISTERS.replace("A_AT(row * 4 + i, k)", "(row * 4 + i) * BK + k").replace(
    "COPY",
    "for (int o = 0; o < BM; o += 4) sa[(threadIdx.x / BK + o) * BK + threadIdx.x % BK] ="
    " a[(threadIdx.x / BK + o) * len + threadIdx.x % BK];\n"
    "    for (int o = 0; o < BK; ++o) sb[o * BN + threadIdx.x] = b[o * n + threadIdx.x];",
)

TURNED = FROM_REGISTERS.replace("A_AT(row * 4 + i, k)", "k * BM + row * 4 + i").replace(
    "COPY",
    """const int ra = threadIdx.x / 2, qa = threadIdx.x % 2, rb = threadIdx.x / 8, qb = threadIdx.x % 8;
    float4 v = QUAD(a[ra * len + qa * 4]);
    sa[(qa * 4 + 0) * BM + ra] = v.x;
    sa[(qa * 4 + 1) * BM + ra] = v.y;
    sa[(qa * 4 + 2) * BM + ra] = v.z;
    sa[(qa * 4 + 3) * BM + ra] = v.w;
    for (int o = 0; o < BK; o += 4) QUAD(sb[(rb + o) * BN + qb * 4]) = QUAD(b[(rb + o) * n + qb * 4]);""",
)

QUADS_IN_REGISTERS = (
    HEAD
    + """
__global__ void product(float* a, float* b, float* __restrict__ c, int m, int n, int len) {
  __shared__ float sa[BK][BM], sb[BK][BN];
  int tx = threadIdx.x % 8, ty = threadIdx.x / 8, id = threadIdx.x;
  float la[4], lb[4], down[4], across[4], sums[4][4] = {0.0f};
  int ra = id / 2, ka = (id & 1) << 2, kb = id / 8, cb = (id & 7) << 2;
  for (int t = 0; t < len / BK; ++t) {
    QUAD(la[0]) = QUAD(a[(blockIdx.y * BM + ra) * len + t * BK + ka]);
    sa[ka][ra] = la[0];
    sa[ka + 1][ra] = la[1];
    sa[ka + 2][ra] = la[2];
    sa[ka + 3][ra] = la[3];
    for (int o = 0; o < BK; o += 4) {
      QUAD(lb[0]) = QUAD(b[(t * BK + kb + o) * n + blockIdx.x * BN + cb]);
      QUAD(sb[kb + o][cb]) = QUAD(lb[0]);
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k) {
      QUAD(down[0]) = QUAD(sa[k][ty * 4]);
      QUAD(across[0]) = QUAD(sb[k][tx * 4]);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sums[i][j] += down[i] * across[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) QUAD(c[(blockIdx.y * BM + ty * 4 + i) * n + blockIdx.x * BN + tx * 4]) = QUAD(sums[i][0]);
}
"""
    + LAUNCH
)
"""Vectors rest in registers between memory and the tiles, and between the tiles and the products."""
