"""Kernels that do one thing for each of many points: two of them are the same function if the points are the same.

A kernel without barriers, atomics and assignments, of guards and loops around a few stores, runs these stores for each
*point*: indices of the launch and rounds of its loops. What they store hangs on a point through a few integers, its
*coordinates*. Where the stores of two kernels are the same of the same coordinates, each point of the one must have a
point of the other with these coordinates. Which one is guessed (coordinates are written in the digits of the other
kernel's indices), and that it is one is proved (z3).

Points keep apart: of different threads because the original is taken to be free of races, as by the ladder; of one
thread's rounds it is proved. A kernel that changes what it reads must in addition visit each point once.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Cast,
    Expr,
    For,
    HwIndex,
    Load,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.walk import map_expr, walk_expr
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.formulas import increment, widens
from ktc.search.verification.integers.intervals import is_whole

from .points import Points, parts_of, points

MOST_BLOCKS = (2**31 - 1, 65535, 65535)


@dataclass
class _Matching:
    """Coordinates: what of ``one`` stands for what of ``other``, where their stores are the same."""

    one: Points
    other: Points
    found: dict[Expr, Expr] = field(default_factory=dict)

    def stores(self) -> bool:
        if len(self.one.stores) != len(self.other.stores):
            return False
        pairs = list(zip(self.one.stores, self.other.stores))
        return all(
            s.buffer == t.buffer
            and len(s.index) == len(t.index)
            and all(self.same(e, f) for e, f in zip((*s.index, s.value), (*t.index, t.value)))
            for s, t in pairs
        )

    def same(self, e: Expr, f: Expr) -> bool:
        if isinstance(e, HwIndex) or (isinstance(e, Var) and self._free(e.sym)):
            return e.type == f.type and self.found.setdefault(e, f) == f
        if isinstance(f, Var) and f.sym in self.other.names:
            return self.same(e, self.other.names[f.sym])
        if type(e) is not type(f) or e.type != f.type:
            return False
        return all(self._field(getattr(e, d.name), getattr(f, d.name)) for d in dataclasses.fields(e))

    def _field(self, x: Any, y: Any) -> bool:
        if isinstance(x, Expr) and isinstance(y, Expr):
            return self.same(x, y)
        if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
            return all(self._field(p, q) for p, q in zip(x, y))
        return bool(x == y)

    def _free(self, sym: Sym) -> bool:
        return sym in self.one.names or any(s.var == sym for s in self.one.loops)


# -------------------------------------------------------------------------------------------------------- formulas


class _Space:
    """The points of one kernel as formulas over ``digits``: indices of the launch, but for axes of the grid that both
    kernels have in ``common``, and ``rounds`` of loops. ``holds``: for digits that are a point."""

    def __init__(self, p: Points, context: smt.Context, common: set[str]) -> None:
        self.points, self.context = p, context.branch()
        self.digits: list[Any] = []
        self.rounds: list[Any] = []
        self.known = True
        self._loops: list[tuple[Any, Any]] = []
        self._hardware: dict[Expr, Expr] = {}
        self._renamed = {s.var: fresh(s.var.name, s.var.type) for s in p.loops}
        self._own = set(self._renamed.values())
        launch = p.kernel.launch
        assert launch is not None
        ranges = []
        for level, extent, sizes in (("thread", "block_dim", launch.block), ("block", "grid_dim", launch.grid)):
            for axis, size in zip("xyz", sizes):
                self._hardware[HwIndex(extent, axis)] = size
                if level == "thread" or axis not in common:
                    found = HwIndex(level, axis)
                    index = self._hardware[found] = Var(fresh(f"{level}.{axis}", found.type))
                    self._own.add(index.sym)
                    self.digits.append(self.context.of(index))
                    ranges += [self.digits[-1] >= 0, self.digits[-1] < context.of(size)]
        self.context.facts += ranges
        for s in p.loops:
            self._count(s)
        ranges += [r >= 0 for r in self.rounds]
        self.holds = [*ranges, *(self.closed(self.context.truth(self.plain(g))) for g in p.guards)]
        self.digits += self.rounds
        self._before = [*context.facts, *ranges]

    @property
    def told(self) -> list[Any]:
        """What is known of unknowns that formulas brought in."""
        return [f for f in self.context.facts if not any(f.eq(g) for g in self._before)]

    def _count(self, s: For) -> None:
        """The variable of ``s`` in its round: all rounds before came to pass if this one does, for it counts up."""
        import z3

        by = increment(s)
        assert by is not None
        first, stride = self.context.of(self.plain(s.init)), self.context.of(self.plain(by))
        self.known = self.known and self.context.proves(stride > 0)
        self.rounds.append(z3.FreshInt("round"))
        self._loops.append((self.context.of(Var(self._renamed[s.var])), first + self.rounds[-1] * stride))

    def plain(self, e: Expr) -> Expr:
        """``e`` without names, in this space's own variables."""

        def on(x: Expr) -> Expr:
            if isinstance(x, Var) and x.sym in self.points.names:
                return self.plain(self.points.names[x.sym])
            if isinstance(x, Var) and x.sym in self._renamed:
                return Var(self._renamed[x.sym])
            return _once(x) if isinstance(x, Cast) else self._hardware.get(x, x)

        return map_expr(e, on)

    def value(self, e: Expr) -> Any:
        return self.closed(self.context.of(self.plain(e)))

    def closed(self, formula: Any) -> Any:
        import z3

        for pair in reversed(self._loops):
            formula = z3.substitute(formula, pair)
        return formula

    def in_digits(self) -> bool:
        """Whether all formulas hang on the digits as they say: no unknown does that was made of one."""
        return self.known and not any(
            not isinstance(key, Var) and any(isinstance(x, Var) and x.sym in self._own for x in walk_expr(key))
            for key in self.context.unknown
        )

    def copy(self, digits: list[Any]) -> list[tuple[Any, Any]]:
        """Other values for ``digits``."""
        import z3

        return [(d, z3.FreshInt("other")) for d in digits]


