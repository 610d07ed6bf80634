// Plain loops for the kernels of kernels/training in float32: parameters in the kernel's order, the launcher's last.

#include <math.h>
#include <stdint.h>
#include <string.h>

void column_sum(float* restrict out, const float* restrict x, int rows, int cols) {
  memset(out, 0, cols * sizeof(float));
#pragma omp parallel for reduction(+ : out[ : cols])
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) out[j] += x[(int64_t)i * cols + j];
}

static float largest_of(const float* restrict x, int n) {
  float largest = x[0];
  for (int i = 1; i < n; ++i) largest = fmaxf(largest, x[i]);
  return largest;
}

void cross_entropy(float* restrict loss, const float* restrict logits, const int* restrict target, int vocab,
                   int rows) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    const float* x = logits + (int64_t)r * vocab;
    const float m = largest_of(x, vocab);
    float sum = 0.0f;
    for (int i = 0; i < vocab; ++i) sum += expf(x[i] - m);
    loss[r] = logf(sum) + m - x[target[r]];
  }
}

void layernorm(float* restrict out, float* restrict mean, float* restrict rstd, const float* restrict input,
               const float* restrict weight, const float* restrict bias, float eps, int cols, int rows) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    const float* x = input + (int64_t)r * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < cols; ++i) sum += x[i];
    const float m = sum / cols;
    for (int i = 0; i < cols; ++i) squares += (x[i] - m) * (x[i] - m);
    const float scale = 1.0f / sqrtf(squares / cols + eps);
    for (int i = 0; i < cols; ++i) out[(int64_t)r * cols + i] = (x[i] - m) * scale * weight[i] + bias[i];
    mean[r] = m;
    rstd[r] = scale;
  }
}

void softmax(float* restrict out, const float* restrict input, int cols, int rows) {
#pragma omp parallel for
  for (int r = 0; r < rows; ++r) {
    const float* x = input + (int64_t)r * cols;
    float* y = out + (int64_t)r * cols;
    const float m = largest_of(x, cols);
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += y[i] = expf(x[i] - m);
    const float inverse = 1.0f / sum;
    for (int i = 0; i < cols; ++i) y[i] *= inverse;
  }
}
