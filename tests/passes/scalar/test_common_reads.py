"""if-convert{loads=yes}: elements that several iterations of a thread want are read once, where one of them does."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Const
from ktc.ir.text import parse_kernel
from ktc.ir.types import BOOL
from ktc.ir.walk import loads_in, stmt_exprs, walk
from ktc.passes.lowering import materialise
from ktc.passes.scalar import common_reads
from tests.passes.checks import applied, body_of, differs

HEAD = """\
kernel windows(x: f32 const* restrict, w: f32 const* restrict, y: f32* restrict, n: i32)
  launch grid(1) block(32)
  par t in 0..cdiv(n, 4) @ [thread.x 32, seq]
"""
SUMS = (
    HEAD
    + """\
    par p in t * 4..min(t * 4 + 4, n) @ [unroll 4]
      var sum: f32 = 0.0
      for s in 0..3
        let h: i32 = p - 1 + s
        if h >= 0 && h < n
          sum += x[h] * w[AT]
      y[p] = sum
"""
)
SIZES = [{"n": n} for n in (1, 2, 4, 5, 8, 11)]
CONVERT = "if-convert{loop=s loads=yes}"


def test_what_all_iterations_share_is_asked_about_once() -> None:
    before = parse_kernel(SUMS.replace("AT", "s"))
    done = applied(before, CONVERT)
    assert "let x_at: f32 = when ? x[h] : 0\n" in body_of(done)
    assert "let w_at: f32 = wanted ? w[s] : 0\n" in body_of(done)
    assert differs(before, done, SIZES) is None
    assert differs(before, materialise(done), SIZES) is None


def test_one_element_of_it_is_loaded_for_all() -> None:
    """In the text that is printed the weight is declared outside of the loop over the thread's own elements."""
    lowered = materialise(applied(parse_kernel(SUMS.replace("AT", "s")), CONVERT))
    weights = [x for s in walk(lowered.body) for e in stmt_exprs(s) for x in loads_in(e) if x.buffer.name == "w"]
    assert len(weights) == 1
    assert "w_at[" not in body_of(lowered)


@pytest.mark.parametrize("at", ["h", "s + p - t * 4"])
def test_elements_of_one_iteration_are_read_under_its_own_condition(at: str) -> None:
    done = applied(parse_kernel(SUMS.replace("AT", at)), CONVERT)
    assert "wanted" not in body_of(done)


APART = [
    HEAD + "    par p in t * 4..min(t * 4 + 4, n) @ [unroll 4]\n      var sum: f32 = 0.0\n      for s in 0..p % 3\n"
    "        if p - 1 + s < n && p >= 2\n          sum += w[s]\n      y[p] = sum\n",
    HEAD + "    par p in t * 4..min(t * 4 + 4, n) @ [unroll 4]\n      var sum: f32 = 0.0\n      for s in 0..3\n"
    "        if sum < 4.0 && p >= 2\n          sum += w[s]\n      y[p] = sum\n",
    HEAD + "    par p in t * 4..min(t * 4 + 4, n) @ [unroll 4]\n      var sum: f32 = 0.0\n      if p > 2\n"
    "        for s in 0..3\n          if p + s < n\n            sum += w[s]\n      y[p] = sum\n",
    HEAD + "    par p in t * 4..min(t * 4 + 4, n) @ [unroll 4]\n      var sum: f32 = 0.0\n      for s in 0..3\n"
    "        if p + s < n\n          sum += w[s]\n        if s > p\n          break\n      y[p] = sum\n",
]
"""Other rounds, a condition on what is summed up, a branch around the loop, and a way out of it."""


@pytest.mark.parametrize("source", APART)
def test_iterations_that_do_not_come_there_alike_ask_for_themselves(source: str) -> None:
    before = parse_kernel(source)
    done = applied(before, CONVERT)
    assert "wanted" not in body_of(done)
    assert differs(before, done, SIZES) is None


def test_an_element_that_nobody_wants_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking about another iteration than those of the thread reads beyond the buffer, which is caught."""
    before = parse_kernel(SUMS.replace("AT", "s - 1"))
    assert differs(before, applied(before, CONVERT), [{"n": 1}]) is None
    monkeypatch.setattr(common_reads.Iterations, "reads_if", lambda self, load, cond: Const(True, BOOL))
    assert differs(before, applied(before, CONVERT), [{"n": 1}]) is not None
