"""peel: separate a loop's first and last iterations from the rest, whose conditions on the index then fold away.

before                                          after peel{loop=i first=1 last=1}
    par i in 0..n @ [thread.x, block.x]             par i in 0..n @ [thread.x, block.x]
      if i > 0 && i < n - 1                           if i >= 1 && i < n - 1
        b[i] = a[i - 1] + a[i + 1]                      b[i] = a[i - 1] + a[i + 1]
      else                                            else
        b[i] = a[i]                                     if i > 0 && i < n - 1
                                                          b[i] = a[i - 1] + a[i + 1]
                                                        else
                                                          b[i] = a[i]

A serial loop becomes up to three loops in a row; a parallel one keeps its threads and branches once per iteration
(uniform but for the warps at the seam). Every iteration runs once, in the old order, so this is always legal; what it
refuses is a loop whose iterations cannot be counted from its ends.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import jump, places
from ktc.ir.arith.counted_loops import why_uncounted
from ktc.ir.arith.polynomial import Polynomial, minus, plus, polynomial, scaled
from ktc.ir.fold import add, binary, both, cast, fold_node, i32, is_const, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Call, Const, Expr, For, If, Par, Select, Stmt, Unary, Var
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import assigned, map_body, refresh, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed

MAX_PEELED = 64


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the loop")
    first: int = option(0, "iterations to take off the start", code="E-PEEL-COUNT", least=0, most=MAX_PEELED)
    last: int = option(0, "iterations to take off the end", code="E-PEEL-COUNT", least=0, most=MAX_PEELED)


class Peel(Pass[Arguments]):
    name = "peel"
    summary = "a loop's first and last iterations apart, so that the interior is free of boundary conditions"
    refusals = ("E-PLACE", "E-PEEL-COUNT", "E-PEEL-FORM", "E-PEEL-JUMP")

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if not isinstance(s, For | Par) or not allowed(check, s):
                continue
            first = max((k for k in (0, 1, 2) if k == 0 or _folds(s, k, 0) > _folds(s, k - 1, 0)), default=0)
            last = max((k for k in (0, 1, 2) if k == 0 or _folds(s, 0, k) > _folds(s, 0, k - 1)), default=0)
            if first or last or _folds(s, 1, 1):
                step = self.step(loop=place_of(kernel, s), first=first or 1, last=last or 1)
                out.append(Site(step, "no boundary conditions in the interior"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop, first, last = args.loop.find(kernel), args.first, args.last
        if not isinstance(loop, For | Par):
            raise Refusal("E-PEEL-FORM", f"'{args.loop}' is not a serial or parallel loop", places(loop))
        if not (first or last):
            raise Refusal("E-PEEL-COUNT", f"first and last are 0 to {MAX_PEELED}, and not both 0", places(loop))
        check(loop)

        def on(s: Stmt) -> Stmt | Body:
            if not isinstance(s, For | Par) or s.var != loop.var:
                return s
            return _guarded(s, first, last) if isinstance(s, Par) else _split(s, first, last)

        folded = _folds(loop, first, last)
        note = f"{folded} conditions of the interior are decided" if folded else "no condition depends on the ends"
        return Result(kernel.with_(body=map_body(kernel.body, on)), (note,))


def check(s: For | Par) -> None:
    """The iterations of ``s`` can be counted from its ends, or it is refused."""
    if isinstance(s, Par):
        return
    uncounted = why_uncounted(s)
    if uncounted:
        raise Refusal("E-PEEL-FORM", uncounted, places(s))
    bad = jump(s.body)
    if bad:
        raise Refusal("E-PEEL-JUMP", f"the loop over '{s.var.name}' may be left early", places(bad))


def _ends(s: For | Par, first: int, last: int) -> tuple[Expr, Expr]:
    """Bounds of the interior."""
    ty = s.var.type
    assert isinstance(ty, Scalar)
    lo, hi = (s.lo, s.hi) if isinstance(s, Par) else (s.init, s.cond.b)  # type: ignore[attr-defined]
    return add(lo, cast(i32(first), ty)) if first else lo, sub(hi, cast(i32(last), ty)) if last else hi


def _guarded(s: Par, first: int, last: int) -> Par:
    lo, hi = _ends(s, first, last)
    inside = both(binary(">=", Var(s.var), lo) if first else None, binary("<", Var(s.var), hi) if last else None)
    assert inside is not None
    interior = _interior(refresh(s.body), s, lo, hi)
    return dataclasses.replace(s, body=(If(inside, interior, s.body),))


def _split(s: For, first: int, last: int) -> Body:
    """Head, interior and tail. The interior may be empty: its bounds are kept between the others'."""
    ty = s.var.type
    assert isinstance(ty, Scalar) and isinstance(s.cond, Binary)
    lo, hi = s.init, s.cond.b
    inner_lo, inner_hi = _ends(s, first, last)
    start = fold_node(Call("min", (inner_lo, hi), ty)) if first else lo
    end = fold_node(Call("max", (inner_hi, start), ty)) if last else hi

    def part(loop: Stmt, a: Expr, b: Expr) -> For:
        assert isinstance(loop, For)
        return dataclasses.replace(loop, init=a, cond=Binary("<", Var(loop.var), b), comments=())

    interior = dataclasses.replace(s, body=_interior(s.body, s, inner_lo, inner_hi))
    out = [part(refresh((s,))[0], lo, start)] if first else []
    out.append(part(interior, start, end))
    out += [part(refresh((s,))[0], end, hi)] if last else []
    out[0] = dataclasses.replace(out[0], comments=s.comments)
    return tuple(out)


