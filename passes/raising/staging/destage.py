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
from itertools import chain

from ktc.ir.analysis.uniformity import uniformity_of
from ktc.ir.arith.counted_loops import count
from ktc.ir.fold import add, cast, i32, simplify
from ktc.ir.nodes import (
    BODY_FIELDS,
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
    Unary,
    Var,
    VecMake,
    While,
    bodies,
    fresh,
)
from ktc.ir.storage import is_local_array, is_shared
from ktc.ir.types import I32, Array, Scalar, Vec, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    map_body,
    map_expr,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
)
from ktc.passes.raising.normalise.scalars import lane_of, scalarised
from ktc.passes.raising.raise_report import Region
from ktc.passes.raising.recognise.equal_values import alike
from ktc.passes.shared.conjuncts import conjuncts_of

from .flat_rows import by_rows
from .plain_sums import plain_sum
from .registers import recomputed
from .tile_fills import Copy, Table, copies_of, expanded, writes
from .writer_values import NotStaged


@dataclass(frozen=True)
class Staged(Region):
    """A shared array that gave way to elements of ``buffer``; ``by_rows``: each thread's cells have its own numbers for
    coordinates, without quotients of a flattened one. ``untested``: conditions of a rim were left out."""

    array: Sym | None = None
    buffer: Sym | None = None
    by_rows: bool = False
    untested: bool = False


def destaged(body: Body, block: tuple[int, int, int], *, rims: bool = False) -> tuple[Body, tuple[Staged, ...]]:
    """``body`` with as many shared arrays as possible replaced by what they stand for, and what was done.

    ``rims``: what a rim one cell wide is filled under counts, too, as if its threads stood where its cells lie.
    """
    regions: list[Staged] = []
    by_lanes = map_body(body, _lane_by_lane)
    body = scalarised(by_lanes)
    if by_lanes is not body and any(is_local_array(s.sym) for s in walk(body) if isinstance(s, Alloc)):
        body, _ = recomputed(body)  # registers between memory and a tile, or a tile and what is computed of it
    for s in [s for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym)]:
        varying = uniformity_of(body).varying
        found = None
        for form, array in chain([(body, s.sym)], by_rows(body, s.sym)):
            try:
                found = _without(form, array, block, varying, rims)
                break
            except NotStaged:
                continue
        if found is None:
            continue
        body, fitted = found
        what = f"'{s.sym.name}' stands for global elements"
        how = "cells fitted to the copy, thread by thread"
        regions.append(Staged("staged", what, how, s.loc, s.sym, fitted.buffer, fitted.by_rows, fitted.untested))
    if regions and not any(is_shared(b) for b in used_in(body) | assigned(body)):
        body = map_body(body, lambda s: None if isinstance(s, Barrier) else s)
    return body, tuple(regions)


def _lane_by_lane(s: Stmt) -> Stmt:
    """``s``; of a vector that is loaded to registers, a loop over its lanes."""
    if not isinstance(s, Store) or not isinstance(s.width, int) or s.width == 1 or not is_local_array(s.buffer):
        return s
    value = s.value
    if not isinstance(value, Load) or value.width != s.width:
        return s
    lane = fresh("lane", I32)
    here = (*s.index[:-1], add(cast(s.index[-1], I32), Var(lane)))
    there = (*value.index[:-1], add(value.index[-1], cast(Var(lane), scalar_of(value.index[-1].type))))
    one = dataclasses.replace(s, index=here, value=dataclasses.replace(value, index=there, width=1), width=1)
    return count(lane, i32(s.width), one)


def _without(
    body: Body, array: Sym, block: tuple[int, int, int], varying: Collection[Sym], rims: bool
) -> tuple[Body, Fitted]:
    """``body`` without ``array``, and what that held.

    ``varying``: what each thread has its own value of, which is no function of the cell.

    Raises:
        NotStaged: its contents are not known as a function of the cell.
    """
    if any(isinstance(s, Atomic) and s.buffer == array for s in walk(body)):
        raise NotStaged
    done = _in_list(body, array, block, {}, varying, rims)
    if done is None:
        raise NotStaged
    out, fitted = map_body(done[0], lambda s: None if _drops(s, array) else s), done[1]
    if array in used_in(out):
        raise NotStaged
    return out, fitted


def _drops(s: Stmt, array: Sym) -> bool:
    return (isinstance(s, Store) and s.buffer == array) or (isinstance(s, Alloc) and s.sym == array)


