"""Floats of 16 and 8 bits in OpenCL's text: bits in an integer, with the emitter's functions around them.

A text is read with the type itself where its ``typedef`` is the emitter's, and with a conversion where the function is,
letter by letter; what the functions compute is tested elsewhere, for every value of the types. As C would convert such
an integer wherever a number is wanted, conversions by a function are read as ones through ``double``, which change
nothing: any other, and any arithmetic, is a value of an integer that is taken for a float (:func:`plainly`).

Where a program does more with such a value than store, select and convert it to other floats (its bits go through
lanes, atomics or casts, it becomes an integer), or computes in ``double`` too, the text is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeGuard

from ktc.backends.opencl.opencl_helpers import HELPERS
from ktc.ir.diagnostics import KtcError
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Atomic,
    Body,
    Call,
    Cast,
    Const,
    Expr,
    GroupCopy,
    Load,
    Select,
    Var,
    VecGet,
    VecMake,
    WarpOp,
)
from ktc.ir.text import print_expr
from ktc.ir.text.naming import symbols
from ktc.ir.types import BF16, E4M3, E5M2, F16, F32, F64, Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, map_body, stmt_exprs, walk, walk_expr

SMALL = frozenset({F16, BF16, E4M3, E5M2})

_NAMES = {"f16": ("half", "half"), "bf16": ("__nv_bfloat16", "bf16"), "e4m3": ("__nv_fp8_e4m3", "e4m3"),
          "e5m2": ("__nv_fp8_e5m2", "e5m2")}  # fmt: skip
"""The emitter's name of the type: (what the front-end calls it, what it is called in the names of functions)."""


def _meanings() -> dict[str, str]:
    """The emitter's text of each type and function, and the text that says what it means."""
    out = {}
    for t, (read, word) in _NAMES.items():
        out[HELPERS[t]] = f"typedef {read} {t};"
        out[HELPERS[f"{word}_to_float"]] = f"static inline float {word}_to_float({t} x) {{ return (float)(double)x; }}"
        out[HELPERS[f"float_to_{word}"]] = f"static inline {t} float_to_{word}(float x) {{ return ({t})(double)x; }}"
    for name, t in (("odd_signed", "long"), ("odd_unsigned", "ulong")):
        out[HELPERS[name]] = f"static inline float {name}({t} x) {{ return (float)(double)x; }}"
    return out


MEANINGS = _meanings()


_DEFINED = re.compile(r"^(?:typedef \w+|static inline \w+) (\w+)", re.MULTILINE)
_OURS = {m[1] for text in MEANINGS if (m := _DEFINED.match(text))}
"""The names that the emitter defines."""

_SILENT = re.compile(r"//.*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"")
"""Comments and strings."""

_DOUBLE = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.])")
"""A literal of type double."""


class TakenForFloat(KtcError):
    """The text uses a small float as the integer that it is in OpenCL, or converts it by a function of its own."""


def with_small_floats(text: str) -> str:
    """``text`` with the types that the emitter's integers stand for, and conversions for its functions.

    Raises:
        TakenForFloat: it defines one of them otherwise.
    """
    rest = text
    for emitted, meant in MEANINGS.items():
        text, rest = text.replace(emitted, meant), rest.replace(emitted, "")
    other = next((m[1] for m in _DEFINED.finditer(rest) if m[1] in _OURS), None)
    if other is not None:
        raise TakenForFloat("E-READ-BACK", f"the printed text has a {other} of its own")
    literal = _DOUBLE.search(_SILENT.sub("", rest)) if rest != text else None
    if literal is not None:  # its conversion would look like one by a function
        raise TakenForFloat("E-READ-BACK", f"the printed text has the literal {literal[0]} of type double")
    return text


