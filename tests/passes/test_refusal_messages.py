"""What a refusal says: the loop, the numbers, and the cause that the user has to do something about."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from tests.passes.checks import refused

PLANE = """\
kernel k(out: f32*, a: f32 const*, n: i32)
  launch grid(1) block(64)
  par r in 0..100 @ [block.y]
    par o in 0..n @ [thread.x 64, block.x]
      out[r * n + o] = a[r * n + o]
"""
ODD = """\
kernel k(out: f32*, a: f32 const*)
  launch grid(1) block(64)
  par q in 0..8 @ [block.x]
    par k in 0..50257 @ [thread.x 64, seq]
      out[q * 50257 + k] = a[q * 50257 + k]
"""
TRIANGLE = """\
kernel k(out: f32*, a: f32 const*, n: i32)
  launch grid(1) block(64)
  par q in 0..n @ [block.x]
    for k in 0..q + 1
      out[q * n + k] = a[q * n + k]
"""
GUARDED = """\
kernel k(out: f32*, a: f32 const*, n: i32, rows: i32)
  launch grid(1) block(64)
  par r in 0..64 @ [thread.x 64]
    if r < rows
      var s: f32 = 0.0
      for i in 0..n
        s = s + a[r * n + i]
      out[r] = s
"""
APART = """\
kernel k(out: f32*, n: i32)
  launch grid(1) block(64)
  par i in 0..n @ [thread.x 64, seq]
    out[i] = 0.0
  par j in 0..n @ [thread.x 64, seq]
    out[j] = 1.0
"""
BETWEEN = """\
kernel k(out: f32*, n: i32)
  launch grid(1) block(64)
  par i in 0..n @ [block.x]
    if i > 0
      par j in 0..n @ [thread.x 64, seq]
        out[i * n + j] = 0.0
"""


@pytest.mark.parametrize(
    ("kernel", "script", "code", "why", "hint"),
    [
        (PLANE, "distribute{loop=r map=[thread.y 32]}", "E-DIST-COVER",
         "the levels of 'r' take 32 of its 100 iterations", "end with an open level"),
        (PLANE, "distribute{loop=r map=[thread.y 8, unroll 3, seq] tail=exact}", "E-DIST-COVER",
         "the 100 iterations of 'r' are no whole tiles of 24", "tail=guard"),
        (ODD, "distribute{loop=k map=[vec 4, thread.x 1024, seq]}", "E-DIST-COVER",
         "the 50257 iterations of 'k' are no whole vectors of 4", "pad the rows"),
        (TRIANGLE, "parallelize{loop=k map=[vec 4, thread.x 32, seq]}", "E-DIST-COVER",
         "the q + 1 iterations of 'k' are no whole vectors of 4", ""),
        (PLANE, "distribute{loop=o map=[cluster 2, block.x]}", "E-DIST-LEVELS",
         "'o' cannot be given a cluster level", "multi-buffer{by=producer cluster=2}"),
        (PLANE, "tile{loops=o,r sizes=8,8}", "E-TILE-BAND", "'o' is inside 'r', not around it", "loops=r,o"),
        (APART, "tile{loops=i,j sizes=8,8}", "E-TILE-BAND", "'j' is not inside 'i'", "one by one"),
        (BETWEEN, "tile{loops=i,j sizes=8,8}", "E-TILE-BAND", "a condition stands between 'i' and 'j'", ""),
        (GUARDED, "register-tile{loop=i}", "E-RTILE-BAND",
         "a condition stands between 'i' and 'r', the parallel loop around it", "directly in"),
        (PLANE, "tensorize{loop=o fragment=m16n8k8_tf32}", "E-TENSOR-FRAGMENT",
         "fragment cannot be 'm16n8k8_tf32'", "m16n8k16_f16"),
    ],
)  # fmt: skip
def test_the_cause_is_named(kernel: str, script: str, code: str, why: str, hint: str) -> None:
    got = refused(parse_kernel(kernel), script)
    assert (got.code, why in got.why, hint in got.hint) == (code, True, True), got
    assert got.locs or code == "E-TENSOR-FRAGMENT"
