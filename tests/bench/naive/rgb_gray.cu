#include <cuda_runtime.h>
#include <math.h>
__global__ void gray(const unsigned char* rgb, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) {
    int i = y * w + x;
    out[i] = 0.299f * rgb[3 * i] + 0.587f * rgb[3 * i + 1] + 0.114f * rgb[3 * i + 2];
  }
}
void solve(const unsigned char* rgb, unsigned char* out, int w, int h) { gray<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(rgb, out, w, h); }
