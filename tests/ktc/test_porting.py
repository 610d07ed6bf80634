"""What a port says of constructs that mean more than their spelling."""

from __future__ import annotations

import ktc
from ktc.porting import report

COUNTED = """
__global__ void count(int* seen, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) ADD(seen, 1);
}
"""


def becomes(add: str, target: str) -> dict[str, str]:
    kernel = ktc.loads(COUNTED.replace("ADD", add)).kernel
    return {r["construct"].partition(" (")[0]: r["becomes"] for r in report(kernel, target)}


def test_what_the_host_watches_is_work_by_hand() -> None:
    """OpenCL 1.2's atomics are for one device: the port looked like any other atomic's."""
    assert becomes("atomicAdd_system", "opencl")["atomic of system scope"].startswith("BY HAND")
    assert "fine-grained" in becomes("atomicAdd_system", "hip")["atomic of system scope"]
    assert becomes("atomicAdd", "opencl") == {"atomic": "atomic_* of OpenCL 1.2"} and not becomes("atomicAdd", "hip")


FILTERED = """
__constant__ float taps[3];
__global__ void filter(float* out, cudaTextureObject_t image, int w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int i = 0; i < 3; ++i) s += taps[i] * tex2D<float>(image, x + i, 0.5f);
  if (x < w) out[x] = s;
}
"""


def test_what_the_host_has_to_make_is_named() -> None:
    """An image, a sampler and an argument more were said to carry over under their own names."""
    rows = {r["construct"].partition(" (")[0]: r["becomes"] for r in report(ktc.loads(FILTERED).kernel, "opencl")}
    assert rows["texture"].startswith("BY HAND: an image and a sampler")
    assert rows["variable at file scope"].startswith("BY HAND: an argument")


def test_what_carries_over_gives_no_row() -> None:
    source = """
__global__ void rows(const __half* x, double* y, int n) {
  __shared__ float s[32];
  s[threadIdx.x] = __half2float(x[threadIdx.x]);
  __syncthreads();
  y[threadIdx.x] = s[31 - threadIdx.x];
}
"""
    kernel = ktc.loads("#include <cuda_fp16.h>\n" + source).kernel
    assert report(kernel, "hip") == [] and len(report(kernel, "opencl")) == 4
