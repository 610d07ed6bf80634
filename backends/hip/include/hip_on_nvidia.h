// HIP's kernel language on an NVIDIA GPU: what ktc's HIP output uses, mapped to CUDA.
// Included in place of <hip/hip_runtime.h>, <hip/hip_fp16.h> and <hip/hip_bf16.h>; works under nvcc and NVRTC.
#ifndef KTC_HIP_ON_NVIDIA_H
#define KTC_HIP_ON_NVIDIA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define __HIP_PLATFORM_NVIDIA__ 1
#ifndef INFINITY  // NVRTC has no <cmath>
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#define HIP_VERSION_MAJOR 6

using __hip_bfloat16 = __nv_bfloat16;
using hipTextureObject_t = cudaTextureObject_t;
using hipSurfaceObject_t = cudaSurfaceObject_t;

namespace hip_on_nvidia {
// HIP's shuffles name no participants: those that are here take part.
template <typename T>
__device__ inline T shfl(T v, int lane, int width) { return __shfl_sync(__activemask(), v, lane, width); }
template <typename T>
__device__ inline T shfl_up(T v, unsigned delta, int width) { return __shfl_up_sync(__activemask(), v, delta, width); }
template <typename T>
__device__ inline T shfl_down(T v, unsigned delta, int width) { return __shfl_down_sync(__activemask(), v, delta, width); }
template <typename T>
__device__ inline T shfl_xor(T v, int lanes, int width) { return __shfl_xor_sync(__activemask(), v, lanes, width); }
__device__ inline unsigned long long ballot(int predicate) { return __ballot_sync(__activemask(), predicate); }
__device__ inline unsigned lane_id() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
}  // namespace hip_on_nvidia

#define __shfl hip_on_nvidia::shfl
#define __shfl_up hip_on_nvidia::shfl_up
#define __shfl_down hip_on_nvidia::shfl_down
#define __shfl_xor hip_on_nvidia::shfl_xor
#define __ballot hip_on_nvidia::ballot
#define __lane_id hip_on_nvidia::lane_id

#define __builtin_nontemporal_load(p) __ldcs(p)
#define __builtin_nontemporal_store(v, p) __stcs(p, v)
#define __builtin_amdgcn_fence(order, scope) __threadfence_block()
#define __builtin_amdgcn_wave_barrier() __syncwarp()

#endif  // KTC_HIP_ON_NVIDIA_H
