#include <cuda_runtime.h>
__global__ void conv1d(const float* in, const float* w, const float* bias, float* out, int B, int Cin, int L, int Cout, int K) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int co = blockIdx.y, b = blockIdx.z;
  int Lo = L - K + 1;
  if (t >= Lo) return;
  float s = bias[co];
  for (int ci = 0; ci < Cin; ++ci)
    for (int k = 0; k < K; ++k)
      s += in[(b * Cin + ci) * L + t + k] * w[(co * Cin + ci) * K + k];
  out[(b * Cout + co) * Lo + t] = s;
}
void run(const float* in, const float* w, const float* bias, float* out, int B, int Cin, int L, int Cout) {
  const int K = 5;
  dim3 grid((L - K + 1 + 127) / 128, Cout, B);
  conv1d<<<grid, 128>>>(in, w, bias, out, B, Cin, L, Cout, K);
}
