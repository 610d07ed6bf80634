"""What the threads of one axis do in turn, between which they see what others of that axis have put into shared memory.

before                                                   after
    par ty in 0..32 @ [thread.y 32]                        array tile: shared f32[32, 32]
      array tile: shared f32[32, 32]                       par ty in 0..32 @ [thread.y 32]
      par tx in 0..32: tile[tx, ty] = ...                    par tx in 0..32: tile[tx, ty] = ...
      reduce(+) sum over tx: yield tile[ty, tx]            par ty_2 in 0..32 @ [thread.y 32]
      out[ty] = sum                                          reduce(+) sum over tx: yield tile[ty_2, tx]
                                                             out[ty_2] = sum

Rows of a tile that were columns before: no row is one thread's own, and one loop over all of it says something else. It
is a guess like any other, which is checked.
"""

from __future__ import annotations

from ktc.ir.fold import i32
from ktc.ir.nodes import Alloc, Binary, Body, Cast, Const, Decl, Expr, HwIndex, Level, Load, Par, Stmt, Sym, Var, fresh
from ktc.ir.storage import is_shared
from ktc.ir.walk import assigned, declared, refresh, stmt_exprs, substitute, used_in, walk, walk_expr
from ktc.passes.raising.normalise.privates import prologue


def over_axis(body: Body, v: Sym, size: Expr, axis: str) -> Body:
    """``body`` for each thread of the ``axis``, whose number is ``v``."""
    return (Par(v, i32(0), size, (Level("thread", size, axis),), body, tags=frozenset({f"loop:{v.name}"})),)


def in_phases(body: Body, v: Sym, size: Expr, axis: str) -> Body | None:
    """The same with a loop for each part of ``body`` up to where something is read of a shared array that an earlier
    part has written, each with its own copies of what is only computed; None where there is one part, or a later one
    needs other variables of an earlier one."""
    arrays = tuple(s for s in body if isinstance(s, Alloc) and is_shared(s.sym))
    parts = _parts(tuple(s for s in body if s not in arrays), {s.sym for s in arrays})
    if len(parts) < 2:
        return None
    changed = assigned(body)
    again = {s.sym: s for s in body if isinstance(s, Decl) and s.sym not in changed and _is_computed(s.init)}
    out, before = arrays + over_axis(parts[0], v, size, axis), {*declared(parts[0])}
    for part in parts[1:]:
        whole = (*prologue(part, again), *part)
        if (used_in(whole) - {*declared(whole)}) & before:
            return None
        before |= {*declared(part)}
        own = fresh(v.name, v.type)
        out += over_axis(substitute(refresh(whole), {v: Var(own)}), own, size, axis)
    return out


def _is_computed(e: Expr | None) -> bool:
    """Whether ``e`` is made of numbers and variables alone."""
    return e is not None and all(isinstance(x, Binary | Cast | Const | HwIndex | Var) for x in walk_expr(e))


def _parts(body: Body, arrays: set[Sym]) -> list[Body]:
    parts: list[list[Stmt]] = [[]]
    written = set[Sym]()
    for s in body:
        if _read((s,)) & written:
            parts.append([])
            written = set()
        parts[-1].append(s)
        written |= assigned((s,)) & arrays
    return [tuple(p) for p in parts]


def _read(body: Body) -> set[Sym]:
    return {x.buffer for s in walk(body) for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)}


__all__ = ["in_phases", "over_axis"]
