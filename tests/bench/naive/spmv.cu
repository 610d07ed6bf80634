#include <cuda_runtime.h>
#include <math.h>
__global__ void spmv(const int* rowptr, const int* col, const float* val, const float* x, float* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float s = 0;
  for (int j = rowptr[r]; j < rowptr[r + 1]; j++) s += val[j] * x[col[j]];
  y[r] = s;
}
void solve(const int* rowptr, const int* col, const float* val, const float* x, float* y, int rows) { spmv<<<(rows + 255) / 256, 256>>>(rowptr, col, val, x, y, rows); }
