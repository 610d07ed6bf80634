"""Sums of sums over loops of their own: the loops, outermost first, and what the innermost of them adds up.

    reduce(+) s over t in 0..256                        the loops    b in 0..batch, i in 0..n
      reduce(+) own = 0.0 over b in 0..batch            add up       x[b * n + i]
        reduce(+) part = 0.0 over r in 0..cdiv(n, 256)
          yield t + r * 256 < n ? x[b * n + t + r * 256] : 0.0
        yield part
      yield own

All orders of the terms are one sum. A pair of loops that together count through one range, ``t`` over threads and ``r``
over what each of them strides over, is that range, where the terms depend on both through ``t + r * 256`` alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from ktc.ir.analysis.accumulators import AT, is_identity
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import from_polynomial, polynomial, same_value
from ktc.ir.fold import add, binary, cast, is_const, mul, simplify
from ktc.ir.nodes import Acc, Binary, Body, Call, Decl, Expr, Reduce, Select, Stmt, Sym, Var, fresh
from ktc.ir.purity import acts
from ktc.ir.types import Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    children,
    declared,
    substitute,
    substitute_expr,
    used,
    used_in,
    walk,
    with_children,
)
from ktc.passes.shared.loop_bounds import upper_bound


@dataclass(frozen=True)
class Counter:
    """A loop from 0 to ``end``, which is the same in all iterations of the loops around it."""

    var: Sym
    end: Expr


@dataclass(frozen=True)
class Nest:
    """``loops``, outermost first, around ``body``, after which ``values`` are added up, one an accumulator."""

    loops: tuple[Counter, ...]
    body: Body
    values: tuple[Expr, ...]


def nest_of(target: Reduce) -> Nest | None:
    """The loops that ``target`` and the sums in it make, those that count through one range together as one; None where
    their iterations do more than add up, or one loop is as long as another one says."""
    if any(a.op == AT for a in target.accs) or not assigned(target.body) <= _own(target.body):
        return None
    if any(map(acts, all_exprs((target,)))) or any(s.strategy != "auto" for s in _sums((target,))):
        return None
    loops, front = [target], list[Stmt]()
    values = tuple(a.value for a in target.accs)
    while (inner := _inside(loops[-1], values)) is not None:
        front += loops[-1].body[:-1]
        values = tuple(next(a.value for a in inner.accs if v == Var(a.sym)) for v in values)
        loops.append(inner)
    last = loops[-1]
    kinds = (s.var.type for s in loops)
    if not all(is_const(s.lo, 0) for s in loops) or not all(isinstance(t, Scalar) and t.is_int for t in kinds):
        return None
    nest = Nest(tuple(Counter(s.var, s.hi) for s in loops), (*front, *last.body), values)
    nest = _strides_joined(nest, target.accs)
    moving = {c.var for c in nest.loops} | set(declared(nest.body))
    return None if any(used(c.end) & moving for c in nest.loops) else nest


def _own(body: Body) -> set[Sym]:
    """What is declared in ``body``, the accumulators of its sums among it."""
    return set(declared(body)) | {a.sym for s in _sums(body) for a in s.accs}


def _sums(body: Body) -> list[Reduce]:
    return [s for s in walk(body) if isinstance(s, Reduce)]


def _inside(outer: Reduce, values: Sequence[Expr]) -> Reduce | None:
    """The sum that is all ``outer`` adds up, behind names for what it needs; None where there is none."""
    inner = outer.body[-1] if outer.body else None
    if not isinstance(inner, Reduce) or any(a.op == AT for a in inner.accs):
        return None
    if not all(isinstance(s, Decl) and s.init is not None and s.sym not in assigned((inner,)) for s in outer.body[:-1]):
        return None
    found: dict[Expr, Acc] = {Var(a.sym): a for a in inner.accs}
    if len(found) != len(outer.accs) or {*values} != {*found}:
        return None
    return inner if all(_is_part(a, found[v]) for a, v in zip(outer.accs, values)) else None


def _is_part(whole: Acc, part: Acc) -> bool:
    """Whether ``part`` adds up as ``whole`` does, from nothing."""
    t = part.sym.type
    return isinstance(t, Scalar) and (whole.op, whole.sym.type) == (part.op, t) and is_identity(part.init, part.op, t)


# ------------------------------------------------------------------------------------------------- threads and strides


def _strides_joined(nest: Nest, accs: Sequence[Acc]) -> Nest:
    """``nest`` with a loop over threads and the one over what each of them strides over as one."""
    for t in nest.loops:
        for r in nest.loops:
            joined = _joined(nest, t, r, accs) if t is not r else None
            if joined is not None:
                return joined
    return nest


def _joined(nest: Nest, t: Counter, r: Counter, accs: Sequence[Acc]) -> Nest | None:
    """``nest`` with ``t + r * t.end`` in the place of ``r``, where the terms depend on both through it alone."""
    length = _range(t, r)
    if length is None or used(t.end) & {c.var for c in nest.loops}:
        return None
    kind = r.var.type
    assert isinstance(kind, Scalar)
    whole = fresh(r.var.name, kind)
    through = _Through(t, r, whole)
    body = tuple(through.statement(s) for s in nest.body)
    values = tuple(through.expr(v) for v in nest.values)
    if through.failed:
        return None
    body, values = _without_copies(body, values, whole)
    end, exact = length
    if not exact:
        bounded = [_guarded(v, whole, a) for v, a in zip(values, accs)]
        if all(b is not None and same_value(b[1], end) for b in bounded):
            values = tuple(b[0] for b in bounded if b is not None)
        else:
            end = mul(r.end, cast(t.end, kind))
    loops = (c if c is not r else Counter(whole, simplify(cast(end, kind))) for c in nest.loops if c is not t)
    return Nest(tuple(loops), body, values)


def _without_copies(body: Body, values: tuple[Expr, ...], whole: Sym) -> tuple[Body, tuple[Expr, ...]]:
    """``body`` and ``values`` without other names for ``whole``."""
    found = {
        s.sym: Var(whole) for s in body if isinstance(s, Decl) and s.init == Var(whole) and s.sym.type == whole.type
    }
    kept = tuple(s for s in body if not (isinstance(s, Decl) and s.sym in found))
    return substitute(kept, found), tuple(substitute_expr(v, found) for v in values)


def _range(t: Counter, r: Counter) -> tuple[Expr, bool] | None:
    """The ``n`` of ``r`` in 0..cdiv(n, t.end), and whether ``t + r * t.end`` goes through 0..n alone, as it does where
    ``r`` ends at cdiv(n - t, t.end); None for any other pair."""
    end = without_index_casts(r.end)
    if not isinstance(end, Call) or end.fn != "cdiv" or not same_value(end.args[1], t.end):
        return None
    own, n = (Var(t.var),), polynomial(end.args[0])
    exact = n.pop(own, 0)
    kind = r.var.type
    assert isinstance(kind, Scalar)
    if (
        exact not in (0, -1)
        or any(used(x) & {t.var} for factors in n for x in factors)
        or (exact and not kind.is_signed)
    ):
        return None
    return from_polynomial(n, kind), bool(exact)


def _guarded(value: Expr, whole: Sym, a: Acc) -> tuple[Expr, Expr] | None:
    """(value, bound) of ``whole < bound ? value : identity``."""
    value = simplify(value)
    if not isinstance(value, Select) or not isinstance(a.sym.type, Scalar):
        return None
    bound = upper_bound(value.cond, whole) if is_identity(value.b, a.op, a.sym.type) else None
    return None if bound is None else (value.a, bound)


class _Through:
    """Rewrites what depends on two counters through ``t + r * t.end`` alone; ``failed`` once something does not."""

    def __init__(self, t: Counter, r: Counter, whole: Sym) -> None:
        self.pair = {t.var, r.var}
        self.failed = False
        moved = mul(Var(r.var), cast(t.end, r.var.type))  # type: ignore[arg-type]
        self.env = {t.var: Binary("-", Var(whole), moved)}

    def statement(self, s: Stmt) -> Stmt:
        if not isinstance(s, Decl):
            self.failed |= bool(self.pair & used_in((s,)))
            return s
        return s if s.init is None else dataclasses.replace(s, init=self.expr(s.init))

    def expr(self, e: Expr) -> Expr:
        if not used(e) & self.pair:
            return e
        if isinstance(e.type, Scalar) and e.type.is_int:
            whole = self._whole(e)
            if whole is not None:
                return whole
        if not children(e):
            self.failed = True
            return e
        return with_children(e, self.expr)

    def _whole(self, e: Expr) -> Expr | None:
        """The integer ``e`` by the counter of the range: as it is written but for the least part that both counters
        are in; None where either is left."""
        if not used(e) & self.pair:
            return e
        parts = [self._whole(x) for x in children(e)]
        if parts and None not in parts:
            done = dict(zip(map(id, children(e)), parts))
            return with_children(e, lambda x: done[id(x)] or x)
        mine, others = _split(e, self.pair)
        p = polynomial(substitute_expr(mine, self.env))
        if any(used(x) & self.pair for factors in p for x in factors):
            return None
        assert isinstance(e.type, Scalar)
        moved = from_polynomial(p, e.type)
        return moved if others is None else binary("+", others, moved)


def _split(e: Expr, pair: set[Sym]) -> tuple[Expr, Expr | None]:
    """The terms of the sum ``e`` that mention ``pair``, and the others as they are written."""
    if not isinstance(e, Binary) or e.op != "+":
        return e, None
    found = [x for x in _terms(e) if used(x) & pair]
    others = [x for x in _terms(e) if not used(x) & pair]
    return reduce(add, found), reduce(add, others) if others else None


def _terms(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "+":
        yield from _terms(e.a)
        yield from _terms(e.b)
    else:
        yield e


__all__ = ["Counter", "Nest", "nest_of"]
