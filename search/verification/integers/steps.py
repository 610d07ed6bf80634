"""Variables that grow by a step in every round of one loop: ``x = 0; for t in 0..n: ...; x = x + 32``.

Such a variable is its first value and at most as many steps as the loop has rounds. It is declared beside the loop,
so that each run of the loop begins anew, and nothing else gives it values.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Cast, Decl, Expr, For, Sym, Var, has_bodies
from ktc.ir.types import Type, scalar_of
from ktc.ir.walk import assigned, used, walk

from .formulas import increment
from .intervals import Interval, Scope, is_whole


def step_of(s: Assign) -> Expr | None:
    """By what ``s`` makes its variable larger, in arithmetic no narrower than that; None if it does something else."""
    e = _widened(s.value, s.sym)
    if not isinstance(e, Binary) or e.op != "+":
        return None
    for mine, by in ((e.a, e.b), (e.b, e.a)):
        if _widened(mine, s.sym) == Var(s.sym) and s.sym not in used(by):
            return by
    return None


def _widened(e: Expr, sym: Sym) -> Expr:
    """``e`` without conversions that keep all bits of ``sym``."""
    while isinstance(e, Cast) and is_whole(e.to) and is_whole(e.x.type) and _bits(e.to) >= _bits(sym.type):
        e = e.x
    return e


def _bits(t: Type) -> int:
    return scalar_of(t).bits


@dataclass(frozen=True)
class Growth:
    """A variable that begins within ``first`` and grows in at most so many ``rounds``."""

    first: Interval
    rounds: int

    def values(self, by: Interval | None) -> Interval | None:
        """All that it ever is, growing ``by`` that much at a time."""
        if by is None or by[0] < 0:
            return None
        return self.first[0], self.first[1] + self.rounds * by[1]


def growing(loop: For, before: Body, values: Interval | None, scope: Scope) -> dict[Sym, Growth]:
    """The variables that grow in every round of ``loop``. ``before``: what runs before the loop in the same body;
    ``values``: of the loop's own variable."""
    rounds = _rounds(loop, values, scope)
    found: dict[Sym, Growth] = {}
    for s in loop.body if rounds is not None else ():
        if isinstance(s, Assign) and is_whole(s.sym.type) and step_of(s) is not None and _alone(s, scope.kernel):
            made = next((d for d in before if isinstance(d, Decl) and d.sym == s.sym), None)
            first = scope.of(made.init) if made is not None and made.init is not None else None
            if first is not None and rounds is not None:
                found[s.sym] = Growth(first, rounds)
    return found


def _rounds(loop: For, values: Interval | None, scope: Scope) -> int | None:
    by = increment(loop)
    stride = scope.of(by) if by is not None else None
    if values is None or stride is None or stride[0] < 1:
        return None
    return (values[1] - values[0]) // stride[0] + 1


def _alone(s: Assign, kernel: Kernel) -> bool:
    """Whether nothing but ``s`` and its declaration gives the variable of ``s`` values."""
    writers = [x for x in walk(kernel.body) if not has_bodies(x) and s.sym in assigned((x,))]
    return writers == [s]


__all__ = ["Growth", "growing", "step_of"]
