"""Variables that every iteration of a loop updates by one operation."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.accumulators import combine
from ktc.ir.nodes import Assign, Atomic, Binary, Body, Break, Call, Expr, Return, Stmt, Store, Sym, Var
from ktc.ir.walk import declared, stmt_exprs, used, walk


@dataclass(frozen=True)
class Accumulation:
    """``sym = sym op value`` once per iteration, as the loop's last word on ``sym``."""

    sym: Sym
    op: str
    value: Expr


def accumulations(body: Body, *, joined: bool = False) -> tuple[Body, list[Accumulation]] | None:
    """Split the updates of outer variables off ``body``. None if an outer variable is used in another way.

    ``joined``: several updates of one variable by one operation are one, by all of their values: of floats, in another
    order.
    """
    mine = set(declared(body))
    updates: list[tuple[Stmt, Accumulation]] = []
    rest = []
    for s in body:
        if isinstance(s, Assign) and s.sym not in mine:
            a = accumulation(s)
            if a is None:
                return None
            updates.append((s, a))
            continue
        rest.append(s)
    found = _joined([a for _, a in updates]) if joined else [a for _, a in updates]
    sums = {a.sym for a in found}
    if len(sums) != len(found):
        return None
    for s in walk(tuple(rest)):
        if isinstance(s, Assign) and s.sym not in mine:
            return None
        if isinstance(s, Break | Return) or any(used(e) & sums for e in stmt_exprs(s)):
            return None
    if any(used(a.value) & sums for a in found) or _late_values(body, updates):
        return None
    return tuple(rest), found


def _joined(updates: list[Accumulation]) -> list[Accumulation]:
    """``updates`` with those of one variable by one operation as one."""
    out: dict[tuple[Sym, str], Accumulation] = {}
    for a in updates:
        before = out.get((a.sym, a.op))
        value = combine(a.op, before.value, a.value) if before is not None else a.value
        out[a.sym, a.op] = Accumulation(a.sym, a.op, value)
    return list(out.values())


def _late_values(body: Body, updates: list[tuple[Stmt, Accumulation]]) -> bool:
    """Whether some accumulated value changes after its accumulation (it is evaluated at the end in a ``reduce``)."""
    values = {id(s): a.value for s, a in updates}
    for k, s in enumerate(body):
        if id(s) not in values:
            continue
        needs = used(values[id(s)])
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
