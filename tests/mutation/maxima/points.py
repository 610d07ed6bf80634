"""Kernels of guards and loops around a few stores, read as what they do for each of many points (:mod:`.maps`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Call, Decl, Expr, For, If, Load, Return, Store, Sym, Unary, Var
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import substitute_expr, used, walk_expr
from ktc.search.verification.integers.formulas import increment
from ktc.search.verification.integers.intervals import is_whole


@dataclass
class Points:
    """A kernel read so. ``names``: integers that are defined on the way; ``guards``: what must hold for a point, loops'
    conditions among them; ``stores``: what is done there, of values as they were before."""

    kernel: Kernel
    names: dict[Sym, Expr] = field(default_factory=dict)
    loops: list[For] = field(default_factory=list)
    guards: list[Expr] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @property
    def written(self) -> set[Sym]:
        return {s.buffer for s in self.stores}

    def in_place(self) -> bool:
        return any(isinstance(e, Load) and e.buffer in self.written for s in self.stores for e in parts_of(s))


def points(kernel: Kernel) -> Points | None:
    """``kernel`` read so; None if it is anything else."""
    found = Points(kernel)
    if not _descend(kernel.body, found) or not found.stores:
        return None
    pointers = {p.sym for p in kernel.params if p.noalias and isinstance(p.sym.type, Ptr)}
    plain = all(s.width == 1 and s.buffer in pointers for s in found.stores)
    every = [*(e for s in found.stores for e in parts_of(s)), *(x for g in found.guards for x in walk_expr(g))]
    every += [x for e in found.names.values() for x in walk_expr(e)]
    if not plain or any(isinstance(e, Call) and e.effects != "pure" for e in every):
        return None
    if any(isinstance(e, Load) and (e.width != 1 or e.buffer not in {p.sym for p in kernel.params}) for e in every):
        return None
    early = [*found.guards, *found.names.values()]
    if any(isinstance(x, Load) and x.buffer in found.written for e in early for x in walk_expr(e)):
        return None
    return found


def parts_of(s: Store) -> list[Expr]:
    return [x for e in (*s.index, s.value) for x in walk_expr(e)]


def _descend(body: Body, found: Points) -> bool:
    if any(isinstance(s, Store) for s in body):
        return _leaf(body, found)
    *before, last = body or (None,)
    for s in before:
        leaves = isinstance(s, If) and not s.orelse and len(s.then) == 1 and isinstance(s.then[0], Return)
        if leaves and isinstance(s, If) and not found.loops:
            found.guards.append(Unary("!", s.cond))
        elif not isinstance(s, Decl) or not _named(s, found):
            return False
    if isinstance(last, If) and not last.orelse:
        found.guards.append(last.cond)
        return _descend(last.then, found)
    if isinstance(last, For) and increment(last) is not None and isinstance(last.cond, Binary) and last.cond.op == "<":
        if last.cond.a != Var(last.var) or last.var in used(last.cond.b):
            return False
        found.loops.append(last)
        found.guards.append(last.cond)
        return _descend(last.body, found)
    return False


def _named(s: Decl, found: Points) -> bool:
    if s.init is None or not is_whole(s.sym.type) or s.sym in found.names:
        return False
    found.names[s.sym] = s.init
    return True


def _leaf(body: Body, found: Points) -> bool:
    """Stores of values that were read before any of them."""
    values: dict[Sym, Expr] = {}
    for s in body:
        parts = [s.init] if isinstance(s, Decl) else [*s.index, s.value] if isinstance(s, Store) else [None]
        reads = {e.buffer for p in parts if p is not None for e in walk_expr(p) if isinstance(e, Load)}
        if None in parts or reads & found.written:
            return False
        if isinstance(s, Decl) and is_whole(s.sym.type) and not reads:
            if not _named(s, found):
                return False
        elif isinstance(s, Decl) and s.init is not None and isinstance(s.sym.type, Scalar) and s.sym not in values:
            values[s.sym] = substitute_expr(s.init, values)
        elif isinstance(s, Store):
            index = tuple(substitute_expr(i, values) for i in s.index)
            found.stores.append(replace(s, index=index, value=substitute_expr(s.value, values)))
        else:
            return False
    return True


__all__ = ["Points", "parts_of", "points"]
