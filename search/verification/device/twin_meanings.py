"""What floats, and functions of them, become in a twin: words, and expressions over the ``field_*`` functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ktc.ir.atomic_ops import TAKEN, Taken
from ktc.ir.field_words import P, seed_of
from ktc.ir.interp.domains import integers
from ktc.ir.interp.domains.domain import domain_named
from ktc.ir.interp.domains.field import _LN2_WORD, _LOG2E, _word
from ktc.ir.nodes import NEGATED, Binary, Call, Cast, Const, Expr, Select, Unary
from ktc.ir.types import BOOL, I64, U64, Array, Ptr, Scalar, Type, Vec, scalar_of

FIELD = domain_named("field")


def is_word(t: Type | None) -> bool:
    """Whether values of this type become words."""
    return isinstance(t, Scalar | Vec) and scalar_of(t).is_float


def floats_as(new: Scalar, t: Any) -> Any:
    """``t`` with ``new`` in the place of its floats."""
    if isinstance(t, Scalar):
        return new if t.is_float else t
    if isinstance(t, Vec | Ptr | Array):
        elem = floats_as(new, t.elem)
        return t if elem is t.elem else dataclasses.replace(t, elem=elem)
    return t


def word(value: float, t: Scalar) -> Const:
    """A float literal of type ``t`` as a word."""
    return Const(int(FIELD.const(value, t)), U64)


def from_integer(x: Expr, source: Scalar) -> Expr:
    """An integer of type ``source`` as the word of its residue."""
    if source == U64:
        return Call("field_of_u64", (x,), U64)
    return Call("field_of", (x if source == I64 else Cast(I64, x),), U64)


def to_integer(x: Expr, t: Scalar) -> Expr:
    """The centred residue, clipped to what ``t`` holds (see the field domain)."""
    order: Expr = Call("field_order", (x,), I64)
    if t.kind == "bool":
        return Binary("!=", order, Const(0, I64))
    info = np.iinfo(integers.DTYPES[t.name])
    low, high = max(int(info.min), -P), min(int(info.max), P)
    clipped = Call("min", (Call("max", (order, Const(low, I64)), I64), Const(high, I64)), I64)
    return clipped if t == I64 else Cast(t, clipped)


def _f(fn: str, *args: Expr) -> Call:
    return Call(fn, args, U64)


def hashed(fn: str, *args: Expr) -> Call:
    """A function without a meaning in the field, as a hash of its name and arguments: equal arguments, equal words."""
    return Call(f"field_hash{len(args)}", (Const(int(seed_of(fn)), U64), *args), U64)


def _const(w: Any) -> Const:
    return Const(int(w), U64)


def _before(op: str, a: Expr, b: Expr) -> Expr:
    return Binary(op, Call("field_order", (a,), I64), Call("field_order", (b,), I64))


def _extreme(x: Expr) -> Expr:
    return Binary("==", Call("abs", (Call("field_order", (x,), I64),), I64), Const((P - 1) // 2, I64))


def _negative(x: Expr) -> Expr:
    return Binary("<", Call("field_order", (x,), I64), Const(0, I64))


def _log(x: Expr) -> Call:
    return _f("field_log", Const(int(seed_of("log")), U64), _const(_LN2_WORD), x)


_ONE = _const(FIELD.const(1.0, Scalar("float", 64)))

MEANINGS: dict[str, Any] = {
    "fma": lambda a, b, c: _f("field_add", _f("field_mul", a, b), c),
    "exp": lambda x: _f("field_exp", x),
    "exp2": lambda x: _f("field_exp", _f("field_mul", x, _const(_LN2_WORD))),
    "expm1": lambda x: _f("field_sub", _f("field_exp", x), _ONE),
    "tanh": lambda x: _tanh(_f("field_exp", _f("field_add", x, x))),
    "log": lambda x: _log(x),
    "log2": lambda x: _f("field_mul", _log(x), _const(_word(_LOG2E))),
    "log1p": lambda x: _log(_f("field_add", x, _ONE)),
    "pow": lambda x, y: _f("field_pow", Const(int(seed_of("pow")), U64), x, y),
    "sqrt": lambda x: _f("field_sqrt", x),
    "rsqrt": lambda x: _f("field_rcp", _f("field_sqrt", x)),
    "rcp": lambda x: _f("field_rcp", x),
    "min": lambda a, b: Select(_before("<=", a, b), a, b),
    "max": lambda a, b: Select(_before(">=", a, b), a, b),
    "abs": lambda x: Select(_negative(x), _f("field_neg", x), x),
    "isnan": lambda x: Const(False, BOOL),
    "isinf": _extreme,
    "isfinite": lambda x: Unary("!", _extreme(x)),
    "signbit": _negative,
}
"""As in the field domain; any other function is a keyed hash of its arguments."""


def _taken(taken: Taken) -> Callable[[Expr, Expr], Expr]:
    """The new value where it compares so with the old one; the field has no NaN."""
    op = NEGATED[taken.op] if taken.negated else taken.op
    return lambda old, new: Select(_before(op, new, old), new, old)


COMBINED: dict[str, Any] = {
    "add": lambda a, b: _f("field_add", a, b),
    "sub": lambda a, b: _f("field_sub", a, b),
    "min": MEANINGS["min"],
    "max": MEANINGS["max"],
    "mul": lambda a, b: _f("field_mul", a, b),
    **{op: _taken(taken) for op, taken in TAKEN.items()},
}
"""What atomics on floats leave behind."""


def _tanh(e: Expr) -> Expr:
    return _f("field_mul", _f("field_sub", e, _ONE), _f("field_rcp", _f("field_add", e, _ONE)))
