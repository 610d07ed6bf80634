"""Staged computation: shared arrays that hold a copy of global elements give way to the elements they stand for.

before                                                   after
    tile[ty][tx] = in[row * w + col]                         out[i] = in[(row - ty + tx) * w + (col - tx + ty)]
    barrier
    out[i] = tile[tx][ty]

Every store is inverted by enumeration: for each thread and round of the copy loops, which cell it writes. A part of the
stored value that depends on the writer alone must be an affine function of the cell, fitted to that table; then the
value is a function of the cell, and a read of the cell can be replaced by it. Padding, transposition, flattened, wide
and strided copies, halos and guards change the table, not the method. What the source then computes is checked exactly.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from ktc.ir.fold import add, cast, evaluate, i32, mul, simplify
from ktc.ir.nodes import (
    Alloc,
    Atomic,
    Barrier,
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
    bodies,
)  # fmt: skip
from ktc.ir.types import I32, Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, keep, map_body, map_expr, substitute_expr, used, used_in, walk

from .alike import alike, conjuncts_of
from .coordinates import AXES
from .report import Region
from .scalars import scalarised
from .shape import expr_with_hardware, is_shared

MAX_WRITERS = 1 << 14
MAX_POINTS = 1 << 16


@dataclass(frozen=True)
class Copy:
    """One store of the copy: its cell, value, the conditions it stands under, and the loops of the copy around it."""

    store: Store
    conds: tuple[Expr, ...]
    loops: tuple[For, ...]
    env: dict[Sym, Expr]


class NotStaged(Exception):
    """This array is no copy of global elements."""


def destaged(body: Body, block: tuple[int, int, int]) -> tuple[Body, tuple[Region, ...]]:
    """``body`` with as many shared arrays as possible replaced by what they stand for, and what was done."""
    regions: list[Region] = []
    body = scalarised(body)
    for s in [s for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym)]:
        try:
            body = _without(body, s.sym, block)
        except NotStaged:
            continue
        what = f"'{s.sym.name}' stands for global elements"
        regions.append(Region("staged", what, "cells fitted to the copy, thread by thread", s.loc))
    if regions and not any(is_shared(b) for b in used_in(body) | assigned(body)):
        body = map_body(body, lambda s: None if isinstance(s, Barrier) else s)
    return body, tuple(regions)


def _without(body: Body, array: Sym, block: tuple[int, int, int]) -> Body:
    """``body`` without ``array``.

    Raises:
        NotStaged: its contents are not known as a function of the cell.
    """
    if any(isinstance(s, Atomic) and s.buffer == array for s in walk(body)):
        raise NotStaged
    done = _in_list(body, array, block, {})
    if done is None:
        raise NotStaged
    out = map_body(done, lambda s: None if _drops(s, array) else s)
    if array in used_in(out):
        raise NotStaged
    return out


def _drops(s: Stmt, array: Sym) -> bool:
    return (isinstance(s, Store) and s.buffer == array) or (isinstance(s, Alloc) and s.sym == array)


def _in_list(body: Body, array: Sym, block: tuple[int, int, int], env: dict[Sym, Expr]) -> Body | None:
    """The list with the one copy phase of ``array`` in it, its reads replaced."""
    env = dict(env)
    writers = [k for k, s in enumerate(body) if _writes(s, array)]
    if not writers:
        return None
    if len(writers) == 1 and isinstance(body[writers[0]], For | If | While):
        s = body[writers[0]]
        if any(isinstance(x, Barrier) for x in walk((s,))):
            env.update(_constants(body[: writers[0]]))
            if any(array in _loads((t,)) for t in body if t is not s):
                return None
            inner = [_in_list(b, array, block, env) for b in bodies(s)]
            if sum(b is not None for b in inner) != 1:
                return None
            new = [b if b is not None else old for b, old in zip(inner, bodies(s))]
            names = ("then", "orelse") if isinstance(s, If) else ("body",)
            t = dataclasses.replace(s, **dict(zip(names, new)))  # type: ignore[arg-type]
            return (*body[: writers[0]], t, *body[writers[0] + 1 :])
    first, last = writers[0], writers[-1]
    copy = body[first : last + 1]
    env.update(_constants(body[:first]))
    if any(isinstance(x, Barrier) for x in walk(copy)) or array in _loads(body[: last + 1]):
        return None
    if not any(isinstance(s, Barrier) for s in body[last + 1 :]) and array in _loads(body[last + 1 :]):
        return None
    copies = _copies(copy, array, env)
    fitted = _fit(copies, array, block)
    if (assigned(body[first:]) - set(declared(body[first:]))) & _needs(fitted):
        return None

    def on(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == array and e.width == 1:
            return fitted(tuple(e.index))
        return e

    return (*body[: last + 1], *map_body(body[last + 1 :], keep, on))


def _needs(fitted: Fitted) -> set[Sym]:
    return {s for s in used(fitted.value) if isinstance(s.type, Scalar)} - set(fitted.cell)


def _writes(s: Stmt, array: Sym) -> bool:
    return any(isinstance(x, Store) and x.buffer == array for x in walk((s,)))


def _loads(body: Body) -> set[Sym]:
    return {x.buffer for x in all_exprs(body) if isinstance(x, Load)}


def _constants(body: Body) -> dict[Sym, Expr]:
    changed = assigned(body)
    return {s.sym: s.init for s in body if isinstance(s, Decl) and s.init is not None and s.sym not in changed
            and isinstance(s.sym.type, Scalar)}  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the stores


def _copies(body: Body, array: Sym, env: dict[Sym, Expr]) -> list[Copy]:
    out: list[Copy] = []

    def go(body: Body, conds: tuple[Expr, ...], loops: tuple[For, ...], env: dict[Sym, Expr]) -> None:
        env = dict(env)
        for s in body:
            if isinstance(s, Decl) and s.init is not None:
                env[s.sym] = s.init
            elif isinstance(s, Store) and s.buffer == array:
                out.append(Copy(s, conds, loops, dict(env)))
            elif isinstance(s, If):
                go(s.then, (*conds, s.cond), loops, env)
                go(s.orelse, (*conds, Unary("!", s.cond)), loops, env)
            elif isinstance(s, For):
                go(s.body, conds, (*loops, s), env)
            elif _writes(s, array):
                raise NotStaged

    go(body, (), (), env)
    return _paired(out)


def _paired(copies: list[Copy]) -> list[Copy]:
    """``if (c) a = x; else a = y`` and ``a = y; if (c) a = x`` as one store of ``c ? x : y``."""
    out: list[Copy] = []
    for c in copies:
        prev = out[-1] if out else None
        if prev is not None and prev.store.index == c.store.index and prev.loops == c.loops:
            if c.conds and c.conds[:-1] == prev.conds[:-1] and prev.conds and c.conds[-1] == Unary("!", prev.conds[-1]):
                value: Expr = Select(prev.conds[-1], prev.store.value, c.store.value)
                out[-1] = Copy(dataclasses.replace(c.store, value=value), c.conds[:-1], c.loops, {**prev.env, **c.env})
                continue
            if c.conds[: len(prev.conds)] == prev.conds and len(c.conds) == len(prev.conds) + 1:
                value = Select(c.conds[-1], c.store.value, prev.store.value)
                out[-1] = Copy(dataclasses.replace(c.store, value=value), prev.conds, c.loops, {**prev.env, **c.env})
                continue
        out.append(c)
    return out


def _expanded(e: Expr, env: dict[Sym, Expr]) -> Expr:
    """``e`` over hardware indices, copy loop variables and what the copy finds."""
    for _ in range(24):
        if not used(e) & env.keys():
            return e
        e = substitute_expr(e, env)
    raise NotStaged


# ------------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Fitted:
    """The contents of a cell: ``value`` over the cell's coordinates ``cell``."""

    cell: tuple[Sym, ...]
    value: Expr

    def __call__(self, index: tuple[Expr, ...]) -> Expr:
        env = {c: cast(i, I32) for c, i in zip(self.cell, index)}
        return simplify(substitute_expr(self.value, env))


