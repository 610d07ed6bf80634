"""What loops and guards say about the variables that they count and compare, in intervals."""

from __future__ import annotations

from ktc.ir.nodes import Binary, Const, Expr, For, HwIndex, Knob, Sym, Var

from .formulas import increment
from .intervals import Interval, Scope, factors_of, uncast


def loop_range(s: For, scope: Scope) -> Interval | None:
    """Values of the loop variable inside the body, of a loop that counts up to its bound, and alone gives its variable
    values."""
    if not isinstance(s.cond, Binary) or s.cond.op not in ("<", "<="):
        return None
    if s.var in scope.changed or _variable(s.cond.a) != s.var:
        return None
    first, last = scope.of(s.init), scope.of(s.cond.b)
    if first is None or last is None or not _counts_up(s, first, scope):
        return None
    scope.limits[s.var] = ((s.cond.b, s.cond.op == "<="),)
    scope.begins[s.var] = s.init
    if s.cond.op == "<":
        _learn_factors(first, s.cond.b, scope)
    return first[0], max(last[1] - (s.cond.op == "<"), first[0])


def _counts_up(s: For, first: Interval, scope: Scope) -> bool:
    """Whether no step of ``s`` leads below what it comes from."""
    step, by, told = uncast(s.step), increment(s), list(scope.wraps)
    if by is None:
        return first[0] >= 0 and isinstance(step, Binary) and step.op in ("*", "<<") and _variable(step.a) == s.var
    v, scope.wraps = scope.of(by), told
    return v[0] >= 0 if v is not None else _never_below_zero(by)


def _never_below_zero(e: Expr) -> bool:
    """Of a stride whose interval is not known: the launch's extents, times numbers."""
    if isinstance(e, Binary) and e.op in ("+", "*"):
        return _never_below_zero(e.a) and _never_below_zero(e.b)
    e = uncast(e)
    return isinstance(e, Knob | HwIndex) or (isinstance(e, Const) and e.value >= 0)


def _learn_factors(below: Interval, limit: Expr, scope: Scope) -> None:
    """What is at least 0 is below the product ``limit``: no factor of that is 0, and if none is less, all are above."""
    told, factors = list(scope.wraps), factors_of(limit)
    known = [scope.of(f) for f in (limit, *factors)] if below[0] >= 0 else []
    scope.wraps = told
    if known and all(v is not None and v[0] >= 0 for v in known):
        scope.positive |= {uncast(f) for f in factors}


def _variable(e: Expr) -> Sym | None:
    e = uncast(e)
    return e.sym if isinstance(e, Var) else None


_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def narrow(cond: Expr, scope: Scope, holds: bool) -> None:
    """What a guard says about the variables that it compares."""
    if isinstance(cond, Binary) and cond.op == ("&&" if holds else "||"):
        narrow(cond.a, scope, holds)
        narrow(cond.b, scope, holds)
        return
    if not isinstance(cond, Binary) or cond.op not in _NEGATED:
        return
    op, told = cond.op if holds else _NEGATED[cond.op], list(scope.wraps)
    sym, limit, compared = _variable(cond.a), scope.of(cond.b), scope.of(cond.a)
    scope.wraps = told
    if sym is None and limit is not None and compared is not None and op in ("<", "<="):
        value = uncast(cond.a)
        scope.guarded[value] = (*scope.guarded.get(value, ()), (cond.b, op == "<="))
    if op == "<" and compared is not None:
        _learn_factors(compared, cond.b, scope)
    if sym is None or limit is None or compared is None or sym not in scope.known:
        return  # nothing known, or what is compared may not be the variable's value
    low, high = scope.known[sym]
    if op in ("<", "<="):
        high = min(high, limit[1] - (op == "<"))
        scope.limits[sym] = (*scope.limits.get(sym, ()), (cond.b, op == "<="))
    else:
        low = max(low, limit[0] + (op == ">"))
    if low <= high:
        scope.known[sym] = (low, high)


__all__ = ["loop_range", "narrow"]
