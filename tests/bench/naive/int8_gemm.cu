#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
__global__ void qgemm(const int8_t* A, const int8_t* B, int8_t* C, int M, int N, int K, float sa, float sb, float sc, int za, int zb, int zc) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  int acc = 0;
  for (int k = 0; k < K; k++) acc += ((int)A[row * K + k] - za) * ((int)B[k * N + col] - zb);
  int q = (int)roundf(acc * sa * sb / sc) + zc;
  C[row * N + col] = (int8_t)max(-128, min(127, q));
}
void solve(const int8_t* A, const int8_t* B, int8_t* C, int M, int N, int K, float sa, float sb, float sc, int za, int zb, int zc) { qgemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, sa, sb, sc, za, zb, zc); }
