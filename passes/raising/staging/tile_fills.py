"""The stores that fill a shared array: what each writes, under which conditions, and the table of its writers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fields import with_children
from ktc.ir.fold import add, cast, evaluate, i32, mul, simplify
from ktc.ir.nodes import (
    Binary,
    Body,
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
)
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, substitute_expr, used, walk, walk_expr
from ktc.passes.raising.recognise.coordinates import AXES
from ktc.passes.raising.recognise.equal_values import alike
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.equal_integers import same

from .writer_values import NotStaged, atoms_of, coordinates, known, number, placed

MAX_WRITERS = 1 << 14
SOME = 8
"""Writers that are looked at to see whether two stores agree."""


@dataclass(frozen=True)
class Copy:
    """One store of the copy: its cell, value, the conditions it stands under, and the loops of the copy around it."""

    store: Store
    conds: tuple[Expr, ...]
    loops: tuple[For, ...]
    env: dict[Sym, Expr]


def writes(s: Stmt, array: Sym) -> bool:
    return any(isinstance(x, Store) and x.buffer == array for x in walk((s,)))


def copies_of(body: Body, array: Sym, env: dict[Sym, Expr]) -> list[Copy]:
    out: list[Copy] = []
    changed = assigned(body)

    def go(body: Body, conds: tuple[Expr, ...], loops: tuple[For, ...], env: dict[Sym, Expr]) -> None:
        env = dict(env)
        for s in body:
            if isinstance(s, Decl) and s.init is not None and s.sym not in changed:
                env[s.sym] = s.init
            elif isinstance(s, Store) and s.buffer == array:
                out.append(Copy(s, conds, loops, dict(env)))
            elif isinstance(s, If):
                go(s.then, (*conds, s.cond), loops, env)
                go(s.orelse, (*conds, Unary("!", s.cond)), loops, env)
            elif isinstance(s, For):
                go(s.body, conds, (*loops, s), env)
            elif writes(s, array):
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


def expanded(e: Expr, env: dict[Sym, Expr]) -> Expr:
    """``e`` over hardware indices, copy loop variables and what the copy finds."""
    for _ in range(24):
        if not used(e) & env.keys():
            return e
        e = substitute_expr(e, env)
    raise NotStaged


@dataclass(frozen=True)
class Writes:
    """Values of thread indices and loop variables, and the cell that each writes."""

    rows: list[dict]
    at: np.ndarray


class Table:
    """All writers of one store: the values of thread indices and copy loop variables, and the cell of each."""

    main: Table | None = None
    """Of a store beside this one that has more writers: how what threads know changes where cells do not say."""

    def __init__(self, c: Copy, block: tuple[int, int, int], cell: tuple[Sym, ...]) -> None:
        self.cell = cell
        rows: list[dict] = []
        threads = int(np.prod(block))
        if threads > MAX_WRITERS:
            raise NotStaged
        for t in range(threads):
            env: dict = {HwIndex("thread", a): v for a, v in zip(AXES, coordinates(t, block))}
            self._rounds(c, 0, env, rows)
        self.keys = [HwIndex("thread", a) for a, n in zip(AXES, block) if n > 1] + [f.var for f in c.loops]
        self.own = set(self.keys)
        conds = [p for cond in c.conds for p in conjuncts_of(expanded(cond, c.env)) if self.is_own(p)]
        self.index = [expanded(i, c.env) for i in c.store.index]
        self.every = self._writes(rows)
        self.writes = self._writes([r for r in rows if all(number(p, r) for p in conds)]) if conds else self.every
        if not self.writes.rows:
            raise NotStaged

    def beside(self, main: Table) -> Table:
        """This table, with values along coordinates of which its cells have one number only as ``main`` has them."""
        out = copy(self)
        out.main = main
        return out

    def _writes(self, rows: list[dict]) -> Writes:
        return Writes(rows, np.array([[known(number(i, r)) for i in self.index] for r in rows], dtype=np.int64))

    def _rounds(self, c: Copy, depth: int, env: dict, rows: list[dict]) -> None:
        if depth == len(c.loops):
            rows.append(env)
            if len(rows) > MAX_WRITERS:
                raise NotStaged
            return
        f = c.loops[depth]
        v = known(number(expanded(f.init, c.env), env))
        for _ in range(MAX_WRITERS):
            here = {**env, f.var: v}
            if not known(number(expanded(f.cond, c.env), here)):
                return
            self._rounds(c, depth + 1, here, rows)
            v = known(number(expanded(f.step, c.env), here))
        raise NotStaged

    def is_own(self, e: Expr) -> bool:
        """Whether ``e`` depends on the writer alone: thread index and round, and on something of it at all."""
        atoms = atoms_of(e)
        return bool(atoms) and atoms <= self.own and not any(isinstance(x, Load) for x in walk_expr(e))

    def depends(self, e: Expr) -> bool:
        """Whether ``e`` differs between writers."""
        return bool(atoms_of(e) & self.own)

    def of_cell(self, e: Expr) -> Expr:
        """``e`` as a function of the cell."""
        atoms = atoms_of(e)
        if not atoms & self.own:
            return e
        if self.is_own(e) and isinstance(e.type, Scalar) and e.type.is_int:
            fit = self._affine(e)
            if fit is not None:
                return cast(fit, e.type)
        if isinstance(e, Var | HwIndex | WarpOp):
            raise NotStaged
        if (together := self._own_terms(e)) is not None:
            return together
        try:
            return with_children(e, self.of_cell)
        except NotStaged:
            linear = self._linear(e) if isinstance(e.type, Scalar) and e.type.is_int else None
            if linear is None:
                raise
            return linear

    def _own_terms(self, e: Expr) -> Expr | None:
        """The sum ``e`` with those of its terms that know the writer alone fitted together: where a thread's elements
        begin and which of them it is (``(tid % 2) * 4 + q``) each say nothing of the cell."""
        if not isinstance(e, Binary) or e.op != "+" or not isinstance(e.type, Scalar) or not e.type.is_int:
            return None
        terms = list(_terms(e))
        mine = [x for x in terms if self.is_own(x)]
        if not 1 < len(mine) < len(terms):
            return None
        fit = self._affine(reduce(add, mine))
        if fit is None:
            return None
        return reduce(add, (self.of_cell(x) for x in terms if x not in mine), cast(fit, e.type))

    def _linear(self, e: Expr) -> Expr | None:
        """``e`` as sums of the writer's atoms times coefficients that do not know the writer; each sum is fitted."""
        form = linear_form(e, self.own)
        if form is None:
            return None
        groups: list[tuple[Expr, Expr]] = []
        for atom, coefficient in form.coeffs.items():
            c, times = _primitive(coefficient)
            x = mul(cast(atom, I32) if isinstance(atom, HwIndex) else cast(Var(atom), I32), i32(times))
            at = next((k for k, (d, _) in enumerate(groups) if same(c, d)), None)
            if at is None:
                groups.append((c, x))
            else:
                groups[at] = (groups[at][0], add(groups[at][1], x))
        t = e.type
        assert isinstance(t, Scalar)
        out = cast(form.rest, t)
        for c, x in groups:
            fit = self._affine(x)
            if fit is None:
                return None
            out = add(out, mul(cast(fit, t), cast(c, t)))
        return out

    def agree(self, here: Expr, cells: Expr) -> bool:
        """Whether ``here``, what the writers store or test, is ``cells`` at the cells they write (at some of them: what
        is guessed is checked later)."""
        some = range(0, len(self.writes.rows), max(1, len(self.writes.rows) // SOME))
        return all(alike(*self._both(here, cells, k)) for k in some)

    def _both(self, here: Expr, cells: Expr, k: int) -> tuple[Expr, Expr]:
        row, at = self.writes.rows[k], self.writes.at[k]
        to: dict[Sym, Expr] = {c: i32(int(v)) for c, v in zip(self.cell, at)}
        return simplify(placed(here, row)), simplify(substitute_expr(cells, to))

    def _affine(self, e: Expr) -> Expr | None:
        """``e`` over the cell: the form that would hold for all threads, did all of them write, before one that holds
        for the writers alone (a column of them says nothing of how values change along a row)."""
        found = self._affine_in(e, self.every)
        return found if found is not None or self.every is self.writes else self._affine_in(e, self.writes)

    def _affine_in(self, e: Expr, writes: Writes) -> Expr | None:
        y = np.array([known(number(e, r)) for r in writes.rows], dtype=np.float64)
        moving = np.ptp(writes.at, axis=0) > 0  # a coordinate that is one number says nothing
        held = np.zeros(len(self.cell)) if self.main is None else self.main._slopes(e) * ~moving
        y -= writes.at @ held
        a = np.column_stack([np.ones(len(y)), writes.at * moving]).astype(np.float64)
        solution = np.rint(np.linalg.lstsq(a, y, rcond=None)[0])
        if not np.array_equal(a @ solution, y):
            return None
        out: Expr = i32(int(solution[0]))
        for c, k in zip(self.cell, solution[1:] * moving + held):
            if k:
                out = add(out, mul(Var(c), i32(int(k))))
        return out

    def _slopes(self, e: Expr) -> np.ndarray:
        """By how much ``e`` changes from cell to cell along each coordinate; 0 where that is not known."""
        fit = self._affine(e)
        form = None if fit is None else linear_form(fit, set(self.cell))
        found = [None if form is None else evaluate(form.coeff(c), {}) for c in self.cell]
        return np.array([k or 0 for k in found], dtype=np.float64)


def _terms(e: Expr) -> Iterator[Expr]:
    """The parts of the sum ``e``."""
    if isinstance(e, Binary) and e.op == "+":
        yield from _terms(e.a)
        yield from _terms(e.b)
    else:
        yield e


def _primitive(c: Expr) -> tuple[Expr, int]:
    """``c`` as (what is left of it, the largest number that divides it)."""
    p = polynomial(c)
    content = gcd(*p.values())
    return (c, 1) if content < 2 else (from_polynomial({f: k // content for f, k in p.items()}, c.type), content)


__all__ = ["Copy", "Table", "copies_of", "expanded", "writes"]
