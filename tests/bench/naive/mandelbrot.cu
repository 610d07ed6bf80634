#include <cuda_runtime.h>
#include <math.h>
__global__ void mandel(int* out, int w, int h, float x0, float y0, float dx, float dy, int maxit) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= w || py >= h) return;
  float cx = x0 + px * dx, cy = y0 + py * dy, x = 0, y = 0; int it = 0;
  while (it < maxit && x * x + y * y < 4.f) { float t = x * x - y * y + cx; y = 2 * x * y + cy; x = t; it++; }
  out[py * w + px] = it;
}
void solve(int* out, int w, int h) { mandel<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(out, w, h, -2.f, -1.f, 3.f / w, 2.f / h, 256); }
