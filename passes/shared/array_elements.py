"""Elements of small private arrays as variables of their own.

before                                          after
    array count: i32[2]                             var count_0: i32 = 0
    for k in 0..2                                   var count_1: i32 = 0
      count[k] = 0                                  for i in 0..n
    for i in 0..n                                     if x[i] > 0.0
      if x[i] > 0.0                                     count_0 += 1
        count[0] += 1                                 else
      else                                              count_1 += 1
        count[1] += 1

An array is taken apart if each access is to an element that is known once loops of a few iterations, those whose
counters say which element it is, are written out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktc.ir.analysis.order import jump, pinned
from ktc.ir.fold import cast, evaluate, i32, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Assign, Body, Decl, Expr, For, Load, Stmt, Store, Sym, Var, fresh, has_bodies
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import (
    assigned,
    map_body,
    mentions,
    refresh,
    stmt_exprs,
    substitute,
    substitute_expr,
    used,
    walk,
    walk_expr,
    with_bodies,
)

MOST_ELEMENTS = 32
"""Elements of an array that is taken apart: extents of as many dimensions as tensors may have."""

MOST_TURNS = 16
"""Iterations of a loop that is written out for it."""


def with_elements_apart(kernel: Kernel, exchanging: bool = False) -> Kernel:
    """``kernel`` with the elements of small private arrays as variables; the same object where there are none.

    ``exchanging``: loops in which threads exchange values are written out, too; all of them take the same iterations.
    """
    small = {s.sym for s in walk(kernel.body) if isinstance(s, Alloc) and 0 < _length(s.sym) <= MOST_ELEMENTS}
    while small:
        body = _written_out(kernel.body, small, exchanging)
        lost = small - _known(body, small)
        if not lost:
            return kernel.with_(body=_late(_apart(body, small)))
        small -= lost  # loops are written out for arrays that are taken apart, and for no others
    return kernel


def _length(b: Sym) -> int:
    """Elements of the private array ``b`` of scalars in one dimension; 0 if it is none, or its length is open."""
    if not is_local_array(b) or not isinstance(b.type, Array) or len(b.type.shape) != 1:
        return 0
    return int(evaluate(b.type.shape[0], {}) or 0) if isinstance(b.type.elem, Scalar) else 0


# ------------------------------------------------------------------------------------------------- which element it is


def _written_out(body: Body, arrays: Collection[Sym], exchanging: bool) -> Body:
    """``body`` with the short loops whose counters choose an element of ``arrays`` as one iteration after another."""

    def on(s: Stmt) -> Stmt | Body:
        rounds = _rounds(s, arrays, exchanging) if isinstance(s, For) else ()
        if not rounds or not isinstance(s, For):
            return s
        turns = (refresh(substitute(s.body, {s.var: cast(i32(n), s.var.type)})) for n in rounds)  # type: ignore[arg-type]
        return tuple(x for turn in turns for x in turn)

    return map_body(body, on)


def _rounds(s: For, arrays: Collection[Sym], exchanging: bool) -> Collection[int]:
    """The values of the counter of ``s`` if there are few and they choose elements of ``arrays``; else none."""
    if jump(s.body) or (pinned(s.body) and not exchanging) or s.var in assigned(s.body):
        return ()
    chooses = any(b in arrays and i is not None and s.var in used(i) for b, i in _accesses(s.body))
    out: list[int] = []
    now = evaluate(s.init, {}) if chooses else None
    while now is not None and len(out) <= MOST_TURNS:
        at = {s.var: cast(i32(int(now)), s.var.type)}  # type: ignore[arg-type]
        goes_on = evaluate(substitute_expr(s.cond, at), {})
        if not goes_on:
            return out if goes_on is not None else ()
        out.append(int(now))
        now = evaluate(substitute_expr(s.step, at), {})
    return ()


def _accesses(body: Body) -> Iterator[tuple[Sym, Expr | None]]:
    """Every use of an array in ``body``, with the one element that is loaded or stored; None for any other use."""
    for s in walk(body):
        if isinstance(s, Store):
            yield s.buffer, s.index[0] if s.width == 1 and len(s.index) == 1 else None
        loads = [x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)]
        yield from ((x.buffer, x.index[0] if x.width == 1 and len(x.index) == 1 else None) for x in loads)
        others = () if has_bodies(s) else mentions(s)
        counted = {x.buffer for x in loads} | ({s.buffer} if isinstance(s, Store) else set())
        yield from ((b, None) for b in others if is_local_array(b) and b not in counted)
        addressed = {b for e in stmt_exprs(s) for x in walk_expr(e) if not isinstance(x, Load | Var) for b in _named(x)}
        yield from ((b, None) for b in addressed)


def _named(x: Expr) -> set[Sym]:
    """Arrays that the node ``x`` itself names, which is no load: whose address it takes, or that opaque code uses."""
    return {*(getattr(x, "uses", ())), *((x.buffer,) if hasattr(x, "buffer") else ())}


def _known(body: Body, arrays: Collection[Sym]) -> set[Sym]:
    """Those of ``arrays`` that are used, and each use of which is of an element that is a number within its length."""
    met: set[Sym] = set()
    other: set[Sym] = set()
    for b, i in _accesses(body):
        if b in arrays and b not in other:
            met.add(b)
            n = None if i is None else evaluate(simplify(i), {})
            if n is None or not 0 <= n < _length(b):
                other.add(b)
    return met - other


# -------------------------------------------------------------------------------------------------------- as variables


def _apart(body: Body, arrays: Collection[Sym]) -> Body:
    """``body`` with a variable for each element of ``arrays``."""
    elements = {b: _variables(b) for b in arrays}

    def of(b: Sym, index: Expr) -> Sym:
        return elements[b][int(evaluate(simplify(index), {}) or 0)]

    def value(e: Expr) -> Expr:
        return Var(of(e.buffer, e.index[0])) if isinstance(e, Load) and e.buffer in elements else e

    def on(s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym in elements:
            return tuple(Decl(x) for x in elements[s.sym])
        if isinstance(s, Store) and s.buffer in elements:
            return Assign(of(s.buffer, s.index[0]), s.value, loc=s.loc, comments=s.comments)
        return s

    return map_body(body, on, value)


def _variables(b: Sym) -> list[Sym]:
    assert isinstance(b.type, Array) and isinstance(b.type.elem, Scalar)
    return [fresh(f"{b.name}_{k}", b.type.elem) for k in range(_length(b))]


def _late(body: Body) -> Body:
    """``body`` with variables without a value, that are given one first thing, declared where they are."""
    out: list[Stmt] = []
    open_: dict[Sym, Decl] = {}
    for s in body:
        if isinstance(s, Assign) and s.sym in open_ and s.sym not in used(s.value):
            out.remove(open_.pop(s.sym))
            s = Decl(s.sym, s.value, loc=s.loc, comments=s.comments)
        elif isinstance(s, Decl) and s.init is None and isinstance(s.sym.type, Scalar):
            open_[s.sym] = s
        for v in mentions(s):
            open_.pop(v, None)
        out.append(with_bodies(s, _late))
    return tuple(out)


__all__ = ["with_elements_apart"]
