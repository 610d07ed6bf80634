"""The first value of a running maximum that a later maximum with a constant covers.

``m = -inf; for ...: m = max(m, ...); ...; max(0, m)`` is the same from ``m = 0``: max(0, .) of every intermediate
value is the same in both, for it passes through maxima, copies and exchanges unchanged, and at the end only max(0, m)
is read. Working memory of the kernel alone, which nobody looks at afterwards, is such a copy; what an earlier launch
left in it comes to the same maxima.
"""

from __future__ import annotations

from ktc.ir.fields import children
from ktc.ir.nodes import Assign, Body, Call, Cast, Const, Decl, Expr, Load, Stmt, Store, Sym, Var, WarpOp
from ktc.ir.types import Ptr
from ktc.ir.walk import stmt_exprs, walk

IDENTITY = {"max": float("-inf"), "min": float("inf")}


def absorbed(s: Decl, t: Decl, rest: Body, own: frozenset[Sym] = frozenset()) -> str:
    """Why the variable of ``s`` may start as in ``t``, given all statements that follow in its scope; no other reads
    the working memory ``own``."""
    if not (isinstance(s.init, Const) and isinstance(t.init, Const)):
        return ""
    a, b = float(s.init.value), float(t.init.value)
    for fn, first in IDENTITY.items():
        if first in (a, b) and a != b:
            limit = b if a == first else a
            if _covered(s.sym, rest, fn, limit, own):
                return f"a later {fn} with a constant covers the first value"
    return ""


def _covered(sym: Sym, rest: Body, fn: str, limit: float, own: frozenset[Sym]) -> bool:
    """Whether every value that ``sym`` reaches ends in ``fn`` with a constant at least as far as ``limit``."""
    carriers = {sym}
    while True:
        more = {
            _target(s, own)
            for s in walk(rest)
            if isinstance(s, Assign | Decl | Store) and _carries(_value(s), carriers, fn)
        }
        reached = {x for x in more if x is not None}
        if reached <= carriers:
            break
        carriers |= reached
    end = next((k for k, s in enumerate(rest) if _settles(s, sym, fn, limit)), len(rest))
    now = all(_fine(e, s, carriers, fn, limit, own) for s in walk(rest[: end + 1]) for e in stmt_exprs(s))
    later = carriers - {sym}
    return now and not any(_reads(e, later) for s in walk(rest[end + 1 :]) for e in stmt_exprs(s))


def _settles(s: Stmt, sym: Sym, fn: str, limit: float) -> bool:
    """``sym = max(constant, sym)``: from here on it has one value whatever it began with."""
    e = _value(s) if isinstance(s, Assign) and s.sym == sym else None
    return isinstance(e, Call) and e.fn == fn and Var(sym) in e.args and any(_meets(v, limit, fn) for v in _limit(e))


def _target(s: Stmt, own: frozenset[Sym]) -> Sym | None:
    """What ``s`` writes, if that is the kernel's own: what reaches another buffer is seen."""
    if isinstance(s, Store):
        return None if isinstance(s.buffer.type, Ptr) and s.buffer not in own else s.buffer
    return s.sym if isinstance(s, Assign | Decl) else None


def _value(s: Stmt) -> Expr | None:
    return s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign | Store) else None


def _carries(e: Expr | None, carriers: set[Sym], fn: str) -> bool:
    """Whether ``e`` passes a carrier's value on: itself, exchanged, or in a maximum without constants."""
    if isinstance(e, Var):
        return e.sym in carriers
    if isinstance(e, Load):
        return e.buffer in carriers
    if isinstance(e, WarpOp):
        return e.kind.startswith("shfl") and _carries(e.value, carriers, fn)
    if isinstance(e, Cast):
        return False
    return isinstance(e, Call) and e.fn == fn and any(_carries(a, carriers, fn) for a in e.args) and not _limit(e)


def _limit(e: Call) -> list[float]:
    return [float(a.value) for a in e.args if isinstance(a, Const)]


def _fine(e: Expr, s: Stmt, carriers: set[Sym], fn: str, limit: float, own: frozenset[Sym]) -> bool:
    """Whether ``e``, directly in ``s``, reads carriers only where they are passed on, or meet the limit."""
    if isinstance(e, Call) and e.fn == fn and any(_meets(v, limit, fn) for v in _limit(e)):
        return all(_carries(a, carriers, fn) or not _reads(a, carriers) for a in e.args)
    if _carries(e, carriers, fn):
        passed_on = _target(s, own) in carriers and _value(s) is e
        return passed_on and all(_carries(p, carriers, fn) or not _reads(p, carriers) for p in _parts(e))
    return (
        all(_fine(c, s, carriers, fn, limit, own) for c in children(e))
        if not isinstance(e, Var | Load)
        else not _reads(e, carriers)
    )


def _parts(e: Expr) -> list[Expr]:
    if isinstance(e, Call):
        return [p for a in e.args for p in (_parts(a) if isinstance(a, Call) else [a])]
    return [e.value] if isinstance(e, WarpOp) else []


def _meets(v: float, limit: float, fn: str) -> bool:
    return v >= limit if fn == "max" else v <= limit


def _reads(e: Expr, carriers: set[Sym]) -> bool:
    here = (isinstance(e, Var) and e.sym in carriers) or (isinstance(e, Load) and e.buffer in carriers)
    return here or any(_reads(c, carriers) for c in children(e))
