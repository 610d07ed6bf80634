"""Loads of a window: a box of an array in one thread's registers, by accesses as wide as its place in memory allows.

    a[x - 7 .. x + 10], x a multiple of 4        a_w[0..20] = a[x - 8 .. x + 11], in five accesses of 16 bytes

Rows of the window begin at whole accesses; what stands before and behind the box in them is loaded where the iteration
before or behind reads it, so that no element is loaded that the kernel does not read. An access is made at once where
every lane of it is read, lane by lane elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ktc.ir.analysis.footprint import Footprint, Loop
from ktc.ir.analysis.order import places
from ktc.ir.arith import Facts
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.loop_extents import extent_of
from ktc.ir.arith.polynomial import difference, polynomial
from ktc.ir.fold import add, binary, both, evaluate, i32, is_const, lt, mul, sub
from ktc.ir.nodes import Binary, Body, Const, Expr, For, If, Level, Load, Par, Select, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import I32, Array, Scalar, is_signed_integer, scalar_of
from ktc.ir.walk import substitute_expr, used
from ktc.passes.core.refusals import Refusal
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.tiles import Path

from .tile_contents import Contents, without_implied
from .tile_copy import Copy, Style, address, loop_of_unknown_length, touched

ACCESS_BYTES = 16
"""Bytes of the widest access of a thread."""


@dataclass(frozen=True)
class Window:
    """The box of ``copy`` in one iteration of ``loop``, of ``sizes`` elements along its dimensions, in ``array``: rows
    of whole accesses of ``lanes`` elements, ``front`` of which come before the box."""

    copy: Copy
    loop: Par
    sizes: tuple[int, ...]
    front: int
    lanes: int

    @property
    def array(self) -> Sym:
        return self.copy.tile

    @property
    def bytes(self) -> int:
        """Bytes of the array."""
        row = self._accesses * self.lanes
        return prod(self.sizes[:-1]) * row * scalar_of(self.copy.buffer.type).bytes

    def element(self, coords: Sequence[Expr]) -> Expr:
        """A read of the element at ``coords`` of the box."""
        return Load(self.array, (*coords[:-1], add(coords[-1], i32(self.front))))

    def loads(self) -> Body:
        """Statements that fill the array: by wide accesses where the kernel reads all of their lanes, or else one by
        one, each element where it is read.

        Raises:
            Refusal: E-WINDOW-PARTS.
        """
        beyond = {q: self._beyond(q) for q in range(self._accesses)}
        conds = self._everywhere([range(n) for n in self.sizes])
        conds += [c for found in beyond.values() for c in found or ()]
        wide = self._in_rows(lambda row: self._wide(row, {q for q, found in beyond.items() if found is not None}))
        if not conds:
            return wide
        every: Expr | None = None
        for c in without_implied(dict.fromkeys(conds)):
            every = both(every, c)
        assert every is not None
        return (If(every, wide, self._in_rows(self._one_by_one)),)

    def _in_rows(self, loads: Callable[[tuple[Expr, ...]], Body]) -> Body:
        """``loads`` of every row, by its coordinates."""
        outer = [self._counter() for _ in self.sizes[:-1]]
        body = loads(tuple(map(Var, outer)))
        for i, n in reversed(list(zip(outer, self.sizes))):
            body = (_written_out(i, range(n), body),)
        return body

    def _wide(self, row: tuple[Expr, ...], at_once: Collection[int]) -> Body:
        """A row by its accesses, those ``at_once`` in one; all elements of the box are read."""
        body: list[Stmt] = []
        inside = [q for q in sorted(at_once) if len(self._in_box(q)) == self.lanes]
        for q in range(self._accesses):
            if q not in at_once:
                body.append(self._lanes(row, i32(q), self._in_box(q)))
            elif q not in inside or len(inside) == 1:
                body.append(self._access(row, i32(q)))
            elif q == inside[0]:
                i = self._counter()
                body.append(_written_out(i, range(q, inside[-1] + 1), (self._access(row, Var(i)),)))
        return tuple(body)

    def _access(self, row: tuple[Expr, ...], q: Expr) -> Stmt:
        v = fresh(f"{self.copy.buffer.name}_v", I32)
        column = add(mul(q, i32(self.lanes)), Var(v)) if self.lanes > 1 else q
        store = self._store(row, column, None)
        return Par(v, i32(0), i32(self.lanes), (Level("vec", i32(self.lanes)),), (store,)) if self.lanes > 1 else store

    def _lanes(self, row: tuple[Expr, ...], q: Expr, which: range) -> Stmt:
        v = self._counter()
        return _written_out(v, which, (self._store(row, add(mul(q, i32(self.lanes)), Var(v)), None),))

    def _one_by_one(self, row: tuple[Expr, ...]) -> Body:
        """A row, of which each element is loaded where it is read."""
        i = self._counter()
        cond = touched(self.copy, [*row, Var(i)])
        return (_written_out(i, range(self.sizes[-1]), (self._store(row, add(Var(i), i32(self.front)), cond),)),)

    def _store(self, row: tuple[Expr, ...], column: Expr, cond: Expr | None) -> Stmt:
        """The element at ``column`` of a row of the array, loaded where ``cond`` holds."""
        value: Expr = Load(self.copy.buffer, (address(self.copy, [*row, sub(column, i32(self.front))]),))
        if cond is not None:
            t = scalar_of(self.copy.buffer.type)
            value = Select(cond, value, self.copy.holds.pad or Const(0.0 if t.is_float else 0, t))
        return Store(self.array, (*row, column), value)

    def _counter(self) -> Sym:
        return fresh(f"{self.copy.buffer.name}_i", I32)

    # -------------------------------------------------------------------------------------------- what is read

    @property
    def _accesses(self) -> int:
        """Accesses of a row."""
        return -(-(self.front + self.sizes[-1]) // self.lanes)

    def _in_box(self, q: int) -> range:
        """The lanes of the ``q``-th access of a row that are in the box."""
        start = q * self.lanes - self.front
        return range(max(0, -start), min(self.lanes, self.sizes[-1] - start))

    def _beyond(self, q: int) -> list[Expr] | None:
        """Conditions under which other iterations read what the ``q``-th access of a row has beyond the box, in all
        rows; None where that is not known."""
        out: list[Expr] = []
        inside = self._in_box(q)
        for lane in range(self.lanes):
            if lane not in inside:
                found = self._read_by_neighbour(q * self.lanes - self.front + lane, before=lane < inside.start)
                if found is None:
                    return None
                out += found
        return out

    def _read_by_neighbour(self, column: int, before: bool) -> list[Expr] | None:
        """Conditions under which the iteration ``before`` this one, or the one behind, reads the elements at ``column``
        in all rows; None where that is not known."""
        step = self._step
        theirs = column if step is None else column + (step if before else -step)
        if step is None or not 0 <= theirs < self.sizes[-1]:
            return None
        t = self.loop.var
        other = _after(t, -1 if before else 1)
        is_there = binary("<", self.loop.lo, Var(t)) if before else binary("<", other, self.loop.hi)
        rows = [range(n) for n in self.sizes[:-1]]
        own = self._everywhere([*rows, range(theirs, theirs + 1)])
        return [is_there, *(substitute_expr(c, {t: other}) for c in own)]

    def _everywhere(self, box: Sequence[range]) -> list[Expr]:
        """Conditions under which the elements at all coordinates in ``box`` are read."""
        cell = [fresh(f"t{d}", I32) for d in range(len(box))]
        cond = touched(self.copy, [Var(c) for c in cell])
        tests = [] if cond is None else conjuncts_of(cond)
        if any(isinstance(x, Binary) and x.op == "||" for x in tests):
            why = f"iterations of '{self.loop.var.name}' read several parts of '{self.copy.buffer.name}', not a box"
            raise Refusal("E-WINDOW-PARTS", why, places(self.loop))
        for u, along in zip(cell, box):
            tests = [substitute_expr(x, {u: i32(k)}) for x in tests for k in _hardest(x, u, along)]
        return tests

    @cached_property
    def _step(self) -> int | None:
        """Elements from an iteration's window to the next one's, in a row; None if that is no known number."""
        t = self.loop.var
        if not is_signed_integer(t.type):
            return None
        base = self.copy.box.base
        moved = polynomial(difference(substitute_expr(base, {t: _after(t, 1)}), base))
        return moved[()] if set(moved) == {()} and moved[()] > 0 else None


def window(buffer: Sym, box: Footprint, holds: Contents, path: Path, here: Facts, align: int) -> Window:
    """The window of ``buffer`` for ``box`` of an iteration of the last loop of ``path``.

    Args:
        here: what is known of integers in that loop.
        align: bytes by which the buffer is aligned.

    Raises:
        Refusal: E-WINDOW-SIZE, E-WINDOW-ONCE, E-STAGE-FOOTPRINT.
    """
    loop = path[-1]
    assert isinstance(loop, Par)
    sizes = [evaluate(d.size, {}) for d in box.dims]
    known = tuple(int(n) for n in sizes if n is not None)
    if len(known) < len(sizes):
        why = f"how many elements of '{buffer.name}' an iteration of '{loop.var.name}' reads is no number"
        raise Refusal("E-WINDOW-SIZE", why, places(loop), "tile by a number, not by a knob")
    if _reads(box) <= prod(known):
        why = f"an iteration of '{loop.var.name}' reads each element of '{buffer.name}' once"
        raise Refusal("E-WINDOW-ONCE", why, places(loop), "tile it, so that a thread has several results")
    t = scalar_of(buffer.type)
    lanes = max(1, min(ACCESS_BYTES, align) // t.bytes)
    plain = linear_form(holds.address, (holds.cell[-1],)) is not None and is_const(box.dims[-1].stride, 1)
    while lanes > 1 and not (plain and _front(box, here, lanes) is not None):
        lanes //= 2
    front = _front(box, here, lanes) or 0
    row = -(-(front + known[-1]) // lanes) * lanes
    array = fresh(f"{buffer.name}_w", Array(t, tuple(i32(n) for n in (*known[:-1], row)), "local"))
    copy = Copy(buffer, array, box, Style(i32(lanes)), path, holds)
    unknown = loop_of_unknown_length(copy)
    if unknown is not None:
        why = f"whether '{unknown.var.name}' runs at all is not known where '{buffer.name}' would be loaded"
        raise Refusal("E-STAGE-FOOTPRINT", why, places(unknown))
    return Window(copy, loop, known, front, lanes)


def _reads(box: Footprint) -> int:
    """How many reads an iteration makes in ``box``, at most."""
    return sum(prod(map(_turns, tap.touch.loops)) for tap in box.taps)


def _turns(loop: Loop) -> int:
    """The most iterations of ``loop``; 1 where that is no known number."""
    reach = extent_of(loop)
    return int(evaluate(reach.cap, {}) or 1) if reach is not None and reach.cap is not None else 1


def _front(box: Footprint, here: Facts, lanes: int) -> int | None:
    """How many elements before the box an access of ``lanes`` elements begins, in every row; None if that differs."""
    n, t = i32(lanes), box.base.type
    assert isinstance(t, Scalar)
    if not all(here.divides(n, d.stride) for d in box.dims[:-1]):
        return None
    return next((f for f in range(lanes) if here.divides(n, sub(box.base, Const(f, t)))), None)


def _after(v: Sym, n: int) -> Expr:
    """The iteration ``n`` behind that of ``v``."""
    assert isinstance(v.type, Scalar)
    return add(Var(v), Const(n, v.type))


def _written_out(i: Sym, turns: range, body: Body) -> For:
    """A serial loop over ``turns``, to be unrolled."""
    return For(i, i32(turns.start), lt(Var(i), i32(turns.stop)), add(Var(i), i32(1)), body, unroll=0)


FALLS = {"<": False, "<=": False, ">": True, ">=": True}
"""Comparisons of ``a`` and ``b``, and whether they are harder to meet the larger ``b - a`` is."""


def _hardest(cond: Expr, u: Sym, along: range) -> Sequence[int]:
    """Values of ``u`` at which ``cond`` has to hold to hold for all in ``along``."""
    if u not in used(cond):
        return along[:1]
    if isinstance(cond, Binary) and cond.op in FALLS and all(is_signed_integer(x.type) for x in (cond.a, cond.b)):
        form = linear_form(difference(cond.b, cond.a), (u,))
        k = None if form is None else evaluate(form.coeff(u), {})
        if k is not None:
            return along[-1:] if (k < 0) != FALLS[cond.op] else along[:1]
    return along


__all__ = ["ACCESS_BYTES", "Window", "window"]
