// C = A * B, row-major, half precision in and out, float accumulation, one thread per element of C.
//
//   A  [M, K]
//   B  [K, N]
//   C  [M, N]

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define BLOCK_SIZE 16

__global__ void hgemm_kernel(int M, int N, int K, const __half* __restrict__ A, const __half* __restrict__ B,
                             __half* __restrict__ C) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;

  if (row < M && col < N) {
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) {
      acc += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    }
    C[row * N + col] = __float2half(acc);
  }
}

void hgemm(int M, int N, int K, const __half* A, const __half* B, __half* C, cudaStream_t stream) {
  dim3 block(BLOCK_SIZE, BLOCK_SIZE);
  dim3 grid((N + BLOCK_SIZE - 1) / BLOCK_SIZE, (M + BLOCK_SIZE - 1) / BLOCK_SIZE);
  hgemm_kernel<<<grid, block, 0, stream>>>(M, N, K, A, B, C);
}
