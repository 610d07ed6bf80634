"""A knob may be called as a size is (``M`` stages, ``M`` rows): each keeps its own value."""

from __future__ import annotations

from ktc.ir.fold import KnobValues, evaluate
from ktc.ir.kernel import bind
from ktc.ir.nodes import Knob, Var, fresh, i32
from ktc.ir.types import I32
from ktc.passes.lowering.decider import Decider
from tests.passes.checks import applied, differs
from tests.passes.tile_sources import GEMM, GEMM_SIZES, STAGED

AHEAD = "async-copy{loop=k_tile.*} | multi-buffer{loop=k_tile stages=$M:(2,4)}"


def test_knobs_say_nothing_about_variables() -> None:
    values = KnobValues(M=4)
    assert evaluate(Knob("M"), values) == 4
    assert evaluate(Var(fresh("M", I32)), values) is None
    assert evaluate(Var(fresh("M", I32)), {"M": 4}) == 4


def test_rows_are_not_taken_for_a_multiple_of_a_knob_of_their_name() -> None:
    """Whole vectors of rows were stored where the last one was cut: M = 4 was taken for the number of rows."""
    kernel = bind(applied(GEMM, f"{STAGED} | {AHEAD}"), {"M": 4})
    rows = next(p.sym for p in kernel.params if p.sym.name == "M")
    assert not Decider(kernel).divisible(Var(rows), i32(2))
    assert differs(GEMM, kernel, GEMM_SIZES) is None
