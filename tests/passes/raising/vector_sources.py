"""Kernels that move vectors, in the ways that people write them, each with the loops that it is of elements."""

from __future__ import annotations

HALF = "#include <cuda_fp16.h>\n"
BF16 = "#include <cuda_bf16.h>\n"

SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    # a guard that the rest of the elements stands beside: any length
    "float4 and a tail beside it": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, float a, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 3 < n) {
    float4 v = *reinterpret_cast<const float4*>(x + i), w = *(float4*)&y[i];
    w.x += a * v.x; w.y += a * v.y; w.z += a * v.z; w.w += a * v.w;
    reinterpret_cast<float4*>(y)[i / 4] = w;
  } else {
    for (int j = i; j < n; ++j) y[j] += a * x[j];
  }
}
void go(float* y, const float* x, float a, int n) { k<<<(n + 511) / 512, 128>>>(y, x, a, n); }
""", ("par i in 0..n @ [vec 4, thread.x 128, block.x]", "y[i] += a * x[i]")),
    "a row of float4, summed and scaled": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, int d) {
  const float4* x4 = reinterpret_cast<const float4*>(x + (long long)blockIdx.x * d);
  float4* y4 = reinterpret_cast<float4*>(y + (long long)blockIdx.x * d);
  __shared__ float part[128];
  float s = 0.f;
  for (int i = threadIdx.x; i < d / 4; i += blockDim.x) {
    float4 v = x4[i];
    s += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  part[threadIdx.x] = s;
  __syncthreads();
  for (int o = 64; o > 0; o >>= 1) {
    if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
    __syncthreads();
  }
  const float r = rsqrtf(part[0] / d);
  for (int i = threadIdx.x; i < d / 4; i += blockDim.x) {
    float4 v = x4[i];
    v.x *= r; v.y *= r; v.z *= r; v.w *= r;
    y4[i] = v;
  }
}
void go(float* y, const float* x, int rows, int d) { k<<<rows, 128>>>(y, x, d); }
""", ("assume d % 4 == 0 origin guessed", "over i in 0..d @ [vec 4, thread.x 128, seq]", "yield v * v",
      "par i_1 in 0..d @ [vec 4, thread.x 128, seq]")),
    "a row of float4 from an element with a name, summed through warps": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, int d) {
  __shared__ float part[4];
  const float* row = x + (long long)blockIdx.x * d;
  const int first = threadIdx.x * 4, lane = threadIdx.x % 32;
  float s = 0.f;
  for (int i = first; i < d; i += 128 * 4) {
    float4 v = *reinterpret_cast<const float4*>(row + i);
    s += v.x * v.x; s += v.y * v.y; s += v.z * v.z; s += v.w * v.w;
  }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (lane == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = lane < 4 ? part[lane] : 0.f;
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  const float r = rsqrtf(s / d);
  for (int i = first; i < d; i += 128 * 4) {
    float4 v = *reinterpret_cast<const float4*>(row + i);
    v.x *= r; v.y *= r; v.z *= r; v.w *= r;
    *reinterpret_cast<float4*>(y + (long long)blockIdx.x * d + i) = v;
  }
}
void go(float* y, const float* x, int rows, int d) { k<<<rows, 128>>>(y, x, d); }
""", ("over i in 0..d @ [vec 4, thread.x 128, seq]", "yield v * v", "par i_1 in 0..d @ [vec 4, thread.x 128, seq]")),
    "a bias that may be missing, and what was there": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ b, bool more, int n) {
  for (int i = (blockIdx.x * 128 + threadIdx.x) * 4; i < n; i += gridDim.x * 128 * 4) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    if (b) { float4 c = *reinterpret_cast<const float4*>(b + i); v.x += c.x; v.y += c.y; v.z += c.z; v.w += c.w; }
    if (more) {
      float4 c = *reinterpret_cast<const float4*>(y + i);
      v.x += c.x; v.y += c.y; v.z += c.z; v.w += c.w;
      *reinterpret_cast<float4*>(y + i) = v;
    } else
      *reinterpret_cast<float4*>(y + i) = v;
  }
}
void go(float* y, const float* x, const float* b, bool more, int n) { k<<<64, 128>>>(y, x, b, more, n); }
""", ("@ [vec 4, thread.x 128, block.x 64, seq]", "v_1 = v + b[i]", "y[i] = v_1 + y[i]", "      y[i] = v_1")),
    "one of two inputs": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ b, bool other, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 4) return;
  float4 v;
  if (other) v = reinterpret_cast<const float4*>(b)[i]; else v = reinterpret_cast<const float4*>(x)[i];
  v.x *= 2.0f; v.y *= 2.0f; v.z *= 2.0f; v.w *= 2.0f;
  reinterpret_cast<float4*>(y)[i] = v;
}
void go(float* y, const float* x, const float* b, bool other, int n) {
  k<<<(n / 4 + 127) / 128, 128>>>(y, x, b, other, n);
}
""", ("@ [vec 4, thread.x 128, block.x]", "if other", "v = b[i]", "else", "v = x[i]")),
    "a row with a residual and a bias, in arrays": ("""
