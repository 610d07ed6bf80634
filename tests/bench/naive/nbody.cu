#include <cuda_runtime.h>
#include <math.h>
__global__ void forces(const float4* p, float4* acc, int n, float soft) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float ax = 0, ay = 0, az = 0;
  for (int j = 0; j < n; j++) {
    float dx = p[j].x - p[i].x, dy = p[j].y - p[i].y, dz = p[j].z - p[i].z;
    float r = rsqrtf(dx * dx + dy * dy + dz * dz + soft);
    float f = p[j].w * r * r * r;
    ax += f * dx; ay += f * dy; az += f * dz;
  }
  acc[i] = make_float4(ax, ay, az, 0);
}
void solve(const float4* p, float4* acc, int n) { forces<<<(n + 255) / 256, 256>>>(p, acc, n, 1e-3f); }
