// Plain loops for the kernels of kernels/stencil: parameters in the kernel's order.

static int clamped(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }

void heat3d(const float* restrict u, float* restrict out, float r, int nz, int ny, int nx) {
  const int plane = ny * nx;
#pragma omp parallel for
  for (int z = 1; z < nz - 1; ++z)
    for (int y = 1; y < ny - 1; ++y)
      for (int i = z * plane + y * nx + 1; i < z * plane + y * nx + nx - 1; ++i)
        out[i] = u[i] + r * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - plane] + u[i + plane] - 6.0f * u[i]);
}

void hotspot(const float* restrict power, const float* restrict temp, float* restrict result, int rows, int cols,
             float cap, float rx, float ry, float rz, float ambient) {
#pragma omp parallel for
  for (int y = 0; y < rows; ++y) {
    const float *here = temp + y * cols, *up = temp + clamped(y - 1, rows) * cols;
    const float* down = temp + clamped(y + 1, rows) * cols;
    for (int x = 0; x < cols; ++x) {
      const float t = here[x], vertical = down[x] + up[x] - 2.0f * t;
      const float horizontal = here[clamped(x + 1, cols)] + here[clamped(x - 1, cols)] - 2.0f * t;
      result[y * cols + x] = t + cap * (power[y * cols + x] + vertical * ry + horizontal * rx + (ambient - t) * rz);
    }
  }
}

void jacobi2d(const float* restrict a, float* restrict b, int ny, int nx) {
#pragma omp parallel for
  for (int y = 1; y < ny - 1; ++y)
    for (int i = y * nx + 1; i < y * nx + nx - 1; ++i)
      b[i] = 0.2f * (a[i] + a[i - 1] + a[i + 1] + a[i - nx] + a[i + nx]);
}
