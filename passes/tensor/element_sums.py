"""Sums of a tile's elements along its terms, for each row or column: taken by all threads of a block, a part each.

A thread has some of the *parts* of a sum: 16 terms where they lie side by side, or every term of four neighbouring
columns, so that an access moves as many bytes as there are together. Parts are in registers from tile to tile; behind
the last tile they meet in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ktc.ir.analysis.order import places
from ktc.ir.arith.affine import cancelled, linear_form
from ktc.ir.arith.loop_extents import extent
from ktc.ir.fold import add, binary, both, evaluate, i32, is_const, lt, mul, simplify
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Binary,
    Body,
    Cast,
    Dist,
    Expr,
    Level,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, Array
from ktc.ir.walk import substitute_expr
from ktc.passes.core.refusals import Refusal

from .contractions import Factor

ROW, WORD = 16, 4
"""Elements that a thread adds up at once where terms, or rows (columns), lie side by side: of bytes, the widest access,
and a register."""


@dataclass(frozen=True)
class Tap:
    """One product of a tile: the loop over the factor's rows (columns), the reduction over terms, and the factor."""

    side: Par
    terms: Reduce
    factor: Factor


@dataclass(frozen=True)
class Shape:
    """How the sums of a tile of ``size`` rows (columns) are shared out: ``parts`` of ``terms`` each, ``width`` rows
    (columns) a thread; ``along``: whether neighbouring threads take the parts of one row."""

    size: int
    parts: int
    terms: int
    width: int
    along: bool

    @property
    def items(self) -> int:
        return self.size // self.width * self.parts

    def place(self, item: Expr, lane: Expr) -> tuple[Expr, Expr]:
        """(part, row or column) of what a thread adds up."""
        many = i32(self.parts if self.along else self.size // self.width)
        fast, slow = binary("%", item, many), binary("/", item, many)
        part, x = (fast, slow) if self.along else (slow, fast)
        return part, simplify(add(mul(x, i32(self.width)), lane))

    def term(self, part: Expr, j: Expr) -> Expr:
        """Term ``j`` of a part: one run of terms, or every so many-th, as neighbouring threads read one row each."""
        return add(mul(part, i32(self.terms)), j) if self.along else add(mul(j, i32(self.parts)), part)


@dataclass(frozen=True)
class ElementSums:
    """Sums of one factor's elements: the registers ``held``, and where they meet, ``total``."""

    name: str
    shape: Shape
    held: Sym
    total: Sym
    threads: Dist

    def around(self, inner: Sequence[Stmt], item: Sym, lane: Sym) -> Stmt:
        """The loops over a thread's items around ``inner``."""
        each = -(-self.shape.items // self._count)
        dist = self.threads if each == 1 else (*self.threads, Level("unroll", i32(each)))
        body = tuple(inner)
        if self.shape.width > 1:
            n = i32(self.shape.width)
            body = (Par(lane, i32(0), n, (Level("vec", n),), body),)
        return Par(item, i32(0), i32(self.shape.items), dist, body)

    @property
    def _count(self) -> int:
        return _threads(self.threads)

    def _at(self, item: Sym, lane: Sym) -> tuple[Expr, ...]:
        return (Var(item), Var(lane)) if self.shape.width > 1 else (Var(item),)

    def _variables(self) -> tuple[Sym, Sym]:
        return fresh("i", I32), fresh("v", I32)

    def before(self) -> Body:
        """The registers, and zeros in them."""
        i, v = self._variables()
        return (Alloc(self.held), self.around([Store(self.held, self._at(i, v), i32(0))], i, v))

    def added(self, tap: Tap, own: bool) -> Stmt:
        """The sums of one tile; ``own``: of elements with their offset."""
        i, v = self._variables()
        part, x = self.shape.place(Var(i), Var(v) if self.shape.width > 1 else i32(0))
        j = fresh("j", I32)
        term = self.shape.term(part, Var(j))
        env = {tap.side.var: add(tap.side.lo, x), tap.terms.var: add(tap.terms.lo, term)}
        load = tap.factor.load
        element = Load(load.buffer, tuple(cancelled(substitute_expr(e, env)) for e in load.index), cache=load.cache)
        value: Expr = Cast(I32, element)
        if own and tap.factor.offset is not None:
            value = add(value, substitute_expr(tap.factor.offset, env))
        cond: Expr | None = None
        for s in (tap.side, tap.terms):
            if extent(s.lo, s.hi).clips:
                cond = both(cond, lt(env[s.var], s.hi))
        if cond is not None:
            value = Select(cond, value, i32(0))
        n = i32(self.shape.terms)
        dist = (Level("vec" if self.shape.along and cond is None else "unroll", n),)
        total, at = fresh("part", I32), self._at(i, v)
        summed = Reduce((Acc(total, "+", Load(self.held, at), value),), j, i32(0), n, dist, ())
        return self.around([summed, Store(self.held, at, Var(total))], i, v)

    def after(self) -> Body:
        """The parts in shared memory, and their sums in the first of them."""
        i, v = self._variables()
        part, x = self.shape.place(Var(i), Var(v) if self.shape.width > 1 else i32(0))
        out: list[Stmt] = [Alloc(self.total)]
        out.append(self.around([Store(self.total, (part, x), Load(self.held, self._at(i, v)))], i, v))
        if self.shape.parts > 1:
            y, p, s = fresh("x", I32), fresh("p", I32), fresh("s", I32)
            value = Load(self.total, (Var(p), Var(y)))
            n = i32(self.shape.parts)
            summed = Reduce((Acc(s, "+", i32(0), value),), p, i32(0), n, (Level("unroll", n),), ())
            each = -(-self.shape.size // self._count)
            dist = self.threads if each == 1 else (*self.threads, Level("unroll", i32(each)))
            store = Store(self.total, (i32(0), Var(y)), Var(s))
            out.append(Par(y, i32(0), i32(self.shape.size), dist, (summed, store)))
        return tuple(out)

    def value(self, x: Expr) -> Expr:
        """The sum of row (column) ``x`` of the tile."""
        return Load(self.total, (i32(0), x))


def sums_of(taps: Sequence[Tap], threads: Dist) -> ElementSums:
    """The sums of the factor of ``taps``, the products of one tile of results.

    Raises:
        Refusal: E-OFFSET-SIZE, where the tile's sizes are open or differ.
    """
    first = taps[0]
    name = first.factor.load.buffer.name
    sizes = {tuple(_sizes(t)) for t in taps}
    (rows, terms), *others = sizes
    if others or rows is None or terms is None or not all(is_const(t.side.lo, 0) for t in taps):
        raise Refusal("E-OFFSET-SIZE", f"the tile of '{name}' has no known size", places(first.terms), "bind its knobs")
    shape = _shape(rows, terms, _threads(threads), _runs(first, first.terms.var), _runs(first, first.side.var))
    vectors = [i32(shape.width)] if shape.width > 1 else []
    held = fresh(f"{name}_part", Array(I32, (i32(shape.items), *vectors)))
    total = fresh(f"{name}_sum", Array(I32, (i32(shape.parts), i32(shape.size)), "shared"))
    return ElementSums(name, shape, held, total, threads)


def _threads(dist: Dist) -> int:
    """Threads of a block whose loops are spread by ``dist``, of known sizes."""
    sizes = (None if lv.n is None else evaluate(lv.n, {}) for lv in dist)
    return prod(n for n in sizes if n is not None)


def _sizes(t: Tap) -> Iterator[int | None]:
    for s in (t.side, t.terms):
        cap = extent(s.lo, s.hi).cap
        value = None if cap is None else evaluate(cap, {})
        yield value if isinstance(value, int) else None


def _shape(size: int, terms: int, threads: int, along: bool, across: bool) -> Shape:
    """As many parts as there are threads for, of terms that lie together."""
    if along and terms % ROW == 0:
        return Shape(size, terms // ROW, ROW, 1, True)
    width = WORD if across and size % WORD == 0 else 1
    parts = 1
    while terms % (2 * parts) == 0 and size // width * 2 * parts <= threads:
        parts *= 2
    return Shape(size, parts, terms // parts, width, False)


def _runs(t: Tap, v: Sym) -> bool:
    """Whether neighbouring elements along ``v`` lie side by side, in groups that are exchanged as a whole."""
    last = t.factor.load.index[-1]
    while isinstance(last, Binary) and last.op == "^":
        last = last.a
    form = linear_form(last, (v,))
    return form is not None and is_const(form.coeff(v), 1)
