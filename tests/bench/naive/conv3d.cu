#include <cuda_runtime.h>
#include <math.h>
__global__ void conv3d(const float* in, const float* k, float* out, int D, int R, int C, int kd, int kr, int kc) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y, d = blockIdx.z * blockDim.z + threadIdx.z;
  int OD = D - kd + 1, OR = R - kr + 1, OC = C - kc + 1;
  if (d >= OD || r >= OR || c >= OC) return;
  float s = 0;
  for (int i = 0; i < kd; i++) for (int j = 0; j < kr; j++) for (int l = 0; l < kc; l++)
    s += in[((d + i) * R + r + j) * C + c + l] * k[(i * kr + j) * kc + l];
  out[(d * OR + r) * OC + c] = s;
}
void solve(const float* in, const float* k, float* out, int D, int R, int C, int kd, int kr, int kc) { dim3 b(8, 8, 8); conv3d<<<dim3((C - kc + 8) / 8, (R - kr + 8) / 8, (D - kd + 8) / 8), b>>>(in, k, out, D, R, C, kd, kr, kc); }
