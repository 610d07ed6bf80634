"""Values that only travel under another type: held as what they are.

int4 bits = *(const int4*)p; memcpy(payload, &bits, 16)      ->      half8 bits = *(const half8*)p; payload = bits

Packed 128-bit vectors are moved as integers and used as floats. A variable that is only ever given the bits of ``T``,
and whose bits are only ever taken as ``T``, is a ``T``: nothing is computed on the bits, so their type has no say.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from ktc.ir.fields import children
from ktc.ir.nodes import Assign, Body, Cast, Decl, Expr, Stmt, Sym, Var, bodies, fresh
from ktc.ir.types import Scalar, Type, Vec
from ktc.ir.walk import assigned, keep, map_body, stmt_exprs, used, used_in, walk


def plain_moves(body: Body) -> Body:
    """``body`` with variables of the type whose bits they carry."""
    types = _carried(body)
    if not types:
        return body
    new = {v: fresh(v.name, t) for v, t in types.items()}

    def on_expr(e: Expr) -> Expr:
        return Var(new[e.x.sym]) if _takes(e, new) else e  # type: ignore[attr-defined]

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Decl) and s.sym in new:
            return dataclasses.replace(s, sym=new[s.sym], init=None if s.init is None else _given(s.init))
        if isinstance(s, Assign) and s.sym in new:
            return dataclasses.replace(s, sym=new[s.sym], value=_given(s.value))
        return s

    return map_body(map_body(body, keep, on_expr), on_stmt)


def _carried(body: Body) -> dict[Sym, Type]:
    """Variables that only carry the bits of one other type, with that type."""
    if not any(
        isinstance(s, Decl | Assign) and _is_bits(s.init if isinstance(s, Decl) else s.value) for s in walk(body)
    ):
        return {}  # most kernels: nothing more to look at
    declared = {s.sym for s in walk(body) if isinstance(s, Decl) and isinstance(s.sym.type, Vec | Scalar)}
    seen: dict[Sym, set[Type | None]] = {}
    given: set[Sym] = set()
    for s in walk(body):
        if isinstance(s, Decl | Assign):
            value = s.init if isinstance(s, Decl) else s.value
            if value is not None:
                given.add(s.sym)
                seen.setdefault(s.sym, set()).add(value.x.type if _is_bits(value) else None)
        elif not any(bodies(s)):
            for v in assigned((s,)) | (used_in((s,)) - {v for e in stmt_exprs(s) for v in used(e)}):
                seen.setdefault(v, set()).add(None)  # written, or read, in some other way
        for e in stmt_exprs(s):
            _uses(e, seen)
    only = {v: next(iter(seen[v])) for v in declared & given if len(seen[v]) == 1}
    return {v: t for v, t in only.items() if t is not None and t != v.type}


def _uses(e: Expr, seen: dict[Sym, set[Type | None]]) -> None:
    """What the bits of each variable in ``e`` are taken as; None for any other use."""
    if isinstance(e, Cast) and e.style == "bit" and isinstance(e.x, Var):
        seen.setdefault(e.x.sym, set()).add(e.to)
        return
    if isinstance(e, Var):
        seen.setdefault(e.sym, set()).add(None)
    elif isinstance(buffer := getattr(e, "buffer", None), Sym):
        seen.setdefault(buffer, set()).add(None)
    for x in children(e):
        _uses(x, seen)


def _is_bits(e: Expr | None) -> TypeGuard[Cast]:
    return isinstance(e, Cast) and e.style == "bit"


def _takes(e: Expr, new: dict[Sym, Sym]) -> bool:
    return isinstance(e, Cast) and e.style == "bit" and isinstance(e.x, Var) and e.x.sym in new


def _given(value: Expr) -> Expr:
    assert isinstance(value, Cast)
    return value.x
