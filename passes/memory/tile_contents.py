"""What the copy of a tile has to hold at each place for reads behind conditions and clamps.

A read is *of its place* where its conditions and its address depend on the loops of the region through its coordinates
in the footprint alone: then the copy can test them once an element, in place of each iteration that reads it. Clamps
(``min(max(y, 0), H - 1) * W``) are looked through for the coordinates, and applied by the copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.footprint import Footprint, Loop, Tap
from ktc.ir.arith.affine import Index, linear_form, mentions
from ktc.ir.arith.comparisons import follows
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.enclosures import is_integer
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.loop_extents import upper_bounds
from ktc.ir.arith.polynomial import (
    Polynomial,
    constant,
    from_polynomial,
    minus,
    plus,
    polynomial,
    same_value,
    scaled,
    times,
)
from ktc.ir.fields import with_children
from ktc.ir.fold import is_const, mul
from ktc.ir.nodes import (
    Binary,
    Call,
    Cast,
    Expr,
    For,
    Load,
    Raw,
    Select,
    Sym,
    Unary,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import substitute_expr, used, walk_expr
from ktc.passes.shared.conjuncts import conjuncts_of

from .guarded_reads import Read


class NotOfPlace(Exception):
    """A condition or an address that differs between reads of one element."""


@dataclass(frozen=True)
class Contents:
    """What a tile's elements at ``cell`` hold: the buffer at ``address`` where the ``conds`` of one of its taps hold
    (a tuple for each); ``pad`` where none of them does, if every read wants that there."""

    cell: tuple[Sym, ...]
    address: Expr
    conds: tuple[tuple[Expr, ...], ...]
    pad: Expr | None = None

    @property
    def alike(self) -> bool:
        """Whether every read of an element is made under the same conditions."""
        return len({frozenset(c) for c in self.conds}) == 1

    def at(self, e: Expr, where: Sequence[Expr]) -> Expr:
        return substitute_expr(e, dict(zip(self.cell, where)))

    def bends(self, dim: int) -> bool:
        """Whether a condition, or a clamp, depends on the coordinate ``dim``."""
        c = self.cell[dim]
        return linear_form(self.address, (c,)) is None or any(c in used(x) for conds in self.conds for x in conds)


def contents(box: Footprint, made: Sequence[Read], names: Mapping[Sym, Expr]) -> Contents:
    """What the tile ``box`` holds for ``made``, its taps in order.

    Raises:
        NotOfPlace: where that is no function of the place.
    """
    cell = tuple(fresh(f"t{d}", I32) for d in range(len(box.dims)))
    address: Expr | None = None
    conds: list[tuple[Expr, ...]] = []
    for tap, read in zip(box.taps, made):
        index = expand(read.load.index[0], names)
        plain = box.address([Var(c) for c in cell])
        here = plain if index == tap.touch.index else _at_place(index, tap, cell, plain)
        if address is not None and not same_value(here, address):
            raise NotOfPlace
        address = address or here
        tests = [p for c in read.conds for p in conjuncts_of(expand(c, names))]
        if any(_may_not_run(c) for c in tests):
            raise NotOfPlace
        conds.append(without_implied(dict.fromkeys(_at_place(c, tap, cell, plain) for c in tests)))
    assert address is not None
    every = dict.fromkeys(c for mine in conds for c in mine)
    for k, tap in enumerate(box.taps):  # what others test, and the loops around this read see to
        where, known = dict(zip(cell, tap.coords)), _bounds(made[k].loops)
        more = [c for c in every if c not in conds[k] and follows(substitute_expr(c, where), known)]
        conds[k] = without_implied((*conds[k], *more))
    out = Contents(cell, address, tuple(conds))
    pads = {r.padded.b for r in made if r.padded is not None}
    pad = next(iter(pads), None)
    return dataclasses.replace(out, pad=pad) if out.alike and len(pads) == 1 else out


def without_implied(conds: Iterable[Expr]) -> tuple[Expr, ...]:
    """``conds`` without those that others of them imply."""
    out = list(conds)
    for c in list(out):
        if follows(c, [k for k in out if k is not c]):
            out.remove(c)
    return tuple(out)


def _bounds(loops: Sequence[Loop]) -> list[Expr]:
    """What ``loops`` say of their variables."""
    out: list[Expr] = []
    for s in loops:
        form = counting(s) if isinstance(s, For) else s
        for hi in () if form is None else upper_bounds(form.hi):
            end = without_index_casts(hi)
            if isinstance(end, Call) and end.fn == "cdiv":
                out.append(Binary("<", mul(Var(s.var), end.args[1]), end.args[0]))
            out.append(Binary("<", Var(s.var), hi))
        if form is not None:
            out.append(Binary(">=", Var(s.var), form.lo))
    return out


def _may_not_run(c: Expr) -> bool:
    """Whether ``c`` is to be evaluated only where the source does: it reads memory, or divides by what may be zero."""
    for x in walk_expr(c):
        divides = isinstance(x, Binary) and x.op in ("/", "%") and is_integer(x.type) and not is_const(x.b)
        if divides or isinstance(x, Load | WarpOp | Raw) or (isinstance(x, Call) and x.effects != "pure"):
            return True
    return False


def _at_place(e: Expr, tap: Tap, cell: Sequence[Sym], plain: Expr) -> Expr:
    """``e``, over the loops around ``tap``, as a function of the place ``cell``, at which the index is ``plain``."""
    inner = {s.var for s in tap.touch.loops}
    index = polynomial(tap.touch.index)

    def go(e: Expr) -> Expr:
        if not mentions(e, inner):
            return e
        t = e.type
        if isinstance(t, Scalar) and t.is_int and _is_ring(e):
            beyond = minus(polynomial(e), index)
            if not any(mentions(f, inner) for factors in beyond for f in factors):  # the index itself, and so far on
                return from_polynomial(_in_order(plus(polynomial(plain), beyond), t), t)
            form = linear_form(e, inner)
            found = None if form is None else _affine(form.coeffs, form.rest, tap, cell)
            if found is not None:
                return from_polynomial(_in_order(found, t), t)
        if isinstance(e, Binary | Unary | Select | Cast) or (isinstance(e, Call) and e.effects == "pure"):
            return with_children(e, go)
        raise NotOfPlace

    return go(e)


def _affine(coeffs: Mapping[Index, Expr], rest: Expr, tap: Tap, cell: Sequence[Sym]) -> Polynomial | None:
    """``sum(coeffs * loops) + rest`` over coordinates: along each dimension all its loops or none, in its own steps."""
    out = polynomial(rest)
    left = {s: polynomial(c) for s, c in coeffs.items()}
    for side, c in zip(tap.sides, cell):
        each: Polynomial | None = None
        for loop, step in side.movers:
            mine = left.pop(loop.var, {})
            if any(k % step for k in mine.values()) or (each is not None and mine != scaled(each, step)):
                return None
            each = {f: k // step for f, k in mine.items()}
            out = plus(out, times(mine, polynomial(loop.init if isinstance(loop, For) else loop.lo)))
        if each:
            out = plus(out, times(each, minus(polynomial(Var(c)), constant(side.start))))
    return None if any(left.values()) else out


def _in_order(p: Polynomial, t: Scalar) -> Polynomial:
    """``p`` with its terms in one order whatever its history, and its constant as ``t`` would hold it."""
    out = dict(sorted(p.items(), key=repr))
    if () in out and t.bits == 32:
        out[()] = (out[()] + (1 << 31)) % (1 << 32) - (1 << 31)
    return out


def _is_ring(e: Expr) -> bool:
    """Whether sums in ``e`` may be regrouped: nothing unsigned, which may have wrapped, is widened in it."""
    for x in walk_expr(e):
        if isinstance(x, Cast) and isinstance(x.to, Scalar) and isinstance(x.x.type, Scalar):
            inner = (y.type for y in walk_expr(x.x))
            if x.to.bits > x.x.type.bits and any(isinstance(t, Scalar) and t.is_int and not t.is_signed for t in inner):
                return False
    return True


__all__ = ["Contents", "NotOfPlace", "contents", "without_implied"]
