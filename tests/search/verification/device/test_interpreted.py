"""Answers of the interpreter that configurations share, and those that they do not."""

from __future__ import annotations

import importlib

import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel
from ktc.search.verification import differential
from ktc.search.verification.device.interpreted import Drawn, as_computed, error_bounds, exact_values
from tests.ir.interp.interp_samples import ROWS_SHUFFLE, ROWS_TREE, kernel
from tests.search.verification.gate_samples import ROWS, InterpretedRuntime, emitted

module = importlib.import_module("ktc.search.verification.device.interpreted")

SCALED = """
kernel scaled(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 64)) block(64) min_blocks($M)
  knob $M in {1, 2, 4} default 1 value 1
  knob $U in {1, 2} default 1 value 1
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = x[i] * 3.0
"""


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        (("default 1 value 1\n  knob $U", "default 1 value 4\n  knob $U"), True),
        (("{1, 2} default 1 value 1", "{1, 2} default 1 value 2"), True),  # nobody asks for it
        (("3.0", "3.5"), False),
        (("block(64)", "block(32)"), False),
        (("* 3.0", "* ($M as f32)"), False),
    ],
)
def test_what_differs_for_the_compiler_alone_computes_the_same(change, shared) -> None:
    first = as_computed(parse_kernel(SCALED))
    assert change[0] in SCALED
    assert (as_computed(parse_kernel(SCALED.replace(*change))) is first) == shared


def test_a_knob_that_a_statement_asks_for_tells_configurations_apart() -> None:
    asked = SCALED.replace("* 3.0", "* ($M as f32)")
    other = asked.replace("default 1 value 1\n  knob $U", "default 1 value 4\n  knob $U")
    assert as_computed(parse_kernel(asked)) is not as_computed(parse_kernel(other))


def test_configurations_share_bounds_and_candidates_the_originals_values(monkeypatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(module, "run", lambda *args, **kw: asked.append(kw["domain"]) or run(*args, **kw))
    first = ROWS_SHUFFLE.replace("x[row + i] * x[row + i]", "x[row + d - 1 - i] * x[row + d - 1 - i]")
    texts = (ROWS_TREE, first, first.replace("block(64)", "block(64) min_blocks(2)"))
    a, b, c = (emitted(kernel(text)) for text in texts)
    for candidate in (b, c):
        verdict = differential(InterpretedRuntime(), a, candidate, ROWS, sizes=[{"n": 16, "d": 500}])
        assert verdict.ok, verdict
        assert asked.count("bound") == asked.count("float64") > 0
    assert asked.count("bound") <= 2  # on exact and on ordinary inputs
    other = emitted(kernel(first.replace("f32(d)", "f32(d + 0)")))
    before = asked.count("float64")
    assert differential(InterpretedRuntime(), a, other, ROWS, sizes=[{"n": 16, "d": 500}]).ok
    assert asked.count("float64") == before < asked.count("bound")


def test_what_does_not_end_has_no_values(monkeypatch) -> None:
    monkeypatch.setattr(module, "run", lambda *args, **kw: run(*args, **kw, fuel=20))
    drawn = Drawn((("n", 2), ("d", 300)), None, 0, False)
    assert not exact_values(kernel(ROWS_TREE), ROWS, drawn) and not error_bounds(kernel(ROWS_TREE), ROWS, drawn)
