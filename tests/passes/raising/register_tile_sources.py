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
