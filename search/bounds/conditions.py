"""Where a condition on integers holds, in a set of iterations: comparisons of numbers that are linear in loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ktc.ir.symbols import fresh
from ktc.ir.types import I64

from .iteration_states import Axis, Branches, Expand, Ints, Number, Request, State, both, combined, scaled, where

MOST_BOUNDARY = 1 << 12
"""Iterations of one loop that a boundary between "always" and "never" may be wide before it is not enumerated."""

_HELD = fresh("condition", I64)


class Undecided(Exception):
    """The condition is no range of any one loop; ``wants`` is what would make it one."""

    def __init__(self, wants: frozenset[Request]) -> None:
        super().__init__()
        self.wants = wants


def compared(state: State, op: str, a: Number, b: Number) -> Branches:
    """The states of ``state`` in which ``a op b`` holds, and those in which it does not.

    Raises:
        Undecided: a number is unknown, or the boundary is no range of a loop.
    """
    d = combined(a, b, -1)
    if d.base is None:
        raise Undecided(d.wants)
    return _COMPARISONS[op](state, d)


def _negative(state: State, d: Number) -> Branches:
    """Cut by ``d < 0``."""
    assert d.base is not None
    if not d.terms:
        return where(state, d.base < 0)
    least, most = state.limits(d)
    if np.all((np.asarray(most) < 0) | (np.asarray(least) >= 0)):
        return where(state, most < 0)
    axis = max((x for x in state.ranges if x in d.terms), key=lambda x: abs(d.terms[x]))  # of equals, the outermost
    c = d.terms[axis]
    rest = Number(d.base, {x: k for x, k in d.terms.items() if x != axis})
    low, high = state.limits(rest)
    if c > 0:  # holds from below, up to an iteration
        surely, maybe = _ceil(-high, c), _ceil(-low, c)
        holds, fails = state.within(axis, hi=surely), state.within(axis, lo=maybe)
        return _with_boundary(state, d, axis, holds, fails, surely, maybe)
    surely, maybe = _floor(high, -c) + 1, _floor(low, -c) + 1
    holds, fails = state.within(axis, lo=surely), state.within(axis, hi=maybe)
    return _with_boundary(state, d, axis, holds, fails, maybe, surely)


def _with_boundary(state: State, d: Number, axis: Axis, holds: State, fails: State, lo: Ints, hi: Ints) -> Branches:
    """``holds`` and ``fails``, and what is between them (``axis`` in ``lo..hi``), iteration by iteration."""
    between = state.having({_HELD: d}).within(axis, lo, hi)
    out: Branches = ([holds], [fails])
    if len(d.terms) > 1 and between.iterations() > 0:
        first, last = between.ranges[axis]
        if int(np.max(np.asarray(last) - first)) * state.points > MOST_BOUNDARY:
            raise Undecided(frozenset({Expand(next(x for x in state.ranges if x in d.terms))}))
        narrow = between.without_axis(axis)
        inner = _negative(narrow, narrow.numbers[_HELD])
        out = ([*out[0], *inner[0]], [*out[1], *inner[1]])
    return [s for s in out[0] if s.iterations() > 0], [s for s in out[1] if s.iterations() > 0]


def _opposite(cut: Branches) -> Branches:
    return cut[1], cut[0]


def _zero(state: State, d: Number) -> Branches:
    """Cut by ``d == 0``: neither below nor above."""
    held = state.having({_HELD: d})
    found = both(
        held,
        lambda s: _opposite(_negative(s, s.numbers[_HELD])),
        lambda s: _opposite(_negative(s, scaled(s.numbers[_HELD], -1))),
    )
    assert found is not None
    return found


def _shifted(d: Number, by: int) -> Number:
    return combined(d, Number(by))


_COMPARISONS: dict[str, Callable[[State, Number], Branches]] = {
    "<": _negative,
    "<=": lambda s, d: _negative(s, _shifted(d, -1)),
    ">": lambda s, d: _negative(s, scaled(d, -1)),
    ">=": lambda s, d: _negative(s, _shifted(scaled(d, -1), -1)),
    "==": _zero,
    "!=": lambda s, d: _opposite(_zero(s, d)),
}


def _ceil(a: Ints, b: int) -> Ints:
    return -(-a // b)


def _floor(a: Ints, b: int) -> Ints:
    return a // b
