#include <cuda_runtime.h>
#include <math.h>
__global__ void blur(const float* in, const float* k, float* out, int rows, int cols, int kr, int kc) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= rows || c >= cols) return;
  float s = 0;
  for (int i = 0; i < kr; i++) for (int j = 0; j < kc; j++) {
    int y = r + i - kr / 2, x = c + j - kc / 2;
    if (y >= 0 && y < rows && x >= 0 && x < cols) s += in[y * cols + x] * k[i * kc + j];
  }
  out[r * cols + c] = s;
}
void solve(const float* in, const float* k, float* out, int rows, int cols, int kr, int kc) { blur<<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(in, k, out, rows, cols, kr, kc); }
