// Plain loops for the kernels of kernels/dense: parameters in the kernel's order.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void hgemm(int M, int N, int K, const _Float16* restrict A, const _Float16* restrict B, _Float16* restrict C) {
#pragma omp parallel
  {
    float* row = malloc(N * sizeof(float));
#pragma omp for
    for (int i = 0; i < M; ++i) {
      memset(row, 0, N * sizeof(float));
      for (int k = 0; k < K; ++k)
        for (int j = 0; j < N; ++j) row[j] += (float)A[i * K + k] * (float)B[k * N + j];
      for (int j = 0; j < N; ++j) C[i * N + j] = (_Float16)row[j];
    }
    free(row);
  }
}

void saxpy(int n, float a, const float* restrict x, float* restrict y) {
#pragma omp parallel for
  for (int i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

void sgemm(int M, int N, int K, float alpha, const float* restrict A, const float* restrict B, float beta,
           float* restrict C) {
#pragma omp parallel for
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) C[i * N + j] *= beta;
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) C[i * N + j] += alpha * A[i * K + k] * B[k * N + j];
  }
}

void sgemm_tiled(int M, int N, int K, float alpha, const float* restrict A, const float* restrict B, float beta,
                 float* restrict C) {
  sgemm(M, N, K, alpha, A, B, beta, C);
}

void transpose(float* restrict out, const float* restrict in, int rows, int cols) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) out[(int64_t)c * rows + r] = in[(int64_t)r * cols + c];
}

void transpose_tiled(const float* restrict in, float* restrict out, int rows, int cols) {
  transpose(out, in, rows, cols);
}
