"""narrow-doubles: 64-bit variables that only ever hold 32-bit floats, in 32 bits.

before                                          after narrow-doubles
    var best: f64 = 1e+40_f64                       var best: f32 = inf
    for k in 0..m                                   for k in 0..m
      let d: f32 = ..                                 let d: f32 = ..
      if f64(d) < best                                if d < best
        best = f64(d)                                   best = d
    y[i] = f32(best)                                y[i] = best

``double best = 1e40;`` in a kernel of floats costs a conversion and a comparison of 64 bits an iteration, which GPUs
have few units for. A variable is narrowed if all that it is given are widened floats, others that are narrowed and
numbers, and if it is only compared with such, handed on to such, and converted: every result is the same bit for bit.

A number that no float equals lies between two of them. All comparisons with floats come out alike with the larger one
(``x < v``, ``x >= v``) or with the smaller one (``x > v``, ``x <= v``). A variable that is asked about in both ways, or
that is converted to another float than the one chosen, stays as it is, with all that it is handed on to.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    MIRRORED,
    AddrOf,
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    Raw,
    RawStmt,
    Select,
    Stmt,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import F32, F64
from ktc.ir.walk import all_exprs, map_body, used, walk
from ktc.passes.core.base import NoArguments, Pass, Site
from ktc.passes.core.refusals import Refusal, Result


class NarrowDoubles(Pass[NoArguments]):
    name = "narrow-doubles"
    summary = "64-bit variables that only ever hold 32-bit floats, in 32 bits"
    refusals = ("E-DOUBLES-NONE",)

    def sites(self, kernel: Kernel) -> list[Site]:
        found = _narrowed(kernel.body)
        names = ", ".join(sorted({v.name for v in found}))
        return [Site(self.step(), f"conversions and comparisons of 64 bits less: {names}")] if found else []

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        found = _narrowed(kernel.body)
        if not found:
            raise Refusal("E-DOUBLES-NONE", "no variable of 64 bits holds 32-bit floats alone")
        notes = tuple(dict.fromkeys(f"in 32 bits: {v.name}" for v in found))
        return Result(kernel.with_(body=_rewritten(kernel.body, found)), notes)


Rounding = dict[Sym, int]
"""The variables that are narrowed, and what numbers that are no floats become in each: the float above (1) or below
(-1)."""

UP = {"<": 1, ">=": 1, ">": -1, "<=": -1}
"""``x OP v`` of a float ``x`` and a variable that may hold such a number: which float stands for it."""


LEAST = 2.0**-149
"""The smallest float above 0."""


@dataclass
class _Uses:
    """Values that variables of 64 bits are given, comparisons and conversions that they stand in."""

    given: dict[Sym, list[Expr]] = field(default_factory=lambda: defaultdict(list))
    compared: list[Binary] = field(default_factory=list)
    converted: list[Cast] = field(default_factory=list)


def _narrowed(body: Body) -> Rounding:
    """The variables that are narrowed; none where something in ``body`` is opaque."""
    kept = {s.sym for s in walk(body) if isinstance(s, Decl) and s.sym.type == F64}
    if not kept or any(isinstance(s, RawStmt) for s in walk(body)):
        return {}
    uses = _uses(body, kept)
    kept &= {v for v in kept if uses.given[v]} - _seen_otherwise(body, uses)
    while wrong := kept & (
        {v for v in kept if not all(_holds_float(e, kept) for e in uses.given[v])}
        | {v for c in uses.compared if not (_holds_float(c.a, kept) and _holds_float(c.b, kept)) for v in used(c)}
        | {e.sym for w, values in uses.given.items() if w not in kept for e in values if isinstance(e, Var)}
    ):
        kept -= wrong
    out: Rounding = {}
    for group in _handed_on(kept, uses):
        out |= dict.fromkeys(group, way) if (way := _rounding(group, uses)) is not None else {}
    return out


def _uses(body: Body, declared: Collection[Sym]) -> _Uses:
    out = _Uses()
    for s in walk(body):
        value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
        if isinstance(s, Decl | Assign) and s.sym in declared and value is not None:
            out.given[s.sym] += _choices(value)
    for e in all_exprs(body):
        match e:
            case Binary(op, a, b) if op in COMPARISONS and a.type == b.type == F64:
                out.compared.append(e)
            case Cast(x=Var(v), style=style) if v in declared and style != "bit":
                out.converted.append(e)
    return out


def _choices(e: Expr) -> list[Expr]:
    """The expressions of which ``e`` is one: what it chooses from, or takes the least or the largest of."""
    match e:
        case Select(_, a, b) | Call("min" | "max", (a, b)):
            return [*_choices(a), *_choices(b)]
    return [e]


def _seen_otherwise(body: Body, uses: _Uses) -> set[Sym]:
    """Variables that something else reads or writes than what ``uses`` has of them."""
    reads = Counter(e.sym for e in all_exprs(body) if isinstance(e, Var))
    known = Counter(e.sym for values in uses.given.values() for e in values if isinstance(e, Var))
    known += Counter(e.sym for c in uses.compared for e in (c.a, c.b) if isinstance(e, Var))
    known += Counter(v for c in uses.converted for v in used(c))
    written = {x for s in walk(body) for x in (getattr(s, "dst", None), *(o for _, o in getattr(s, "outputs", ())))}
    pointed = {b for e in all_exprs(body) if isinstance(e, AddrOf | Raw) for b in used(e)}
    return {v for v in reads if reads[v] != known[v]} | (written - {None}) | pointed


def _holds_float(e: Expr, kept: Collection[Sym]) -> bool:
    """Whether ``e`` is a widened float, a number, or a variable that is ``kept``."""
    match e:
        case Cast(x=x, style=style):
            return x.type == F32 and style != "bit"
        case Var(v):
            return v in kept
    return isinstance(e, Const)


def _handed_on(kept: Collection[Sym], uses: _Uses) -> list[set[Sym]]:
    """``kept`` in groups: what one is given, another of its group may be given, too."""
    groups = [{v} for v in kept]
    for v in kept:
        for w in {e.sym for e in uses.given[v] if isinstance(e, Var)}:
            joined = [g for g in groups if v in g or w in g]
            groups = [*(g for g in groups if g not in joined), set().union(*joined)]
    return groups


def _rounding(group: set[Sym], uses: _Uses) -> int | None:
    """Which floats stand for numbers that are none, in all that ``group`` is compared and converted to; None if neither
    does."""
    numbers = [e for v in group for e in uses.given[v] if isinstance(e, Const)]
    compared = [c for c in uses.compared if used(c) & group]
    beside = [e for c in compared for e in (c.a, c.b) if isinstance(e, Const)]
    if any(_near(float(e.value), 1) != e.value for e in beside if not math.isnan(e.value)):
        return None
    between = [float(e.value) for e in numbers if not math.isnan(e.value) and _near(float(e.value), 1) != e.value]
    if not between:
        return 1
    ways = set()
    for c in compared:
        both = isinstance(c.a, Var) and isinstance(c.b, Var)
        op = c.op if isinstance(c.b, Var) else MIRRORED[c.op]
        if both or beside or op not in UP:
            return None
        ways.add(UP[op])
    stored = [c for c in uses.converted if used(c) & group]
    fits = {w for w in ways or {1, -1} if all(_near(n, w) == _near(n, 0) for n in between) or not stored}
    if len(ways) > 1 or not fits or any(c.to != F32 for c in stored):
        return None
    return max(fits)


def _near(n: float, way: int) -> float:
    """The float that is nearest to ``n`` (``way`` 0), the least not below it (1), or the largest not above it (-1)."""
    try:
        near = struct.unpack("<f", struct.pack("<f", n))[0]
    except OverflowError:  # nearer to infinity than to any float
        near = math.copysign(math.inf, n)
    if way and (near - n) * way < 0 and near == 0:
        near = math.copysign(LEAST, way)
    elif way and (near - n) * way < 0:
        bits = struct.unpack("<i", struct.pack("<f", abs(near)))[0] + (1 if (near > 0) == (way > 0) else -1)
        near = math.copysign(struct.unpack("<f", struct.pack("<i", bits))[0], near)
    return near


# ---------------------------------------------------------------------------------------------------------- the rewrite


def _rewritten(body: Body, found: Rounding) -> Body:
    new = {v: fresh(v.name, F32) for v in found}

    def narrow(e: Expr, way: int) -> Expr:
        """A value of 64 bits that a float equals, as that float."""
        match e:
            case Cast(x=x) if x.type == F32:
                return x
            case Const(value):
                return Const(_near(float(value), way), F32) if not math.isnan(value) else Const(value, F32)
            case Select(cond, a, b):
                return Select(cond, narrow(a, way), narrow(b, way))
            case Call(fn, (a, b)):
                return Call(fn, (narrow(a, way), narrow(b, way)), F32)
        return e  # narrowed already

    def expr(e: Expr) -> Expr:
        match e:
            case Var(v) if v in new:
                return Var(new[v])
            case Binary(op, a, b) if op in COMPARISONS and {*new.values()} & {
                x.sym for x in (a, b) if isinstance(x, Var)
            }:
                return Binary(op, narrow(a, 1), narrow(b, 1))
            case Cast(to, Var(v)) if to == F32 and v.type == F32:
                return e.x
        return e

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, Decl) and s.sym in new:
            value = None if s.init is None else narrow(s.init, found[s.sym])
            return dataclasses.replace(s, sym=new[s.sym], init=value)
        if isinstance(s, Assign) and s.sym in new:
            return dataclasses.replace(s, sym=new[s.sym], value=narrow(s.value, found[s.sym]))
        return s

    return map_body(body, stmt, expr)


__all__ = ["NarrowDoubles"]