def _in_list(
    body: Body, array: Sym, block: tuple[int, int, int], env: dict[Sym, Expr], varying: Collection[Sym], rims: bool
) -> tuple[Body, Fitted] | None:
    """The list with the one copy phase of ``array`` in it, its reads replaced; and what it copies."""
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
            inner = [_in_list(b, array, block, env, varying, rims) for b in bodies(s)]
            done = [x for x in inner if x is not None]
            if len(done) != 1:
                return None
            new = [x[0] if x is not None else old for x, old in zip(inner, bodies(s))]
            t = dataclasses.replace(s, **dict(zip(BODY_FIELDS[type(s)], new)))  # type: ignore[arg-type]
            return (*body[: writers[0]], t, *body[writers[0] + 1 :]), done[0][1]
    first, last = writers[0], writers[-1]
    copy = body[first : last + 1]
    env.update(_constants(body[:first]))
    if any(isinstance(x, Barrier) for x in walk(copy)) or array in _loads(body[: last + 1]):
        return None
    if not any(isinstance(s, Barrier) for s in body[last + 1 :]) and array in _loads(body[last + 1 :]):
        return None
    copies = copies_of(copy, array, env)
    fitted = _fit(copies, array, block, rims)
    gone = set(declared(copy)) - {d.sym for d in copy if isinstance(d, Decl)}  # known to the copy alone: a sum
    if (assigned(body[first:]) - set(declared(body[first:])) | set(varying) | gone) & _needs(fitted):
        return None

    def on(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer != array or e.width != 1:
            return e
        if len(e.index) == len(fitted.cell):
            return fitted(tuple(e.index))
        lane = e.index[-1]  # of the vector that a cell holds
        value = lane_of(fitted(tuple(e.index[:-1])), int(lane.value), {}) if isinstance(lane, Const) else None
        if value is None:
            raise NotStaged
        return value

    return (*body[: last + 1], *map_body(body[last + 1 :], keep, on)), fitted


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
    """The contents of a cell: ``value`` over the cell's coordinates ``cell``; how ``Staged`` says it was copied."""

    cell: tuple[Sym, ...]
    value: Expr
    by_rows: bool = False
    untested: bool = False

    @property
    def buffer(self) -> Sym | None:
        """The buffer that the array holds a part of, if that is one."""
        loaded = {e.buffer for e in walk_expr(self.value) if isinstance(e, Load)}
        copied = {b for b in loaded if not isinstance(b.type, Array)}
        return next(iter(copied)) if len(copied) == 1 else None

    def __call__(self, index: tuple[Expr, ...]) -> Expr:
        env = {c: cast(i, I32) for c, i in zip(self.cell, index)}
        return map_expr(simplify(substitute_expr(self.value, env)), plain_sum)


def _fit(copies: list[Copy], array: Sym, block: tuple[int, int, int], rims: bool) -> Fitted:
    """The one function of the cell that every store of the copy agrees with.

    The store with the most writers says what it is. Of a store that a few threads make, at a rim, the cells may not say
    how values change along a row: that is enough to agree. Each store brings its conditions; together they say which
    elements exist, taking it that what one of them does not test holds for its cells. What is tested at a rim one cell
    wide names no cell: it is left out, or, for ``rims``, taken as the store with the most writers would test it there.
    """
    if not copies:
        raise NotStaged
    dims = len(copies[0].store.index)
    cell = tuple(fresh(f"s{d}", I32) for d in range(dims))
    tables = [Table(c, block, cell) for c in copies]
    order = sorted(range(len(copies)), key=lambda k: -len(tables[k].writes.rows))
    value: Expr | None = None
    other: Expr | None = None
    tests: list[Expr] = []
    untested = False
    if rims:
        tables = [t if k == order[0] else t.beside(tables[order[0]]) for k, t in enumerate(tables)]
    for c, table in ((copies[k], tables[k]) for k in order):
        here = expanded(c.store.value, c.env)
        mine, conds, pad = _choice(here)
        if value is None:
            value = table.of_cell(mine)
        elif not table.agree(mine, value) and not alike(table.of_cell(mine), value):
            raise NotStaged
        if pad is not None and other is not None and pad != other:
            raise NotStaged
        other = other if pad is None else pad
        for part in (*conds, *(p for cond in c.conds for p in conjuncts_of(expanded(cond, c.env)))):
            if table.is_own(part) or any(table.agree(part, t) for t in tests):
                continue  # says which threads copy, not whether the element exists; or is said already
            test = table.of_cell(part)
            if used(test) & set(cell) or not table.depends(part):
                tests.append(test)
            else:  # of the rim's threads: what others test holds
                untested = True
    assert value is not None
    if tests:
        cond = tests[0]
        for t in tests[1:]:
            cond = Binary("&&", cond, t)
        value = Select(cond, value, other if other is not None else _zero(value))
    by_rows = not any(_divided(expanded(e, c.env)) for c in copies for e in (*c.store.index, c.store.value))
    return Fitted(cell, value, by_rows, untested)


def _choice(value: Expr) -> tuple[Expr, list[Expr], Expr | None]:
    """``a ? x : 0`` and ``b ? 0 : x`` as (x, the conditions under which it is taken, what is taken else)."""
    if not isinstance(value, Select):
        return value, [], None
    first, second = (any(isinstance(x, Load) for x in walk_expr(e)) for e in (value.a, value.b))
    if first and not second:
        inner, conds, pad = _choice(value.a)
        taken, other = conjuncts_of(value.cond), value.b
    elif second and not first:
        inner, conds, pad = _choice(value.b)
        taken, other = conjuncts_of(Unary("!", value.cond)), value.a
    else:
        return value, [], None
    return (inner, taken + conds, other) if pad is None or pad == other else (value, [], None)


def _divided(index: Expr) -> bool:
    return any(isinstance(e, Binary) and e.op in ("/", "%", ">>", "&") for e in walk_expr(index))


def _zero(e: Expr) -> Expr:
    t = scalar_of(e.type)
    zero = Const(0.0 if t.is_float else 0, t)
    return VecMake(e.type, (zero,) * e.type.n) if isinstance(e.type, Vec) and isinstance(e.type.n, int) else zero