def _once(e: Cast) -> Cast:
    """A conversion by way of a type that holds all values of the operand, without it."""
    by = e.x
    if not isinstance(by, Cast) or "bit" in (e.style, by.style):
        return e
    return replace(e, x=by.x) if all(map(is_whole, (e.to, by.to, by.x.type))) and widens(by) else e


def same_points(original: Kernel, mutant: Kernel) -> bool:
    """Whether ``mutant`` stores what ``original`` does, for all arguments that it still assumes."""
    promised = [[(p.sym, p.range, p.divisible_by) for p in k.params] for k in (original, mutant)]
    if promised[0] != promised[1] or original.repeat != mutant.repeat or original.staging or mutant.staging:
        return False
    one, other = points(original), points(mutant)
    if one is None or other is None or original.launch is None or mutant.launch is None:
        return False
    match = _Matching(one, other)
    if not match.stores() or not _divides(other):
        return False
    context = smt.Context(mutant.with_(launch=None))
    if not _launches(mutant, context):
        return False
    grids = zip("xyz", original.launch.grid, mutant.launch.grid)
    alike = {axis for axis, a, b in grids if context.proves(context.of(a) == context.of(b))}
    return any(_same(one, other, match, context, common) for common in ([alike, set()] if alike else [set()]))


def _same(one: Points, other: Points, match: _Matching, context: smt.Context, common: set[str]) -> bool:
    import z3

    mine, theirs = _Space(one, context, common), _Space(other, context, common)
    pairs = [(mine.value(e), theirs.value(f)) for e, f in match.found.items()]
    apart = _rounds_apart(mine)
    if not mine.in_digits() or not theirs.in_digits():
        return False
    context = context.branch()
    context.facts += [*mine.told, *theirs.told]
    if not _found(mine, theirs, pairs, context) or not _found(theirs, mine, [(y, x) for x, y in pairs], context):
        return False
    if not _proves(context, *apart):
        return False
    if not one.in_place():
        return True
    spaces = ((mine, [x for x, _ in pairs]), (theirs, [y for _, y in pairs]))
    for space, values in spaces:
        again = space.copy(space.digits)
        twice = [*space.holds, *(z3.substitute(h, *again) for h in space.holds)]
        twice += [v == z3.substitute(v, *again) for v in values]
        if not _proves(context, twice, z3.And(*(d == e for d, e in again))):
            return False
    return True


def _proves(context: smt.Context, facts: list[Any], goal: Any) -> bool:
    inner = context.branch()
    inner.facts += facts
    return bool(inner.proves(goal))


def _found(mine: _Space, theirs: _Space, pairs: list[tuple[Any, Any]], context: smt.Context) -> bool:
    """Whether every point of ``mine`` has one of ``theirs`` with the same coordinates, ``pairs`` of both."""
    import z3

    guess = dict[Any, Any]()
    for here, there in pairs:
        zero = z3.substitute(there, *((d, z3.IntVal(0)) for d in theirs.digits))
        strides = []
        for d in theirs.digits:
            alone = z3.substitute(there, *((x, z3.IntVal(int(x is d))) for x in theirs.digits))
            stride = z3.simplify(alone - zero)
            if z3.is_int_value(stride) and stride.as_long() > 0 and d not in guess:
                strides.append((stride.as_long(), d))
        left = here - zero
        for stride, d in sorted(strides, key=lambda pair: -pair[0]):
            guess[d], left = left / stride, left % stride
    told = [(d, guess.get(d, z3.IntVal(0))) for d in theirs.digits]
    goal = [*(z3.substitute(h, *told) for h in theirs.holds), *(x == z3.substitute(y, *told) for x, y in pairs)]
    return _proves(context, mine.holds, z3.And(*goal))


def _rounds_apart(space: _Space) -> tuple[list[Any], Any]:
    """That no round of a thread's loops touches what another one stores, given what holds of both."""
    import z3

    again = space.copy(space.rounds)
    facts = [*space.holds, *(z3.substitute(h, *again) for h in space.holds), z3.Or(*(r != o for r, o in again))]
    parts = [x for t in space.points.stores for x in (t, *parts_of(t)) if isinstance(x, Load | Store)]
    claims = []
    for s in space.points.stores:
        for index in (x.index for x in parts if x.buffer == s.buffer):
            places = [(space.value(i), z3.substitute(space.value(j), *again)) for i, j in zip(s.index, index)]
            claims.append(z3.Or(*(i != j for i, j in places)))
    return facts, z3.And(*claims)


def _divides(p: Points) -> bool:
    """Whether nothing is divided by what may be zero."""
    every = [*p.guards, *p.names.values(), *(e for s in p.stores for e in s.index)]
    divisors = [x.b for e in every for x in walk_expr(e) if isinstance(x, Binary) and x.op in ("/", "%")]
    return all(evaluate(e, p.kernel.knob_values) not in (None, 0) for e in divisors)


def _launches(kernel: Kernel, context: smt.Context) -> bool:
    """Whether the launch is one for all arguments: of blocks of one size, and no more than a device runs."""
    launch = kernel.launch
    assert launch is not None
    if launch.dynamic_shared is not None or launch.cluster is not None:
        return False
    sizes = [evaluate(n, kernel.knob_values) for n in launch.block]
    blocks = [context.of(n) for n in launch.grid]
    return None not in sizes and all(
        context.proves(n >= 0) and context.proves(n <= most) for n, most in zip(blocks, MOST_BLOCKS)
    )


__all__ = ["same_points"]
