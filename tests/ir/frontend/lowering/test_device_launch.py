"""Kernels that launch themselves (dynamic parallelism): carried to CUDA, touched by no pass, refused elsewhere."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

STEP = """struct Step { int depth; float scale;
  __device__ Step(const Step& s, bool next) : depth(s.depth + 1), scale(s.scale * 2) {} };
template <int N> __global__ void k(int* data, Step s, const float* w) {
  __shared__ int part[N];
  part[threadIdx.x] = data[threadIdx.x];
  if (s.depth >= 3) return;
  int* end = data + N;
  LAUNCH
}
__global__ void other(int* data) { data[0] = 1; }
void f(int* d, Step s, float* w) { k<4><<<1, 4>>>(d, s, w); }
"""


def kernel_of(launch: str):
    return load(STEP.replace("LAUNCH", launch), name="k.cu", kernel="k")


@pytest.mark.parametrize(
    ("launch", "text"),
    [
        (
            "k<N><<<2, dim3(N, 2)>>>(end - 1, Step(s, true), w);",
            "k<<<2, dim3(4, 2, 1)>>>(&data[3], step_depth, step_scale, (float*)&w[0]);",
        ),
        (
            "k<N><<<(gridDim.x >> 1), blockDim, (data[0] > 2 ? 8 : 4)>>>(data, s, nullptr);",
            "k<<<(gridDim.x >> 1), dim3(blockDim.x, blockDim.y, blockDim.z), (data[0] > 2 ? 8 : 4)>>>(&data[0],"
            " s_depth, s_scale, (float*)0);",
        ),
        (
            "cudaStream_t t; cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking); k<N><<<1, 1, 0, t>>>(end, s, w);"
            " cudaStreamDestroy(t);",
            "k<<<1, 1, 0, (cudaStream_t)t>>>(&data[4], s_depth, s_scale, (float*)&w[0]);",
        ),
    ],
)
def test_a_launch_passes_what_the_kernel_takes(launch, text):
    kernel = kernel_of(launch)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    made = emit(kernel, "cuda")
    assert text in re.sub(r"\s+", " ", made.text) and "-rdc=true" in made.options
    for target in ("hip", "opencl"):
        with pytest.raises(KtcError):
            emit(kernel, target)
    refused = apply_script(kernel, parse_script("launch-bounds{blocks=2}")).refused
    assert refused is not None and refused.code == "E-SELF-LAUNCH"


@pytest.mark.parametrize("launch", ["other<<<1, 1>>>(data);", "k<8><<<1, 1>>>(data, s, w);"])
def test_other_kernels_and_instances_are_refused(launch):
    with pytest.raises(KtcError) as error:
        kernel_of(launch)
    assert error.value.code == "E-UNSUPPORTED-LAUNCH" and error.value.loc.line == 8


def test_text_in_an_array_is_printed():
    text = """#include <stdio.h>
    __global__ void k(int* o) { char c[4]; c[0] = 'a'; c[1] = 0; o[0] = 3; printf("%s %d\\n", c, o[0]); }
    void f(int* o) { k<<<1, 1>>>(o); }"""
    kernel = load(text, name="k.cu")
    for target in ("cuda", "hip"):
        assert 'printf("%s %d\\n", &c[0], o[0]);' in emit(kernel, target).text
    assert run(kernel, {"o": np.zeros(1, np.int32)}).outputs["o"].tolist() == [3]
    with pytest.raises(KtcError) as error:
        emit(kernel, "opencl")
    assert error.value.code == "E-BACKEND-SYSTEM"
