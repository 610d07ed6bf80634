"""Sets of iterations of a loop nest: some loops point by point, the others as ranges, and the integers known in them.

An :class:`Axis` is a loop (or a digit of one, where its variable is taken apart by a divisor) that stays symbolic: it
has a range at each point. A :class:`Number` is an integer of the program in all of these iterations at once:
``base + sum of coefficient * axis``, with a base for each point. A :class:`State` is a set of iterations with the
numbers of the variables that are in scope; a condition cuts it into the states in which it holds and those in which it
does not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from ktc.ir.nodes import Expr, Sym

Ints = int | np.ndarray
"""An integer, or one at each point (int64)."""

Name = Sym | tuple[str, str]
"""A variable, or an index of the launch as (level, axis)."""


@dataclass(frozen=True)
class Axis:
    """A loop that is not enumerated: its variable, counted from zero, or a digit of it (``part``, such as ``"/%"``)."""

    loop: Sym | str
    part: str = ""


@dataclass(frozen=True)
class Expand:
    """A request: the number would be known if the loop of ``axis`` were enumerated."""

    axis: Axis


@dataclass(frozen=True)
class Split:
    """A request: the number would be known if ``axis`` were two axes, its quotient and its remainder by ``by``."""

    axis: Axis
    by: int


@dataclass(frozen=True)
class Cut:
    """A request: the number would be known where ``condition`` holds, and where it does not."""

    condition: Expr


Request = Expand | Split | Cut


@dataclass(frozen=True, eq=False)
class Number:
    """``base + sum(terms[axis] * axis)``; unknown where ``base`` is None, and then ``wants`` is what would help."""

    base: Ints | None
    terms: Mapping[Axis, int] = field(default_factory=dict)
    wants: frozenset[Request] = frozenset()

    @property
    def known(self) -> bool:
        return self.base is not None

    @property
    def concrete(self) -> bool:
        """Whether it is a plain integer at each point."""
        return self.base is not None and not self.terms

    @property
    def constant(self) -> int | None:
        """Its value, if it is one and the same everywhere."""
        if not self.concrete:
            return None
        assert self.base is not None
        if isinstance(self.base, np.ndarray):
            if not len(self.base) or (self.base != self.base[0]).any():
                return None
            return int(self.base[0])
        return int(self.base)

    def at(self, rows: np.ndarray) -> Number:
        """The number at the points ``rows`` alone (indices or a mask)."""
        if not isinstance(self.base, np.ndarray):
            return self
        return dataclasses.replace(self, base=self.base[rows])

    def fixed(self, axis: Axis, value: np.ndarray) -> Number:
        """The number with ``axis`` replaced by its value at each point."""
        if self.base is None or axis not in self.terms:
            return self
        rest = {a: c for a, c in self.terms.items() if a != axis}
        return Number(self.base + self.terms[axis] * value, rest)


UNKNOWN = Number(None)


def combined(a: Number, b: Number, sign: int = 1) -> Number:
    """``a + sign * b``."""
    if a.base is None or b.base is None:
        return Number(None, wants=a.wants | b.wants)
    terms = dict(a.terms)
    for axis, c in b.terms.items():
        terms[axis] = terms.get(axis, 0) + sign * c
    return Number(a.base + sign * b.base, {x: c for x, c in terms.items() if c})


def scaled(a: Number, by: int) -> Number:
    """``a * by``."""
    if a.base is None:
        return a
    return Number(a.base * by, {x: c * by for x, c in a.terms.items()} if by else {})


@dataclass(frozen=True, eq=False)
class State:
    """``points`` combinations of the enumerated loops' iterations; at each, ``ranges`` of the axes (lo, hi: half open).

    ``numbers``: the variables in scope. A range may be empty at a point: the point then stands for no iteration.
    """

    points: int = 1
    ranges: Mapping[Axis, tuple[Ints, Ints]] = field(default_factory=dict)
    numbers: Mapping[Name, Number] = field(default_factory=dict)

    def iterations(self, of: Collection[Sym | str] | None = None) -> float:
        """How many iterations the state stands for; those of the symbolic loops not among ``of`` count as one."""
        n: np.ndarray | float = 1.0
        for axis, (lo, hi) in self.ranges.items():
            rounds = np.maximum(0, np.asarray(hi, np.float64) - lo)
            n = n * (rounds if of is None or axis.loop in of else np.minimum(1, rounds))
        return float(n.sum()) if isinstance(n, np.ndarray) and n.ndim else float(n) * self.points

    def having(self, values: Mapping[Name, Number]) -> State:
        return dataclasses.replace(self, numbers={**self.numbers, **values})

    def pick(self, rows: np.ndarray) -> State:
        """The points ``rows`` alone (indices, repeated at will, or a mask)."""
        n = int(rows.sum()) if rows.dtype == bool else len(rows)

        def at(x: Ints) -> Ints:
            return x[rows] if isinstance(x, np.ndarray) else x

        ranges = {a: (at(lo), at(hi)) for a, (lo, hi) in self.ranges.items()}
        return State(n, ranges, {s: v.at(rows) for s, v in self.numbers.items()})

    def within(self, axis: Axis, lo: Ints | None = None, hi: Ints | None = None) -> State:
        """The iterations whose ``axis`` is at least ``lo`` and below ``hi``."""
        old_lo, old_hi = self.ranges[axis]
        new = (old_lo if lo is None else _larger(old_lo, lo), old_hi if hi is None else _smaller(old_hi, hi))
        return dataclasses.replace(self, ranges={**self.ranges, axis: new})

    def spanned(self, axis: Axis, count: Ints) -> State:
        """The iterations of a loop of ``count`` rounds, which stays symbolic."""
        return dataclasses.replace(self, ranges={**self.ranges, axis: (0, count)})

    def points_with(self, count: Ints) -> int:
        """Points once a loop of ``count`` rounds is enumerated."""
        return int(np.broadcast_to(np.maximum(0, np.asarray(count, np.int64)), (self.points,)).sum())

    def points_without(self, axes: Collection[Axis]) -> int:
        """Points, at most, once all of ``axes`` are enumerated."""
        lengths = (np.max(np.asarray(hi) - lo) for a, (lo, hi) in self.ranges.items() if a in axes)
        return self.points * math.prod(max(0, int(n)) for n in lengths)

    def enumerated(self, lo: Ints, hi: Ints) -> tuple[State, np.ndarray]:
        """The iterations of a loop over ``lo..hi`` point by point: the state, and the loop's value at each point."""
        n = np.broadcast_to(np.maximum(0, np.asarray(hi, np.int64) - lo), (self.points,))
        rows = np.repeat(np.arange(self.points), n)
        first = np.broadcast_to(np.asarray(lo, np.int64), (self.points,))[rows]
        value = first + np.arange(len(rows)) - np.repeat(np.cumsum(n) - n, n)
        return self.pick(rows), value

    def without_axis(self, axis: Axis) -> State:
        """The same iterations with ``axis`` enumerated."""
        lo, hi = self.ranges[axis]
        rest = dataclasses.replace(self, ranges={a: r for a, r in self.ranges.items() if a != axis})
        out, value = rest.enumerated(lo, hi)
        return dataclasses.replace(out, numbers={s: v.fixed(axis, value) for s, v in out.numbers.items()})

    def limits(self, x: Number) -> tuple[Ints, Ints]:
        """Least and greatest value of a known number at each point, over the ranges of its axes."""
        assert x.base is not None
        least = most = x.base
        for axis, c in x.terms.items():
            lo, hi = self.ranges[axis]
            ends = (c * lo, c * (hi - 1))
            least, most = least + (ends[0] if c > 0 else ends[1]), most + (ends[1] if c > 0 else ends[0])
        return least, most


@dataclass
class Round:
    """A round of a loop that is gone through in turn: the states in which it is left, ends the loop, or may do either;
    ``changed``: what the loop assigns."""

    changed: frozenset[Sym]
    continues: list[State] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)


Branches = tuple[list[State], list[State]]
"""The states in which a condition holds, and those in which it does not."""


def where(state: State, condition: Ints | np.ndarray) -> Branches:
    """The state cut by a truth at each point (or one for all)."""
    if not isinstance(condition, np.ndarray) or condition.ndim == 0:
        return ([state], []) if bool(condition) else ([], [state])
    if condition.all():
        return [state], []
    if not condition.any():
        return [], [state]
    return [state.pick(condition)], [state.pick(~condition)]


def both(state: State, a: Callable[[State], Branches | None], b: Callable[[State], Branches | None]) -> Branches | None:
    """The state cut by a conjunction; None where a part of it is unknown."""
    first = a(state)
    if first is None:
        return None
    holds: list[State] = []
    fails = list(first[1])
    for s in first[0]:
        second = b(s)
        if second is None:
            return None
        holds += second[0]
        fails += second[1]
    return holds, fails


def _larger(a: Ints, b: Ints) -> Ints:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _smaller(a: Ints, b: Ints) -> Ints:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)
