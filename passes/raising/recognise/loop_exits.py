"""Returns and breaks out of a thread's loop that only say which of its iterations there are.

before                                                 after
    for (i = global id; i < n; i += threads) {             for (i = global id; i < n; i += threads) {
      if (batch >= b || i >= n) return;                      if (batch >= b || i >= n) continue;
      out[batch * n + i] = ...                               out[batch * n + i] = ...

A condition that holds of one iteration and of all that follow leaves the loop as it skips each of them, where nothing
was done before it in an iteration and, where it is a return, nothing comes after the loop. ``break`` is one so where
threads differ in it: a row longer than what they take in whole rounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import counting, loop_step
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.nodes import (
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Raw,
    Return,
    Stmt,
    Sym,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_body, used, walk, walk_expr
from ktc.passes.raising.recognise.statement_kinds import threads_in


def returns_to_continues(body: Body) -> Body:
    """``body`` of a kernel with such returns as ``continue``."""
    if not any(isinstance(s, For) and any(isinstance(x, Return) for x in walk(s.body)) for s in walk(body)):
        return body
    return _last(body, definitions(body, loads=True), assigned(body), ())


def breaks_to_continues(body: Body) -> Body:
    """``body`` with such breaks as ``continue``."""
    if not any(isinstance(s, Break) for s in walk(body)):
        return body
    named, changed = definitions(body), assigned(body)

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, For) or counting(s) is None:
            return s
        return dataclasses.replace(s, body=_iteration(s.body, named, changed, (s,), Break))

    return map_body(body, on)


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
        inner = _iteration(s.body, named, changed, around, Return)
        s = dataclasses.replace(s, body=_last(inner, named, changed, around))
    return (*before, s)


def _iteration(
    body: Body, named: Mapping[Sym, Expr], changed: set[Sym], loops: tuple[For, ...], leave: type[Stmt]
) -> Body:
    out: list[Stmt] = []
    for k, s in enumerate(body):
        if isinstance(s, If) and s.then and isinstance(s.then[0], leave) and not s.orelse:
            conditions = [expand(c, named) for c in _either(s.cond)]
            if not all(_stays(c, changed, loops) for c in conditions):
                return body
            if leave is Break and not any(map(threads_in, conditions)):
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
    moves = changed | {s.var for s in loops} | set(declared(loops[0].body))
    if not all(_is_own(x) for x in walk_expr(cond)):
        return False
    if not used(cond) & moves or _beyond(cond, loops):
        return True
    grows = isinstance(cond, Binary) and cond.op in (">", ">=") and len(loops) == 1
    return grows and not used(cond.b) & moves and _grows(cond.a, loops[0], moves)  # type: ignore[attr-defined]


def _is_own(e: Expr) -> bool:
    """Whether the thread has ``e`` to itself: neither of other lanes, nor of memory that changes by itself."""
    if isinstance(e, Load):
        return e.cache != "volatile" and not getattr(e.buffer.type, "volatile", False)
    return not isinstance(e, WarpOp | Raw) and (not isinstance(e, Call) or e.effects == "pure")


def _grows(e: Expr, loop: For, moves: set[Sym]) -> bool:
    """Whether ``e`` is never less in later iterations: the counter, added to or divided by what stays, or multiplied by
    a number of threads."""
    if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int:
        return _grows(e.x, loop, moves)
    if isinstance(e, Var):
        return e.sym == loop.var and is_positive(loop_step(loop))
    if isinstance(e, Binary) and e.op in ("+", "*") and not _grows(e.a, loop, moves):
        e = Binary(e.op, e.b, e.a)
    if isinstance(e, Binary) and e.op == "*":
        return _grows(e.a, loop, moves) and is_positive(e.b)
    if isinstance(e, Binary) and e.op in ("+", "/", "-"):
        turns = e.op == "/" and isinstance(e.b, Const) and e.b.value <= 0
        return _grows(e.a, loop, moves) and not used(e.b) & moves and not turns
    return False


def is_positive(step: Expr | None) -> bool:
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
    a, end = without_index_casts(cond.a), without_index_casts(cond.b)
    if isinstance(a, Binary) and a.op == "%":
        return without_index_casts(a.b) == end
    ends = ((s.var, s.cond) for s in loops if isinstance(s.cond, Binary) and s.cond.op == "<")
    return any(a == Var(v) == without_index_casts(e.a) and without_index_casts(e.b) == end for v, e in ends)


__all__ = ["breaks_to_continues", "is_positive", "returns_to_continues"]
