"""widen-accumulators: sums in half precision are added up in 32 bits, and rounded once, where they end.

before                                          after widen-accumulators
    reduce(+) s: bf16 = 0 over i in 0..n            reduce(+) s_wide: f32 = 0.0 over i in 0..n
      yield x[i] * y[i]                               yield f32(x[i]) * f32(y[i])
    out[row] = s                                    var s: bf16 = bf16(s_wide)
                                                    out[row] = s

    var acc: f16 = 0                                var acc_wide: f32 = 0.0
    for k in 0..n                                   for k in 0..n
      acc += a[k]                                     acc_wide += f32(a[k])
    out[i] = acc                                    out[i] = f16(acc_wide)

An accumulator of 8 or 11 bits rounds at each step, so that its error is one of the order in which it goes, and grows
with the number of terms; from 256 (or 2048) terms on it stands still. In 32 bits the sum is as accurate in any order as
its last rounding, so that it may be spread over threads and vectors, and costs no more: half-precision additions of
single values are as fast as those of floats. Exact results are the same; rounded ones are nearer to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    AddrOf,
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    Raw,
    RawStmt,
    Reduce,
    Stmt,
    Sym,
    Unary,
    Var,
    While,
    fresh,
)
from ktc.ir.types import BF16, F16, F32, Scalar
from ktc.ir.walk import all_exprs, map_body, used, walk
from ktc.passes.core.base import NoArguments, Pass, Site
from ktc.passes.core.refusals import Refusal, Result

NARROW = (F16, BF16)
SUMMED = ("+", "-", "*")
"""Operations that round, of which a longer chain is worse; the larger or smaller of two values is one of them."""

WHOLE = 256
"""Numbers up to which all types have every integer."""


class WidenAccumulators(Pass[NoArguments]):
    name = "widen-accumulators"
    summary = "sums in half precision are added up in 32 bits, and rounded once, where they end"
    refusals = ("E-WIDEN-NONE",)
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        found = ", ".join(sorted({v.name for v in _narrow_sums(kernel.body)}))
        return [Site(self.step(), f"rounded once, not at each step, and in any order: {found}")] if found else []

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        found = _narrow_sums(kernel.body)
        if not found:
            raise Refusal("E-WIDEN-NONE", "no sum is added up in half precision")
        notes = tuple(dict.fromkeys(f"added up in 32 bits: {v.name}" for v in found))
        body = _widened(kernel.body, {v: fresh(f"{v.name}_wide", F32) for v in found})
        return Result(kernel.with_(body=body, flags=kernel.flags | {"reassociates"}), notes)


def _narrow_sums(body: Body) -> list[Sym]:
    """Accumulators of reductions, and variables that loops add to, in half precision; none of them is reached by
    anything opaque."""
    if any(isinstance(s, RawStmt) for s in walk(body)):
        return []
    reached = {v for e in all_exprs(body) if isinstance(e, AddrOf | Raw) for v in used(e)}
    written = {getattr(s, "dst", None) for s in walk(body)}
    found = dict.fromkeys((*_reduced(body), *_added_to(body)))
    return [v for v in found if v not in reached and v not in written]


def _reduced(body: Body) -> Iterator[Sym]:
    for s in walk(body):
        if isinstance(s, Reduce):
            yield from (a.sym for a in s.accs if a.sym.type in NARROW and a.op in SUMMED)


def _added_to(body: Body) -> Iterator[Sym]:
    """Variables declared in front of a serial loop that adds to them."""
    for loop in walk(body):
        if isinstance(loop, For | While):
            inside = {s.sym for s in walk(loop.body) if isinstance(s, Decl)}
            for s in walk(loop.body):
                if isinstance(s, Assign) and s.sym.type in NARROW and s.sym not in inside and _adds(s.sym, s.value):
                    yield s.sym


def _adds(v: Sym, e: Expr) -> bool:
    """Whether ``e`` is ``v`` with something added or multiplied."""
    match e:
        case Binary(op, a, b) if op in SUMMED:
            return any(x == Var(v) or _adds(v, x) for x in (a, b))
        case Call("fma", (_, _, c)):
            return c == Var(v) or _adds(v, c)
    return False


def _widened(body: Body, wide: dict[Sym, Sym]) -> Body:
    """``body`` with the variables of ``wide`` in 32 bits, and their values rounded where they are read."""
    totals = set(_reduced(body)) & wide.keys()
    assigned = {s.sym for s in walk(body) if isinstance(s, Assign)}
    named = {v for v in totals if v not in assigned}  # one value, once the reduction has ended: rounded in one place

    def expr(e: Expr) -> Expr:
        match e:
            case Var(v) if v in wide and v not in named:
                return _rounded(wide[v], v)
        return e

    def stmt(s: Stmt) -> Stmt | Body:
        if isinstance(s, Decl) and s.sym in wide:
            return dataclasses.replace(s, sym=wide[s.sym], init=None if s.init is None else _wide(s.init))
        if isinstance(s, Assign) and s.sym in wide:
            return dataclasses.replace(s, sym=wide[s.sym], value=_wide(s.value))
        if isinstance(s, Reduce) and any(a.sym in wide for a in s.accs):
            accs = tuple(_accumulator(a, wide[a.sym]) if a.sym in wide else a for a in s.accs)
            ends = (Decl(a.sym, _rounded(wide[a.sym], a.sym), const=True) for a in s.accs if a.sym in named)
            return (dataclasses.replace(s, accs=accs), *ends)
        return s

    return map_body(body, stmt, expr)


def _accumulator(a: Acc, wide: Sym) -> Acc:
    return Acc(wide, a.op, _wide(a.init), _wide(a.value))


def _rounded(wide: Sym, narrow: Sym) -> Expr:
    assert isinstance(narrow.type, Scalar)
    return Cast(narrow.type, Var(wide), "static")


def _wide(e: Expr) -> Expr:
    """The value of ``e``, in half precision, before it is rounded: as far as arithmetic makes it."""
    match e:
        case Const(value) if float(value).is_integer() and abs(value) <= WHOLE:
            return Const(float(value), F32)
        case Cast(to, x, style) if to in NARROW and style != "bit" and isinstance(x.type, Scalar) and x.type.is_float:
            return cast(x, F32)
        case Binary(op, a, b) if op in SUMMED and e.type in NARROW:
            return Binary(op, _wide(a), _wide(b))
        case Unary("-", a) if e.type in NARROW:
            return Unary("-", _wide(a))
        case Call("fma", (a, b, c)) if e.type in NARROW:
            return Call("fma", (_wide(a), _wide(b), _wide(c)), F32)
    return cast(e, F32)


__all__ = ["WidenAccumulators"]
