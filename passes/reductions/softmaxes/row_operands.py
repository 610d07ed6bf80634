"""What a value of each position reads that no position changes, kept by the threads that read it.

reduce(max) m over j in 0..n                        array q_row[d]; par k in 0..d: q_row[k] = q[r * d + k]
  reduce(+) s over k in 0..d                        reduce(max) m over j in 0..n
    yield q[r * d + k] * kc[j * d + k]                reduce(+) s over k in 0..d: q_row[k] * kc[j * d + k]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ktc.ir.fields import children
from ktc.ir.fold import is_const
from ktc.ir.nodes import Alloc, Body, Decl, Expr, Load, Par, Reduce, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array, Ptr, Scalar
from ktc.ir.walk import declared, loads_in, map_body, refresh, used, walk


def with_row_operands(top: Reduce) -> tuple[Body, Reduce]:
    """The statements that keep them, and ``top`` reading what they keep."""
    before: list[Stmt] = []
    body = top.body
    for s in [x for x in top.body if isinstance(x, Reduce) and is_const(x.lo, 0)]:
        inside = {top.var, *declared(top.body)} - {s.var}
        for e in _kept(s, inside):
            assert isinstance(e.type, Scalar)
            name = next(loads_in(e)).buffer.name
            row = fresh(f"{name}_row", Array(e.type, (s.hi,)))
            (fill,) = refresh((Par(s.var, s.lo, s.hi, s.dist, (Store(row, (Var(s.var),), e),)),))
            before += [Alloc(row), fill]
            body = map_body(body, lambda x: x, _replacing(e, Load(row, (Var(s.var),))))
    return tuple(before), dataclasses.replace(top, body=body)


def _replacing(old: Expr, new: Expr) -> Callable[[Expr], Expr]:
    return lambda e: new if e == old else e


def _kept(s: Reduce, inside: set[Sym]) -> list[Expr]:
    """The largest values in ``s`` that read memory and have to do with nothing ``inside``."""
    if inside & used(s.hi):
        return []
    exprs = [*(a.value for a in s.accs), *(x.init for x in walk(s.body) if isinstance(x, Decl) and x.init is not None)]
    return list(dict.fromkeys(x for e in exprs for x in _largest(e, s.var, inside)))


def _largest(e: Expr, along: Sym, inside: set[Sym]) -> Iterator[Expr]:
    reads = [x for x in loads_in(e) if isinstance(x.buffer.type, Ptr) and along in used(x)]
    whole = isinstance(e.type, Scalar) and e.type.is_float and e.type.bits >= 16
    if reads and whole and not used(e) & inside:
        yield e
        return
    for x in children(e):
        if isinstance(x, Expr) and reads:
            yield from _largest(x, along, inside)


__all__ = ["with_row_operands"]
