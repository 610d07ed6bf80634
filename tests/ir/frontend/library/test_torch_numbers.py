"""Arithmetic of PyTorch's 8-bit floats: what is rounded, and what of them converts to float by itself."""

from __future__ import annotations

import numpy as np

from ktc.ir.text import print_kernel

HEAD = "#include <c10/util/Float8_e4m3fn.h>\nusing c10::Float8_e4m3fn;\n"


def values(execute, statements: str) -> list[float]:
    """What ``statements`` leave in ``o``, with the numbers 1.75, 1.125 and 448 in ``a``, ``b`` and ``top``."""
    text = f"""{HEAD}
__global__ void k(float* o) {{
  const Float8_e4m3fn a(1.75f), b(1.125f), top(448.0f);
  {statements}
}}"""
    return execute(text, {"o": np.zeros(4, np.float32)})["o"].tolist()


def test_an_operator_of_two_rounds_and_one_beside_a_float_does_not(execute) -> None:
    assert values(execute, "o[0] = a * b; o[1] = a * 1.125f; o[2] = 1.125 * a; o[3] = a + 20;") == [
        2,
        1.96875,
        1.96875,
        22,
    ]


def test_the_types_of_operators(execute) -> None:
    same = {
        "a - b": "Float8_e4m3fn",
        "-a": "Float8_e4m3fn",
        "a / 3": "Float8_e4m3fn",
        "a + 1.0f": "float",
        "2.0 - a": "double",
    }
    asserted = " ".join(f"static_assert(std::is_same_v<decltype({e}), {t}>);" for e, t in same.items())
    assert values(execute, f"{asserted} o[0] = -a; o[1] = a < b; o[2] = a > 1.7f;")[:3] == [-1.75, 0, 1]


def test_compound_assignments(execute) -> None:
    found = values(
        execute,
        "Float8_e4m3fn c = a; c += b; o[0] = c; c *= c; o[1] = c; float f = 0.03125f; f += a; o[2] = f; "
        "c = top; c += top; o[3] = c;",
    )
    assert found[:3] == [3, 9, 1.78125] and np.isnan(found[3])


def test_an_object_is_the_number_that_a_built_in_takes(execute) -> None:
    """Of several overloads the one that takes the conversion's own type is meant."""
    text = f"""{HEAD}
struct Level {{
  float at;
  __device__ operator float() const {{ return at; }}
  __device__ explicit operator bool() const {{ return at != 0; }}
}};
__global__ void k(float* o) {{
  const Float8_e4m3fn top(448.0f);
  const Level low{{2.5f}};
  o[0] = fmax(fmin(500.0f, top), low); o[1] = fmaxf(-500.0f, -top); o[2] = max(1.5f, low); o[3] = sqrtf(low * low);
}}"""
    assert execute(text, {"o": np.zeros(4, np.float32)})["o"].tolist() == [448, -448, 2.5, 2.5]


def test_two_conversions_are_none(refuses) -> None:
    own = "struct Both { __device__ operator float() const; __device__ operator int() const; };"
    refuses(f"{own}\n__global__ void k(float* o) {{ Both b; o[0] = fmax(b, 1.0f); }}", "E-SEMA-OVERLOAD")


def test_operators_of_a_namespace_are_no_other_classs(execute) -> None:
    """0.3 is no 8-bit float: what is a float implicitly is added as one."""
    text = f"""{HEAD}
struct Plain {{ float v; __device__ operator float() const {{ return v; }} }};
__global__ void k(float* o) {{ const Plain p{{0.3f}}; o[0] = p + 0.3f; o[1] = 0.3f * p; o[2] = p - p; }}"""
    found = execute(text, {"o": np.zeros(3, np.float32)})["o"]
    assert np.allclose(found, [0.6, 0.09, 0], rtol=1e-6, atol=0)


def test_an_overload_for_halves_leaves_other_numbers_to_the_built_in(cu) -> None:
    """Neither its float nor what the overload itself calls with a number that is the built-in's own here."""
    text = """#include <c10/util/Half.h>
    __device__ at::Half __shfl_down_sync(const unsigned mask, const at::Half v, const unsigned int by) {
      return __shfl_down_sync(mask, v.operator __half(), by);
    }
    __global__ void k(float* x, at::Half* h, double* d) {
      const int t = threadIdx.x;
      x[t] = __shfl_down_sync(0xffffffff, x[t], 2);
      d[t] = __shfl_down_sync(0xffffffff, d[t], 2);
      h[t] = __shfl_down_sync(0xffffffff, h[t], 2);
    }"""
    printed = print_kernel(cu(text))
    assert printed.count("shfl_down(") == 3 and "f16(" not in printed


def test_a_class_that_is_only_declared_is_no_header_of_pytorch(cu) -> None:
    text = """namespace at { class Tensor; }
    void run(at::Tensor x);
    __global__ void k(float* x) { gpuAtomicAdd(x, 1.0f); }"""
    assert "atomic" in print_kernel(cu(text))


def test_quotients_rounded_up_and_extremes_by_atomics(execute) -> None:
    text = """#include <ATen/cuda/Atomic.cuh>
__global__ void k(int* o) {
  if (threadIdx.x == 0) { o[0] = at::cuda::ATenCeilDiv(7, 2); o[1] = 3; o[2] = 3; }
  __syncthreads();
  gpuAtomicMax(&o[1], 5);
  gpuAtomicMin(&o[2], 1);
}"""
    assert execute(text, {"o": np.zeros(3, np.int32)})["o"].tolist() == [4, 5, 1]


def test_device_side_assertions_take_two_parameters(execute) -> None:
    """... which CUDA_KERNEL_ASSERT2 reports to where they are switched on: here it is an assertion as any other."""
    text = """
#include <c10/cuda/CUDADeviceAssertion.h>
__device__ void check(int n, TORCH_DSA_KERNEL_ARGS) { CUDA_KERNEL_ASSERT2(n > 0 && "none"); }
__global__ void k(int* o, int n, TORCH_DSA_KERNEL_ARGS) { check(n, TORCH_DSA_KERNEL_ARGS_PASS); o[0] = n; }
void host(int* o, int n) { TORCH_DSA_KERNEL_LAUNCH(k, 1, 1, 0, 0, o, n); }
"""
    given = {"o": np.zeros(1, np.int32), "n": 3, "assertions_data": np.zeros(1, np.uint8), "assertion_caller_id": 0}
    assert execute(text, given)["o"].tolist() == [3]
