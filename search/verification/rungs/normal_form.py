"""One tree for all spellings of a program, so that a kernel and its printed text can be compared by structure.

Every rewrite here is exact: knobs become their numbers, conversions of literals are carried out, conversions that only
pass bits on are merged, integer sums are ordered, hints that do not change meaning (unrolling, ``const``, caching) go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ktc.ir.fold import evaluate, fold_node, is_const
from ktc.ir.interp.domains.rounding import round_to
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    Alloc,
    Atomic,
    Barrier,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Eval,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.purity import is_removable
from ktc.ir.support.memo import by_identity
from ktc.ir.text import canonical
from ktc.ir.text.naming import symbols
from ktc.ir.types import BOOL, F16, F32, F64, I32, U32, Array, Ptr, Scalar, Type, Vec
from ktc.ir.walk import assigned, declared, map_body, rename, substitute, walk
from ktc.search.verification.integers.sums import RING, as_signed, bounded, ordered

from .atomic_operands import operands_in_place
from .single_uses import used_once_in_place

FLOAT_BITS = {16: (np.uint16, np.float16), 32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}
ALL_LANES = 0xFFFFFFFF

WIDER_FLOATS = {"f16": {"f32", "f64"}, "bf16": {"f32", "f64"}, "f32": {"f64"}}
"""Types that values may be converted to and back. Not of 8 bits: conversions to those saturate, and lose infinities."""


@by_identity(4)
def normal(kernel: Kernel) -> Kernel:
    """The body and parameters of ``kernel`` (lowered, knobs bound) in normal form, with canonical symbols."""
    kernel = _typed(kernel)
    reached = _only_reached(_used_only(kernel.body))
    plain = _arrays_first(used_once_in_place(_literals_in_place(operands_in_place(reached))))
    place = {s: k for k, s in enumerate((*(p.sym for p in kernel.params), *declared(plain)))}
    changed = assigned(plain)
    given = {s.sym: s.init for s in walk(plain) if isinstance(s, Decl) and s.sym not in changed}
    shape = _Shape(kernel.knob_values, place, given)
    body = _literals_in_place(map_body(plain, shape.stmt, shape.expr))
    params = tuple(replace(p, align=0, noalias=False, readonly=False, touches=()) for p in kernel.params)
    return canonical(Kernel(kernel.name, params, None, body))


def _used_only(body: Body) -> Body:
    """Without the reads that nobody uses: ``b[i];`` reads nothing in C++ ([expr.context])."""
    return map_body(body, lambda s: None if isinstance(s, Eval) and is_removable(s.value) else s)


def _only_reached(body: Body) -> Body:
    """With what stands under conditions that are literals in their place, or gone: texts say no ``if (true)``."""

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, If) or not isinstance(s.cond, Const):
            return s
        return s.then if s.cond.value else s.orelse

    return map_body(body, on)


def _arrays_first(body: Body) -> Body:
    """Arrays declared in front, in the order of their first use: they have no contents where they are declared."""
    arrays = {s.sym: s for s in walk(body) if isinstance(s, Alloc)}
    rest = map_body(body, lambda s: None if isinstance(s, Alloc) else s)
    return (*(arrays[s] for s in dict.fromkeys(symbols(rest)) if s in arrays), *rest)


def _literals_in_place(body: Body) -> Body:
    """Variables that are a literal, replaced by it."""
    changed = assigned(body)
    known = {
        s.sym: s.init
        for s in walk(body)
        if isinstance(s, Decl) and isinstance(s.init, Const) and s.sym not in changed and s.sym.type == s.init.ty
    }
    kept = map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in known else s)
    return substitute(kept, known)


def _typed(kernel: Kernel) -> Kernel:
    """Declared types with their knobs as numbers, buffers without qualifiers."""
    values = kernel.knob_values

    def number(v: int | Expr) -> int | Expr:
        known = v if isinstance(v, int) else evaluate(v, values)
        return v if known is None else int(known)

    def typed(t: Type) -> Type:
        if isinstance(t, Vec):
            return Vec(t.elem, number(t.n))
        if isinstance(t, Ptr):
            return Ptr(typed(t.elem), "global")
        if isinstance(t, Array):
            extents = tuple(i32(n) if isinstance(n, int) else n for n in map(number, t.shape))
            return Array(typed(t.elem), extents, t.space)
        return t

    params = tuple(p.sym for p in kernel.params)
    new = {s: fresh(s.name, typed(s.type)) for s in dict.fromkeys(symbols((params, kernel.body)))}
    return kernel.with_(params=tuple(replace(p, sym=new[p.sym]) for p in kernel.params), body=rename(kernel.body, new))


class _Shape:
    """The rewrites of one kernel, bottom-up."""

    def __init__(self, knobs: Mapping[str, int], place: Mapping[Sym, int], given: Mapping[Sym, Expr | None]) -> None:
        self.knobs, self.place, self.given = knobs, place, given
        self.largest: dict[Sym, int] = {}
        """Of the variables that hold what is known not to be below 0."""
        for sym, init in given.items():
            most = bounded(init, self.largest) if init is not None and _int(sym.type) else None
            if most is not None and most <= min(sym.type.extremes[1], I32.extremes[1]):  # type: ignore[attr-defined]
                self.largest[sym] = most

    def number(self, v: int | Expr) -> int | Expr:
        known = v if isinstance(v, int) else evaluate(v, self.knobs)
        return v if known is None else int(known)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Knob):
            return i32(self.knobs[e.name])
        if isinstance(e, Load):
            return replace(e, width=self.number(e.width), cache="", index=tuple(map(self.subscript, e.index)))
        if isinstance(e, Cast):
            return self.cast(replace(e, style="bit" if e.style == "bit" else "c"))
        if isinstance(e, Unary) and e.op == "-" and isinstance(e.x, Const):
            return replace(e.x, value=-e.x.value)
        if isinstance(e, Unary) and e.op == "-" and _int(e.type):
            return ordered(Binary("-", Const(0, e.type), e.x), self.place)  # type: ignore[arg-type]
        if isinstance(e, WarpOp):
            mask = Const(int(e.mask.value) & ALL_LANES, U32) if isinstance(e.mask, Const) else e.mask
            return replace(e, mask=mask, arg=None if e.arg is None else self.signed(e.arg))
        if isinstance(e, Call) and e.fn == "null_access":  # why a thread stops is no part of what it does
            return replace(e, fn="trap")
        if isinstance(e, Call) and e.fn == "cdiv":
            a, b = e.args
            up = ordered(Binary("-", Binary("+", a, b), Const(1, e.ty)), self.place)  # type: ignore[arg-type]
            return fold_node(Binary("/", up, b))
        e = fold_node(e)
        if isinstance(e, Binary) and e.op == "!=" and is_const(e.b, 0):
            return _truth(e.a)
        e = _compared_narrow(e)
        if isinstance(e, Binary) and e.op in ("==", "!=") and e.a.type == U32:  # of the same bits either way
            e = replace(e, a=self.signed(e.a), b=self.signed(e.b))
        if self.is_sum(e) and e.type != I32 and bounded(e, self.largest) is not None:
            return _literal(Cast(e.type, ordered(fold_node(as_signed(e)), self.place), "c"))
        return ordered(e, self.place)

    def is_sum(self, e: Expr) -> bool:
        return isinstance(e, Binary) and _int(e.type) and e.op != "&"

    def stmt(self, s: Stmt) -> Stmt:
        s = replace(s, tags=frozenset())
        if isinstance(s, Decl):
            return replace(s, const=False)
        if isinstance(s, Store):
            return replace(s, width=self.number(s.width), cache="", index=tuple(map(self.subscript, s.index)))
        if isinstance(s, Atomic):
            return replace(s, index=tuple(map(self.subscript, s.index)))
        if isinstance(s, For):
            return replace(s, unroll=None, cond=self.counted_below(s))
        if isinstance(s, Alloc):
            return replace(s, align=0)
        if isinstance(s, Barrier):
            whole = isinstance(s.mask, Const) and s.mask.value in (-1, ALL_LANES)
            return replace(s, mask=None if whole else s.mask, memory="all")  # text orders all memory
        return s

    def counted_below(self, s: For) -> Expr:
        """The condition of a loop that counts up from at least 0 to a hardware size: signed, both are below 2^31."""
        c = s.cond
        if not (isinstance(c, Binary) and c.op == "<" and isinstance(c.a, Cast) and c.a.x == Var(s.var)):
            return c
        ups = isinstance(s.step, Binary) and s.step.op == "+" and isinstance(s.step.b, Const) and s.step.b.value > 0
        init = self.given.get(s.init.sym) if isinstance(s.init, Var) else s.init
        if not (ups and c.a.to == U32 and isinstance(c.b, HwIndex) and init is not None and bounded(init) is not None):
            return c
        return replace(c, a=c.a.x, b=Cast(I32, c.b, "c"))

    def signed(self, e: Expr) -> Expr:
        """A lane or a distance of lanes, of which the 32 bits count: signed."""
        return self.cast(Cast(I32, e, "c")) if e.type == U32 else e

    def subscript(self, e: Expr) -> Expr:
        """An index: 32 bits wide it is signed, and so is a number that has no more."""
        e = _unsigned_last(e)
        if isinstance(e, Const) and I32.extremes[0] <= e.value <= I32.extremes[1]:
            return Const(e.value, I32)
        return self.cast(Cast(I32, e, "c")) if e.type == U32 else e

    def cast(self, e: Cast) -> Expr:
        """Literals converted now; conversions that only pass bits on merged; arithmetic in the type it ends in."""
        x, to = e.x, e.to
        if e.style == "bit" and _int(to) and _int(x.type) and to.bits == x.type.bits:  # type: ignore[attr-defined]
            e = replace(e, style="c")  # of the same bits, which is what a conversion gives
        if e.style == "bit":
            return _reinterpreted(e)
        if to == x.type:
            return x
        if to == BOOL and isinstance(x.type, Scalar):
            return _truth(x)
        if isinstance(x, Cast) and x.style != "bit" and x.x.type == to and str(x.to) in WIDER_FLOATS.get(str(to), ()):
            return x.x
        if isinstance(to, Scalar) and to.is_float and isinstance(x, Cast) and _keeps_integer(x, to, self.largest):
            return self.cast(replace(e, x=x.x))
        if isinstance(to, Scalar) and to.is_int and to.bits < 32 and _wide_float(x.type):
            return Cast(to, self.cast(Cast(I32 if to.is_signed else U32, x, "c")), "c")
        if not (_int(to) and _int(x.type)):
            return _literal(e)
        assert isinstance(to, Scalar) and isinstance(x.type, Scalar)
        if isinstance(x, Cast) and x.x.type == BOOL:  # 0 or 1 in every type
            return replace(e, x=x.x)
        if isinstance(x, Cast) and _int(x.x.type) and (x.to.bits >= to.bits or _preserves(x, self.largest)):  # type: ignore[attr-defined]
            return self.cast(replace(e, x=x.x))
        if isinstance(x, Binary) and x.op in RING and to.bits <= x.type.bits:
            return ordered(Binary(x.op, self.cast(replace(e, x=x.a)), self.cast(replace(e, x=x.b))), self.place)
        return _literal(e)


def _truth(x: Expr) -> Expr:
    """Whether ``x`` is not 0: a truth value that was widened is itself, and so is the number that one was made of."""
    while isinstance(x, Cast) and x.style != "bit" and (x.x.type == BOOL or (_int(x.type) and _preserves(x))):
        x = x.x
    if x.type == BOOL:
        return x
    t = x.type
    assert isinstance(t, Scalar)
    return Binary("!=", x, Const(0.0 if t.is_float else 0, t))


def _compared_narrow(e: Expr) -> Expr:
    """A comparison of a number that was widened, with one that the narrower type has as well: in that type."""
    if not (isinstance(e, Binary) and e.op in COMPARISONS and isinstance(e.a, Cast) and isinstance(e.b, Const)):
        return e
    t = e.a.x.type
    if e.a.style == "bit" or not _int(e.a.to) or not _int(t) or not _preserves(e.a):
        return e
    assert isinstance(t, Scalar)
    low, high = t.extremes
    return Binary(e.op, e.a.x, Const(e.b.value, t)) if low <= e.b.value <= high else e


def _unsigned_last(e: Expr) -> Expr:
    """An index without its last change of sign or width: where that changes its value, both are out of bounds."""
    wide = isinstance(e, Cast) and e.style != "bit" and isinstance(e.x.type, Scalar) and _int(e.x.type)
    return e.x if wide and e.x.type.bits <= 64 else e  # type: ignore[attr-defined]


def _int(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _wide_float(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_float and t.bits >= 32


def _preserves(e: Cast, largest: Mapping[Sym, int] = MappingProxyType({})) -> bool:
    """Whether every value of an integer operand survives the conversion. Hardware indices are below 2^31."""
    a, b = e.x.type, e.to
    assert isinstance(a, Scalar) and isinstance(b, Scalar)
    if isinstance(e.x, HwIndex):
        return b.bits >= 32
    if bounded(e.x, largest) is not None:  # below 2^31
        return b.bits >= 32 or b.bits > a.bits
    return b.bits > a.bits and (b.is_signed or not a.is_signed)


def _keeps_integer(e: Cast, to: Scalar, largest: Mapping[Sym, int]) -> bool:
    """Whether an integer ends as the same number of the float type ``to`` without the conversion ``e`` in between. A
    float holds integers below 2^24; what it rounds is infinite as a half."""
    if e.style == "bit" or not _int(e.x.type):
        return False
    if _int(e.to):
        return _preserves(e, largest)
    return e.to in (F32, F64) and to.bits < 32 and (to == F16 or e.x.type.bits < 32)  # type: ignore[attr-defined]


def _literal(e: Cast) -> Expr:
    x, to = e.x, e.to
    if not isinstance(x, Const) or not isinstance(to, Scalar) or to.kind == "bool":
        return e
    if to.is_float:
        return Const(float(round_to(np.float64(x.value), to)), to)
    if isinstance(x.value, float):
        return e
    v = int(x.value) & ((1 << to.bits) - 1)
    return Const(v - (1 << to.bits) if to.is_signed and v >> (to.bits - 1) else v, to)


def _reinterpreted(e: Cast) -> Expr:
    x, to = e.x, e.to
    if isinstance(x, Const) and isinstance(to, Scalar) and to.kind == "float" and _int(x.type):
        bits, real = FLOAT_BITS[to.bits]
        return Const(float(np.array(int(x.value) & ((1 << to.bits) - 1), bits).view(real)), to)
    return e


__all__ = ["normal"]
