"""Hand-tiled CUDA kernels, written in the ways people write them; raising should find the plain loops under them."""

TILED_GEMM = """
#define TILE 16
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE + 1];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  float acc = 0.0f;
  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
    As[ty][tx] = (row < M && t * TILE + tx < K) ? A[row * K + t * TILE + tx] : 0.0f;
    if (t * TILE + ty < K && col < N) Bs[ty][tx] = B[(t * TILE + ty) * N + col]; else Bs[ty][tx] = 0.0f;
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < TILE; ++k) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
  dim3 b(TILE, TILE), g((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  mm<<<g, b>>>(A, B, C, M, N, K);
}
"""

BUMPED_GEMM = """
template <const int BS>
__global__ void sgemm(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  const int bi = blockIdx.x, bj = blockIdx.y;
  __shared__ float sa[BS * BS];
  __shared__ float sb[BS * BS];
  const int j = threadIdx.x % BS;
  const int i = threadIdx.x / BS;
  A += bi * BS * K;
  B += bj * BS;
  C += bi * BS * N + bj * BS;
  float sum = 0.0;
  for (int k0 = 0; k0 < K; k0 += BS) {
    sa[i * BS + j] = A[i * K + j];
    sb[i * BS + j] = B[i * N + j];
    __syncthreads();
    A += BS;
    B += BS * N;
    for (int p = 0; p < BS; ++p) sum += sa[i * BS + p] * sb[p * BS + j];
    __syncthreads();
  }
  C[i * N + j] = alpha * sum + beta * C[i * N + j];
}
void run(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  sgemm<16><<<dim3((M + 15) / 16, (N + 15) / 16), 16 * 16>>>(M, N, K, alpha, A, B, beta, C);
}
"""

HALO_CONVOLUTION = """
#define R 2
#define TW 16
#define TH 8
__global__ void conv2d(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out,
                       int H, int W) {
  __shared__ float tile[TH + 2 * R][TW + 2 * R];
  int x0 = blockIdx.x * TW - R, y0 = blockIdx.y * TH - R;
  for (int i = threadIdx.y; i < TH + 2 * R; i += TH)
    for (int j = threadIdx.x; j < TW + 2 * R; j += TW) {
      int y = y0 + i, x = x0 + j;
      tile[i][j] = (x >= 0 && x < W && y >= 0 && y < H) ? in[y * W + x] : 0.0f;
    }
  __syncthreads();
  int ox = blockIdx.x * TW + threadIdx.x, oy = blockIdx.y * TH + threadIdx.y;
  if (ox < W && oy < H) {
    float s = 0.0f;
    for (int dy = 0; dy < 2 * R + 1; ++dy)
      for (int dx = 0; dx < 2 * R + 1; ++dx)
        s += tile[threadIdx.y + dy][threadIdx.x + dx] * w[dy * (2 * R + 1) + dx];
    out[oy * W + ox] = s;
  }
}
void run(const float* in, const float* w, float* out, int H, int W) {
  conv2d<<<dim3((W + TW - 1) / TW, (H + TH - 1) / TH), dim3(TW, TH)>>>(in, w, out, H, W);
}
"""

FLAT_HALO = """
#define RAD 1
#define BX 32
#define BY 4
__global__ void blur(float* dst, const float* src, const float* coef, int ny, int nx) {
  __shared__ float sm[(BY + 2 * RAD) * (BX + 2 * RAD)];
  const int tid = threadIdx.y * BX + threadIdx.x;
  const int bx = blockIdx.x * BX, by = blockIdx.y * BY;
  for (int i = tid; i < (BY + 2 * RAD) * (BX + 2 * RAD); i += BX * BY) {
    int r = i / (BX + 2 * RAD), c = i % (BX + 2 * RAD);
    int gy = by + r - RAD, gx = bx + c - RAD;
    float v = 0.f;
    if (gy >= 0 && gy < ny && gx >= 0 && gx < nx) v = src[gy * nx + gx];
    sm[i] = v;
  }
  __syncthreads();
  const int x = bx + threadIdx.x, y = by + threadIdx.y;
  if (x >= nx || y >= ny) return;
  float acc = 0.f;
  for (int j = -RAD; j <= RAD; j++)
    for (int k = -RAD; k <= RAD; k++)
      acc += sm[(threadIdx.y + RAD + j) * (BX + 2 * RAD) + threadIdx.x + RAD + k] * coef[(j + RAD) * 3 + k + RAD];
  dst[y * nx + x] = acc;
}
void go(float* dst, const float* src, const float* coef, int ny, int nx) {
  dim3 grid((nx + BX - 1) / BX, (ny + BY - 1) / BY), block(BX, BY);
  blur<<<grid, block>>>(dst, src, coef, ny, nx);
}
"""

PADDED_TRANSPOSE = """
const int TILE_DIM = 32; const int BLOCK_ROWS = 8;
__global__ void transpose(float *odata, const float *idata, int width, int height) {
  __shared__ float tile[TILE_DIM][TILE_DIM + 1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height)
      tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width)
      odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
void t(float* o, const float* i, int w, int h) {
  transpose<<<dim3((w + 31) / 32, (h + 31) / 32), dim3(32, 8)>>>(o, i, w, h);
}
"""

VECTOR_TRANSPOSE = """
__global__ void transpose4(float* __restrict__ out, const float* __restrict__ in, int rows, int cols) {
  __shared__ float tile[32][33];
  int t = threadIdx.x;
  int c4 = (t % 8) * 4, r = t / 8;
  int row = blockIdx.y * 32 + r, col = blockIdx.x * 32 + c4;
  if (row < rows && col < cols) {
    float4 v = *reinterpret_cast<const float4*>(&in[row * cols + col]);
    tile[r][c4] = v.x; tile[r][c4 + 1] = v.y; tile[r][c4 + 2] = v.z; tile[r][c4 + 3] = v.w;
  }
  __syncthreads();
  int orow = blockIdx.x * 32 + r, ocol = blockIdx.y * 32 + c4;
  if (orow < cols && ocol < rows) {
    float4 w;
    w.x = tile[c4][r]; w.y = tile[c4 + 1][r]; w.z = tile[c4 + 2][r]; w.w = tile[c4 + 3][r];
    *reinterpret_cast<float4*>(&out[orow * rows + ocol]) = w;
  }
}
void t(float* o, const float* i, int rows, int cols) {
  transpose4<<<dim3((cols + 31) / 32, (rows + 31) / 32), 256>>>(o, i, rows, cols);
}
"""

STAGED = {
    "gemm": (TILED_GEMM, ("row", "col")),
    "gemm-bumped": (BUMPED_GEMM, ("j", "i")),
    "conv-halo": (HALO_CONVOLUTION, ("oy", "ox")),
    "conv-flat-halo": (FLAT_HALO, ("y", "x")),
    "transpose-padded": (PADDED_TRANSPOSE, ("x", "y")),
    "transpose-vector": (VECTOR_TRANSPOSE, ("i", "orow")),
}
"""Source, and the parallel loops of the plain kernel, outermost first."""
