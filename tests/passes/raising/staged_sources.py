"""Hand-tiled CUDA kernels, written in the ways people write them; raising should find the plain loops under them."""

from tests.passes.raising.register_tile_sources import IN_QUADS, IN_ROUNDS, ONE_BY_ONE, QUADS_IN_REGISTERS, TURNED

TILED_GEMM = """
#define TILE 8
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

RIM_BY_EXTRA_THREADS = """
#define TILE 16
#define RAD 2
#define BLK (TILE + 2 * RAD)
__constant__ float mask[(2 * RAD + 1) * (2 * RAD + 1)];
__global__ void conv_extra(const float* in, float* out, int h, int w) {
  __shared__ float s[BLK][BLK];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row_o = blockIdx.y * TILE + ty, col_o = blockIdx.x * TILE + tx;
  int row_i = row_o - RAD, col_i = col_o - RAD;
  if (row_i >= 0 && row_i < h && col_i >= 0 && col_i < w)
    s[ty][tx] = in[row_i * w + col_i];
  else
    s[ty][tx] = 0.0f;
  __syncthreads();
  if (ty < TILE && tx < TILE) {
    float acc = 0.0f;
    for (int i = 0; i < 2 * RAD + 1; i++)
      for (int j = 0; j < 2 * RAD + 1; j++)
        acc += mask[i * (2 * RAD + 1) + j] * s[ty + i][tx + j];
    if (row_o < h && col_o < w) out[row_o * w + col_o] = acc;
  }
}
void run(const float* in, float* out, int h, int w) {
  conv_extra<<<dim3((w + TILE - 1) / TILE, (h + TILE - 1) / TILE), dim3(BLK, BLK)>>>(in, out, h, w);
}
"""

RIM_BY_BORDER_THREADS = """
#define B 16
#define R 1
__global__ void blur_border(const float* __restrict__ in, float* __restrict__ out,
                            const float* __restrict__ k, int h, int w) {
  __shared__ float t[B + 2 * R][B + 2 * R];
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int lx = threadIdx.x + R, ly = threadIdx.y + R;
  t[ly][lx] = (x < w && y < h) ? in[y * w + x] : 0.f;
  if (threadIdx.x < R) {
    t[ly][lx - R] = (x - R >= 0 && y < h && x - R < w) ? in[y * w + x - R] : 0.f;
    t[ly][lx + B] = (x + B < w && y < h) ? in[y * w + x + B] : 0.f;
  }
  if (threadIdx.y < R) {
    t[ly - R][lx] = (y - R >= 0 && x < w && y - R < h) ? in[(y - R) * w + x] : 0.f;
    t[ly + B][lx] = (y + B < h && x < w) ? in[(y + B) * w + x] : 0.f;
  }
  if (threadIdx.x < R && threadIdx.y < R) {
    t[ly - R][lx - R] = (x - R >= 0 && y - R >= 0 && x - R < w && y - R < h) ? in[(y - R) * w + x - R] : 0.f;
    t[ly - R][lx + B] = (x + B < w && y - R >= 0 && y - R < h) ? in[(y - R) * w + x + B] : 0.f;
    t[ly + B][lx - R] = (x - R >= 0 && y + B < h && x - R < w) ? in[(y + B) * w + x - R] : 0.f;
    t[ly + B][lx + B] = (x + B < w && y + B < h) ? in[(y + B) * w + x + B] : 0.f;
  }
  __syncthreads();
  if (x < w && y < h) {
    float a = 0.f;
    for (int i = -R; i <= R; ++i)
      for (int j = -R; j <= R; ++j)
        a += t[ly + i][lx + j] * k[(i + R) * (2 * R + 1) + j + R];
    out[y * w + x] = a;
  }
}
void run(const float* in, float* out, const float* k, int h, int w) {
  blur_border<<<dim3((w + B - 1) / B, (h + B - 1) / B), dim3(B, B)>>>(in, out, k, h, w);
}
"""

LINE_WITH_ENDS = """
#define R 4
#define T 256
__global__ void conv1d(const float* __restrict__ x, const float* __restrict__ f, float* __restrict__ y, int n) {
  __shared__ float s[T + 2 * R];
  int i = blockIdx.x * T + threadIdx.x;
  s[threadIdx.x + R] = i < n ? x[i] : 0.f;
  if (threadIdx.x < R) {
    int l = i - R;
    s[threadIdx.x] = l < 0 || l >= n ? 0.f : x[l];
  }
  if (threadIdx.x >= T - R) {
    int r = i + R;
    s[threadIdx.x + 2 * R] = r >= n ? 0.f : x[r];
  }
  __syncthreads();
  if (i >= n) return;
  float acc = 0.f;
#pragma unroll
  for (int j = 0; j < 2 * R + 1; ++j) acc += s[threadIdx.x + j] * f[j];
  y[i] = acc;
}
void run(const float* x, const float* f, float* y, int n) { conv1d<<<(n + T - 1) / T, T>>>(x, f, y, n); }
"""

CLAMPED_BYTES = """
#define BX 32
#define BY 8
#define R 1
__global__ void box(const unsigned char* __restrict__ src, unsigned char* __restrict__ dst, int w, int h) {
  __shared__ unsigned char s[BY + 2 * R][BX + 2 * R];
  for (int j = threadIdx.y; j < BY + 2 * R; j += BY)
    for (int i = threadIdx.x; i < BX + 2 * R; i += BX) {
      int gx = min(max((int)(blockIdx.x * BX + i) - R, 0), w - 1);
      int gy = min(max((int)(blockIdx.y * BY + j) - R, 0), h - 1);
      s[j][i] = src[gy * w + gx];
    }
  __syncthreads();
  int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
  if (x < w && y < h) {
    int sum = 0;
    for (int j = 0; j <= 2 * R; ++j)
      for (int i = 0; i <= 2 * R; ++i) sum += s[threadIdx.y + j][threadIdx.x + i];
    dst[y * w + x] = sum / 9;
  }
}
void run(const unsigned char* src, unsigned char* dst, int w, int h) {
  box<<<dim3((w + BX - 1) / BX, (h + BY - 1) / BY), dim3(BX, BY)>>>(src, dst, w, h);
}
"""

PLANES = """
#define TX 32
#define TY 4
__global__ void heat(const float* __restrict__ u, float* __restrict__ v, int nx, int ny, int nz, float c) {
  __shared__ float s[TY + 2][TX + 2];
  int i = blockIdx.x * TX + threadIdx.x + 1, j = blockIdx.y * TY + threadIdx.y + 1;
  int ti = threadIdx.x + 1, tj = threadIdx.y + 1;
  bool in = i < nx - 1 && j < ny - 1;
  for (int k = 1; k < nz - 1; ++k) {
    int at = (k * ny + j) * nx + i;
    __syncthreads();
    if (i < nx && j < ny) {
      s[tj][ti] = u[at];
      if (threadIdx.x == 0) s[tj][0] = u[at - 1];
      if (threadIdx.y == 0) s[0][ti] = u[at - nx];
      if (threadIdx.x == TX - 1 && i + 1 < nx) s[tj][TX + 1] = u[at + 1];
      if (threadIdx.y == TY - 1 && j + 1 < ny) s[TY + 1][ti] = u[at + nx];
    }
    __syncthreads();
    if (in)
      v[at] = s[tj][ti] + c * (s[tj][ti - 1] + s[tj][ti + 1] + s[tj - 1][ti] + s[tj + 1][ti]
              + u[at - nx * ny] + u[at + nx * ny] - 6.f * s[tj][ti]);
  }
}
void run(const float* u, float* v, int nx, int ny, int nz, float c) {
  heat<<<dim3((nx - 2 + TX - 1) / TX, (ny - 2 + TY - 1) / TY), dim3(TX, TY)>>>(u, v, nx, ny, nz, c);
}
"""

CUBE = """
#define T 8
__global__ void conv3(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out,
                      int nx, int ny, int nz) {
  __shared__ float s[T + 2][T + 2][T + 2];
  int tid = (threadIdx.z * T + threadIdx.y) * T + threadIdx.x;
  for (int e = tid; e < (T + 2) * (T + 2) * (T + 2); e += T * T * T) {
    int a = e % (T + 2), b = e / (T + 2) % (T + 2), c = e / ((T + 2) * (T + 2));
    int x = blockIdx.x * T + a - 1, y = blockIdx.y * T + b - 1, z = blockIdx.z * T + c - 1;
    bool ok = x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
    s[c][b][a] = ok ? in[(z * ny + y) * nx + x] : 0.f;
  }
  __syncthreads();
  int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y, z = blockIdx.z * T + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  float acc = 0.f;
  for (int k = 0; k < 3; ++k) for (int j = 0; j < 3; ++j) for (int i = 0; i < 3; ++i)
    acc += s[threadIdx.z + k][threadIdx.y + j][threadIdx.x + i] * w[(k * 3 + j) * 3 + i];
  out[(z * ny + y) * nx + x] = acc;
}
void run(const float* in, const float* w, float* out, int nx, int ny, int nz) {
  conv3<<<dim3((nx + T - 1) / T, (ny + T - 1) / T, (nz + T - 1) / T), dim3(T, T, T)>>>(in, w, out, nx, ny, nz);
}
"""

WHOLE_TILES = """
__global__ void smooth(float *out, const float *in, const float *w, int width, int height, int stride) {
  __shared__ float row[2][5 * 16];  // three steps of a block, and one on each side
  const int left = (blockIdx.x * 3 - 1) * 16 + threadIdx.x;
  const int y = blockIdx.y * 2 + threadIdx.y;
  in += y * stride + left;
  out += y * stride + left;
  for (int i = 1; i < 4; i++) row[threadIdx.y][threadIdx.x + i * 16] = in[i * 16];
  row[threadIdx.y][threadIdx.x] = left >= 0 ? in[0] : 0;
  row[threadIdx.y][threadIdx.x + 64] = width - left > 64 ? in[64] : 0;
  __syncthreads();
  for (int i = 1; i < 4; i++) {
    float sum = 0;
    for (int j = -2; j <= 2; j++) sum += w[2 - j] * row[threadIdx.y][threadIdx.x + i * 16 + j];
    out[i * 16] = sum;
  }
}
void launch(float *out, const float *in, const float *w, int width, int height) {
  smooth<<<dim3(width / 48, height / 2), dim3(16, 2)>>>(out, in, w, width, height, width);
}
"""

STAGED = {
    "gemm": (TILED_GEMM, ("row", "col")),
    "gemm-bumped": (BUMPED_GEMM, ("j", "i")),
    "conv-halo": (HALO_CONVOLUTION, ("oy", "ox")),
    "conv-flat-halo": (FLAT_HALO, ("y", "x")),
    "conv-extra-threads": (RIM_BY_EXTRA_THREADS, ("row_o", "col_o")),
    "conv-border-threads": (RIM_BY_BORDER_THREADS, ("ly", "lx")),
    "conv-1d": (LINE_WITH_ENDS, ("i",)),
    "conv-whole-tiles": (WHOLE_TILES, ("y", "out_1")),
    "box-clamped": (CLAMPED_BYTES, ("y", "x")),
    "heat-planes": (PLANES, ("tj", "ti")),
    "conv-3d": (CUBE, ("z", "y", "x")),
    "transpose-padded": (PADDED_TRANSPOSE, ("x", "y")),
    "transpose-vector": (VECTOR_TRANSPOSE, ("i", "orow")),
    "gemm-in-quads": (IN_QUADS, ("l", "i")),
    "gemm-one-by-one": (ONE_BY_ONE, ("l", "i")),
    "gemm-in-rounds": (IN_ROUNDS, ("row", "col")),
    "gemm-turned": (TURNED, ("row", "col")),
    "gemm-quads-in-registers": (QUADS_IN_REGISTERS, ("l", "i")),
}
"""Source, and the parallel loops of the plain kernel, outermost first."""
