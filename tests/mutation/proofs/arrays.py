"""Arrays of another type that do the same: smaller ones, where every subscript that they are ever given is proved to be
in them, and shared ones, where one thread of a block alone comes to what uses them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Atomic, Body, Decl, Expr, HwIndex, Load, Stmt, Store, Sym
from ktc.ir.types import Array, Vec
from ktc.ir.walk import assigned, rename, stmt_exprs, used_in, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.sites import branches, sites


def other_array(a: Kernel, b: Kernel) -> str:
    """Why ``b``, which is ``a`` with one array of another type, does the same; '' if that is not proved."""
    mine, theirs = (arrays_of(k.body) for k in (a, b))
    changed = [(x, y) for x, y in zip(mine, theirs) if x != y]
    if len(mine) != len(theirs) or len(changed) != 1:
        return ""
    old, new = changed[0]
    if not isinstance(t := new.type, Array) or not isinstance(old.type, Array) or rename(b.body, {new: old}) != a.body:
        return ""
    places = list(sites(a.body, smt.Context(a)))
    if otherwise_alike(t, old.type):
        inside = all(stays_within(s, context, old, t.shape) for s, context in places)
        return "z3: no subscript reaches beyond the smaller array" if inside else ""
    if replace(t, space="local") == old.type and all(_by_one_thread(s, context, old) for s, context in places):
        return "z3: one thread of a block alone uses the array that it shares"
    return ""


def _by_one_thread(s: Stmt, context: smt.Context, array: Sym) -> bool:
    """Whether nobody but the first thread of a block may come to ``s`` where it uses ``array``."""
    import z3

    inside: dict[str, Any] = dict.fromkeys(branches(s), ())
    alone = (replace(s, **inside),)
    if isinstance(s, Alloc | Decl) and s.sym == array:
        return True
    first = z3.And(*(context.of(HwIndex("thread", axis)) == 0 for axis in "xyz"))
    return array not in used_in(alone) | assigned(alone) or bool(context.proves(first))


def otherwise_alike(a: Array, b: Array) -> bool:
    """Whether two types differ in nothing but the sizes of their dimensions."""
    return replace(a, shape=()) == replace(b, shape=()) and len(a.shape) == len(b.shape)


def arrays_of(body: Body) -> list[Sym]:
    """What is declared in ``body``, in order."""
    return [s.sym for s in walk(body) if isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array)]


def stays_within(s: Stmt, context: smt.Context, array: Sym, shape: tuple[Expr, ...]) -> bool:
    """Whether ``s`` uses ``array`` by single elements inside ``shape`` alone, or by lanes of such (vector) elements."""
    import z3

    reads = [e for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load) and e.buffer == array]
    accesses = [*reads, *([s] if isinstance(s, Store | Atomic) and s.buffer == array else [])]
    if not accesses:
        return isinstance(s, Alloc | Decl) or bool(branches(s)) or array not in assigned((s,))
    for x in accesses:
        lane = 1 if isinstance(getattr(array.type, "elem", None), Vec) else 0
        if getattr(x, "width", 1) != 1 or not len(shape) <= len(x.index) <= len(shape) + lane:
            return False
        for i, n in zip(x.index, shape):
            v = context.of(i)
            if not context.lasting(i) or not context.proves(z3.And(v >= 0, v < context.of(n))):
                return False
    return True


__all__ = ["arrays_of", "other_array", "otherwise_alike", "stays_within"]
