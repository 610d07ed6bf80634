"""Variables that every iteration of a loop updates by one operation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Break,
    Call,
    Continue,
    Decl,
    Expr,
    If,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_body, stmt_exprs, used, walk


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


def always_updated(body: Body) -> Body:
    """``body`` of a loop with updates of outer variables under a condition as updates in every iteration::

        if key[i] != ignored                own = 0.0
          w = weight[key[i]]                if key[i] != ignored
          sum += w * x[i]                     w = weight[key[i]]
                                              own += w * x[i]
                                            sum += own

    An iteration in which the condition does not hold adds the neutral element.
    """
    outer = assigned(body) - set(declared(body))
    out: list[Stmt] = []
    for s in body:
        out += _always_updated(s, outer & assigned((s,))) if isinstance(s, If) else (s,)
    return tuple(out)


def _always_updated(s: If, outer: set[Sym]) -> Body:
    before: list[Stmt] = []
    after: list[Stmt] = []
    for v in sorted((v for v in outer if isinstance(v.type, Scalar)), key=lambda v: v.id):
        op = _only_updated(s, v)
        if op is None:
            continue
        assert isinstance(v.type, Scalar)
        nothing = identity(op, v.type)
        match s:
            case If(then=(Assign() as only,), orelse=()) if only.sym == v:
                a = accumulation(only)
                assert a is not None
                return (dataclasses.replace(only, value=combine(op, Var(v), Select(s.cond, a.value, nothing))),)
        own = fresh(f"{v.name}_own", v.type)
        s = _updating(s, v, own)
        before.append(Decl(own, nothing))
        after.append(Assign(v, combine(op, Var(v), Var(own))))
    return (*before, s, *after)


def _only_updated(s: If, v: Sym) -> str | None:
    """The one operation by which ``s`` updates ``v``, if it does nothing else with it, and goes on behind ``s``."""
    ops: set[str] = set()
    for x in walk((s,)):
        if isinstance(x, Break | Continue | Return):
            return None
        if isinstance(x, Assign) and x.sym == v:
            a = accumulation(x)
            if a is None or v in used(a.value):
                return None
            ops.add(a.op)
        elif any(v in used(e) for e in stmt_exprs(x)):
            return None
    return ops.pop() if len(ops) == 1 else None


def _updating(s: If, v: Sym, own: Sym) -> If:
    """``s`` with updates of ``own`` in place of those of ``v``."""

    def on(x: Stmt) -> Stmt:
        if not isinstance(x, Assign) or x.sym != v:
            return x
        a = accumulation(x)
        assert a is not None
        return dataclasses.replace(x, sym=own, value=combine(a.op, Var(own), a.value))

    (out,) = map_body((s,), on)
    assert isinstance(out, If)
    return out


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


__all__ = ["Accumulation", "accumulation", "accumulations", "always_updated"]
