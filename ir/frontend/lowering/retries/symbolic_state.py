"""A symbolic run through statements around a compare-and-swap: what variables hold, and what was decided on the way.

What the element is found to hold is a fresh symbol, an *observation*: each load of it makes one, and so does a
compare-and-swap that fails. Between two attempts lies a *segment* of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ktc.ir.fields import with_children
from ktc.ir.fold import fold_node
from ktc.ir.frontend.lowering.expressions.convert import bitcast
from ktc.ir.nodes import (
    AddrOf,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Raw,
    Sym,
    Unary,
    Var,
    WarpOp,
    accessed_type,
    fresh,
)
from ktc.ir.types import BOOL, Array, Scalar
from ktc.ir.walk import map_expr

Slot = Sym | tuple[Sym, tuple[int, ...]]
"""A scalar variable, or an element of a small private array (a union, an object)."""


class Unclear(Exception):
    """The statements do something that no update of one element does."""


@dataclass(frozen=True)
class Place:
    """The element: ``buffer[index]``."""

    buffer: Sym
    index: tuple[Expr, ...]

    @property
    def elem(self) -> Scalar:
        t = accessed_type(self.buffer, len(self.index))
        if not isinstance(t, Scalar):
            raise Unclear
        return t


Values = dict[Slot, Expr]
Guards = list[tuple[Expr, bool]]


@dataclass
class Attempt:
    """A compare-and-swap that was reached under ``guards``, and what became of it.

    ``missed``: what it finds where it fails; ``after``: what variables hold then; ``retry``: the segment that follows;
    ``ends``: what variables hold at the end, where it succeeds.
    """

    compare: Expr
    value: Expr
    guards: Guards
    seen: set[Sym]
    missed: Sym
    after: Values = field(default_factory=dict)
    retry: Segment | None = None
    ends: list[Values] = field(default_factory=list)


@dataclass
class Exit:
    """An end without an attempt, under ``guards``."""

    guards: Guards
    seen: set[Sym]
    values: Values


@dataclass
class Segment:
    """What may happen from one observation on. ``asked``: variables whose values come from before it."""

    attempts: list[Attempt] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    asked: set[Slot] = field(default_factory=set)


@dataclass
class Run:
    """One path. ``values``: of variables that were set; ``guards``: conditions met in this segment, and how they went.

    ``fresh_sets``: the variables set in this segment; ``unequal``: two values that differ, as an attempt failed;
    ``succeeded``: the attempt that did.
    """

    place: Place
    segment: Segment
    values: Values = field(default_factory=dict)
    guards: Guards = field(default_factory=list)
    seen: set[Sym] = field(default_factory=set)
    unequal: tuple[Expr, Expr] | None = None
    fresh_sets: set[Slot] = field(default_factory=set)
    is_retry: bool = False
    succeeded: Attempt | None = None

    def copy(self) -> Run:
        return replace(
            self, values=dict(self.values), guards=list(self.guards), seen=set(self.seen),
            fresh_sets=set(self.fresh_sets),
        )  # fmt: skip

    def set(self, slot: Slot, value: Expr) -> None:
        self.values[slot] = value
        self.fresh_sets.add(slot)

    def get(self, slot: Slot, otherwise: Expr) -> Expr:
        if slot not in self.fresh_sets:
            self.segment.asked.add(slot)
        return self.values.get(slot, otherwise)

    def observation(self) -> Var:
        found = fresh("seen", self.place.elem)
        self.seen.add(found)
        return Var(found)

    def value(self, e: Expr) -> Expr:
        """``e`` over observations and what was there before the run."""
        if isinstance(e, Var):
            return self.get(e.sym, e)
        if isinstance(e, Load):
            return self._load(e)
        if isinstance(e, WarpOp | Raw | AddrOf) or (isinstance(e, Call) and e.effects != "pure"):
            raise Unclear
        return self._folded(with_children(e, self.value))

    def index(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self.value(i) for i in index)

    def slot(self, buffer: Sym, index: tuple[Expr, ...]) -> Slot | None:
        """The element of a private array, if it is one of a known number."""
        t = buffer.type
        if not (isinstance(t, Array) and t.space == "local"):
            return None
        known = self.index(index)
        if not all(isinstance(i, Const) for i in known):
            raise Unclear
        return buffer, tuple(int(i.value) for i in known)  # type: ignore[attr-defined]

    def _load(self, e: Load) -> Expr:
        slot = self.slot(e.buffer, e.index)
        if slot is not None:
            if e.width != 1:
                raise Unclear
            return self.get(slot, e)
        known = self.index(e.index)
        if e.buffer != self.place.buffer:
            return replace(e, index=known)
        if known != self.place.index or e.width != 1:
            raise Unclear
        return self.observation()

    def _folded(self, e: Expr) -> Expr:
        if isinstance(e, Cast) and e.style == "bit":
            return bitcast(e.x, e.to)
        if isinstance(e, Binary) and e.op in ("==", "!="):
            same = self._same(e.a, e.b)
            if same is not None:
                return Const(same == (e.op == "=="), BOOL)
        return fold_node(e)

    def _same(self, a: Expr, b: Expr) -> bool | None:
        """Whether two integers are the same; None where that is not known, as it is of floats, which may be NaN."""
        if not (isinstance(a.type, Scalar) and a.type.is_int):
            return None
        while widens_alike(a, b):
            a, b = a.x, b.x  # type: ignore[attr-defined]
        a, b = as_bits(a), as_bits(b)
        if a == b:
            return True
        if (isinstance(a, Unary) and a.op == "~" and as_bits(a.x) == b) or (
            isinstance(b, Unary) and b.op == "~" and as_bits(b.x) == a
        ):
            return False
        return False if self.unequal is not None and self.unequal in ((a, b), (b, a)) else None


def place_of(buffer: Sym, index: tuple[Expr, ...]) -> Place:
    """``buffer[index]``, the index as a run that has set no variable sees it."""
    return Place(buffer, Run(Place(buffer, ()), Segment()).index(index))


def as_bits(e: Expr) -> Expr:
    """``e`` without conversions that change no bit."""
    while isinstance(e, Cast) and _keeps_bits(e):
        e = e.x
    return e


def keeps_value(to: object, of: object) -> bool:
    """Whether each integer of type ``of`` is one of type ``to``."""
    if not (isinstance(to, Scalar) and isinstance(of, Scalar) and to.is_int and of.is_int):
        return False
    return to == of or (to.bits > of.bits and (to.is_signed or not of.is_signed))


def widens_alike(a: Expr, b: Expr) -> bool:
    """Whether two integers are conversions of narrower ones that are the same if and only if these are."""
    return (
        isinstance(a, Cast)
        and isinstance(b, Cast)
        and a.style != "bit" != b.style
        and (a.to, a.x.type) == (b.to, b.x.type)
        and keeps_value(a.to, a.x.type)
    )


def _keeps_bits(e: Cast) -> bool:
    if e.style == "bit":
        return True
    to, of = e.to, e.x.type
    return isinstance(to, Scalar) and isinstance(of, Scalar) and to.is_int and of.is_int and to.bits == of.bits


def mapped(e: Expr, to: Mapping[Sym, Expr]) -> Expr:
    """``e`` with observations replaced."""
    return map_expr(e, lambda x: to.get(x.sym, x) if isinstance(x, Var) else x)


__all__ = [
    "Attempt",
    "Exit",
    "Guards",
    "Place",
    "Run",
    "Segment",
    "Slot",
    "Unclear",
    "Values",
    "as_bits",
    "keeps_value",
    "mapped",
]
