"""RAJA's types, atomics and operators in programs whose plain kernels use them."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend import load

TEXT = """
#include "RAJA/RAJA.hpp"
typedef RAJA::Index_type Index;
template <int B> __global__ void k(double* o, const double* x, Index n) {
  RAJA_TEAM_SHARED double room[B];
  const Index i = threadIdx.x;
  room[i] = RAJA::operators::maximum<double>()(x[i], RAJA::operators::plus<double>()(x[i], -1.0));
  RAJA::atomicAdd<RAJA::cuda_atomic>(&o[RAJA::power_of_2_mod(i, Index{2})], room[i]);
  if (i < RAJA_DIVIDE_CEILING_INT(n, 4)) RAJA::atomicMax<RAJA::auto_atomic>(o + 2, RAJA_MAX(room[i], x[0]));
}
void go(double* o, const double* x, Index n) { k<8><<<1, 8>>>(o, x, n); }
"""


def test_kernels_beside_those_of_raja(execute) -> None:
    x = np.arange(8.0)
    got = execute(TEXT, {"o": np.zeros(3), "x": x, "n": 8})["o"]
    assert got.tolist() == [12.0, 16.0, 1.0]


def test_a_program_with_raja_s_own_headers_keeps_them() -> None:
    text = """namespace RAJA { typedef int Index_type; }
    __global__ void k(RAJA::Index_type* x) { x[0] = sizeof(RAJA::Index_type); }"""
    kernel = load(text, name="k.cu")
    assert str(kernel.params[0].sym.type.elem) == "i32"
