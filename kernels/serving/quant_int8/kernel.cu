// Per-token quantisation to int8: scale[t] = max |x[t, :]| / 127.0, q[t, i] = round(x[t, i] / scale[t]).
//
//   input  [num_tokens, hidden_size]
//   q      [num_tokens, hidden_size], int8
//   scale  [num_tokens], float

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

constexpr int kThreads = 256;  // a power of two: the reduction halves it

// One block per token.
template <typename T>
__global__ void quant_int8_kernel(signed char* __restrict__ q, float* __restrict__ scale, const T* __restrict__ input,
                              const int hidden_size) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * hidden_size;

  float largest = 0.0f;
  for (int i = tid; i < hidden_size; i += blockDim.x) {
    const float x = to_float(input[row + i]);
    largest = fmaxf(largest, fabsf(x));
  }
  smem[tid] = largest;
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] = fmaxf(smem[tid], smem[tid + stride]);
    }
    __syncthreads();
  }

  const float s = fmaxf(smem[0], 1e-10f) / 127.0f;
  const float inverse = 1.0f / s;
  if (tid == 0) {
    scale[blockIdx.x] = s;
  }

  for (int i = tid; i < hidden_size; i += blockDim.x) {
    const float x = to_float(input[row + i]);
    q[row + i] = static_cast<signed char>(rintf(x * inverse));
  }
}

template <typename T>
void quant_int8(signed char* q, float* scale, const T* input, int num_tokens, int hidden_size, cudaStream_t stream) {
  quant_int8_kernel<T><<<num_tokens, kThreads, 0, stream>>>(q, scale, input, hidden_size);
}
