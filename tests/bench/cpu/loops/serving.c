// Plain loops for the kernels of kernels/serving in float32: parameters in the kernel's order, the launcher's last.

#include <math.h>
#include <stdint.h>
#include <string.h>

void fused_add_rmsnorm(float* restrict input, float* restrict residual, const float* restrict weight, float eps,
                       int hidden, int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t) {
    float *x = input + (int64_t)t * hidden, *r = residual + (int64_t)t * hidden;
    float sum = 0.0f;
    for (int i = 0; i < hidden; ++i) {
      r[i] += x[i];
      sum += r[i] * r[i];
    }
    const float scale = 1.0f / sqrtf(sum / hidden + eps);
    for (int i = 0; i < hidden; ++i) x[i] = r[i] * scale * weight[i];
  }
}

void gelu_and_mul(float* restrict out, const float* restrict input, int d, int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < d; ++i) {
      const float x = input[(int64_t)t * 2 * d + i], up = input[(int64_t)t * 2 * d + d + i];
      const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
      out[(int64_t)t * d + i] = 0.5f * x * (1.0f + tanhf(inner)) * up;
    }
}

void merge_attn_states(float* restrict out, float* restrict out_lse, const float* restrict v_a,
                       const float* restrict lse_a, const float* restrict v_b, const float* restrict lse_b, int tokens,
                       int heads, int d) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t)
    for (int h = 0; h < heads; ++h) {
      float a = lse_a[h * tokens + t], b = lse_b[h * tokens + t];
      // The largest float stands for infinity, which -ffast-math does not know.
      if (fabsf(a) > 3.4028234e38f) a = -INFINITY;
      if (fabsf(b) > 3.4028234e38f) b = -INFINITY;
      const float m = fmaxf(a, b), ea = expf(a - m), eb = expf(b - m), sum = ea + eb;
      const float pa = ea / sum, pb = eb / sum;
      const int64_t row = ((int64_t)t * heads + h) * d;
      for (int i = 0; i < d; ++i) out[row + i] = pa * v_a[row + i] + pb * v_b[row + i];
      out_lse[h * tokens + t] = logf(sum) + m;
    }
}

static float row_scale(const float* restrict x, int n, float most) {
  float largest = 1e-10f;
  for (int i = 0; i < n; ++i) largest = fmaxf(largest, fabsf(x[i]));
  return largest / most;
}

static uint8_t e4m3(float x) {
  uint32_t bits, sign;
  memcpy(&bits, &x, 4);
  sign = bits >> 24 & 0x80;
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000) return 0x7F;
  if (bits < 0x3C800000) return sign | (uint8_t)rintf(fabsf(x) * 512.0f);
  const uint32_t code = (bits - 0x3C000000 + 0x7FFFF + (bits >> 20 & 1)) >> 20;
  return sign | (code < 0x7E ? code : 0x7E);
}

void quant_fp8(uint8_t* restrict q, float* restrict scale, const float* restrict input, int hidden, int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t) {
    const float* x = input + (int64_t)t * hidden;
    const float s = row_scale(x, hidden, 448.0f), inverse = 1.0f / s;
    scale[t] = s;
    for (int i = 0; i < hidden; ++i) q[(int64_t)t * hidden + i] = e4m3(x[i] * inverse);
  }
}

void quant_int8(int8_t* restrict q, float* restrict scale, const float* restrict input, int hidden, int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t) {
    const float* x = input + (int64_t)t * hidden;
    const float s = row_scale(x, hidden, 127.0f), inverse = 1.0f / s;
    scale[t] = s;
    for (int i = 0; i < hidden; ++i) q[(int64_t)t * hidden + i] = (int8_t)rintf(x[i] * inverse);
  }
}

void rmsnorm(float* restrict out, const float* restrict input, const float* restrict weight, float eps, int hidden,
             int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t) {
    const float* x = input + (int64_t)t * hidden;
    float sum = 0.0f;
    for (int i = 0; i < hidden; ++i) sum += x[i] * x[i];
    const float scale = 1.0f / sqrtf(sum / hidden + eps);
    for (int i = 0; i < hidden; ++i) out[(int64_t)t * hidden + i] = x[i] * scale * weight[i];
  }
}

void rope(float* restrict x, const float* restrict cos_sin, const int* restrict positions, int heads, int d,
          int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t) {
    const float *c = cos_sin + (int64_t)positions[t] * d, *s = c + d / 2;
    for (int h = 0; h < heads; ++h) {
      float *low = x + ((int64_t)t * heads + h) * d, *high = low + d / 2;
      for (int i = 0; i < d / 2; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a * c[i] - b * s[i];
        high[i] = b * c[i] + a * s[i];
      }
    }
  }
}

void silu_and_mul(float* restrict out, const float* restrict input, int d, int tokens) {
#pragma omp parallel for
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < d; ++i) {
      const float x = input[(int64_t)t * 2 * d + i], up = input[(int64_t)t * 2 * d + d + i];
      out[(int64_t)t * d + i] = x / (1.0f + expf(-x)) * up;
    }
}