__global__ void k(float* __restrict__ r, float* __restrict__ h, const float* __restrict__ b, int d) {
  __shared__ float part[2];
  r += (long long)blockIdx.x * d; h += (long long)blockIdx.x * d;
  float v[4], a[4], c[4], s = 0.f;
  for (int i = threadIdx.x * 4; i < d; i += 64 * 4) {
    *(float4*)v = *(const float4*)(r + i); *(float4*)a = *(const float4*)(h + i);
    for (int k = 0; k < 4; k++) v[k] += a[k];
    if (b) { *(float4*)c = *(const float4*)(b + i); for (int k = 0; k < 4; k++) v[k] += c[k]; }
    *(float4*)(r + i) = *(float4*)v;
    for (int k = 0; k < 4; k++) s += v[k] * v[k];
  }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  const float q = rsqrtf((part[0] + part[1]) / d);
  for (int i = threadIdx.x * 4; i < d; i += 64 * 4) {
    *(float4*)v = *(const float4*)(r + i);
    for (int k = 0; k < 4; k++) v[k] *= q;
    *(float4*)(h + i) = *(float4*)v;
  }
}
void go(float* r, float* h, const float* b, int rows, int d) { k<<<rows, 64>>>(r, h, b, d); }
""", ("over i in 0..d @ [vec 4, thread.x 64, seq]", "r[r_1 + i] = v\n", "yield v * v", "v = v_1 + b[i]",
      "par i_1 in 0..d @ [vec 4, thread.x 64, seq]")),
    "the bits of halves in a uint4, and a tail behind": (HALF + """
__global__ void k(half* __restrict__ y, const half* __restrict__ x, float s, int n) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  for (int i = first; i < n / 8; i += stride) {
    uint4 raw = reinterpret_cast<const uint4*>(x)[i];
    half2* h = reinterpret_cast<half2*>(&raw);
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
      float2 f = __half22float2(h[k]);
      f.x *= s; f.y *= s;
      h[k] = __float22half2_rn(f);
    }
    reinterpret_cast<uint4*>(y)[i] = raw;
  }
  for (int i = n / 8 * 8 + first; i < n; i += stride) y[i] = __float2half(__half2float(x[i]) * s);
}
void go(half* y, const half* x, float s, int n) { k<<<64, 128>>>(y, x, s, n); }
""", ("0..n @ [vec 8, thread.x 128, block.x 64, seq]", "] = f16(f32(x[")),
    "a union, in steps of whole vectors": (BF16 + """
union Pack { uint4 v; __nv_bfloat16 e[8]; };
__global__ void k(__nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x, int d) {
  const long long row = blockIdx.x;
  for (int i = threadIdx.x * 8; i < d; i += blockDim.x * 8) {
    Pack p;
    p.v = *reinterpret_cast<const uint4*>(x + row * d + i);
    for (int k = 0; k < 8; ++k) { float f = __bfloat162float(p.e[k]); p.e[k] = __float2bfloat16(f > 0.f ? f : 0.f); }
    *reinterpret_cast<uint4*>(y + row * d + i) = p.v;
  }
}
void go(__nv_bfloat16* y, const __nv_bfloat16* x, int rows, int d) { k<<<rows, 128>>>(y, x, d); }
""", ("par i in 0..d @ [vec 8, thread.x 128, seq]", "let f: f32 = f32(x[row * d + i])")),
    "a class of eight, beside two float4": (BF16 + """
