"""Variables that every iteration of a loop updates by one operation."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.nodes import Assign, Atomic, Binary, Body, Break, Call, Expr, Return, Store, Sym, Var
from ktc.ir.walk import declared, stmt_exprs, used, walk


@dataclass(frozen=True)
class Accumulation:
    """``sym = sym op value`` once per iteration, as the loop's last word on ``sym``."""

    sym: Sym
    op: str
    value: Expr


def accumulations(body: Body) -> tuple[Body, list[Accumulation]] | None:
    """Split the updates of outer variables off ``body``. None if an outer variable is used in another way."""
    mine = set(declared(body))
    found: list[Accumulation] = []
    rest = []
    for s in body:
        if isinstance(s, Assign) and s.sym not in mine:
            a = accumulation(s)
            if a is None:
                return None
            found.append(a)
            continue
        rest.append(s)
    sums = {a.sym for a in found}
    if len(sums) != len(found):
        return None
    for s in walk(tuple(rest)):
        if isinstance(s, Assign) and s.sym not in mine:
            return None
        if isinstance(s, Break | Return) or any(used(e) & sums for e in stmt_exprs(s)):
            return None
    if any(used(a.value) & sums for a in found) or _late_values(body, found):
        return None
    return tuple(rest), found


def _late_values(body: Body, found: list[Accumulation]) -> bool:
    """Whether some accumulated value changes after its accumulation (it is evaluated at the end in a ``reduce``)."""
    for k, s in enumerate(body):
        a = next((a for a in found if isinstance(s, Assign) and s.sym == a.sym), None)
        if a is None:
            continue
        needs = used(a.value)
        for later in walk(body[k + 1 :]):
            if isinstance(later, Assign) and later.sym in needs:
                return True
            if isinstance(later, Store | Atomic) and later.buffer in needs:
                return True
    return False


def accumulation(s: Assign) -> Accumulation | None:
    """``s`` as an update of its variable by one operation."""
    v = s.value
    if isinstance(v, Binary) and v.op in "+*&|^":
        if v.a == Var(s.sym):
            return Accumulation(s.sym, v.op, v.b)
        if v.b == Var(s.sym):
            return Accumulation(s.sym, v.op, v.a)
    if isinstance(v, Binary) and v.op == "-" and v.a == Var(s.sym):
        from ktc.ir.nodes import Unary

        return Accumulation(s.sym, "+", Unary("-", v.b))
    if isinstance(v, Call) and v.fn in ("min", "max") and Var(s.sym) in v.args:
        other = v.args[1] if v.args[0] == Var(s.sym) else v.args[0]
        return Accumulation(s.sym, v.fn, other)
    if isinstance(v, Call) and v.fn == "fma" and v.args[2] == Var(s.sym):
        return Accumulation(s.sym, "+", Binary("*", v.args[0], v.args[1]))
    return None


__all__ = ["Accumulation", "accumulation", "accumulations"]
