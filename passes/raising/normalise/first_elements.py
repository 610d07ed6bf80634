"""First elements that threads take before their loops, taken in the loops.

before                                            after
    var m: f32 = tid < n ? x[tid] : 0.0               var m: f32 = n < 256 ? 0.0 : -inf
    for i in tid + 256..n step 256                    for i in tid..n step 256
      if x[i] > m                                       if x[i] > m
        m = x[i]                                          m = x[i]

What threads without an element start with counts once they are combined, if there are such threads: a sum's has to be
its identity, or no value at all, for then nobody reads it. Each thread alone may hold another value than before; the
exact check sees what they are combined to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.accumulators import IDEMPOTENT, identity, is_identity
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import add, cast, i32, lt, simplify, sub
from ktc.ir.kernel import Launch
from ktc.ir.nodes import Assign, Binary, Body, Decl, Expr, For, If, Select, Stmt, Sym
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, mentions, substitute_expr, used, with_bodies
from ktc.passes.raising.recognise.equal_values import alike
from ktc.passes.raising.recognise.strided_loops import strided
from ktc.passes.shared.accumulations import accumulation
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.serial_extremes import extreme_update

from .extremes import is_number

Definitions = Mapping[Sym, Expr]


def with_first_elements(body: Body, launch: Launch) -> Body:
    """``body`` with the loops of its threads from their first elements on."""
    known = definitions(body)

    def on_list(stmts: Body) -> Body:
        k = 0
        while k < len(stmts):
            stmts = _joined(stmts, k, known, launch) or stmts
            k += 1
        return tuple(with_bodies(s, on_list) for s in stmts)

    return on_list(body)


@dataclasses.dataclass(frozen=True)
class First:
    """A value, declared by ``decl``, that starts as ``element`` where ``cond`` holds, as ``other`` elsewhere: ``size``
    statements say so. ``other`` is None where it has no value at all."""

    decl: Decl
    cond: Expr
    element: Expr
    other: Expr | None
    size: int

    @property
    def sym(self) -> Sym:
        return self.decl.sym


def _first(stmts: Body, k: int) -> First | None:
    s, t = stmts[k], stmts[k + 1] if k + 1 < len(stmts) else None
    if not isinstance(s, Decl) or not isinstance(s.sym.type, Scalar):
        return None
    if isinstance(s.init, Select):
        return First(s, s.init.cond, s.init.a, s.init.b, 1)
    if isinstance(t, If) and t.then and not t.orelse and s.sym not in used(t.cond):
        *names, taken = t.then
        if isinstance(taken, Assign) and taken.sym == s.sym and all(isinstance(x, Decl) for x in names):
            element = expand(taken.value, definitions(t.then))
            if s.sym not in used(element) and used(element).isdisjoint(declared(tuple(names))):
                return First(s, t.cond, element, s.init, 2)
    return None


def _joined(stmts: Body, k: int, known: Definitions, launch: Launch) -> Body | None:
    """``stmts`` with the first element that statement ``k`` takes in the loop after it; None where it takes none."""
    first = _first(stmts, k)
    if first is None:
        return None
    after = k + first.size
    at = next((n for n in range(after, len(stmts)) if first.sym in mentions(stmts[n])), None)
    loop = None if at is None else stmts[at]
    if at is None or not isinstance(loop, For) or used(first.element) & assigned(stmts[after:at]):
        return None
    *names, last = loop.body or (loop,)
    update, step = _update(last, first.sym), loop_step(loop)
    if update is None or step is None or not all(isinstance(s, Decl) for s in names):
        return None
    op, value = update
    begin = simplify(sub(loop.init, step))
    whole = dataclasses.replace(loop, init=begin)
    spread = strided(dataclasses.replace(whole, init=expand(begin, known)), launch)
    t = first.sym.type
    assert isinstance(t, Scalar)
    if spread is None or len(spread.dist) != 2 or not _says(first.cond, lt(begin, cast(spread.hi, begin.type)), known):  # type: ignore[arg-type]
        return None
    inner = definitions(loop.body)
    taken = substitute_expr(expand(value, inner), {loop.var: begin})
    if not alike(expand(first.element, known), expand(taken, known)):
        return None
    one = identity(op, t)
    other = one if first.other is None else expand(first.other, known)
    start: Expr = one
    if not is_identity(simplify(other), op, t):
        if op not in IDEMPOTENT or not is_number(other):
            return None
        some = lt(cast(spread.hi, begin.type), add(spread.lo, cast(spread.dist[0].n, begin.type)))  # type: ignore[arg-type]
        start = Select(some, cast(other, t), one)
    decl = dataclasses.replace(first.decl, init=start)
    return (*stmts[:k], decl, *stmts[after:at], whole, *stmts[at + 1 :])


def _update(s: Stmt, sym: Sym) -> tuple[str, Expr] | None:
    """The operation and the value by which ``s`` updates ``sym``; None where it is no update of it."""
    s = extreme_update(s) or s
    if not isinstance(s, Assign) or s.sym != sym:
        return None
    a = accumulation(s)
    return None if a is None else (a.op, a.value)


def _says(cond: Expr, other: Expr, known: Definitions) -> bool:
    """Whether two comparisons of integers say the same."""
    gaps = [_gap(expand(c, known)) for c in (cond, other)]
    return gaps[0] is not None and gaps[1] is not None and same(gaps[0], gaps[1])


def _gap(c: Expr) -> Expr | None:
    """What is positive where ``c`` holds, by as much as its sides are apart."""
    if not isinstance(c, Binary):
        return None
    a, b = cast(c.a, i32(0).type), cast(c.b, i32(0).type)  # type: ignore[arg-type]
    match c.op:
        case "<":
            return sub(b, a)
        case ">":
            return sub(a, b)
        case "<=":
            return add(sub(b, a), i32(1))
        case ">=":
            return add(sub(a, b), i32(1))
    return None


__all__ = ["with_first_elements"]
