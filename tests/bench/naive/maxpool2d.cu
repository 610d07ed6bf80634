#include <cuda_runtime.h>
#include <math.h>
__global__ void maxpool(const float* in, float* out, int N, int C, int H, int W, int k, int stride, int pad, int OH, int OW) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N * C * OH * OW) return;
  int ow = i % OW, oh = (i / OW) % OH, c = (i / OW / OH) % C, n = i / OW / OH / C;
  float m = -INFINITY;
  for (int y = 0; y < k; y++)
    for (int x = 0; x < k; x++) {
      int ih = oh * stride - pad + y, iw = ow * stride - pad + x;
      if (ih >= 0 && ih < H && iw >= 0 && iw < W) m = fmaxf(m, in[((n * C + c) * H + ih) * W + iw]);
    }
  out[i] = m;
}
void solve(const float* in, float* out, int N, int C, int H, int W, int k, int stride, int pad) {
  int OH = (H + 2 * pad - k) / stride + 1, OW = (W + 2 * pad - k) / stride + 1;
  int total = N * C * OH * OW;
  maxpool<<<(total + 255) / 256, 256>>>(in, out, N, C, H, W, k, stride, pad, OH, OW);
}
