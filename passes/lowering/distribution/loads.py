"""Loads in front: each unconditional load of a run of statements in a variable of its own, as early as it may be.

A thread then issues all loads of a run before it waits for the first, and :mod:`.statement_runs` can make vectors of
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from ktc.ir.analysis.dependence import may_alias
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Binary,
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_private
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, used_in, walk


def extract_loads(run: Body) -> Body:
    """Give each unconditional global or shared load of a simple statement a variable of its own."""
    out: list[Stmt] = []
    for s in run:
        if isinstance(s, Decl) and s.init is not None and guarded_load(s.init) is not None:
            out.append(s)
        elif isinstance(s, Decl | Assign | Store | Eval | Atomic):
            temps: list[Stmt] = []
            names: dict[Expr, Sym] = {}

            def on(e: Expr, temps: list[Stmt] = temps, names: dict[Expr, Sym] = names, at: Stmt = s) -> Expr:
                load = guarded_load(e)
                if load is not None and not is_private(load.buffer) and isinstance(e.type, Scalar):
                    if e not in names:
                        names[e] = fresh(f"{load.buffer.name}_i", e.type)
                        temps.append(Decl(names[e], e, const=True, loc=at.loc))
                    return Var(names[e])
                return e

            s = _map_unconditional(s, on)
            out += [*temps, s]
        else:
            out.append(s)
    return tuple(out)


def _map_unconditional(s: Stmt, f) -> Stmt:
    """Apply ``f`` bottom-up to expressions of ``s``, but not below lazily evaluated operands."""

    def go(e: Expr) -> Expr:
        if isinstance(e, Select):
            e = dataclasses.replace(e, cond=go(e.cond))
            return f(e) if guarded_load(e) is not None else e
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            return dataclasses.replace(e, a=go(e.a))
        changes: dict[str, Any] = {}
        for fl in dataclasses.fields(e):
            v = getattr(e, fl.name)
            if isinstance(v, Expr):
                changes[fl.name] = go(v)
            elif isinstance(v, tuple) and v and all(isinstance(x, Expr) for x in v):
                changes[fl.name] = tuple(go(x) for x in v)
        return f(dataclasses.replace(e, **changes) if changes else e)

    fields = {n: getattr(s, n) for n in ("init", "value") if isinstance(getattr(s, n, None), Expr)}
    changes: dict[str, Any] = {n: go(e) for n, e in fields.items()}
    if isinstance(s, Store | Atomic):
        changes["index"] = tuple(go(x) for x in s.index)
    return dataclasses.replace(s, **changes)


def guarded_load(e: Expr) -> Load | None:
    """The access of ``a[i]``, or of ``cond ? a[i] : constant``: what a predicated load instruction does."""
    if isinstance(e, Select) and isinstance(e.b, Const):
        e = e.a
    return e if isinstance(e, Load) else None


def hoist_loads(run: Body, apart: Collection[Sym]) -> Body:
    """Move load declarations up past statements that they neither depend on nor may alias; ``apart``: buffers that
    overlap no other one."""
    out: list[Stmt] = []
    for s in run:
        if not is_memory_load(s):
            out.append(s)
            continue
        assert isinstance(s, Decl) and s.init is not None
        load = guarded_load(s.init)
        assert load is not None
        needs = used_in((s,))
        k = len(out)
        while k and not _blocks(out[k - 1], needs, load.buffer, apart):
            k -= 1
        while k < len(out) and is_memory_load(out[k]):  # keep the source's order of loads
            k += 1
        out.insert(k, s)
    return tuple(out)


def is_memory_load(s: Stmt) -> bool:
    """Whether ``s`` declares a variable by a load from memory that threads share."""
    load = guarded_load(s.init) if isinstance(s, Decl) and s.init is not None else None
    return load is not None and not is_private(load.buffer)


def _blocks(s: Stmt, needs: set[Sym], buffer: Sym, apart: Collection[Sym]) -> bool:
    if set(declared((s,))) & needs or assigned((s,)) & needs:
        return True
    if isinstance(s, Decl | Assign):
        return False
    if any(isinstance(x, Break | Continue | Return) for x in walk((s,))):
        return True
    written = {b for b in assigned((s,)) if not is_private(b)}
    return any(may_alias(b, buffer, apart) for b in written) or not isinstance(s, Store | If | For | Alloc)