# --------------------------------------------------------------------------------------- conditions of the interior


def _folds(s: For | Par, first: int, last: int) -> int:
    """How many conditions of the interior are decided."""
    lo, hi = _ends(s, first, last)
    return sum(_decided(c, s, lo, hi) is not None for c in _conditions(s.body))


def _conditions(body: Body) -> list[Expr]:
    from ktc.ir.walk import all_exprs

    return [e for e in all_exprs(body) if isinstance(e, Binary) and e.op in ("<", "<=", ">", ">=", "==", "!=")]


def _interior(body: Body, s: For | Par, lo: Expr, hi: Expr) -> Body:
    """``body`` with what is known for ``lo <= var < hi`` folded in."""

    def on_expr(e: Expr) -> Expr:
        value = _decided(e, s, lo, hi)
        if value is not None:
            return Const(value, BOOL)
        return _logic(e)

    def on_stmt(x: Stmt) -> Stmt | Body:
        if isinstance(x, If) and is_const(x.cond):
            return x.then if x.cond.value else x.orelse  # type: ignore[attr-defined]
        return x

    if s.var in assigned(body):
        return body
    return map_body(body, on_stmt, on_expr)


def _logic(e: Expr) -> Expr:
    match e:
        case Binary("&&" | "||" as op, a, b):
            if is_const(a):
                return b if bool(a.value) == (op == "&&") else a  # type: ignore[attr-defined]
            if is_const(b) and bool(b.value) == (op == "&&"):  # type: ignore[attr-defined]
                return a
        case Unary("!", x) if is_const(x):
            return Const(not x.value, BOOL)  # type: ignore[attr-defined]
        case Select(c, a, b) if is_const(c):
            return a if c.value else b  # type: ignore[attr-defined]
    return e


def _decided(e: Expr, s: For | Par, lo: Expr, hi: Expr) -> bool | None:
    """The value of the comparison ``e`` for every ``lo <= var < hi``; None when it varies or is not known."""
    if not isinstance(e, Binary) or e.op not in _LESS:
        return None
    ta = e.a.type
    if not isinstance(ta, Scalar) or not ta.is_int or not ta.is_signed:
        return None
    flip, strict = _LESS[e.op]
    gap = minus(polynomial(e.b), polynomial(e.a)) if not flip else minus(polynomial(e.a), polynomial(e.b))
    least, most = _extremes(gap, s, lo, hi)
    if strict is None:  # == and !=: decided only where they cannot be equal
        apart = _sure(least, 1) or _sure(scaled(most, -1), 1)
        return None if not apart else e.op == "!="
    if _sure(least, 1 if strict else 0):
        return True
    if _sure(scaled(most, -1), 0 if strict else 1):
        return False
    return None


_LESS = {
    "<": (False, True),
    "<=": (False, False),
    ">": (True, True),
    ">=": (True, False),
    "==": (False, None),
    "!=": (False, None),
}
"""(operands swapped, strict) of each comparison as ``0 < b - a`` or ``0 <= b - a``."""


def _extremes(gap: Polynomial, s: For | Par, lo: Expr, hi: Expr) -> tuple[Polynomial, Polynomial]:
    """Least and greatest value of ``gap``, which is linear in the loop's variable, over the interior."""
    atom = (Var(s.var),)
    c = gap.get(atom, 0)
    rest = {k: v for k, v in gap.items() if k != atom}
    first, last = polynomial(lo), minus(polynomial(hi), {(): 1})
    at = [plus(rest, scaled(end, c)) for end in (first, last)]
    if any(Var(s.var) in k for k in rest):
        return {(_UNKNOWN,): 1}, {(_UNKNOWN,): 1}
    return (at[0], at[1]) if c >= 0 else (at[1], at[0])


_UNKNOWN = Const(0, BOOL)


def _sure(p: Polynomial, at_least: int) -> bool:
    """Whether the polynomial is a constant that is large enough."""
    return set(p) <= {()} and p.get((), 0) >= at_least
