"""Buffers of which each iteration of some loops has an element of its own: the iterations can be divided.

par t in 0..n                           w: w[t] in every loop over 0..n, and nowhere else
  w[t] = f(t)
reduce(+) s over t in 0..n
  yield g(w[t])
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ktc.ir.analysis.dependence import may_alias
from ktc.ir.analysis.order import places
from ktc.ir.analysis.touches import Loop, Touch, touches
from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.nodes import AddrOf, Body, Expr, Load, Raw, Stmt, Store, Sym, Var, bodies, fresh
from ktc.ir.types import I32, Ptr
from ktc.ir.walk import all_exprs, assigned, declared, mentions, substitute_expr, used, walk
from ktc.passes.core.refusals import Refusal

Index = tuple[Expr, ...]


def own_elements(block: Body, sweeps: Sequence[Loop], apart: Collection[Sym], code: str) -> set[Sym]:
    """The buffers that the loops ``sweeps`` of ``block`` write. ``apart``: pointers that overlap no other.

    Raises:
        Refusal: ``code``, one of them is touched in another way than an element each iteration.
    """
    rows = set[Sym]().union(*(assigned(s.body) - set(declared(s.body)) for s in sweeps))
    if not rows:
        return rows
    found = touches(block)
    inside = {x for s in walk(block) for x in declared((s,))}
    for b in sorted(rows, key=lambda b: b.id):
        if not hasattr(b.type, "elem"):
            raise Refusal(code, f"iterations change '{b.name}', which they share", places(*sweeps))
        if not isinstance(b.type, Ptr) and b not in inside:
            raise Refusal(code, f"'{b.name}' is declared outside of what a block does", places(*sweeps))
        if isinstance(b.type, Ptr):
            other = next((t.buffer for t in found if t.buffer != b and may_alias(b, t.buffer, apart)), None)
            if other is not None:
                hint = "declare it noalias in the workload, or the parameter __restrict__"
                raise Refusal(code, f"'{b.name}' may overlap '{other.name}'", places(*sweeps), hint)
        mine = [t for t in found if t.buffer == b]
        odd = _touched_otherwise(block, b) or _unlike(mine, sweeps, inside)
        if odd is not None:
            why = f"'{b.name}' is touched beside the loops over all positions, or at another one's element"
            raise Refusal(
                code, why, places(odd), "such loops have the maximum's range, and stand in parallel loops alone"
            )
    return rows


def _touched_otherwise(block: Body, b: Sym) -> Stmt | None:
    """A statement that uses ``b`` in another way than by loads and stores of elements."""
    for s in walk(block):
        alone = not bodies(s)
        if alone and b in mentions(s):
            exprs = list(all_exprs((s,)))
            loads = any(isinstance(e, Load) and e.buffer == b for e in exprs)
            stores = isinstance(s, Store) and s.buffer == b
            if not (loads or stores) or any(isinstance(e, AddrOf | Raw) and b in used(e) for e in exprs):
                return s
            if b in assigned((s,)) and not stores:
                return s
    return None


def _unlike(mine: Sequence[Touch], sweeps: Sequence[Loop], inside: Collection[Sym]) -> Stmt | None:
    """A statement whose access is not of the one element that the iteration it is in has."""
    at = fresh("at", I32)
    own: list[Polynomial] = []
    for t in mine:
        r = next((r for r in t.ranges if any(r.loop is s for s in sweeps)), None)
        if r is None or t.index is None or t.width != 1:
            return t.stmt
        counters = {x.counter for x in t.ranges if x is not r}
        index = tuple(substitute_expr(i, {r.counter: Var(at)}) for i in t.index)
        if set[Sym]().union(*map(used, index)) & (counters | set(inside)):
            return t.stmt
        forms = [polynomial(i) for i in index]
        moved = [f for f in forms if any(at in used(x) for factors in f for x in factors)]
        if len(moved) != 1 or [k for k in moved[0] if any(at in used(x) for x in k)] != [(Var(at),)]:
            return t.stmt
        if own and forms != own:
            return t.stmt
        own = forms
    return None


__all__ = ["own_elements"]
