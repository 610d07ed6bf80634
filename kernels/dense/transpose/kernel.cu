// out[c][r] = in[r][c], row-major.
//
//   in   [rows, cols]
//   out  [cols, rows]

#include <cuda_runtime.h>

#define TILE 16

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ in, int rows, int cols) {
  int col = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  if (row < rows && col < cols) {
    out[(size_t)col * rows + row] = in[(size_t)row * cols + col];
  }
}

void transpose(float* out, const float* in, int rows, int cols, cudaStream_t stream) {
  dim3 block(TILE, TILE);
  dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  transpose_kernel<<<grid, block, 0, stream>>>(out, in, rows, cols);
}
