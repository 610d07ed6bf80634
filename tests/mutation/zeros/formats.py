"""Which narrow float types hold every value that a variable or array of a kernel ever has.

Optimistic and flow-insensitive: everything starts as held by all types, and each assignment takes away those that do
not hold its value. A maximum of f16 elements, kept in f32, shuffled and stored to shared memory, is an f16 value all
the way, and rounding it to f16 changes nothing; so are maxima, minima and choices among such, and their negatives.

A type holds a value if rounding to it changes nothing. Conversions to the 8-bit types saturate (as CUDA's do): neither
holds an infinity, so e5m2 holds what was converted to it, and not all that is found in a buffer of e5m2.

What is written through a pointer, or by an instruction, has its own type alone. A kernel's working memory holds what
its launches left there, or zeros.
NaNs are left aside, as everywhere in the exact rungs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    Load,
    Select,
    Store,
    Sym,
    Unary,
    Var,
    VecGet,
    WarpOp,
)
from ktc.ir.types import Array, Ptr, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, assigned, walk
from ktc.ir.workload.input_data import numpy_dtype
from tests.mutation.sites import branches

Held = frozenset[str]
"""Names of narrow types."""

NONE: Held = frozenset()
EVERY: Held = frozenset({"f16", "bf16", "e4m3", "e5m2"})

WIDER: Held = frozenset({"f16", "bf16"})

HOLDERS = {"f16": {"f16"}, "bf16": {"bf16"}, "e4m3": {"e4m3", *WIDER}, "e5m2": WIDER}
"""Types that hold every value of a narrow one (and f32, f64 do)."""

AMONG = frozenset({"max", "min", "fmax", "fmin", "fabs", "abs"})
"""Functions whose value is one of their operands, but for its sign."""


def formats(kernel: Kernel, *others: Body) -> dict[Sym, Held]:
    """For everything that ``kernel`` or the bodies ``others``, run in its place, give values to. What is given none is
    held by all types."""
    bodies = (kernel.body, *others)
    found = {s.sym: EVERY for body in bodies for s in walk(body) if isinstance(s, Decl | Alloc)}
    found |= {p.sym: EVERY for p in kernel.params if p.scratch is not None}
    found |= {sym: own(sym.type) for sym in _beyond(kernel, bodies)}
    writes = [w for body in bodies for w in _writes(body)]
    while True:
        before = dict(found)
        for sym, value in writes:
            found[sym] = found.get(sym, own(sym.type)) & (own(sym.type) if value is None else held(value, found))
        if found == before:
            return found


def held(e: Expr, known: Mapping[Sym, Held]) -> Held:
    """The narrow types that hold the value of ``e``, all lanes of it."""
    if not _is_float(e.type):
        return NONE
    match e:
        case Const():
            return own(e.ty) | exactly(float(e.value))
        case Var():
            return known.get(e.sym, own(e.sym.type))
        case Load():
            return known.get(e.buffer, own(e.buffer.type))
        case VecGet():
            return held(e.x, known)
        case Cast() if e.style != "bit":
            return converted(held(e.x, known), e.to)
        case Select():
            return held(e.a, known) & held(e.b, known)
        case Call() if e.fn in AMONG:
            return functools.reduce(frozenset.__and__, (held(x, known) for x in e.args))
        case Unary(op="-"):
            return held(e.x, known)
        case WarpOp() if e.kind.startswith("shfl"):
            return held(e.value, known)
    return own(e.type)


def own(t: Type) -> Held:
    """The types that hold every value of ``t``, or of its elements."""
    return frozenset(HOLDERS.get(scalar_of(t).name, ())) if _is_float(t) else NONE


def _is_float(t: Type) -> bool:
    """Whether ``t`` is a floating-point number, or is made of such."""
    while isinstance(t, Array | Ptr | Vec):
        t = t.elem
    return isinstance(t, Scalar) and t.is_float


def converted(held: Held, to: Type) -> Held:
    """What holds a value of ``held`` that was converted to ``to``: unchanged where that type holds it."""
    name = scalar_of(to).name
    return held if name not in EVERY or name in held else own(to) | {name}


@functools.lru_cache(maxsize=4096)
def exactly(value: float) -> Held:
    """The types that hold a number."""
    if value != value:
        return EVERY
    with np.errstate(over="ignore"):
        held = {name for name in EVERY if float(numpy_dtype(name).type(value)) == value}
    return frozenset(held if abs(value) < math.inf else held & WIDER)


def held_already(kernel: Kernel, e: Expr, f: Expr) -> bool:
    """Whether ``f`` is ``e``, an expression of ``kernel``, rounded to a type that holds every value of ``e``."""
    if not (isinstance(f, Cast) and isinstance(f.x, Cast) and f.x.x == e and "bit" not in (f.style, f.x.style)):
        return False
    floats = all(isinstance(t, Scalar) and t.is_float for t in (e.type, f.x.to))
    return floats and f.to == e.type and str(f.x.to) in held(e, formats(kernel))


def _writes(body: Body) -> Iterator[tuple[Sym, Expr | None]]:
    """Everything in ``body`` that is given a value, with that value; None where it may be any."""
    for s in walk(body):
        if isinstance(s, Decl):
            yield from [(s.sym, s.init)] if s.init is not None else []
        elif isinstance(s, Assign | Store):
            yield s.sym if isinstance(s, Assign) else s.buffer, s.value
        elif isinstance(s, For):
            yield s.var, None
        elif not branches(s):
            yield from ((sym, None) for sym in assigned((s,)))


def _beyond(kernel: Kernel, bodies: tuple[Body, ...]) -> Iterator[Sym]:
    """What may be written unseen."""
    yield from (p.sym for p in kernel.params if p.scratch is None)
    for body in bodies:
        for s in walk(body):
            if isinstance(s, Decl | Alloc) and isinstance(s.sym.type, Ptr):
                yield s.sym
        for e in all_exprs(body):
            if isinstance(e, AddrOf):
                yield e.buffer
            elif isinstance(e, Var) and isinstance(e.sym.type, Array | Ptr):
                yield e.sym


__all__ = ["EVERY", "NONE", "Held", "converted", "exactly", "formats", "held_already", "own"]
