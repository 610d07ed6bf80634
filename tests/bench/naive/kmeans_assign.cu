#include <cuda_runtime.h>
#include <math.h>
__global__ void assign(const float* x, const float* cent, int* label, int n, int k, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f; int arg = 0;
  for (int c = 0; c < k; c++) {
    float s = 0;
    for (int j = 0; j < d; j++) { float t = x[i * d + j] - cent[c * d + j]; s += t * t; }
    if (s < best) { best = s; arg = c; }
  }
  label[i] = arg;
}
void solve(const float* x, const float* cent, int* label, int n, int k, int d) { assign<<<(n + 255) / 256, 256>>>(x, cent, label, n, k, d); }
