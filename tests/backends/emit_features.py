"""CUDA sources that between them use most of the language, each with a launch and arguments for a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

HEAD = "#include <cuda_fp16.h>\n#include <cstdint>\n"
F32 = np.random.default_rng(5).standard_normal(512).astype(np.float32)
U32 = np.random.default_rng(6).integers(0, 2**32, 64, dtype=np.uint32)


@dataclass(frozen=True)
class Feature:
    """``args`` makes fresh arguments by parameter name; outputs are the arrays; ``shared`` is dynamic, in bytes."""

    source: str
    grid: int
    block: int
    args: Callable[[], dict]
    shared: int = 0
    needs_warp: bool = False


FEATURES: dict[str, Feature] = {
    "half2": Feature(
        """__global__ void k(__half2* __restrict__ y, const __half2* __restrict__ x, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) { __half2 a = x[i]; a = __hadd2(a, __hmul2(a, a)); y[i] = a; }
        }""",
        2, 32, lambda: {"y": np.zeros(128, np.float16), "x": F32[:128].astype(np.float16), "n": 50},
    ),
    "float4": Feature(
        """__device__ __forceinline__ float sq(float x) { return x * x; }
        __global__ void k(float4* __restrict__ y, const float4* __restrict__ x, float s, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          float4 v = x[i];
          v.x *= s; v.y += v.x; v.z = sq(v.z); v.w = -v.w;
          y[i] = make_float4(v.w, v.z, v.y, v.x);
        }""",
        2, 32, lambda: {"y": np.zeros(256, np.float32), "x": F32[:256], "s": 0.5, "n": 60},
    ),
    "histogram": Feature(
        """__global__ void k(unsigned int* __restrict__ h, const unsigned char* __restrict__ d, int n) {
          __shared__ unsigned int s[64];
          s[threadIdx.x] = 0;
          __syncthreads();
          for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            atomicAdd(&s[d[i] % 64], 1u);
          __syncthreads();
          atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
        }""",
        2, 64, lambda: {"h": np.zeros(64, np.uint32), "d": (np.arange(300) * 7 % 251).astype(np.uint8), "n": 300},
    ),
    "dynamic shared": Feature(
        """__global__ void k(float* out, const float* in, int n) {
          extern __shared__ float sm[];
          float* a = sm;
          float* b = sm + blockDim.x;
          a[threadIdx.x] = in[threadIdx.x];
          b[threadIdx.x] = 2.0f * in[threadIdx.x];
          __syncthreads();
          out[threadIdx.x] = a[blockDim.x - 1 - threadIdx.x] + b[threadIdx.x];
        }
        void launch(float* out, const float* in, int n) { k<<<1, 64, 2 * n * sizeof(float)>>>(out, in, n); }""",
        1, 64, lambda: {"out": np.zeros(64, np.float32), "in": F32[:64], "n": 64}, shared=512,
    ),
    "64-bit and bit functions": Feature(
        """__global__ void k(uint32_t* o, const uint32_t* x, uint64_t seed, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) {
            uint64_t z = seed + (uint64_t)i * 0x9E3779B97F4A7C15ull;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
            o[i] = __popc(x[i]) ^ (uint32_t)(z >> 32) ^ __brev(x[i]) ^ __clz((int)x[i]);
          }
        }""",
        2, 32, lambda: {"o": np.zeros(64, np.uint32), "x": U32, "seed": 0xDEADBEEFCAFE, "n": 60},
    ),
    "gather, double, bool, switch": Feature(
        """__global__ void k(float* o, const int* idx, const double* t, bool flip, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) {
            int j = idx[i];
            double v = j >= 0 ? t[j] : 0.0;
            if (flip) v = -v;
            o[i] = (float)v;
            switch (j & 3) { case 0: o[i] += 1; break; case 1: o[i] += 2; break; default: break; }
          }
        }""",
        1, 32,
        lambda: {"o": np.zeros(32, np.float32), "idx": np.arange(32, dtype=np.int32) - 4,
                 "t": F32[:32].astype(np.float64), "flip": True, "n": 30},
    ),
    "loops": Feature(
        """__global__ void k(int* o, int n) {
          int i = threadIdx.x;
          int c = 0;
          while (i > 1) { i = (i & 1) ? 3 * i + 1 : i / 2; if (++c > 1000) break; }
          do { c--; } while (c > 40);
          o[threadIdx.x] = c;
        }""",
        1, 64, lambda: {"o": np.zeros(64, np.int32), "n": 64},
    ),
    "register array": Feature(
        """__global__ void k(float* __restrict__ y, const float* __restrict__ x) {
          float r[4];
        #pragma unroll
          for (int k = 0; k < 4; ++k) r[k] = x[threadIdx.x + k * blockDim.x];
        #pragma unroll
          for (int k = 0; k < 4; ++k) y[threadIdx.x * 4 + k] = r[3 - k];
        }""",
        1, 32, lambda: {"y": np.zeros(128, np.float32), "x": F32[:128]},
    ),
    "small integers": Feature(
        """__global__ void k(uint16_t* o, const int8_t* x, int n) {
          int i = threadIdx.x;
          o[i] = (uint16_t)(x[i] * 300 + o[i]);
          o[i] <<= 2;
        }""",
        1, 32,
        lambda: {"o": np.arange(32, dtype=np.uint16) * 2000, "x": (np.arange(32) * 8 - 128).astype(np.int8), "n": 32},
    ),
    "vector reinterpretation": Feature(
        """__global__ void k(const __half* __restrict__ in, float* __restrict__ out) {
          const float4 raw = *reinterpret_cast<const float4*>(in + threadIdx.x * 8);
          const __half2* h = reinterpret_cast<const __half2*>(&raw);
          float s = 0.f;
          for (int k = 0; k < 4; ++k) { float2 f = __half22float2(h[k]); s += f.x * f.y; }
          out[threadIdx.x] = s;
        }""",
        1, 32, lambda: {"in": F32[:256].astype(np.float16), "out": np.zeros(32, np.float32)},
    ),
    "votes": Feature(
        """__global__ void k(int* o, const float* x) {
          int i = threadIdx.x;
          unsigned m = __ballot_sync(0xffffffffu, x[i] > 0.f);
          int up = __shfl_up_sync(0xffffffffu, i, 3, 8);
          if (i % 32 == 0) o[i / 32] = __popc(m);
          int down = __shfl_down_sync(0xffffffffu, i, 5, 16);
          double turned = __shfl_sync(0xffffffffu, (double)x[i], i * 7, 4);
          int crossed = __shfl_xor_sync(0xffffffffu, i, 9);
          o[2 + i] = up + 100 * down + 10000 * crossed + (turned > 0.0) + __any_sync(0xffffffffu, x[i] > 1.f);
        }""",
        1, 64, lambda: {"o": np.zeros(66, np.int32), "x": F32[:64]}, needs_warp=True,
    ),
}  # fmt: skip
