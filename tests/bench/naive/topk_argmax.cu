#include <cuda_runtime.h>
#include <math.h>
__global__ void argmax(const float* x, int* idx, float* val, int rows, int cols) {
  int r = blockIdx.x;
  if (threadIdx.x == 0) {
    float m = x[r * cols]; int a = 0;
    for (int c = 1; c < cols; c++) if (x[r * cols + c] > m) { m = x[r * cols + c]; a = c; }
    idx[r] = a; val[r] = m;
  }
}
void solve(const float* x, int* idx, float* val, int rows, int cols) { argmax<<<rows, 32>>>(x, idx, val, rows, cols); }
