__global__ void k(float* x, int n) { x[blockIdx.x*blockDim.x+threadIdx.x + blockIdx.y] = n; } void go(float* x, int n, int m) { int b = n; b = b + 1; k<<<b, 64>>>(x, n); }
