"""Launches by functions of the runtime API mean what ``<<<>>>`` does."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.text import print_expr, print_kernel

KERNEL = """
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t failed = (call); if (failed != cudaSuccess) return failed; } while (0)
template <int V>
__global__ void scaled(const float* x, float* y, float a, int n) {
  extern __shared__ float room[];
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  for (int j = 0; j < V; ++j) if (i + j < n) y[i + j] = a * x[i + j];
}
cudaError_t go(const float* x, float* y, float a, int size, cudaStream_t stream) {
  dim3 blocks((size + 1023) / 1024), threads(256);
  LAUNCH
  return cudaSuccess;
}
"""
CONFIG = """
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = 4 * 256;
  config.stream = stream;
  cudaLaunchAttribute attributes[1];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = true;
  config.attrs = attributes;
  config.numAttrs = 1;
"""
ARRAY = "void* args[] = {(void*)&x, (void*)&y, &a, &size};"
LAUNCHES = {
    "chevrons": "scaled<4><<<blocks, threads, 4 * 256, stream>>>(x, y, a, size);",
    "members": f"{CONFIG} CHECK(cudaLaunchKernelEx(&config, scaled<4>, x, y, a, size));",
    "in order": """cudaLaunchConfig_t config{blocks, threads, 4 * 256, stream};
                   CHECK(cudaLaunchKernelEx(&config, scaled<4>, x, y, a, size));""",
    "designated": """cudaLaunchConfig_t config{.gridDim = blocks, .blockDim = threads, .dynamicSmemBytes = 4 * 256};
                     cudaLaunchKernelEx(&config, scaled<4>, x, y, a, size);""",
    "array": f"{ARRAY} CHECK(cudaLaunchKernel((void*)scaled<4>, blocks, threads, args, 4 * 256, stream));",
    "variable": f"""auto kernel = scaled<4>; {ARRAY}
                    cudaLaunchKernel(reinterpret_cast<void*>(kernel), blocks, threads, args, 4 * 256, stream);""",
    "cooperative": f"{ARRAY} cudaLaunchCooperativeKernel((void*)scaled<4>, blocks, threads, args, 4 * 256, stream);",
}


def launched(how: str) -> Kernel:
    return load(KERNEL.replace("LAUNCH", how), name="scaled.cu")


@pytest.mark.parametrize("how", LAUNCHES.values(), ids=LAUNCHES.keys())
def test_a_launch_says_its_instance_geometry_and_sizes(how: str) -> None:
    kernel = launched(how)
    launch = kernel.launch
    assert launch is not None
    assert [print_expr(e) for e in launch.grid] == ["(n + 1023) / 1024", "1", "1"]
    assert [print_expr(e) for e in launch.block] == ["256", "1", "1"]
    assert launch.dynamic_shared is not None
    assert print_expr(launch.dynamic_shared) == "1024"
    assert "* 4_u32" in print_kernel(kernel)


def test_a_configuration_that_comes_from_elsewhere_says_no_geometry() -> None:
    given = "cudaLaunchConfig_t config = made(size); cudaLaunchKernelEx(&config, scaled<4>, x, y, a, size);"
    kernel = launched(given)
    assert kernel.launch is None or not any("1024" in print_expr(e) for e in kernel.launch.grid)


TABLE = """
#include <cuda_runtime.h>
struct Job { const float* x; float* y; int n; };
template <int F> __global__ void times(const Job job) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < job.n) job.y[i] = job.x[i] * F;
}
__global__ void same(const Job job) { if (threadIdx.x < job.n) job.y[threadIdx.x] = job.x[threadIdx.x]; }
void go(const float* x, float* y, int size, int which) {
  Job job = {x, y, size};
  void* args[] = {&job};
  CHOSEN
}
"""


@pytest.mark.parametrize(
    "chosen",
    [
        """void* kernels[2] = {(void*)times<2>, (void*)same};
           cudaLaunchKernel(kernels[which], (size + 63) / 64, 64, args, 0, 0);""",
        """void* kernel = which ? (void*)times<2> : (void*)same;
           cudaLaunchKernel(kernel, (size + 63) / 64, 64, args, 0, 0);""",
        "cudaLaunchKernel(which ? (void*)times<2> : (void*)same, (size + 63) / 64, 64, args, 0, 0);",
    ],
    ids=["table", "variable", "condition"],
)
def test_a_launch_of_one_of_several_kernels_is_one_of_each(chosen: str) -> None:
    for name in ("same", "times"):
        kernel = load(TABLE.replace("CHOSEN", chosen), name="jobs.cu", kernel=name)
        assert kernel.launch is not None
        assert print_expr(kernel.launch.grid[0]) == "(size + 63) / 64" and kernel.launch.block[0].value == 64  # type: ignore[attr-defined]
