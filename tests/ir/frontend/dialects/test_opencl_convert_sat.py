"""OpenCL's saturating conversions to narrow integers."""

import numpy as np

import ktc
from ktc.ir.interp import run
from ktc.ir.kernel import Launch
from ktc.ir.nodes import i32

SOURCE = """
__kernel void k(__global const float* in, __global const int* whole, __global uchar* o, __global char* c, int n) {
  int x = get_global_id(0);
  if (x < n) { o[x] = convert_uchar_sat(in[x]); c[x] = convert_char_sat(whole[x]); }
}
"""


def test_what_is_out_of_range_becomes_the_nearest_end() -> None:
    kernel = ktc.loads(SOURCE).kernel.with_(launch=Launch((i32(1),) * 3, (i32(8), i32(1), i32(1))))
    reals = np.array([-3.5, 0.9, 254.7, 256.0, 1e12, 7.0], np.float32)
    whole = np.array([-300, -128, 5, 127, 128, 1 << 30], np.int32)
    args = {"in": reals, "whole": whole, "o": np.zeros(6, np.uint8), "c": np.zeros(6, np.int8), "n": 6}
    out = run(kernel, args).outputs
    assert out["o"].tolist() == [0, 0, 254, 255, 255, 7] and out["c"].tolist() == [-128, -128, 5, 127, 127, 127]
