"""Jammed levels around a loop whose length differs between iterations: what it counts with is each iteration's own."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise

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


LEFT_EARLY = """\
kernel copy(x: f32 const*, y: f32*, m: i32, n: i32)
  par r in 0..n @ [thread.x 4, block.x]
    var k: i32 = m
    while true
      let old: i32 = k
      k = old - 1
      if !(old > 0)
        break
      y[r * m + k] = x[r * m + k]
"""
COUNTED = """\
kernel count(x: i32 const*, y: i32*, m: i32, n: i32)
  par r in 0..n @ [thread.x 4, block.x]
    var k: i32 = m
    while k > x[r] - x[r]
      k = k - 1
      atomic add y[0], 1
"""


TICKETS = """\
kernel tickets(count: u32*, y: u32*, n: i32)
  par r in 0..n @ [thread.x 32, block.x]
    var at: u32
    at = atomic WHAT
    let mine: u32 = at
    atomic add y[mine], 1_u32
"""


@pytest.mark.parametrize("what", ["inc count[0], 6_u32", "add count[0], 1_u32", "exch count[0], 3_u32"])
def test_what_an_atomic_finds_is_each_elements_own(what: str) -> None:
    """All elements ask the same of the same place, and each finds what the one before it has left."""
    source = parse_kernel(TICKETS.replace("WHAT", what))
    for script in ("vectorize{loop=r width=4}", "unroll{loop=r factor=2}", "coarsen{at=r factor=4}"):
        lowered = lowered_to(TICKETS.replace("WHAT", what), script)
        for n in (1, 5, 17, 40):
            args = {"count": np.zeros(1, np.uint32), "y": np.zeros(64, np.uint32), "n": n}
            want, got = (run(k, args, domain="int").outputs["y"] for k in (source, lowered))
            np.testing.assert_array_equal(got, want, print_kernel(lowered))


def lowered_to(text: str, script: str):
    done = apply_script(parse_kernel(text), parse_script(script))
    assert done.refused is None
    return materialise(done.kernel)


def test_a_counter_of_a_loop_that_is_left_early_is_each_iterations_own() -> None:
    for script in ("vectorize{loop=r width=2}", "coarsen{at=r factor=4}", "unroll{loop=r factor=2}"):
        lowered = lowered_to(LEFT_EARLY, script)
        for n, m in ((1, 1), (3, 1), (7, 5), (16, 3)):
            x = np.arange(1, n * m + 1, dtype=np.float32)
            got = run(lowered, {"x": x, "y": np.zeros_like(x), "m": m, "n": n})
            assert got.ok, got.findings
            np.testing.assert_array_equal(got.outputs["y"], x, print_kernel(lowered))


def test_effects_in_a_loop_that_is_repeated_happen_once_in_every_iteration() -> None:
    lowered = lowered_to(COUNTED, "coarsen{at=r factor=4}")
    for n, m in ((1, 2), (7, 5), (16, 3)):
        args = {"x": np.zeros(n, np.int32), "y": np.zeros(1, np.int32), "m": m, "n": n}
        assert run(lowered, args).outputs["y"].tolist() == [n * m], print_kernel(lowered)


ALIKE = """\
kernel sums(x: i32 const*, y: i32*, m: i32, n: i32)
  par r in 0..n @ [thread.x 4, block.x]
    var k: i32 = 0
    var s: i32 = 0
    while k < m
      k = k + 1
      if x[k - 1] < 0
        {leave}
      s = s + x[k - 1]
    y[r] = s + k
"""


@pytest.mark.parametrize("leave", ["break", "continue"])
@pytest.mark.parametrize("script", ["vectorize{loop=r width=4}", "coarsen{at=r factor=4}", "unroll{loop=r factor=2}"])
def test_a_loop_that_is_left_alike_by_all_iterations_runs_once(leave: str, script: str) -> None:
    """It was repeated by every lane, with variables that all lanes share: each went on where the one before ended."""
    lowered = lowered_to(ALIKE.format(leave=leave), script)
    x = np.array([3, 1, -4, 1, 5, -9, 2, 6], np.int32)
    for n, m in ((4, 1), (8, 5), (16, 8)):
        got = run(lowered, {"x": x, "y": np.zeros(n, np.int32), "m": m, "n": n})
        want = run(parse_kernel(ALIKE.format(leave=leave)), {"x": x, "y": np.zeros(n, np.int32), "m": m, "n": n})
        assert got.ok and np.array_equal(got.outputs["y"], want.outputs["y"]), print_kernel(lowered)


TWO_SUMS = """\
kernel sums(x: i32 const*, y: i32*, n: i32)
  par i in 0..n @ [thread.x 4, block.x]
    reduce(+) e: i32 = 0, (+) o: i32 = 0 over j in 0..12 @ [{level}, seq]
      var even: i32 = 0
      var odd: i32 = 0
      if j % 2 == 1
        odd += x[(j + i) % n]
      else
        even += x[j % n]
      yield even, odd
    y[i] = e * 100 + o
"""


@pytest.mark.parametrize("level", ["vec 4", "unroll 4", "thread.y 2"])
@pytest.mark.parametrize("script", ["vectorize{loop=i width=2}", "coarsen{at=i factor=2}"])
def test_a_sum_that_is_taken_with_one_that_differs_is_each_iterations_own(level: str, script: str) -> None:
    """Its terms are the same for all iterations: they were added once for each, to one sum."""
    text = TWO_SUMS.format(level=level)
    lowered = lowered_to(text, script)
    for n in (4, 8, 16):
        args = {"x": np.arange(3, n + 3, dtype=np.int32), "y": np.zeros(n, np.int32), "n": n}
        got, want = (run(k, args) for k in (lowered, parse_kernel(text)))
        assert got.ok and np.array_equal(got.outputs["y"], want.outputs["y"]), print_kernel(lowered)
