"""Conditional operators whose operands have no value ([expr.cond]): what either does."""

from __future__ import annotations

import numpy as np


def test_either_operand_is_done(execute) -> None:
    text = """
__device__ void put(float* at, float x) { *at = x; }
__global__ void k(float* o, const float* r, int n) {
  auto add = [&](auto v) { o[1] += v; };
  r ? add(r[0]) : add(3);
  n > 3 ? put(o, 1.5f) : (void)0;
  n > 3 ? (void)0 : n == 2 ? put(o, 4.0f) : put(o, 5.0f);
  sizeof(int) == 4 ? put(o + 2, 6.0f) : put(o + 2, 7.0f);
}"""
    for n, first in ((4, 1.5), (2, 4), (1, 5)):
        args = {"o": np.ones(3, np.float32), "r": np.full(1, 2.5, np.float32), "n": n}
        assert execute(text, args)["o"].tolist() == [first, 3.5, 6]
