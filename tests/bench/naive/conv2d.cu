#include <cuda_runtime.h>
#include <math.h>
__global__ void conv2d(const float* in, const float* w, const float* b, float* out, int N, int C, int H, int W, int K, int R, int S) {
  int ow = blockIdx.x * blockDim.x + threadIdx.x, oh = blockIdx.y * blockDim.y + threadIdx.y;
  int nk = blockIdx.z; int n = nk / K, k = nk % K;
  int OH = H - R + 1, OW = W - S + 1;
  if (ow >= OW || oh >= OH) return;
  float acc = b[k];
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s)
        acc += in[((n * C + c) * H + oh + r) * W + ow + s] * w[((k * C + c) * R + r) * S + s];
  out[((n * K + k) * OH + oh) * OW + ow] = acc;
}
void solve(const float* in, const float* w, const float* b, float* out, int N, int C, int H, int W, int K) {
  dim3 block(16, 16), grid((W - 2 + 15) / 16, (H - 2 + 15) / 16, N * K);
  conv2d<<<grid, block>>>(in, w, b, out, N, C, H, W, K, 3, 3);
}
