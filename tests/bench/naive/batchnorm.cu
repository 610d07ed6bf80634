#include <cuda_runtime.h>
#include <math.h>
__global__ void batchnorm(const float* x, float* y, const float* gamma, const float* beta, int N, int C, float eps) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  float sum = 0, sq = 0;
  for (int n = 0; n < N; n++) { float v = x[n * C + c]; sum += v; sq += v * v; }
  float mean = sum / N, var = sq / N - mean * mean, inv = 1.0f / sqrtf(var + eps);
  for (int n = 0; n < N; n++) y[n * C + c] = gamma[c] * (x[n * C + c] - mean) * inv + beta[c];
}
void solve(const float* x, float* y, const float* g, const float* b, int N, int C) { batchnorm<<<(C + 255) / 256, 256>>>(x, y, g, b, N, C, 1e-5f); }
