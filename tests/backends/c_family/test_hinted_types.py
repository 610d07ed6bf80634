"""Hinted accesses of types that CUDA's intrinsics have no overloads for are plain accesses."""

from __future__ import annotations

import pytest

from ktc.backends import check_compile, emit
from ktc.ir.frontend import load
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests import devices

HEADERS = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cuda_fp8.h>\n"
COPY = (
    HEADERS
    + """
__global__ void copy(const TYPE* __restrict__ x, TYPE* __restrict__ y, int n) {
  const int t = threadIdx.x + blockIdx.x * blockDim.x;
  if (t < n) y[t] = x[t];
}
"""
)
HINTED = ["char", "short", "int", "long long", "unsigned char", "unsigned short", "unsigned", "unsigned long long",
          "float", "double", "__half", "__nv_bfloat16", "char4", "short2", "int4", "uint2", "float2", "float4",
          "double2", "longlong2"]  # fmt: skip
PLAIN = ["bool", "__nv_fp8_e4m3", "double4", "longlong4", "float3", "int3"]


@pytest.mark.parametrize("name", [*HINTED, *PLAIN])
def test_hints_are_printed_for_types_that_have_them(name: str) -> None:
    kernel = load(COPY.replace("TYPE", name), name="copy.cu")
    emitted = emit(apply_script(kernel, parse_script("cache-hints{loads=x stores=y}")).kernel, "cuda")
    hinted = "__ldg" in emitted.text and "__stcs" in emitted.text
    plain = "__ld" not in emitted.text and "__st" not in emitted.text
    assert hinted if name in HINTED else plain, emitted.text
    if not devices.lacks("cuda"):
        check_compile(emitted)
