"""A call of a function that launches the kernel which it is passed is that launch."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.text import print_expr

KERNEL = """
#include <cuda_runtime.h>
#include <utility>
template <int V>
__global__ void scaled(const float* x, float* y, float a, int n) {
  extern __shared__ float room[];
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  for (int j = 0; j < V; ++j) if (i + j < n) y[i + j] = a * x[i + j];
}
struct Shape {
  dim3 grid, block;
  size_t bytes;
  cudaStream_t stream;
  CONSTRUCTOR
};
FUNCTION
void go(const float* x, float* y, float a, int size, cudaStream_t stream) {
  const int blocks = (size + 1023) / 1024;
  CALL
}
"""
PACK = """template <typename K, typename... Args>
          void start(K kernel, const Shape& s, Args&&... args) {
            kernel<<<s.grid, s.block, s.bytes, s.stream>>>(std::forward<Args>(args)...);
            cudaGetLastError();
          }"""
FOUR = "Shape(int g, int b, size_t s, cudaStream_t t) : grid((unsigned)g), block(b), bytes(s), stream(t) {}"
CALL = "start(scaled<4>, s, x, y, a, size);"
WAYS = {
    "aggregate": ("", PACK, "Shape s = {dim3(blocks), dim3(256), 1024, stream};" + CALL),
    "braces": ("", PACK, "start(scaled<4>, {dim3(blocks), dim3(256), 1024, stream}, x, y, a, size);"),
    "constructor": (FOUR, PACK, "const Shape s = Shape(blocks, 256, 1024, stream);" + CALL),
    "temporary": (FOUR, PACK, "start(scaled<4>, Shape(blocks, 256, 1024, stream), x, y, a, size);"),
    "cast": ("", PACK, "start(scaled<4>, {(dim3)blocks, (dim3)256, 1024, stream}, x, y, a, size);"),
    "members": ("", PACK, "Shape s; s.grid = blocks; s.block = 256; s.bytes = 1024; s.stream = stream;" + CALL),
    "pointer": (
        "",
        """void start(void (*kernel)(const float*, float*, float, int), const float* from, float* to, float by, int n) {
             const int threads = 256;
             dim3 grid((n + 4 * threads - 1) / (4 * threads));
             kernel<<<grid, threads, 4 * threads>>>(from, to, by, n);
           }""",
        "start(&scaled<4>, x, y, a, size);",
    ),
    "block as a template argument": (
        "",
        """template <int Threads, typename K, typename... Args> void start(K kernel, int blocks, Args... args) {
             cudaLaunchConfig_t config = {};
             config.gridDim = blocks;
             config.blockDim = Threads;
             config.dynamicSmemBytes = 4 * Threads;
             cudaLaunchKernelEx(&config, kernel, args...);
           }""",
        "start<256>(scaled<4>, blocks, x, y, a, size);",
    ),
}


def launched(constructor: str, function: str, call: str) -> Kernel:
    text = KERNEL.replace("CONSTRUCTOR", constructor).replace("FUNCTION", function).replace("CALL", call)
    return load(text, name="scaled.cu")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_the_call_says_instance_geometry_and_sizes(way: tuple[str, str, str]) -> None:
    launch = launched(*way).launch
    assert launch is not None and launch.dynamic_shared is not None
    assert [print_expr(e) for e in launch.grid[:1]] in (["(n + 1023) / 1024"], ["(n + 1024 - 1) / 1024"])
    assert [print_expr(e) for e in launch.block] == ["256", "1", "1"]
    assert print_expr(launch.dynamic_shared) == "1024"


def test_what_the_function_computes_from_more_than_it_is_passed_is_no_launch() -> None:
    """Blocks that a loop counts: the launch of the call is not known then, as that of the function is not."""
    function = """template <typename K> void start(K kernel, const float* from, float* to, float by, int n) {
                    int blocks = 0;
                    for (int left = n; left > 0; left -= 1024) ++blocks;
                    kernel<<<blocks, 256>>>(from, to, by, n);
                  }"""
    assert launched("", function, "start(scaled<4>, x, y, a, size);").launch is None


QUEUE = """
#include <cuda_runtime.h>
struct Queue {
  void put(void* kernel, dim3 grid, dim3 block, unsigned bytes, void** args);
  template <typename F, typename... Args>
  void add(F* kernel, dim3 grid, dim3 block, unsigned smem_bytes, Args&&... args) {
    void* all[] = {static_cast<void*>(&args)...};
    put(reinterpret_cast<void*>(kernel), grid, block, smem_bytes, all);
  }
};
template <int V> __global__ void scaled(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] * V;
}
void go(Queue& queue, const float* x, float* y, int size) {
  auto kernel = scaled<2>;
  queue.add(kernel, dim3((size + 127) / 128), 128, 0, x, y, 2.0f, size);
}
"""


def test_a_method_that_is_passed_a_kernel_and_its_grid_launches_it() -> None:
    k = load(QUEUE, name="k.cu")
    assert k.launch is not None
    assert [print_expr(e) for e in (k.launch.grid[0], k.launch.block[0])] == ["(n + 127) / 128", "128"]
    assert k.launch.given == (("a", 2.0),)


def test_a_pointer_to_a_kernel_that_is_handed_on_with_its_geometry_is_a_launch() -> None:
    kernel = load(
        """
    template <typename... Taken, typename... Given>
    void start(void (*kernel)(Taken...), const dim3& grid, const dim3& block, unsigned sharedBytes, cudaStream_t stream,
               Given const&... given) {
      void* all[sizeof...(Given)]{(void*)&given...};
      hand_over((const void*)kernel, grid, block, all, sharedBytes, stream);
    }
    template <int B> __global__ void twice(double* x, long n) {
      long i = blockIdx.x * B + threadIdx.x;
      if (i < n) x[i] *= 2;
    }
    template <int B> void go(double* x, long count, cudaStream_t stream) {
      const size_t blocks = (count + B - 1) / B;
      start((twice<B>), blocks, B, 0, stream, x, count);
    }
    template void go<128>(double*, long, cudaStream_t);""",
        name="k.cu",
    )
    assert kernel.launch is not None
    assert [print_expr(e) for e in kernel.launch.block][:1] == ["128"]
    assert "n" in print_expr(kernel.launch.grid[0])
