"""Operands of atomics in their places: a loop that is read as one has its operand as a parameter, which has a name."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ktc.ir.nodes import Assign, Atomic, Body, Decl, Stmt, Sym, Var
from ktc.ir.purity import is_removable
from ktc.ir.walk import all_exprs, assigned, walk, with_bodies


def operands_in_place(body: Body) -> Body:
    """``body`` with ``let v = e`` right before an atomic by ``v``, and used by nothing else, as the atomic by ``e``.

    An old value that is only copied right afterwards goes where the copy went.
    """
    if not any(isinstance(s, Atomic) for s in walk(body)):
        return body
    while (direct := _copied(body, _used_once(body))) != body:
        body = direct
    return _in_place(body, _used_once(body) - assigned(body))


def _used_once(body: Body) -> set[Sym]:
    uses = Counter(e.sym for e in all_exprs(body) if isinstance(e, Var))
    return {s for s, n in uses.items() if n == 1}


def _copied(body: Body, once: set[Sym]) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, lambda b: _copied(b, once))
        last, let = (out[-1], out[-2]) if len(out) > 1 else (None, None)
        value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
        found = isinstance(last, Atomic) and isinstance(let, Decl) and last.dst == let.sym and let.init is None
        if found and isinstance(s, Decl | Assign) and value == Var(let.sym) and let.sym in once:  # type: ignore[union-attr]
            out[-2:] = [*([Decl(s.sym)] if isinstance(s, Decl) else []), replace(last, dst=s.sym)]  # type: ignore[list-item, type-var, call-arg]
            continue
        out.append(s)
    return tuple(out)


def _in_place(body: Body, once: set[Sym]) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, lambda b: _in_place(b, once))
        at = len(out) - 1
        if at > 0 and isinstance(s, Atomic) and isinstance(out[at], Decl) and out[at].sym == s.dst:  # type: ignore[attr-defined]
            at -= 1  # where the old value goes
        let = out[at] if at >= 0 else None
        named = isinstance(s, Atomic) and isinstance(let, Decl) and s.value == Var(let.sym) and let.sym in once
        if named and let.init is not None and is_removable(let.init):  # type: ignore[union-attr]
            s = replace(s, value=let.init)  # type: ignore[call-arg, union-attr]
            del out[at]
        out.append(s)
    return tuple(out)


__all__ = ["operands_in_place"]