def _fit(copies: list[Copy], array: Sym, block: tuple[int, int, int]) -> Fitted:
    """The one function of the cell that every store of the copy agrees with."""
    if not copies:
        raise NotStaged
    dims = len(copies[0].store.index)
    from ktc.ir.nodes import fresh

    cell = tuple(fresh(f"s{d}", I32) for d in range(dims))
    values: list[Expr] = []
    guards: list[Expr] = []
    for c in copies:
        table = _Table(c, block, cell)
        value = table.of_cell(_expanded(c.store.value, c.env))
        for cond in c.conds:
            for part in conjuncts_of(_expanded(cond, c.env)):
                if table.is_own(part):
                    continue  # says which threads copy, not whether the element exists
                g = table.of_cell(part)
                if not any(alike(g, h) for h in guards):
                    guards.append(g)
        if not any(alike(value, v) for v in values):
            values.append(value)
    value = _one_value(values)
    if guards:
        cond = guards[0]
        for g in guards[1:]:
            cond = Binary("&&", cond, g)
        value = Select(cond, value, _zero(value))
    return Fitted(cell, value)


def _one_value(values: list[Expr]) -> Expr:
    """One of several stores' values; guarded ones joined: ``a ? x : 0`` and ``b ? x : 0`` is ``a && b ? x : 0``."""
    if len(values) == 1:
        return values[0]
    plain = [v.a if isinstance(v, Select) else v for v in values]
    if not all(alike(plain[0], p) for p in plain[1:]):
        raise NotStaged
    conds: list[Expr] = []
    other: Expr | None = None
    for v in values:
        if isinstance(v, Select):
            other = v.b
            conds += [c for c in conjuncts_of(v.cond) if not any(alike(c, d) for d in conds)]
    assert other is not None
    cond = conds[0]
    for c in conds[1:]:
        cond = Binary("&&", cond, c)
    return Select(cond, plain[0], other)


