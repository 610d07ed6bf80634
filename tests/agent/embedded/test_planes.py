"""Sums under a condition inside two loops, by flat indices too: blocks of two dimensions."""

from __future__ import annotations

from ktc.agent.embedded.rules import Rules, forms
from tests.agent.embedded.test_rules import observe

MASKED = """\
kernel masked(s: f32* restrict align 16 noalias, p: f32 const* restrict align 16 noalias readonly,
    q: f32 const* restrict align 16 noalias readonly, g: i32 range 1..64, m: i32 range 1..4096, d: i32 range 1..256)
  launch grid((g * m * m + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < g * m * m
    let x: i32 = i % m
    let y: i32 = i / m % m
    let z: i32 = i / (m * m)
    if x > y
      s[i] = 0.0
    else
      var t: f32 = 0.0
      for c in 0..d
        t += abs(p[(z * m + y) * d + c] - q[(z * m + x) * d + c]) * f32(c)
      s[i] = t
"""
SIZES = {"g": 4, "m": 512, "d": 64}


def test_a_flat_index_is_taken_apart_before_planes_are_made() -> None:
    builder, o = observe(MASKED, SIZES)
    assert o.raised is not None and [before for before, _ in forms(o.raised)] == ["", "delinearise{loop=i} | "]
    found = [p.script for p in Rules().propose(o, 6)]
    plane = next(s for s in found if "map{y=[thread.y" in s)
    assert "x=[thread.x $TX:(8,16,32), block.x]" in plane and builder.attempt(plane) is None
    assert found.index(plane) < 2


def test_rows_that_share_nothing_are_no_plane() -> None:
    alone = MASKED.replace("q[(z * m + x) * d + c]", "q[i * d + c]").replace("p[(z * m + y) * d + c]", "p[i * d + c]")
    _, o = observe(alone, SIZES)
    assert not any("thread.y $TY" in p.script for p in Rules().propose(o, 6))
