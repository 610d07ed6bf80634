// Two kernels that a transformer launches one after the other: the residual is added and the row normalised, then the
// row is quantised to fp8 with a scale of its own.
//
//   input, residual, normed  [num_tokens, hidden_size]   normed: what the first leaves for the second
//   weight                   [hidden_size]
//   q, scale                 [num_tokens, hidden_size] fp8 (e4m3), [num_tokens]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
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

// One block per token: residual += input, normed = residual / rms(residual) * weight.
template <typename T>
__global__ void add_rmsnorm_kernel(T* __restrict__ normed, T* __restrict__ residual, const T* __restrict__ input,
                                   const T* __restrict__ weight, const float eps, const int hidden_size) {
  __shared__ float smem[kThreads];
  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * hidden_size;

  float sum_sq = 0.0f;
  for (int i = tid; i < hidden_size; i += blockDim.x) {
    const float x = to_float(input[row + i]) + to_float(residual[row + i]);
    sum_sq += x * x;
  }
  smem[tid] = sum_sq;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) smem[tid] += smem[tid + stride];
    __syncthreads();
  }

  const float inv_rms = rsqrtf(smem[0] / hidden_size + eps);
  for (int i = tid; i < hidden_size; i += blockDim.x) {
    const float x = to_float(input[row + i]) + to_float(residual[row + i]);
    residual[row + i] = from_float<T>(x);
    normed[row + i] = from_float<T>(x * inv_rms * to_float(weight[i]));
  }
}

// One block per token: scale = max |x| / 448, q = fp8(x / scale).
template <typename T>
__global__ void quant_fp8_kernel(__nv_fp8_e4m3* __restrict__ q, float* __restrict__ scale, const T* __restrict__ x,
                                 const int hidden_size) {
  __shared__ float smem[kThreads];
  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * hidden_size;

  float largest = 0.0f;
  for (int i = tid; i < hidden_size; i += blockDim.x) largest = fmaxf(largest, fabsf(to_float(x[row + i])));
  smem[tid] = largest;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) smem[tid] = fmaxf(smem[tid], smem[tid + stride]);
    __syncthreads();
  }

  const float s = fmaxf(smem[0], 1e-10f) / 448.0f;
  const float inverse = 1.0f / s;
  if (tid == 0) scale[blockIdx.x] = s;
  for (int i = tid; i < hidden_size; i += blockDim.x) q[row + i] = __nv_fp8_e4m3(to_float(x[row + i]) * inverse);
}

template <typename T>
void norm_then_fp8(__nv_fp8_e4m3* q, float* scale, T* normed, T* residual, const T* input, const T* weight, float eps,
                   int num_tokens, int hidden_size, cudaStream_t stream) {
  add_rmsnorm_kernel<T><<<num_tokens, kThreads, 0, stream>>>(normed, residual, input, weight, eps, hidden_size);
  quant_fp8_kernel<T><<<num_tokens, kThreads, 0, stream>>>(q, scale, normed, hidden_size);
}
