#include <cuda_runtime.h>
#include <math.h>
__global__ void attention(const float* Q, const float* K, const float* V, float* O, int M, int N, int d) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M) return;
  float m = -INFINITY, l = 0;
  for (int j = 0; j < N; j++) {
    float s = 0;
    for (int k = 0; k < d; k++) s += Q[row * d + k] * K[j * d + k];
    s /= sqrtf((float)d);
    m = fmaxf(m, s);
  }
  for (int k = 0; k < d; k++) O[row * d + k] = 0;
  for (int j = 0; j < N; j++) {
    float s = 0;
    for (int k = 0; k < d; k++) s += Q[row * d + k] * K[j * d + k];
    float p = expf(s / sqrtf((float)d) - m);
    l += p;
    for (int k = 0; k < d; k++) O[row * d + k] += p * V[j * d + k];
  }
  for (int k = 0; k < d; k++) O[row * d + k] /= l;
}
void solve(const float* Q, const float* K, const float* V, float* O, int M, int N, int d) { attention<<<(M + 127) / 128, 128>>>(Q, K, V, O, M, N, d); }
