// Layer normalisation of each row: out = (x - mean) * rsqrt(var + eps) * weight + bias.
//
//   input, out    [rows, cols]
//   weight, bias  [cols]
//   mean, rstd    [rows], float: kept for the backward pass

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) { return x; }
template <>
__device__ __forceinline__ __half from_float<__half>(float x) { return __float2half(x); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16(x); }

constexpr int kThreads = 256;  // a power of two: the reductions halve it

// One block per row, three sweeps over it.
template <typename T>
__global__ void layernorm_kernel(T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd,
                                 const T* __restrict__ input, const T* __restrict__ weight,
                                 const T* __restrict__ bias, const float eps, const int cols) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * cols;

  float sum = 0.0f;
  for (int i = tid; i < cols; i += blockDim.x) {
    sum += to_float(input[row + i]);
  }
  smem[tid] = sum;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] += smem[tid + stride];
    }
    __syncthreads();
  }
  const float m = smem[0] / cols;
  __syncthreads();

  float sum_sq = 0.0f;
  for (int i = tid; i < cols; i += blockDim.x) {
    const float c = to_float(input[row + i]) - m;
    sum_sq += c * c;
  }
  smem[tid] = sum_sq;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] += smem[tid + stride];
    }
    __syncthreads();
  }
  const float r = rsqrtf(smem[0] / cols + eps);

  for (int i = tid; i < cols; i += blockDim.x) {
    const float c = to_float(input[row + i]) - m;
    out[row + i] = from_float<T>(c * r * to_float(weight[i]) + to_float(bias[i]));
  }
  if (tid == 0) {
    mean[blockIdx.x] = m;
    rstd[blockIdx.x] = r;
  }
}

template <typename T>
void layernorm(T* out, float* mean, float* rstd, const T* input, const T* weight, const T* bias, float eps, int rows,
               int cols, cudaStream_t stream) {
  layernorm_kernel<T><<<rows, kThreads, 0, stream>>>(out, mean, rstd, input, weight, bias, eps, cols);
}
