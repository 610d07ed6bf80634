"""Returns out of a thread's loop that only say which of its iterations there are.

before                                                 after
    for (i = global id; i < n; i += threads) {             for (i = global id; i < n; i += threads) {
      if (batch >= b || i >= n) return;                      if (batch >= b || i >= n) continue;
      out[batch * n + i] = ...                               out[batch * n + i] = ...

A condition that holds of one iteration and of all that follow leaves the loop as it skips each of them, where nothing
was done before it in an iteration and nothing comes after the loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.loops import loop_step
from ktc.ir.nodes import Binary, Body, Cast, Const, Continue, Decl, Expr, For, HwIndex, If, Return, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, used, walk, walk_expr


def returns_to_continues(body: Body) -> Body:
    """``body`` of a kernel with such returns as ``continue``."""
    if not any(isinstance(s, For) and any(isinstance(x, Return) for x in walk(s.body)) for s in walk(body)):
        return body
    return _last(body, definitions(body, loads=True), assigned(body), ())


def _last(body: Body, named: Mapping[Sym, Expr], changed: set[Sym], loops: tuple[For, ...]) -> Body:
    """``body``, after which the thread has nothing to do, inside ``loops`` that do nothing else before it."""
    if not body:
        return body
    *before, s = body
    if loops and not all(isinstance(x, Decl) for x in before):
        return body
    if isinstance(s, If):
        then, orelse = (_last(way, named, changed, loops) for way in (s.then, s.orelse))
        s = dataclasses.replace(s, then=then, orelse=orelse)
    elif isinstance(s, For) and loop_step(s) is not None:
        around = (*loops, s)
        inner = _iteration(s.body, named, changed, around)
        s = dataclasses.replace(s, body=_last(inner, named, changed, around))
    return (*before, s)


def _iteration(body: Body, named: Mapping[Sym, Expr], changed: set[Sym], loops: tuple[For, ...]) -> Body:
    out: list[Stmt] = []
    for k, s in enumerate(body):
        if isinstance(s, If) and s.then and isinstance(s.then[0], Return) and not s.orelse:
            if not all(_stays(expand(c, named), changed, loops) for c in _either(s.cond)):
                return body
            out.append(dataclasses.replace(s, then=(Continue(loc=s.then[0].loc),)))
            continue
        if not isinstance(s, Decl):
            return (*out, *body[k:])
        out.append(s)
    return tuple(out)


def _either(e: Expr) -> list[Expr]:
    return [*_either(e.a), *_either(e.b)] if isinstance(e, Binary) and e.op == "||" else [e]


def _stays(cond: Expr, changed: set[Sym], loops: tuple[For, ...]) -> bool:
    """Whether ``cond``, once it holds, holds in all further iterations of ``loops``."""
    counters = {s.var for s in loops}
    if not used(cond) & (changed | counters | _made_in(loops)):
        return True
    if not isinstance(cond, Binary) or cond.op not in (">", ">=") or len(loops) > 1:
        return _beyond(cond, loops)
    fixed = changed | counters | _made_in(loops)
    return (not used(cond.b) & fixed and _grows(cond.a, loops[0], fixed)) or _beyond(cond, loops)


def _made_in(loops: tuple[For, ...]) -> set[Sym]:
    return set(declared(loops[0].body))


def _grows(e: Expr, loop: For, fixed: set[Sym]) -> bool:
    """Whether ``e`` is never less in later iterations: the counter, divided by or added to what stays."""
    if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int:
        return _grows(e.x, loop, fixed)
    if isinstance(e, Var):
        return e.sym == loop.var and _positive(loop_step(loop))
    if isinstance(e, Binary) and e.op in ("+", "/", "-"):
        return _grows(e.a, loop, fixed) and not used(e.b) & fixed
    return False


def _positive(step: Expr | None) -> bool:
    """Whether ``step`` is made of numbers of threads and positive constants alone."""
    if step is None or used(step):
        return False
    parts = list(walk_expr(step))
    return all(isinstance(x, HwIndex | Cast | Binary) or (isinstance(x, Const) and x.value > 0) for x in parts) and all(
        x.op in ("+", "*") for x in parts if isinstance(x, Binary)
    )


def _beyond(cond: Expr, loops: tuple[For, ...]) -> bool:
    """Whether ``cond`` never holds: a counter beyond the end of its loop, a remainder beyond its divisor."""
    if not isinstance(cond, Binary) or cond.op != ">=":
        return False
    a = _bare(cond.a)
    if isinstance(a, Binary) and a.op == "%":
        return _bare(a.b) == _bare(cond.b)
    return any(
        isinstance(s.cond, Binary) and s.cond.op == "<" and (_bare(s.cond.a), _bare(s.cond.b)) == (a, _bare(cond.b))
        and a == Var(s.var)
        for s in loops
    )  # fmt: skip


def _bare(e: Expr) -> Expr:
    return _bare(e.x) if isinstance(e, Cast) and e.style != "bit" else e


__all__ = ["returns_to_continues"]
