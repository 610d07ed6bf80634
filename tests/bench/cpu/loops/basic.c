// Plain loops for the kernels of kernels/basic: parameters in the kernel's order, those of its launcher last.

#include <math.h>
#include <stdint.h>

void axpby(int n, float a, float b, float c, const float* restrict x, const float* restrict y, float* restrict z,
           float* restrict w) {
#pragma omp parallel for
  for (int i = 0; i < n; ++i) {
    const float t = a * x[i] + b * y[i];
    z[i] = t;
    w[i] = fmaxf(t, 0.0f) + c * w[i];
  }
}

void cumsum(float* restrict out, const float* restrict x, int rows, int cols) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    float sum = 0.0f;
    for (int64_t i = (int64_t)r * cols; i < (int64_t)(r + 1) * cols; ++i) out[i] = sum += x[i];
  }
}

void dot(float* restrict out, const float* restrict x, const float* restrict y, int n) {
  float sum = 0.0f;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < n; ++i) sum += x[i] * y[i];
  *out += sum;
}

void histogram(unsigned* restrict count, const uint8_t* restrict x, int n) {
#pragma omp parallel for reduction(+ : count[ : 256])
  for (int i = 0; i < n; ++i) ++count[x[i]];
}

void sum(float* restrict out, const float* restrict x, int n) {
  float total = 0.0f;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < n; ++i) total += x[i];
  *out += total;
}
