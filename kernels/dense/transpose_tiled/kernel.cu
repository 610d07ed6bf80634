// out = in^T, through a padded tile in shared memory: rows are read and written in whole, 32 x 8 threads a tile.
//
//   in   [rows, cols]
//   out  [cols, rows]

#include <cuda_runtime.h>

#define TILE 32
#define STEP 8

__global__ void transpose_tiled_kernel(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  __shared__ float tile[TILE][TILE + 1];

  int col = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += STEP) {
    if (row + j < rows && col < cols) {
      tile[threadIdx.y + j][threadIdx.x] = in[(row + j) * cols + col];
    }
  }
  __syncthreads();

  col = blockIdx.y * TILE + threadIdx.x;
  row = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += STEP) {
    if (row + j < cols && col < rows) {
      out[(row + j) * rows + col] = tile[threadIdx.x][threadIdx.y + j];
    }
  }
}

void transpose_tiled(const float* in, float* out, int rows, int cols, cudaStream_t stream) {
  dim3 block(TILE, STEP);
  dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  transpose_tiled_kernel<<<grid, block, 0, stream>>>(in, out, rows, cols);
}
