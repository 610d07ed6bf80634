"""Ways that come to the same once a tile is gone.

before                                                after
    if t + j < 256                                        s += x[256 * b + t + j]
      s += x[256 * b + t + j]
    else
      s += x[256 * b + (t + j)]

Where a tile ends, sources read what is behind it from the buffer that the tile was copied from. Indices are compared as
integers, which is a guess: the exact comparison with the source looks at what comes of it.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.nodes import Assign, Body, Decl, Expr, If, Select, Stmt, Store, Var
from ktc.ir.purity import is_removable
from ktc.ir.walk import keep, map_body, rename
from ktc.passes.raising.recognise.equal_values import alike


def without_equal_ways(body: Body) -> Body:
    """``body`` with one way in place of two that are alike, of conditions and of choices between values."""
    known = definitions(body)

    def one_way(s: Stmt) -> Stmt | Body:
        if not isinstance(s, If) or not s.orelse or not is_removable(s.cond):
            return s
        ways = (
            map_body(way, keep, lambda e: expand(e, known) if isinstance(e, Var) else e) for way in (s.then, s.orelse)
        )
        return s.then if _alike(*ways) else s

    def one_value(e: Expr) -> Expr:
        if not isinstance(e, Select) or e.a.type != e.b.type or not is_removable(e.cond):
            return e
        return e.a if alike(expand(e.a, known), expand(e.b, known)) else e

    return map_body(body, one_way, one_value)


def _alike(a: Body, b: Body) -> bool:
    if len(a) != len(b):
        return False
    if not a:
        return True
    x, y, rest = a[0], b[0], b[1:]
    if isinstance(x, Decl) and isinstance(y, Decl) and x.init is not None and y.init is not None:
        same = x.sym.type == y.sym.type and alike(x.init, y.init)
        rest = rename(rest, {y.sym: x.sym})
    elif isinstance(x, Assign) and isinstance(y, Assign):
        same = x.sym == y.sym and alike(x.value, y.value)
    elif isinstance(x, Store) and isinstance(y, Store):
        indices = list(zip(x.index, y.index, strict=False))
        plain = dataclasses.replace(y, index=x.index, value=x.value, loc=x.loc, comments=x.comments)
        same = plain == x and all(alike(p, q) for p, q in indices) and alike(x.value, y.value)
    elif isinstance(x, If) and isinstance(y, If):
        same = alike(x.cond, y.cond) and _alike(x.then, y.then) and _alike(x.orelse, y.orelse)
    else:
        same = False
    return same and _alike(a[1:], rest)


__all__ = ["without_equal_ways"]
