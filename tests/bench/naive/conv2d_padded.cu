#include <cuda_runtime.h>
__global__ void conv_fwd(const float* x, const float* w, float* y, int N, int C, int H, int W, int K, int R, int stride, int pad, int P, int Q) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int total = N * K * P * Q;
  if (i < total) {
    int q = i % Q, p = (i / Q) % P, k = (i / (Q * P)) % K, n = i / (Q * P * K);
    float sum = 0.f;
    for (int c = 0; c < C; c++)
      for (int r = 0; r < R; r++)
        for (int s = 0; s < R; s++) {
          int h = p * stride - pad + r, v = q * stride - pad + s;
          if (h >= 0 && h < H && v >= 0 && v < W)
            sum += x[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * R + s];
        }
    y[i] = sum;
  }
}
void conv(const float* x, const float* w, float* y, int N, int C, int H, int W, int K) {
  int R = 3, stride = 1, pad = 1;
  int P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - R) / stride + 1;
  int total = N * K * P * Q;
  conv_fwd<<<(total + 255) / 256, 256>>>(x, w, y, N, C, H, W, K, R, stride, pad, P, Q);
}
