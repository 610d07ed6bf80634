"""Names for what threads' parts of a running value come to, where only a store puts them together.

before                                                  after
    v: the running value of a warp                          v: the running value of a warp
    sums[w]: what the warps before w come to                sums[w]: what the warps before w come to
    if i < n                                                let whole: f32 = v + sums[warp]
      y[i] = v + sums[warp] + carry                         if i < n
                                                              y[i] = whole + carry

Neither part is a running value of all threads; their sum is. A name in front is part of the exchange, in which it is
recognised (:mod:`.exchange`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from ktc.ir.analysis.accumulators import combine, combining, operands
from ktc.ir.fields import children
from ktc.ir.nodes import Assign, Body, Decl, Expr, For, If, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_shared
from ktc.ir.walk import assigned, declared, keep, map_body, stmt_exprs, used, walk, walk_expr

from .statement_kinds import has_block_barrier, has_warp_op


def named_running_values(body: Body) -> Body:
    """``body``, a list in which threads exchange values, with such names behind the last of the exchange."""
    out: list[Stmt] = []
    own: set[Sym] = set()  # what threads have got from each other, in variables
    filled: set[Sym] = set()  # and in shared memory
    for s in body:
        if has_warp_op(s) or has_block_barrier(s):
            own |= {v for v in assigned((s,)) | {*declared((s,))} if not is_shared(v)}
        elif own and filled and isinstance(s, If | Store | Decl | Assign | For):
            made = assigned((s,)) | {*declared((s,))}
            sums = dict.fromkeys(p for x in walk((s,)) for e in stmt_exprs(x) for p in _partial(e, own, filled))
            names = {e: fresh(next(_arrays(e)).name, e.type) for e in sums if not used(e) & made}
            if names:
                out += [Decl(v, e, loc=s.loc) for e, v in names.items()]
                (s,) = map_body((s,), keep, lambda e, names=names: _named(e, names))  # type: ignore[misc]
        filled |= {b for b in assigned((s,)) if is_shared(b)}
        out.append(s)
    return tuple(out)


def _partial(e: Expr, own: set[Sym], filled: set[Sym]) -> Iterator[Expr]:
    """What of the operands of ``e``, and of its parts, threads have got from each other: at least one that each has and
    one in shared memory."""
    op = combining(e)
    mine = [x for x in operands(e, op) if _is_got(x, own, filled)] if op else []
    if len(mine) > 1 and any(isinstance(x, Load) for x in mine) and len(mine) < len(operands(e, op)):
        yield reduce(lambda a, b: combine(op, a, b), mine)
        return
    for x in children(e):
        if isinstance(x, Expr):
            yield from _partial(x, own, filled)


def _named(e: Expr, names: dict[Expr, Sym]) -> Expr:
    """``e`` with the name of what some of its operands come to."""
    op = combining(e)
    for whole, v in names.items():
        parts, wanted = operands(e, op) if op else [e], operands(whole, combining(whole))
        if op == combining(whole) and len(parts) > len(wanted) and all(w in parts for w in wanted):
            rest = [p for p in parts if p not in wanted]
            return reduce(lambda a, b: combine(op, a, b), [Var(v), *rest])
    return e


def _is_got(e: Expr, own: set[Sym], filled: set[Sym]) -> bool:
    if isinstance(e, Load):
        return e.buffer in filled and all(is_removable(i) and not _loads(i) for i in e.index)
    return isinstance(e, Var) and e.sym in own


def _loads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in walk_expr(e))


def _arrays(e: Expr) -> Iterator[Sym]:
    return (x.buffer for x in walk_expr(e) if isinstance(x, Load))


__all__ = ["named_running_values"]