template <typename T, int N> struct alignas(sizeof(T) * N) Vec { T v[N]; };
typedef __nv_bfloat16 T;
__global__ void k(T* __restrict__ y, const T* __restrict__ x, const float* __restrict__ b, int d) {
  const int base = blockIdx.x * d;
  for (int i = threadIdx.x; i * 8 < d; i += blockDim.x) {
    Vec<__nv_bfloat16, 8> a = reinterpret_cast<const Vec<__nv_bfloat16, 8>*>(x + base)[i];
    float4 lo = reinterpret_cast<const float4*>(b)[2 * i], hi = reinterpret_cast<const float4*>(b)[2 * i + 1];
    float bb[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
    for (int k = 0; k < 8; k++) a.v[k] = __float2bfloat16(__bfloat162float(a.v[k]) + bb[k]);
    reinterpret_cast<Vec<__nv_bfloat16, 8>*>(y + base)[i] = a;
  }
}
void go(__nv_bfloat16* y, const __nv_bfloat16* x, const float* b, int rows, int d) { k<<<rows, 128>>>(y, x, b, d); }
""", ("par i in 0..d @ [vec 8, thread.x 128, seq]", "+ b[i])")),
    "columns, each thread four of them": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, int rows, int cols) {
  int c = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (c >= cols) return;
  float4 acc = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int r = 0; r < rows; r++) {
    float4 v = __ldg(reinterpret_cast<const float4*>(&x[r * cols + c]));
    acc.x += v.x; acc.y += v.y; acc.z += v.z; acc.w += v.w;
  }
  *reinterpret_cast<float4*>(y + c) = acc;
}
void go(float* y, const float* x, int rows, int cols) { k<<<(cols + 511) / 512, 128>>>(y, x, rows, cols); }
""", ("assume cols % 4 == 0 origin guessed", "par i in 0..cols @ [vec 4, thread.x 128, block.x]",
      "acc += x.ldg[r * cols + i]")),
    "rows that are found by division": ("""
__global__ void k(float* __restrict__ y, const int* __restrict__ at, const float* __restrict__ x, int n, int c) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i < n * c) {
    int row = i / c, col = i % c;
    float4 v = *(const float4*)(x + at[row] * c + col);
    v.x += 1.f; v.y += 1.f; v.z += 1.f; v.w += 1.f;
    *(float4*)(y + row * c + col) = v;
  }
}
void go(float* y, const int* at, const float* x, int n, int c) { k<<<(n * c / 4 + 127) / 128, 128>>>(y, at, x, n, c); }
""", ("assume c % 4 == 0 origin guessed", "@ [vec 4, thread.x 128, block.x]", "i % c] + 1.0")),
    "rows that are found by the number of a vector": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ b,
                  const float* __restrict__ s, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = ((const float4*)x)[i], w = ((const float4*)b)[i % c];
  v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w;
  float f = s[i / c];
  v.x *= f; v.y *= f; v.z *= f; v.w *= f;
  ((float4*)y)[i] = v;
}
void go(float* y, const float* x, const float* b, const float* s, int n, int c) {
  k<<<(n + 127) / 128, 128>>>(y, x, b, s, n, c);
}
""", ("assume c <= 536870911 origin guessed", "par i in 0..n * 4 @ [vec 4, thread.x 128, block.x]",
      "b[(i % (c * 4)) as i64]", "s[i / (c * 4)]")),
    "rows of a length that is in memory": ("""
__global__ void k(float* __restrict__ y, const float* __restrict__ x, const int* __restrict__ length, int d) {
  const int n = length[blockIdx.x];
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x)
    ((float4*)(y + blockIdx.x * d))[i] = ((const float4*)(x + blockIdx.x * d))[i];
}
void go(float* y, const float* x, const int* length, int rows, int d) { k<<<rows, 128>>>(y, x, length, d); }
""", ("assume d % 4 == 0 origin guessed", "par i in 0..n / 4 * 4 @ [vec 4, thread.x 128, seq]")),
    "pointers to vectors": (HALF + """
__global__ void k(half2* __restrict__ y, const half2* __restrict__ x, int n2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n2) y[i] = __hmul2(x[i], x[i]);
}
void go(half2* y, const half2* x, int n2) { k<<<(n2 + 127) / 128, 128>>>(y, x, n2); }
""", ("x: f16 const* restrict align 4 noalias readonly", "par i in 0..n2 * 2 @ [vec 2, thread.x 128, block.x]")),
    "pairs that are guarded one by one": (HALF + """
__global__ void k(half* __restrict__ y, const half* __restrict__ x, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  half2 a = *(const half2*)&x[i], b = *(const half2*)&x[i + 2];
  a.x = __habs(a.x); a.y = __habs(a.y); b.x = __habs(b.x); b.y = __habs(b.y);
  if (i + 0 < n) *(half2*)&y[i] = a;
  if (i + 2 < n) *(half2*)&y[i + 2] = b;
}
void go(half* y, const half* x, int n) { k<<<(n + 511) / 512, 128>>>(y, x, n); }
""", ("assume n % 4 == 0 origin guessed", "par i in 0..n @ [vec 4, thread.x 128, block.x]")),
}  # fmt: skip

KEPT: dict[str, tuple[str, str]] = {
    # lanes that differ: what an element becomes depends on its place in the vector, by more than its number
    "complex products": ("""
__global__ void k(float2* __restrict__ y, const float2* __restrict__ x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float2 v = x[i]; y[i] = make_float2(v.x * v.x - v.y * v.y, 2.f * v.x * v.y); }
}
void go(float2* y, const float2* x, int n) { k<<<(n + 127) / 128, 128>>>(y, x, n); }
""", "do different things"),
    "a vector turned round": ("""
__global__ void k(float4* __restrict__ y, const float4* __restrict__ x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = x[i]; y[i] = make_float4(v.w, v.z, v.y, v.x); }
}
void go(float4* y, const float4* x, int n) { k<<<(n + 127) / 128, 128>>>(y, x, n); }
""", "are not taken in order"),
    "the largest of a vector": ("""
__global__ void k(float* __restrict__ y, const float4* __restrict__ x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = x[i]; y[i] = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
}
void go(float* y, const float4* x, int n) { k<<<(n + 127) / 128, 128>>>(y, x, n); }
""", "is not written lane by lane"),
}  # fmt: skip
