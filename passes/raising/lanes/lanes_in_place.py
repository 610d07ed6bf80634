"""Lanes that are used once, where they are used: what a vector was for a name of is computed in its place.

before                                              after
    let raw: f16 = x[i]                                 y[i] = f16(f32(x[i]) * s)
    let result: f16 = f16(f32(raw) * s)
    y[i] = result
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ktc.ir.nodes import Assign, Atomic, Body, Decl, Expr, For, Stmt, Store, Sym, Var
from ktc.ir.walk import all_exprs, loads_in, substitute, used, walk, with_bodies


def in_place(body: Body, of_vectors: Collection[Sym], kept: Collection[Sym]) -> Body:
    """``body`` without the variables ``of_vectors`` that one statement beside them uses, once, before anything is
    written that they read, and without those that are assigned on at once; but with those ``kept`` for others."""
    uses = Counter(e.sym for e in all_exprs(body) if isinstance(e, Var))
    return _in_place(body, {v for v, n in uses.items() if n == 1} - set(kept), of_vectors)


def _in_place(body: Body, once: Collection[Sym], of_vectors: Collection[Sym]) -> Body:
    out = [with_bodies(s, lambda b: _in_place(b, once, of_vectors)) for s in body]
    k = 0
    while k < len(out):
        s = out[k]
        if isinstance(s, Decl) and s.const and s.init is not None and s.sym in once:
            at = _user(s, s.init, out[k + 1 :], of_vectors)
            if at is not None:
                (out[k + 1 + at],) = substitute((out[k + 1 + at],), {s.sym: s.init})
                del out[k]
                k = max(0, k - 1)
                continue
        k += 1
    return tuple(out)


def _user(let: Decl, init: Expr, rest: list[Stmt], of_vectors: Collection[Sym]) -> int | None:
    """Which statement of ``rest`` takes ``init`` in place of the variable; None if none may."""
    reads = any(True for _ in loads_in(init))
    for k, s in enumerate(rest):
        if let.sym in {v for e in all_exprs((s,)) for v in used(e)}:
            updates = k == 0 and isinstance(s, Assign) and s.value == Var(let.sym)
            return k if updates or (let.sym in of_vectors and not isinstance(s, For)) else None
        if used(init) & {x.sym for x in walk((s,)) if isinstance(x, Assign)}:
            return None
        if reads and any(isinstance(x, Store | Atomic) for x in walk((s,))):
            return None
    return None


__all__ = ["in_place"]
