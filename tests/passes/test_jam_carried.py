"""Jammed levels around a loop whose length differs between iterations: what it counts with is each iteration's own."""

from __future__ import annotations

import numpy as np
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.language import parse_script
from ktc.passes.lowering import materialise
from ktc.passes.pipeline import apply_script

STRIDED = """\
kernel copy(x: f32 const*, y: f32*, m: i32, n: i32)
  par r in 0..n @ [block.x]
    par t in 0..8 @ [thread.x 8]
      var j: i32 = t
      while j < m
        y[r * m + j] = x[r * m + j]
        j = j + 8
"""


def test_a_counter_is_not_shared_by_the_rows_that_a_thread_takes() -> None:
    script = parse_script("vectorize{loop=r width=2} | vectorize{loop=t width=2}")
    done = apply_script(parse_kernel(STRIDED), script)
    assert done.refused is None
    lowered = materialise(done.kernel)
    for n, m in ((2, 1), (3, 11), (4, 16)):
        x = np.arange(1, n * m + 1, dtype=np.float32)
        got = run(lowered, {"x": x, "y": np.zeros_like(x), "m": m, "n": n})
        assert got.ok, got.findings
        np.testing.assert_array_equal(got.outputs["y"], x, print_kernel(lowered))
