"""Sums that came out as no number are summed again in one loop, not in a copy of it for each register."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If, asks_for_nan
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from ktc.passes.lowering.summed_again import summed_again_together

SUMS = """\
kernel sums(y: f32* noalias, x: f32 const* noalias, w: f32 const* noalias, m: i32)
  launch grid(1) block(4)
  array a: f32[2, 8]
  for u in 0..2 unroll
    for v in 0..8 unroll
      a[u, v] = 0.0
      for r in 0..3
        let at: i32 = threadIdx.x * 16 + u * 8 + v - 1 + r
        a[u, v] = a[u, v] + (at >= 0 && at < m ? x[at] : 0.0) * w[r]
  for u in 0..2 unroll
    for v in 0..8 unroll
      if isnan(a[u, v])
        a[u, v] = 0.0
        for r in 0..3 unroll 1
          let at: i32 = threadIdx.x * 16 + u * 8 + v - 1 + r
          if at >= 0 && at < m
            a[u, v] = a[u, v] + x[at] * w[r]
      y[threadIdx.x * 16 + u * 8 + v] = a[u, v] > 0.0 ? a[u, v] : 0.0
"""
STORE = "      y[threadIdx.x * 16 + u * 8 + v] = a[u, v] > 0.0 ? a[u, v] : 0.0\n"


def rolled(k: Kernel) -> Kernel:
    return k.with_(body=summed_again_together(k, k.body))


def outputs(k: Kernel, weights: list[float]) -> np.ndarray:
    x = np.linspace(1.0, 2.0, 64, dtype=np.float32)
    args = {"x": x, "w": np.array(weights, np.float32), "y": np.zeros(64, np.float32), "m": 64}
    return np.asarray(run(k, args, domain="float").outputs["y"])


def test_before_and_after() -> None:
    text = print_kernel(rolled(parse_kernel(SUMS)))
    assert text.split("  var odd: f32 = 0.0\n")[1].splitlines() == [
        "  for u_1 in 0..2 unroll",
        "    for v_1 in 0..8 unroll",
        "      odd = isnan(a[u_1, v_1]) ? a[u_1, v_1] : odd",
        "      y[threadIdx.x * 16 + u_1 * 8 + v_1] = a[u_1, v_1] > 0.0 ? a[u_1, v_1] : 0.0",
        "  if isnan(odd)",
        "    for u_2 in 0..2 unroll 1",
        "      for v_2 in 0..8 unroll 1",
        "        var again: f32 = 0.0",
        "        for r_1 in 0..3 unroll 1",
        "          let at_1: i32 = threadIdx.x * 16 + u_2 * 8 + v_2 - 1 + r_1",
        "          if at_1 >= 0 && at_1 < m",
        "            again += x[at_1] * w[r_1]",
        "        y[threadIdx.x * 16 + u_2 * 8 + v_2] = again > 0.0 ? again : 0.0",
    ]


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_outputs_stay_what_they_are(odd: float) -> None:
    k = parse_kernel(SUMS)
    after = rolled(k)
    for weights in ([odd, 1.0, 1.0], [1.0, 1.0, odd], [1.0, 2.0, 3.0]):
        np.testing.assert_array_equal(outputs(after, weights), outputs(k, weights))

    def never(s: object) -> object:
        return None if isinstance(s, If) and asks_for_nan(s.cond) else s

    wrong = after.with_(body=map_body(after.body, never))  # type: ignore[arg-type]
    assert not np.array_equal(outputs(wrong, [odd, 1.0, 1.0]), outputs(k, [odd, 1.0, 1.0]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= a[u, v] > 0.0", "= y[threadIdx.x * 16 + u * 8 + v] + a[u, v] > 0.0"),  # reads what it stores
        ("y: f32* noalias, x: f32 const* noalias", "y: f32*, x: f32 const*"),  # may do so
        (STORE, f"{STORE}  y[threadIdx.x] = a[0, 0]\n"),  # a sum is asked for later
        (STORE, f"{STORE}      atomic add y[0], 1.0\n"),  # what may not be done twice
        (STORE, STORE.replace("a[u, v]", "a[u, 0]")),  # another sum, of another iteration
    ],
    ids=["reads", "aliases", "later", "atomic", "other"],
)
def test_what_may_not_be_done_twice_is_left(old: str, new: str) -> None:
    k = parse_kernel(SUMS.replace(old, new))
    assert rolled(k).body == k.body


def test_sums_that_live_on_in_an_outer_loop_are_left() -> None:
    """The next round would go on with what was no number."""
    head, array, body = SUMS.partition("  array a: f32[2, 8]\n")
    round_ = "".join(f"  {line}\n" for line in body.splitlines())
    k = parse_kernel(f"{head}{array}  for t in 0..m\n{round_}")
    assert rolled(k).body == k.body
    k = parse_kernel(f"{head}  for t in 0..m\n  {array}{round_}")
    assert "var again" in print_kernel(rolled(k)), "new sums each time"


def test_lanes_of_vectors_stay_registers() -> None:
    text = SUMS.replace("    for v in 0..8 unroll\n      if", "    var q: f32x8\n    for v in 0..8 unroll\n      if")
    text = text.replace(STORE, "      q[v] = a[u, v]\n    y[threadIdx.x * 16 + u * 8 +: 8] = q\n")
    after = print_kernel(rolled(parse_kernel(text))).split("if isnan(odd)")[1]
    assert "for u_2 in 0..2 unroll 1" in after
    assert "for v_2 in 0..8 unroll\n" in after


def test_lowering_rolls() -> None:
    text = """\
kernel sums(y: f32* noalias, x: f32 const* noalias)
  launch grid(1) block(32)
  par t in 0..1 @ [block.x]
    array a: f32[128]
    par i in 0..128 @ [thread.x 32, unroll 4]
      a[i] = x[i]
    par i in 0..128 @ [thread.x 32, unroll 4]
      if isnan(a[i])
        a[i] = 1.0
      y[i] = a[i]
"""
    found = [s for s in walk(materialise(parse_kernel(text)).body) if isinstance(s, If) and asks_for_nan(s.cond)]
    assert len(found) == 1
    assert "unroll 1" in print_kernel(materialise(parse_kernel(text)))