def plainly(body: Body) -> Body:
    """``body`` as it was read, with the conversions that its functions stand for.

    Raises:
        TakenForFloat: a value of a small float type is used as the integer that it is in OpenCL.
    """
    for s in walk(body):
        for e in stmt_exprs(s):
            for x in walk_expr(e):
                if _is_integer_use(x):
                    what = print_expr(x)
                    raise TakenForFloat("E-READ-BACK", f"the printed text has '{what}' of the bits of a float", s.loc)
    return map_body(body, lambda s: s, _without_marks)


def _is_integer_use(e: Expr) -> bool:
    if isinstance(e, Cast):
        marked = isinstance(e.x, Cast | Const) and e.x.type == F64
        if _small(e.to):
            return not (marked or e.to == e.x.type)
        return _small(e.x.type) and e.to != F64
    if isinstance(e, Const):
        return _small(e.ty)
    if isinstance(e, Select):
        return _small(e.cond.type)
    if isinstance(e, Load | VecGet | VecMake | Var):
        return False
    return any(_small(x.type) for x in children(e))


def _without_marks(e: Expr) -> Expr:
    """``f32(f64(h))`` is ``f32(h)`` of a small float, and ``f16(f64(x))`` is ``f16(x)`` of a float;
    ``bf16(f32(f64(i)))`` is ``bf16(i)`` of an integer, which the function between rounds so that it is."""
    if isinstance(e, Cast) and isinstance(e.x, Cast) and e.x.to == F64:
        inner = e.x.x
        if _small(e.to) and isinstance(inner, Cast) and inner.to == F32 and _marked_integer(inner.x):
            return Cast(e.to, inner.x.x, e.style)
        if (_small(inner.type) and e.to == F32) or (_small(e.to) and inner.type == F32):
            return Cast(e.to, inner, e.style)
    if isinstance(e, Cast) and _small(e.to) and isinstance(e.x, Const) and e.x.type == F64:
        return Cast(e.to, Const(e.x.value, F32), e.style)  # a float, widened where it was read
    return e


def _marked_integer(e: Expr) -> TypeGuard[Cast]:
    return isinstance(e, Cast) and e.to == F64 and isinstance(e.x.type, Scalar) and e.x.type.is_int


def _small(t: object) -> bool:
    return isinstance(t, Scalar | Vec) and scalar_of(t) in SMALL


def by_their_bits(kernel: Kernel) -> Iterable[str]:
    """The small float types whose bits ``kernel`` uses, or that it has beside ``double``: by name."""
    used = {t for e in all_exprs(kernel.body) for t in _bits_in(e)}
    if (types := _scalars(kernel)) & {F64}:
        used |= types
    for s in walk(kernel.body):
        if isinstance(s, Atomic):
            used.add(scalar_of(s.buffer.type))
        elif isinstance(s, GroupCopy):
            used |= {scalar_of(s.dst.type), scalar_of(s.src.type)}
    return sorted(t.name for t in used & SMALL)


def _scalars(kernel: Kernel) -> set[Scalar]:
    types = [s.type for s in symbols((tuple(p.sym for p in kernel.params), kernel.body))]
    types += [e.type for e in all_exprs(kernel.body)]
    return {scalar_of(t) for t in types if isinstance(t, Scalar | Vec | Ptr | Array)}


def _bits_in(e: Expr) -> Iterable[Scalar]:
    if isinstance(e, Cast) and (e.style == "bit" or (isinstance(e.to, Scalar) and e.to.is_int)):  # through a temporary
        of: tuple[object, ...] = (e.to, e.x.type)
    elif isinstance(e, WarpOp):
        of = (e.value.type,)
    elif isinstance(e, AddrOf):
        of = (e.buffer.type,)
    elif isinstance(e, Call) and e.fn.startswith(("tex", "surf")):
        of = (e.type,)
    else:
        of = ()
    return (scalar_of(t) for t in of if isinstance(t, Scalar | Vec | Ptr | Array))


__all__ = ["TakenForFloat", "by_their_bits", "plainly", "with_small_floats"]
