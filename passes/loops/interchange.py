"""interchange: swap two perfectly nested loops.

before                                          after interchange{outer=i inner=k}
    for i in 0..n                                   for k in 0..m
      for k in 0..m                                   for i in 0..n
        c[i] = max(c[i], a[k * n + i])                  c[i] = max(c[i], a[k * n + i])

A loop over a tile, ``i in t * 16..t * 16 + 16``, is counted from 0 first: its bounds then depend on no other loop.

Legal when no dependence would run backwards afterwards: none has a distance that is positive in one loop and negative
in the other (Allen and Kennedy, section 5.2). Iterations of a parallel loop depend on nothing, so two parallel loops
always swap, and a serial loop may move out of a parallel one; it moves inside one only if what it carries stays within
an iteration of the parallel loop.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.dependence import Distance, carried_scalars, conflict, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.analysis.touches import touches
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, Par, Stmt
from ktc.ir.walk import declared, map_body, used, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.shifted_loops import from_zero, runs_alike


@dataclass(frozen=True)
class Arguments:
    outer: Loop = required("the outer loop")
    inner: Loop | None = option(None, "the loop that is its whole body; by default whichever that is")


class Interchange(Pass[Arguments]):
    name = "interchange"
    summary = "swap two perfectly nested loops"
    refusals = (
        "E-PLACE", "E-INTERCHANGE-NEST", "E-INTERCHANGE-BOUNDS", "E-INTERCHANGE-SCALAR", "E-INTERCHANGE-SYNC",
        "E-INTERCHANGE-DEPENDENCE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        nests = [s for s in walk(kernel.body) if isinstance(s, For | Par) and allowed(check, kernel, s)]
        return [Site(self.step(outer=place_of(kernel, s)), "another order of accesses") for s in nests]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        outer = args.outer.find(kernel)
        if not isinstance(outer, For | Par):
            raise Refusal("E-INTERCHANGE-NEST", f"'{args.outer}' is not a serial or parallel loop", places(outer))
        check(kernel, outer)
        inner = inner_loop(kernel, outer)
        assert inner is not None
        if args.inner is not None and args.inner.find(kernel) is not outer.body[0]:
            why = f"the loop directly in '{outer.var.name}' is '{inner.var.name}', not '{args.inner}'"
            raise Refusal("E-INTERCHANGE-NEST", why, places(outer))
        swapped = dataclasses.replace(
            inner, comments=outer.comments, body=(dataclasses.replace(outer, comments=inner.comments, body=inner.body),)
        )

        def on(s: Stmt) -> Stmt:
            return swapped if isinstance(s, type(outer)) and s.var == outer.var else s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def check(kernel: Kernel, outer: For | Par) -> None:
    """``outer`` and the loop inside it may swap, or it is refused."""
    inner = inner_loop(kernel, outer)
    if inner is None:
        hint = "fission moves other statements out"
        raise Refusal("E-INTERCHANGE-NEST", f"'{outer.var.name}' is not a perfect nest", places(outer), hint)
    if any(outer.var in used(e) for e in _bounds(inner)):
        why = f"the bounds of '{inner.var.name}' depend on '{outer.var.name}'"
        raise Refusal("E-INTERCHANGE-BOUNDS", why, places(inner))
    bad = pinned(inner.body) or jump(inner.body)
    if bad:
        raise Refusal("E-INTERCHANGE-SYNC", "the nest holds a barrier, opaque code or a jump", places(bad))
    if isinstance(outer, Par):
        return  # any order of its iterations is one of those that the source allows
    carried = carried_scalars(inner.body)
    if carried:
        names = ", ".join(sorted(s.name for s in carried))
        hint = "a reduction's order is changed by distribute, after raise"
        raise Refusal("E-INTERCHANGE-SCALAR", f"iterations pass on: {names}", places(outer), hint)
    private = set(declared(inner.body))
    found = [t for t in touches(inner.body, (outer, inner)) if t.buffer not in private]
    apart = noalias(kernel)
    for i, a in enumerate(found):
        for b in found[i:]:
            d = conflict(a, b, 2, apart)
            if d is not None and _backwards(d[0], d[1], parallel=isinstance(inner, Par)):
                why = f"accesses of '{a.buffer.name}' depend on the order of both loops"
                raise Refusal("E-INTERCHANGE-DEPENDENCE", why, places(a.stmt, b.stmt))


def inner_loop(kernel: Kernel, outer: For | Par) -> For | Par | None:
    """The loop that is all of ``outer``, counted from 0 where it begins at the counter of ``outer``; None without."""
    if len(outer.body) != 1 or not isinstance(outer.body[0], For | Par):
        return None
    inner = outer.body[0]
    if not any(outer.var in used(e) for e in _bounds(inner)):
        return inner
    here = facts_of(kernel, REWRITES).at(inner)
    shifted = from_zero(inner, here) if runs_alike(inner, {outer.var}, here) else None
    return shifted if isinstance(shifted, For | Par) else inner


def _bounds(s: For | Par) -> tuple[Expr, ...]:
    return (
        (s.init, s.cond, s.step) if isinstance(s, For) else (s.lo, s.hi, *(lv.n for lv in s.dist if lv.n is not None))
    )


def _backwards(outer: Distance, inner: Distance, parallel: bool) -> bool:
    """Whether a dependence of this distance may be reversed by the swap."""
    if outer == 0 or inner == 0:
        return False
    if parallel or outer is None or inner is None:  # between different iterations of what becomes the outer loop
        return True
    return (outer > 0) != (inner > 0)
