#include <cuda_runtime.h>
#include <math.h>
__global__ void rope(float* q, const float* cosv, const float* sinv, int tokens, int heads, int dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= tokens * heads * dim / 2) return;
  int half_d = dim / 2, k = i % half_d, h = i / half_d % heads, t = i / half_d / heads;
  float* p = q + (t * heads + h) * dim;
  float a = p[k], b = p[k + half_d], c = cosv[t * half_d + k], s = sinv[t * half_d + k];
  p[k] = a * c - b * s; p[k + half_d] = b * c + a * s;
}
void solve(float* q, const float* c, const float* s, int tokens, int heads, int dim) { int n = tokens * heads * dim / 2; rope<<<(n + 255) / 256, 256>>>(q, c, s, tokens, heads, dim); }
