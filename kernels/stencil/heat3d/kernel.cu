// One explicit step of the heat equation on a nz x ny x nx grid (seven-point stencil); the boundary of out is left alone.

#include <cuda_runtime.h>

__global__ void heat3d_kernel(const float* __restrict__ u, float* __restrict__ out, float r, int nz, int ny, int nx) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;

  if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;

  const int plane = nx * ny;
  const int i = z * plane + y * nx + x;
  const float c = u[i];
  out[i] = c + r * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - plane] + u[i + plane] - 6.0f * c);
}

void heat3d(const float* u, float* out, float r, int nz, int ny, int nx, cudaStream_t stream) {
  dim3 block(32, 4, 2);
  dim3 grid((nx + 31) / 32, (ny + 3) / 4, (nz + 1) / 2);
  heat3d_kernel<<<grid, block, 0, stream>>>(u, out, r, nz, ny, nx);
}
