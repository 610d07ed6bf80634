"""Variables at file scope: declared again by CUDA and HIP, passed as buffers everywhere else."""

from __future__ import annotations

import numpy as np

from ktc.backends.emitter import emit
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.text.naming import canonical

TEXT = """#define N 3
__constant__ float w[4];
__constant__ float m[N][2] = {{1, 2}, {3}};
__device__ int counter;
namespace deep { struct S { int a; float b; }; __device__ S table[2]; }
__global__ void k(float* out) {
    int i = threadIdx.x;
    atomicAdd(&counter, 2);
    if (i == 0) deep::table[1].b = 6.5f;
    out[i] = w[i] * m[1][0] + m[2][1]; }
"""


def test_they_are_parameters_that_know_what_they_were(cu):
    k = cu(TEXT)
    found = {p.sym.name: (p.symbol, p.extent, p.init) for p in k.params if p.symbol}
    assert found == {"counter": ("device", 1, ()), "table": ("device", 4, ()), "w": ("constant", 4, ()),
                     "m": ("constant", 6, (1.0, 2.0, 3.0, 0.0, 0.0, 0.0))}  # fmt: skip
    assert canonical(parse_kernel(print_kernel(k))) == canonical(k)


def test_the_interpreter_takes_them_as_arguments_and_knows_initial_values(execute):
    text = TEXT + "void f(float* o) { k<<<1, 4>>>(o); }"
    args = {"out": np.zeros(4, np.float32), "w": np.float32([1, 2, 3, 4]), "counter": np.zeros(1, np.int32),
            "table": np.zeros(4, np.int32)}  # fmt: skip
    got = execute(text, args)
    assert list(got["out"]) == [3, 6, 9, 12] and got["counter"][0] == 8
    assert got["table"].view("f4")[3] == 6.5


def test_cuda_and_hip_declare_them_opencl_takes_arguments(cu):
    k = cu(TEXT)
    for target in ("cuda", "hip"):
        text = emit(k, target).text
        assert "__constant__ float w[4];" in text and "__device__ int counter[1];" in text
        assert "__constant__ float m[6] = {1.0f, 2.0f, 3.0f, 0.0f, 0.0f, 0.0f};" in text
        assert "void k(float* out)" in text
    assert "__constant float* w" in emit(k, "opencl").text
    printed = emit(k, "cuda").text
    again = emit(load(printed, name="again.cu"), "cuda").text
    assert [r for r in again.splitlines() if r[:2] != "//"] == [r for r in printed.splitlines() if r[:2] != "//"]


def test_optional_buffers(execute):
    text = """__global__ void k(int* out, const int* a) { out[0] = a != nullptr ? a[0] : -1; if (!a) out[1] = 5;
        if (a && out) out[2] = a == NULL; }"""
    zeros = np.zeros(3, np.int32)
    assert list(execute(text, {"out": zeros, "a": np.int32([7])})["out"]) == [7, 0, 0]
    assert list(execute(text, {"out": zeros, "a": None})["out"]) == [-1, 5, 0]


def test_shared_arrays_outside_functions_have_the_size_they_say(cu):
    k = cu(
        "__shared__ float s[16][2]; __shared__ int n; extern __shared__ float d[];\n"
        "__device__ float at(int i) { return s[i][1]; }\n"
        "__global__ void k(float* out) { int i = threadIdx.x; s[i][1] = out[i]; n = 3; d[i] = 2;\n"
        "  __syncthreads(); out[i] = at(i) + n + d[0]; }"
    )
    arrays = {line.strip() for line in print_kernel(k).splitlines() if line.startswith("  array")}
    assert arrays == {"array s: shared f32[16, 2]", "array n: shared i32[1]", "array d: shared f32[1] dynamic"}
