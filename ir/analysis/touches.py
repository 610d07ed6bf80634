"""Accesses to arrays, with their subscripts in terms of loop counters: what dependence tests compare."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ktc.ir.arith.affine import mentions
from ktc.ir.arith.counted_loops import counting, loop_step
from ktc.ir.atomic_ops import ANY_ORDER
from ktc.ir.fold import add, mul, simplify, sub
from ktc.ir.fragments import panel_of
from ktc.ir.nodes import (
    AsyncCopy,
    Atomic,
    Body,
    BulkCopy,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, scalar_of
from ktc.ir.walk import assigned, declared, stmt_exprs, substitute_expr, used, walk, walk_expr

from .defs import definitions, expand

Loop: TypeAlias = For | Par | Reduce | Scan


@dataclass(frozen=True)
class Range:
    """One loop in index space: ``var = start + step * counter``, ``0 <= counter < extent`` (None: not known)."""

    loop: Stmt
    counter: Sym
    extent: Expr | None


@dataclass(frozen=True)
class Touch:
    """One textual access. ``index`` is in loop counters; None where it is not known. ``order``: textual position."""

    buffer: Sym
    index: tuple[Expr, ...] | None
    mode: str  # read | write | "atomic" and a group of operations of which any two may change places
    width: int | Expr
    stmt: Stmt
    order: int
    ranges: tuple[Range, ...]


def touches(body: Body, outer: Sequence[Loop] = ()) -> list[Touch]:
    """Every access to an array in ``body``, in source order; ``outer`` are loops around it, outermost first."""
    changing = assigned(body) | set(declared(body))
    defs = _asked_for(body, outer, definitions(body))
    full = {s: expand(e, defs) for s, e in defs.items()}
    ranges: tuple[Range, ...] = ()
    env: dict[Sym, Expr] = dict(full)
    for loop in outer:
        r, value = _range(loop, env)
        ranges, env = (*ranges, r), _entered(env, loop.var, value)
    unknown = changing - set(full) - {x.var for x in _loops(body)}
    return list(_touches(body, ranges, env, unknown, _Order()))


def _asked_for(body: Body, outer: Sequence[Loop], defs: Mapping[Sym, Expr]) -> dict[Sym, Expr]:
    """Those of ``defs`` that subscripts and loops are made of: what else is computed may be long, and is not asked."""
    loops = [e for s in (*outer, *_loops(body)) for e in _ends(s)]
    left = [v for e in loops for v in used(e)]
    left += [v for s in walk(body) for _, index, _, _ in _own_accesses(s) for i in index for v in used(i)]
    found: dict[Sym, Expr] = {}
    while left:
        v = left.pop()
        if v in defs and v not in found:
            found[v] = defs[v]
            left += used(defs[v])
    return {v: e for v, e in defs.items() if v in found}


def _ends(loop: Loop) -> Sequence[Expr]:
    """What says where ``loop`` begins, how it goes on and where it ends."""
    return (loop.init, loop.cond, loop.step) if isinstance(loop, For) else (loop.lo, loop.hi)


@dataclass
class _Order:
    n: int = 0

    def next(self) -> int:
        self.n += 1
        return self.n


def _loops(body: Body) -> Iterator[Loop]:
    for s in body:
        if isinstance(s, For | Par | Reduce | Scan):
            yield s
        for b in bodies(s):
            yield from _loops(b)


def _range(loop: Loop, env: Mapping[Sym, Expr]) -> tuple[Range, Expr]:
    """The range of a loop, and its variable in terms of the range's counter."""
    counter = fresh(loop.var.name, loop.var.type)
    if not isinstance(loop, For):
        lo, hi = substitute_expr(loop.lo, env), substitute_expr(loop.hi, env)
        return Range(loop, counter, simplify(sub(hi, lo))), simplify(add(lo, Var(counter)))
    step = loop_step(loop)
    if step is None or loop.var in assigned(loop.body):
        return Range(loop, counter, None), Var(counter)
    init = substitute_expr(loop.init, env)
    form = counting(loop)
    extent = simplify(sub(substitute_expr(form.hi, env), init)) if form is not None and form.by_one else None
    return Range(loop, counter, extent), simplify(add(init, mul(Var(counter), substitute_expr(step, env))))


def _entered(env: Mapping[Sym, Expr], var: Sym, value: Expr) -> dict[Sym, Expr]:
    """``env`` inside a loop whose variable is ``value``: names of indices are in terms of its counter, too."""
    return {**{s: substitute_expr(e, {var: value}) for s, e in env.items()}, var: value}


def _touches(
    body: Body, ranges: tuple[Range, ...], env: Mapping[Sym, Expr], unknown: Collection[Sym], order: _Order
) -> Iterator[Touch]:
    for s in body:
        inner, inner_env = ranges, env
        if isinstance(s, For | Par | Reduce | Scan):
            r, value = _range(s, env)
            inner, inner_env = (*ranges, r), _entered(env, s.var, value)
        elif isinstance(s, While):
            inner = (*ranges, Range(s, fresh("while", I32), None))
        for buffer, index, mode, width in _own_accesses(s):
            known = tuple(simplify(substitute_expr(i, inner_env)) for i in index)
            fixed = not any(mentions(i, unknown) or any(isinstance(x, Load) for x in walk_expr(i)) for i in known)
            yield Touch(buffer, known if fixed else None, mode, width, s, order.next(), inner)
        for b in bodies(s):
            yield from _touches(b, inner, inner_env, unknown, order)


def _own_accesses(s: Stmt) -> Iterator[tuple[Sym, tuple[Expr, ...], str, int | Expr]]:
    for e in stmt_exprs(s):
        for x in walk_expr(e):
            if isinstance(x, Load):
                yield x.buffer, x.index, "read", x.width
    if isinstance(s, Store):
        yield s.buffer, s.index, "write", s.width
    elif isinstance(s, Atomic):
        yield s.buffer, s.index, ANY_ORDER.get(s.op, "write") if s.dst is None else "write", 1
    elif isinstance(s, BulkCopy):
        yield s.src, (add(mul(s.origin[0], s.pitch), s.origin[1]),), "read", panel_of(scalar_of(s.src.type))
        yield s.dst, s.dst_index, "write", s.rows * panel_of(scalar_of(s.dst.type))
    elif isinstance(s, AsyncCopy):
        yield s.src, s.src_index, "read", s.width
        yield s.dst, s.dst_index, "write", s.width
