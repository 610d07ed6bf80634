"""What ranges and divisors decide in statements: guards, choices, bounds of loops, digits of indices.

before                                          after
    par row in 0..8192                              par row in 0..8192
      if row < 8192                                   par i in t * 16..t * 16 + 16
        par i in t * 16..min(t * 16 + 16, 64)           x[row * 64 + i] = 0
          x[(row * 64 + i) / 64 * 64 + i] = 0

Proofs are those of :class:`ktc.ir.arith.Facts` at each statement, under the trust that the caller states. An expression
with an effect stays as it is. Loops keep a bound that says before launch how long they are at most, where another one
is reached earlier but says less to what sizes arrays by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from ktc.ir.arith import Trust, facts_of, simplified
from ktc.ir.arith.arrivals import Place
from ktc.ir.arith.known_symbols import symbols_of
from ktc.ir.arith.loop_extents import extent_of
from ktc.ir.arith.visiting import entered, steps
from ktc.ir.fields import with_children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Body,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Par,
    Reduce,
    Scan,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
)  # fmt: skip
from ktc.ir.purity import acts, is_removable
from ktc.ir.types import I32, Array
from ktc.ir.walk import (
    assigned,
    commented,
    map_body,
    map_expr,
    substitute_expr,
    used_in,
    walk_expr,
)  # fmt: skip

Loop = For | Par | Reduce | Scan
Names = dict[HwIndex, Sym]
"""Variables that stand for hardware indices."""

T = TypeVar("T", bound=Expr | Stmt)

EFFORT = 8
"""Steps of a proof: what is shown of a bound or a guard takes few, and most are not to be shown at all."""


def decided(kernel: Kernel, trust: Trust, sized: bool = True) -> Body:
    """The body of ``kernel`` without what ``trust`` lets its facts decide; the same object if that is nothing.

    ``sized``: what says how large and how arranged a tile is stays, for passes and lowering to recognise: bounds from
    which a length is known before launch, and subscripts of arrays.
    """
    kinds = _Kinds(kernel)
    if not kinds.found:
        return kernel.body
    place = Place(kernel, lambda: facts_of(kernel, trust).within(EFFORT))
    found = _Decision(kinds, sized).body(kernel.body, place, {})
    return found if found is kernel.body else _without_idle(found, used_in(kernel.body) - used_in(found))


def _without_idle(body: Body, idle: set[Sym]) -> Body:
    """``body`` without declarations of numbers that nobody asks for any more."""
    idle -= assigned(body)

    def on(s: Stmt) -> Stmt | None:
        gone = isinstance(s, Decl) and s.sym in idle and s.init is not None and is_removable(s.init)
        return None if gone else s

    return map_body(body, on) if idle else body


class _Kinds:
    """Which expressions of a kernel are worth a proof."""

    def __init__(self, kernel: Kernel) -> None:
        self.operators = COMPARISONS | LOGICAL | {"/", "%"}
        there = symbols_of(kernel).operators
        self.found = bool(there & (self.operators | {"!", Select, Call}))
        """Whether there may be any."""
        if "%" in there:
            self.operators |= {"+"}  # of a quotient and its remainder

    def may_go(self, x: Expr) -> bool:
        """Whether the outermost operator of ``x`` is one that facts may decide."""
        if isinstance(x, Binary):
            return x.op in self.operators
        if isinstance(x, Call):
            return x.fn in ("min", "max", "cdiv")
        return isinstance(x, Select) or (isinstance(x, Unary) and x.op == "!")


@dataclasses.dataclass(frozen=True)
class _Decision:
    """One walk over a body, with what is known at each place."""

    kinds: _Kinds
    sized: bool

    def body(self, body: Body, place: Place, names: Names) -> Body:
        """``body``, which begins at ``place``."""
        out: list[Stmt] = []
        for s, here in steps(body, place):
            found = self._statement(s, here, names)
            if isinstance(found, tuple):
                out += found
            elif found is not None:
                out.append(found)
            if isinstance(s, Decl) and s.const and (h := _hardware(s.init)) is not None:
                names = {h: s.sym, **names}
        same = len(out) == len(body) and all(a is b for a, b in zip(out, body))
        return body if same else tuple(out)

    def _statement(self, s: Stmt, here: Place, names: Names) -> Stmt | Body | None:
        if isinstance(s, If) and (holds := self._truth(s.cond, here)) is not None:
            way = s.then if holds else s.orelse
            return commented(self.body(way, here.under(s.cond, holds), names), s.comments)
        if isinstance(s, For) and is_removable(s.init) and self._never_runs(s, here):
            return None

        def on(e: Expr) -> Expr:
            return self._expr(e, here, names)

        if self.sized and isinstance(s, Store) and isinstance(s.buffer.type, Array):
            return _with(s, value=on(s.value))
        own = self._loop(s, on) if isinstance(s, Loop) else with_children(s, on)
        changes = {name: b for name, old, inner in entered(s, here) if (b := self.body(old, inner, names)) is not old}
        return dataclasses.replace(own, **changes) if changes else own  # type: ignore[arg-type]

    def _expr(self, e: Expr, here: Place, names: Names) -> Expr:
        within = list(walk_expr(e))
        if not any(map(self.kinds.may_go, within)) or any(map(acts, within)):
            return e
        if self.sized and any(isinstance(x, Load) and isinstance(x.buffer.type, Array) for x in within):
            return e
        found = simplified(e, here)
        if found is e or not names:
            return found
        return map_expr(found, lambda x: Var(names[h]) if (h := _hardware(x)) in names else x)

    def _truth(self, cond: Expr, here: Place) -> bool | None:
        return here.truth(cond) if is_removable(cond) else None

    def _loop(self, s: Loop, on: Callable[[Expr], Expr]) -> Loop:
        """``s`` with smaller bounds; how it counts stays as it is."""
        if isinstance(s, For):
            cond = s.cond
            if isinstance(cond, Binary) and cond.op in COMPARISONS:
                cond = _with(cond, a=on(cond.a), b=on(cond.b))
            found: Loop = _with(s, init=on(s.init), cond=cond)
        else:
            found = with_children(s, on)  # type: ignore[assignment]
        return s if self.sized and _cap(s) is not None and _cap(found) is None else found

    def _never_runs(self, s: For, here: Place) -> bool:
        if here.enters(s):
            return False
        first = substitute_expr(s.cond, {s.var: s.init})
        return is_removable(first) and here.facts.never(first)


def _hardware(e: Expr | None) -> HwIndex | None:
    """The hardware index that ``e`` is, as a number of 32 bits."""
    return e.x if isinstance(e, Cast) and e.to == I32 and isinstance(e.x, HwIndex) else None


def _cap(s: Loop) -> Expr | None:
    reach = extent_of(s)
    return None if reach is None else reach.cap


def _with(node: T, **fields: Expr) -> T:
    """``node`` with these fields; itself where they are what they were."""
    changes: dict[str, Any] = {name: e for name, e in fields.items() if e is not getattr(node, name)}
    return dataclasses.replace(node, **changes) if changes else node  # type: ignore[type-var]


__all__ = ["decided"]
