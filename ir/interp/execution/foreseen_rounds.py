"""Loops that are sure to take more statements than a run has left, told from their bounds instead of waited for.

A size that no array has, such as a number of time steps, makes a run long and costs nothing else: a run of half a
million rounds that may take a thousand statements is over after sixty-four rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.arith.counted_loops import Counting, counting, why_unsteady
from ktc.ir.interp.sanitizer.endless_loops import FIRST
from ktc.ir.nodes import Break, Call, Continue, For, Return, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import all_exprs, loads_in, walk

from .frames import Active, Frame

if TYPE_CHECKING:
    from .statements import Machine


@dataclass(frozen=True)
class Steady:
    """A loop whose bounds say how many rounds it has, each of ``least`` statements or more, its condition included."""

    form: Counting
    least: int


@by_identity(512)
def steady(s: For) -> Steady | None:
    """What is known of ``s``; None where a round may leave it, or change how many there are."""
    form = counting(s)
    if form is None or why_unsteady(s, form) or any(loads_in(s.cond)) or any(loads_in(s.step)):
        return None
    inside = list(walk(s.body))
    if any(isinstance(x, Break | Return) for x in inside):
        return None
    if any(isinstance(e, Call) and e.fn == "trap" for e in all_exprs(s.body)):
        return None
    skips = any(isinstance(x, Continue) for x in inside)
    return Steady(form, 1 if skips else 1 + len(s.body))


def check_fuel(machine: Machine, s: For, frame: Frame, live: Active, number: int) -> None:
    """Round ``number`` of ``s`` begins for the lanes ``live``.

    Raises:
        OutOfFuel: the rounds that are left take more statements than there are left. Not where a finding may end the
            run before that.
    """
    state = machine.state
    if number < FIRST or number & (number - 1) or state.findings.may_end_the_run:
        return
    known = steady(s)
    if known is None:
        return
    at, hi, by = (_integers(machine.ev(e, frame, live)) for e in (Var(s.var), known.form.hi, known.form.by))
    if (by <= 0).any():
        return
    rounds = int((-((at - hi) // by)).max(initial=0))
    if rounds * known.least > state.fuel - state.steps:
        state.spend(rounds * known.least)


def _integers(values: Any) -> np.ndarray:
    return np.asarray(values).astype(np.int64)


__all__ = ["check_fuel"]