def _zero(e: Expr) -> Expr:
    t = scalar_of(e.type)
    return Const(0.0 if t.is_float else 0, t)


class _Table:
    """All writers of one store: the values of thread indices and copy loop variables, and the cell of each."""

    def __init__(self, c: Copy, block: tuple[int, int, int], cell: tuple[Sym, ...]) -> None:
        self.cell = cell
        rows: list[dict] = []
        threads = int(np.prod(block))
        if threads > MAX_WRITERS:
            raise NotStaged
        for t in range(threads):
            env: dict = {HwIndex("thread", a): v for a, v in zip(AXES, _coordinates(t, block))}
            self._rounds(c, 0, env, rows)
        self.keys = [HwIndex("thread", a) for a, n in zip(AXES, block) if n > 1] + [f.var for f in c.loops]
        self.own = set(self.keys)
        conds = [p for cond in c.conds for p in conjuncts_of(_expanded(cond, c.env)) if self.is_own(p)]
        self.rows = [r for r in rows if all(_number(p, r) for p in conds)]
        if not self.rows:
            raise NotStaged
        index = [_expanded(i, c.env) for i in c.store.index]
        self.at = np.array([[_must(_number(i, r)) for i in index] for r in self.rows], dtype=np.int64)
        if len({tuple(r) for r in self.at.tolist()}) != len(self.rows):
            pass  # several writers of one cell: they must agree, which the fit sees

    def _rounds(self, c: Copy, depth: int, env: dict, rows: list[dict]) -> None:
        if depth == len(c.loops):
            rows.append(env)
            if len(rows) > MAX_WRITERS:
                raise NotStaged
            return
        f = c.loops[depth]
        v = _must(_number(_expanded(f.init, c.env), env))
        for _ in range(MAX_WRITERS):
            here = {**env, f.var: v}
            if not _must(_number(_expanded(f.cond, c.env), here)):
                return
            self._rounds(c, depth + 1, here, rows)
            v = _must(_number(_expanded(f.step, c.env), here))
        raise NotStaged

    def is_own(self, e: Expr) -> bool:
        """Whether ``e`` depends on the writer alone: thread index and round, and on something of it at all."""
        atoms = {x for x in walk_atoms(e)}
        return bool(atoms) and atoms <= self.own and not any(isinstance(x, Load) for x in _nodes(e))

    def of_cell(self, e: Expr) -> Expr:
        """``e`` as a function of the cell."""
        atoms = {x for x in walk_atoms(e)}
        if not atoms & self.own:
            return e
        if self.is_own(e) and isinstance(e.type, Scalar) and e.type.is_int:
            fit = self._affine(e)
            if fit is not None:
                return cast(fit, e.type)
        if isinstance(e, Var | HwIndex) or isinstance(e, WarpOp):
            raise NotStaged
        return _map_children(e, self.of_cell)

    def _affine(self, e: Expr) -> Expr | None:
        y = np.array([_must(_number(e, r)) for r in self.rows], dtype=np.float64)
        a = np.column_stack([np.ones(len(y)), self.at.astype(np.float64)])
        solution = np.rint(np.linalg.lstsq(a, y, rcond=None)[0])
        if not np.array_equal(a @ solution, y):
            return None
        out: Expr = i32(int(solution[0]))
        for c, k in zip(self.cell, solution[1:]):
            if k:
                out = add(out, mul(Var(c), i32(int(k))))
        return out


def _coordinates(t: int, block: tuple[int, int, int]) -> tuple[int, int, int]:
    return t % block[0], t // block[0] % block[1], t // (block[0] * block[1])


def _must(v: int | None) -> int:
    if v is None:
        raise NotStaged
    return int(v)


def _number(e: Expr, env: dict) -> int | None:
    """The value of an integer expression over thread indices and loop variables."""
    hw = {k: Const(v, I32) for k, v in env.items() if isinstance(k, HwIndex)}
    syms = {k: Const(v, k.type) for k, v in env.items() if isinstance(k, Sym)}
    v = evaluate(substitute_expr(expr_with_hardware(e, hw), syms), {})  # type: ignore[arg-type]
    return None if v is None else int(v)


def walk_atoms(e: Expr) -> set:
    return {x.sym if isinstance(x, Var) else x for x in _nodes(e) if isinstance(x, Var | HwIndex)}


def _nodes(e: Expr):
    from ktc.ir.walk import walk_expr

    return walk_expr(e)


def _map_children(e: Expr, f) -> Expr:
    changes = {}
    for field in dataclasses.fields(e):
        v = getattr(e, field.name)
        if isinstance(v, Expr):
            changes[field.name] = f(v)
        elif isinstance(v, tuple) and v and all(isinstance(x, Expr) for x in v):
            changes[field.name] = tuple(f(x) for x in v)
    return dataclasses.replace(e, **changes) if changes else e


__all__ = ["NotStaged", "destaged", "map_expr"]
