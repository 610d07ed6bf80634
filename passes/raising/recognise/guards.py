"""Conditions around a loop nest's body that bound its loop variables."""

from __future__ import annotations

from collections.abc import Collection

from ktc.ir.arith.integer_casts import factors_of
from ktc.ir.fold import cast, simplify
from ktc.ir.kernel import Launch
from ktc.ir.nodes import NEGATED, ORDERINGS, Binary, Body, Call, Const, Decl, Expr, HwIndex, If, Load, Sym, Var, WarpOp
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, substitute_expr, used, walk_expr
from ktc.passes.shared.equal_integers import never_beyond
from ktc.passes.shared.loop_bounds import upper_bound

from .coordinates import conjuncts


def stripped(body: Body, bounds: dict[Sym, list[Expr]], outer: Collection[Sym] = ()) -> Body:
    """Move the conditions that bound a variable from the guard around the rest of the body into ``bounds``.

    ``outer`` are loop variables around the nest and sizes of the launch: they are never negative.
    """
    if not body or not isinstance(body[-1], If) or body[-1].orelse:
        return body
    guard = body[-1]
    if not all(isinstance(s, Decl) for s in body[:-1]):
        return body
    local = {s.sym for s in body[:-1] if isinstance(s, Decl)}
    named, places = _named_outside(body, set(bounds) | local), _named_outside(body, set())
    kept: list[Expr] = []
    for c in conjuncts(guard.cond):
        spelled = (substitute_expr(c, names) for names in (named, places))  # ``x < n - 1`` of ``x = i + 1``, in ``i``
        if not any(_tighten(e, bounds, local, outer) for e in spelled):
            kept.append(c)
    cond: Expr | None = None
    for c in kept:
        cond = c if cond is None else Binary("&&", cond, c)
    inner = (*body[:-1], *guard.then)
    if cond is not None:
        return (*body[:-1], If(cond, guard.then, loc=guard.loc, comments=guard.comments))
    return stripped(inner, bounds, outer)


VARYING = (Load, Call, WarpOp, HwIndex)
"""What may have another value in each iteration, whatever its operands."""


def _named_outside(body: Body, inside: set[Sym]) -> dict[Sym, Expr]:
    """What integers that ``body`` declares first stand for, as far as nothing of ``inside`` is in it."""
    changed = assigned(body)
    out: dict[Sym, Expr] = {}
    for s in body:
        if not isinstance(s, Decl) or s.init is None or s.sym in changed or s.init.type != s.sym.type:
            continue
        value = substitute_expr(s.init, out)
        if not used(value) & (inside | changed) and not any(isinstance(x, VARYING) for x in walk_expr(value)):
            out[s.sym] = value
    return {s: e for s, e in out.items() if isinstance(s.type, Scalar) and s.type.is_int}


def sizes_of(launch: Launch) -> frozenset[Sym]:
    """Parameters that are an extent of the launch by themselves, or a factor of one: where there are threads, there is
    at least one."""
    factors = (x for e in (*launch.block, *launch.grid) for x in factors_of(e))
    return frozenset(x.sym for x in factors if isinstance(x, Var))


def _tighten(c: Expr, bounds: dict[Sym, list[Expr]], local: set[Sym], outer: Collection[Sym]) -> bool:
    for sym, b in bounds.items():
        if (used(c) - {sym}) & (set(bounds) | local):
            continue
        hi = upper_bound(c, sym)
        if hi is not None and not b[2:] and never_beyond(hi, b[1], outer):
            b[1] = hi
            b.append(Const(True, I32))  # an upper bound has been taken
            return True
        lo = lower_bound(c, sym)
        if lo is not None and b[0] == Const(0, sym.type):  # type: ignore[arg-type]
            b[0] = lo if never_beyond(b[0], lo, outer) else Call("max", (lo, b[0]), lo.type)
            return True
    return False


def lower_bound(c: Expr, sym: Sym) -> Expr | None:
    """``lo`` such that ``c`` is ``sym >= lo``."""
    t = sym.type
    assert isinstance(t, Scalar)
    if not isinstance(c, Binary) or c.op not in ORDERINGS:
        return None
    negated = upper_bound(Binary(NEGATED[c.op], c.a, c.b), sym)  # !(sym >= lo) is sym < lo
    return None if negated is None else simplify(cast(negated, t))
