#include <cuda_runtime.h>
#include <math.h>
__global__ void bmm(const float* A, const float* B, float* C, int batch, int M, int N, int K) {
  int b = blockIdx.z, row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  float s = 0;
  for (int k = 0; k < K; ++k) s += A[b * M * K + row * K + k] * B[b * K * N + k * N + col];
  C[b * M * N + row * N + col] = s;
}
void solve(const float* A, const float* B, float* C, int batch, int M, int N, int K) { bmm<<<dim3((N + 15) / 16, (M + 15) / 16, batch), dim3(16, 16)>>>(A, B, C, batch, M, N, K); }
