#include <cuda_runtime.h>
#include <math.h>
__global__ void mse(const float* p, const float* t, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float d = p[i] - t[i]; atomicAdd(out, d * d / n); }
}
void solve(const float* p, const float* t, float* out, int n) { cudaMemset(out, 0, 4); mse<<<(n + 255) / 256, 256>>>(p, t, out, n); }
