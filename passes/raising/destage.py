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
from collections.abc import Collection
from dataclasses import dataclass

from ktc.ir.fold import cast, simplify
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
    If,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    While,
    bodies,
    fresh,
)
from ktc.ir.storage import is_shared
from ktc.ir.types import I32, Array, Scalar, scalar_of
from ktc.ir.uniformity import uniformity_of
from ktc.ir.walk import all_exprs, assigned, declared, keep, map_body, substitute_expr, used, used_in, walk, walk_expr

from .alike import alike, conjuncts_of
from .copies import Copy, NotStaged, Table, copies_of, expanded, writes
from .report import Region
from .scalars import scalarised


@dataclass(frozen=True)
class Staged(Region):
    """A shared array that gave way to elements of ``buffer``."""

    array: Sym | None = None
    buffer: Sym | None = None


def destaged(body: Body, block: tuple[int, int, int]) -> tuple[Body, tuple[Staged, ...]]:
    """``body`` with as many shared arrays as possible replaced by what they stand for, and what was done."""
    regions: list[Staged] = []
    body = scalarised(body)
    for s in [s for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym)]:
        varying = uniformity_of(body).varying
        try:
            body, buffer = _without(body, s.sym, block, varying)
        except NotStaged:
            continue
        what = f"'{s.sym.name}' stands for global elements"
        how = "cells fitted to the copy, thread by thread"
        regions.append(Staged("staged", what, how, s.loc, s.sym, buffer))
    if regions and not any(is_shared(b) for b in used_in(body) | assigned(body)):
        body = map_body(body, lambda s: None if isinstance(s, Barrier) else s)
    return body, tuple(regions)


def _without(body: Body, array: Sym, block: tuple[int, int, int], varying: Collection[Sym]) -> tuple[Body, Sym | None]:
    """``body`` without ``array``, and the buffer that it holds a part of, if that is one.

    ``varying``: what each thread has its own value of, which is no function of the cell.

    Raises:
        NotStaged: its contents are not known as a function of the cell.
    """
    if any(isinstance(s, Atomic) and s.buffer == array for s in walk(body)):
        raise NotStaged
    done = _in_list(body, array, block, {}, varying)
    if done is None:
        raise NotStaged
    out = map_body(done, lambda s: None if _drops(s, array) else s)
    if array in used_in(out):
        raise NotStaged
    copied = {e.buffer for s in walk(body) if isinstance(s, Store) and s.buffer == array
              for e in walk_expr(s.value) if isinstance(e, Load) and not isinstance(e.buffer.type, Array)}  # fmt: skip
    return out, next(iter(copied)) if len(copied) == 1 else None


def _drops(s: Stmt, array: Sym) -> bool:
    return (isinstance(s, Store) and s.buffer == array) or (isinstance(s, Alloc) and s.sym == array)


def _in_list(
    body: Body, array: Sym, block: tuple[int, int, int], env: dict[Sym, Expr], varying: Collection[Sym]
) -> Body | None:
    """The list with the one copy phase of ``array`` in it, its reads replaced."""
    env = dict(env)
    writers = [k for k, s in enumerate(body) if writes(s, array)]
    if not writers:
        return None
    if len(writers) == 1 and isinstance(body[writers[0]], For | If | While):
        s = body[writers[0]]
        if any(isinstance(x, Barrier) for x in walk((s,))):
            env.update(_constants(body[: writers[0]]))
            if any(array in _loads((t,)) for t in body if t is not s):
                return None
            inner = [_in_list(b, array, block, env, varying) for b in bodies(s)]
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
    copies = copies_of(copy, array, env)
    fitted = _fit(copies, array, block)
    if (assigned(body[first:]) - set(declared(body[first:])) | set(varying)) & _needs(fitted):
        return None

    def on(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == array and e.width == 1:
            return fitted(tuple(e.index))
        return e

    return (*body[: last + 1], *map_body(body[last + 1 :], keep, on))


def _needs(fitted: Fitted) -> set[Sym]:
    return {s for s in used(fitted.value) if isinstance(s.type, Scalar)} - set(fitted.cell)


def _loads(body: Body) -> set[Sym]:
    return {x.buffer for x in all_exprs(body) if isinstance(x, Load)}


def _constants(body: Body) -> dict[Sym, Expr]:
    changed = assigned(body)
    return {s.sym: s.init for s in body if isinstance(s, Decl) and s.init is not None and s.sym not in changed
            and isinstance(s.sym.type, Scalar)}  # fmt: skip


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
    cell = tuple(fresh(f"s{d}", I32) for d in range(dims))
    values: list[Expr] = []
    guards: list[Expr] = []
    for c in copies:
        table = Table(c, block, cell)
        value = table.of_cell(expanded(c.store.value, c.env))
        for cond in c.conds:
            for part in conjuncts_of(expanded(cond, c.env)):
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
