// One step of a chip's temperature: power heats a cell, its neighbours and the ambient cool it. At the chip's edges a
// missing neighbour is the cell itself.

#include <cuda_runtime.h>

__global__ void hotspot_kernel(const float* __restrict__ power, const float* __restrict__ temp,
                               float* __restrict__ result, int rows, int cols, float cap, float rx, float ry, float rz,
                               float ambient) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;

  if (row < rows && col < cols) {
    const int north = max(row - 1, 0);
    const int south = min(row + 1, rows - 1);
    const int west = max(col - 1, 0);
    const int east = min(col + 1, cols - 1);
    const float t = temp[row * cols + col];
    const float vertical = temp[south * cols + col] + temp[north * cols + col] - 2.0f * t;
    const float horizontal = temp[row * cols + east] + temp[row * cols + west] - 2.0f * t;
    result[row * cols + col] =
        t + cap * (power[row * cols + col] + vertical * ry + horizontal * rx + (ambient - t) * rz);
  }
}

void hotspot(const float* power, const float* temp, float* result, int rows, int cols, float cap, float rx, float ry,
             float rz, float ambient, cudaStream_t stream) {
  dim3 block(16, 16);
  dim3 grid((cols + 15) / 16, (rows + 15) / 16);
  hotspot_kernel<<<grid, block, 0, stream>>>(power, temp, result, rows, cols, cap, rx, ry, rz, ambient);
}
