// Cross-entropy of each row of logits against its target class, forward:
//
//   loss[r] = log(sum_i exp(x[r, i])) - x[r, target[r]]
//
//   logits  [rows, vocab]
//   target  [rows]
//   loss    [rows], float

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

constexpr int kThreads = 256;  // a power of two: the reductions halve it

// One block per row, two sweeps over it.
template <typename T>
__global__ void cross_entropy_kernel(float* __restrict__ loss, const T* __restrict__ logits,
                                     const int* __restrict__ target, const int vocab) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * vocab;

  float largest = -INFINITY;
  for (int i = tid; i < vocab; i += blockDim.x) {
    largest = fmaxf(largest, to_float(logits[row + i]));
  }
  smem[tid] = largest;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] = fmaxf(smem[tid], smem[tid + stride]);
    }
    __syncthreads();
  }
  const float m = smem[0];
  __syncthreads();

  float sum = 0.0f;
  for (int i = tid; i < vocab; i += blockDim.x) {
    sum += expf(to_float(logits[row + i]) - m);
  }
  smem[tid] = sum;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] += smem[tid + stride];
    }
    __syncthreads();
  }

  if (tid == 0) {
    loss[blockIdx.x] = logf(smem[0]) + m - to_float(logits[row + target[blockIdx.x]]);
  }
}

template <typename T>
void cross_entropy(float* loss, const T* logits, const int* target, int rows, int vocab, cudaStream_t stream) {
  cross_entropy_kernel<T><<<rows, kThreads, 0, stream>>>(loss, logits, target, vocab);
}
