"""The integers of a kernel in a set of iterations: subscripts, loop bounds and conditions as functions of the loops.

A number is linear in the loops that stay symbolic (:mod:`.iteration_states`). What is not says what would make it so: a
quotient by a constant wants its loop split by that constant, an index that is read from memory wants the loops of its
place enumerated, and then takes the value that the workload's array has there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ktc.ir.fold import cast, evaluate
from ktc.ir.nodes import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    HwIndex,
    Knob,
    Load,
    Select,
    Sym,
    Unary,
    Var,
)
from ktc.ir.types import BOOL, Ptr, Scalar

from . import float_operands
from .conditions import Undecided, compared
from .float_operands import real
from .iteration_states import UNKNOWN, Branches, Cut, Expand, Number, Split, State, both, combined, scaled

Contents = Callable[[str], np.ndarray | None]
"""The workload's contents of a buffer, flat, or None where they are not known."""

LARGEST = (1 << 63) - 1
"""Numbers are signed ones of 64 bits: a constant beyond (a modulus of 2^63, a hash) is not followed."""


@dataclasses.dataclass(frozen=True)
class Values:
    """Evaluates expressions. ``scalars``: parameters and knobs by name; ``written``: buffers that the kernel writes."""

    scalars: Mapping[str, int]
    contents: Contents
    written: frozenset[Sym]

    def number(self, e: Expr, s: State) -> Number:
        """The integer (or truth) ``e`` in ``s``."""
        handler = _HANDLERS.get(type(e))
        return handler(self, e, s) if handler is not None else UNKNOWN

    def condition(self, e: Expr, s: State) -> Branches | None:
        """``s`` cut by ``e``, or None where it depends on what is not known (floats, what the kernel computed).

        Raises:
            Undecided: it would be known if loops were enumerated or split.
        """
        if isinstance(e, Unary) and e.op == "!":
            found = self.condition(e.x, s)
            return None if found is None else (found[1], found[0])
        if isinstance(e, Binary) and e.op == "&&":
            return both(s, lambda t: self.condition(e.a, t), lambda t: self.condition(e.b, t))
        if isinstance(e, Binary) and e.op == "||":
            found = both(s, lambda t: _swapped(self.condition(e.a, t)), lambda t: _swapped(self.condition(e.b, t)))
            return _swapped(found)
        if isinstance(e, Binary) and e.op in COMPARISONS:
            return self._compared(e, s)
        x = self.number(e, s)
        return self._decided(s, "!=", x, Number(0))

    def _compared(self, e: Binary, s: State) -> Branches | None:
        t = e.a.type
        if isinstance(t, Scalar) and t.is_float:
            return self._decided(
                s, "!=", float_operands.compared(_PLAIN[e.op], *(real(self, x, s) for x in (e.a, e.b))), Number(0)
            )
        if not isinstance(t, Scalar) or not (t.is_int or t == BOOL):
            return None
        a, b = self.number(e.a, s), self.number(e.b, s)
        if t.kind == "uint" and not all(x.base is None or np.all(np.asarray(s.limits(x)[0]) >= 0) for x in (a, b)):
            return None  # it wrapped around
        return self._decided(s, e.op, a, b)

    def _decided(self, s: State, op: str, a: Number, b: Number) -> Branches | None:
        try:
            return compared(s, op, a, b)
        except Undecided as e:
            if e.wants:
                raise
            return None

    def element(self, e: Load, s: State, kind: Any) -> Number:
        """What the workload puts where ``e`` loads from, as it is in memory; unknown but of numpy's ``kind``."""
        if not isinstance(e.buffer.type, Ptr) or e.buffer in self.written:
            return UNKNOWN
        index = self.number(e.index[0], s)
        if index.base is None or index.terms:
            return Number(None, wants=index.wants | frozenset(map(Expand, index.terms)))
        data, at = self.contents(e.buffer.name), np.asarray(index.base, np.int64)
        if data is None or not len(data) or not np.issubdtype(data.dtype, kind):
            return UNKNOWN
        if np.any((at < 0) | (at >= len(data))):
            return UNKNOWN
        return Number(data[at])


def _swapped(found: Branches | None) -> Branches | None:
    return None if found is None else (found[1], found[0])


# ---------------------------------------------------------------------------------------------------- by kind of node


def _whole(n: int) -> Number:
    return Number(n) if abs(n) <= LARGEST else UNKNOWN


def _const(v: Values, e: Const, s: State) -> Number:
    return UNKNOWN if isinstance(e.value, float) else _whole(int(e.value))


def _var(v: Values, e: Var, s: State) -> Number:
    found = s.numbers.get(e.sym)
    if found is None and e.sym.name in v.scalars and not isinstance(e.sym.type, Ptr):
        passed = v.scalars[e.sym.name]
        return Number(passed) if isinstance(passed, float) else _whole(int(passed))
    return found or UNKNOWN


def _knob(v: Values, e: Knob, s: State) -> Number:
    found = evaluate(e, v.scalars)
    return UNKNOWN if found is None else _whole(int(found))


def _hw_index(v: Values, e: HwIndex, s: State) -> Number:
    return s.numbers.get((e.level, e.axis), UNKNOWN)


def _unary(v: Values, e: Unary, s: State) -> Number:
    x = v.number(e.x, s)
    if e.op == "-":
        return scaled(x, -1)
    if not x.concrete:
        return Number(None, wants=x.wants)
    assert x.base is not None
    return Number(~x.base if e.op == "~" else np.asarray(x.base) == 0)


def _binary(v: Values, e: Binary, s: State) -> Number:
    t = e.a.type
    if not isinstance(t, Scalar) or not (t.is_int or t == BOOL):
        return UNKNOWN
    a, b = v.number(e.a, s), v.number(e.b, s)
    if e.op in ("+", "-"):
        return combined(a, b, 1 if e.op == "+" else -1)
    wants = a.wants | b.wants
    if not (a.known and b.known):
        return Number(None, wants=wants)
    linear = _LINEAR.get(e.op)
    if linear is not None:
        found = linear(a, b, s)
        if found is not None:
            return found
    if a.concrete and b.concrete:
        plain = _PLAIN.get(e.op)
        return UNKNOWN if plain is None else _plainly(plain, a, b)
    return Number(None, wants=frozenset(Expand(x) for x in (*a.terms, *b.terms)))


def _plainly(f: Callable[[np.ndarray, np.ndarray], np.ndarray], a: Number, b: Number) -> Number:
    x, y = np.asarray(a.base, np.int64), np.asarray(b.base, np.int64)
    with np.errstate(all="ignore"):
        found = f(x, y)
    return Number(int(found) if found.ndim == 0 else found.astype(np.int64))


def _product(a: Number, b: Number, s: State) -> Number | None:
    for x, y in ((a, b), (b, a)):
        c = y.constant
        if c is not None:
            return scaled(x, c)
    return None


def _quotient(a: Number, b: Number, s: State) -> Number | None:
    return _divided(a, b.constant, s, remainder=False)


def _remainder(a: Number, b: Number, s: State) -> Number | None:
    return _divided(a, b.constant, s, remainder=True)


def _divided(a: Number, by: int | None, s: State, remainder: bool) -> Number | None:
    """Quotient or remainder of a number that is not negative, by a constant: where the digits part."""
    if by is None or by <= 0 or a.concrete or np.any(np.asarray(s.limits(a)[0]) < 0):
        return None
    assert a.base is not None
    whole = {x: c for x, c in a.terms.items() if c % by == 0}
    part = {x: c for x, c in a.terms.items() if c % by}
    rest = Number(a.base % by, part)
    least, most = s.limits(rest)
    if np.all(np.asarray(least) >= 0) and np.all(np.asarray(most) < by):
        return rest if remainder else Number(a.base // by, {x: c // by for x, c in whole.items()})
    axis, c = max(part.items(), key=lambda x: x[1], default=(None, 0))
    if axis is None or c <= 0 or by % c:
        return None
    least, most = s.limits(Number(rest.base, {x: n for x, n in part.items() if x != axis}))
    digits = np.all(np.asarray(least) >= 0) and np.all(np.asarray(most) < c)  # what is below a step of the axis
    return Number(None, wants=frozenset({Split(axis, by // c)})) if digits else None


def _shift_left(a: Number, b: Number, s: State) -> Number | None:
    c = b.constant
    return scaled(a, 1 << c) if c is not None and 0 <= c < 63 else None


def _shift_right(a: Number, b: Number, s: State) -> Number | None:
    c = b.constant
    return _divided(a, 1 << c, s, remainder=False) if c is not None and 0 <= c < 63 else None


def _masked(a: Number, b: Number, s: State) -> Number | None:
    c = b.constant
    return _divided(a, c + 1, s, remainder=True) if c is not None and c >= 0 and c & (c + 1) == 0 else None


def _bits_added(a: Number, b: Number, s: State) -> Number | None:
    """``a | b`` and ``a ^ b`` of numbers that have no bit in common, which is their sum."""
    return next((combined(x, y) for x, y in ((a, b), (b, a)) if _has_room(x, y, s)), None)


def _has_room(a: Number, b: Number, s: State) -> bool:
    """Whether ``b`` lies in bits that ``a`` has none of: below all that its larger terms are multiples of, and above
    what the others come to."""
    least, most = s.limits(b)
    if a.concrete or not np.all(np.asarray(least) >= 0):
        return False
    assert a.base is not None and b.base is not None
    step = 1 << int(np.max(np.asarray(most))).bit_length()
    lower = Number(a.base % step, {x: c for x, c in a.terms.items() if c % step})
    unit = math.gcd(*b.terms.values(), int(np.gcd.reduce(np.atleast_1d(np.asarray(b.base)))))
    low, high = s.limits(lower)
    return bool(np.all(np.asarray(low) >= 0) and np.all(np.asarray(high) < (unit & -unit)))


_LINEAR: dict[str, Callable[[Number, Number, State], Number | None]] = {
    "*": _product,
    "/": _quotient,
    "%": _remainder,
    "<<": _shift_left,
    ">>": _shift_right,
    "&": _masked,
    "|": _bits_added,
    "^": _bits_added,
}


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    safe = np.where(y == 0, 1, y)
    return np.abs(x) // np.abs(safe) * np.sign(x) * np.sign(safe)


_PLAIN: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "*": np.multiply,
    "/": _truncated,
    "%": lambda x, y: x - _truncated(x, y) * y,
    "<<": lambda x, y: np.left_shift(x, np.clip(y, 0, 63)),
    ">>": lambda x, y: np.right_shift(x, np.clip(y, 0, 63)),
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&&": lambda x, y: (x != 0) & (y != 0),
    "||": lambda x, y: (x != 0) | (y != 0),
}


def _cast(v: Values, e: Cast, s: State) -> Number:
    to, came = e.to, e.x.type
    if not isinstance(to, Scalar) or not isinstance(came, Scalar) or came.is_float or not (to.is_int or to == BOOL):
        return UNKNOWN
    x = v.number(e.x, s)
    if x.base is None or to == came:
        return x
    lo, hi = (0, 1) if to == BOOL else _range(to)
    least, most = s.limits(x)
    if np.all(np.asarray(least) >= lo) and np.all(np.asarray(most) <= hi):
        return x
    if not x.concrete:
        return Number(None, wants=frozenset(map(Expand, x.terms)))
    base = np.asarray(x.base, np.int64)
    if to == BOOL:
        return Number(base != 0)
    return Number((base - lo) % (hi - lo + 1) + lo) if to.bits < 64 else UNKNOWN


def _range(t: Scalar) -> tuple[int, int]:
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def _select(v: Values, e: Select, s: State) -> Number:
    t = e.type
    if not isinstance(t, Scalar) or t.is_float:
        return UNKNOWN
    try:
        found = v.condition(e.cond, s)
    except Undecided as why:
        return Number(None, wants=why.wants)
    if found is None:
        return UNKNOWN
    if not found[1] or not found[0]:
        return v.number(e.a if found[0] else e.b, s)
    c, a, b = v.number(e.cond, s), v.number(e.a, s), v.number(e.b, s)
    if c.concrete and a.concrete and b.concrete:
        assert c.base is not None and a.base is not None and b.base is not None
        return Number(np.where(np.asarray(c.base) != 0, a.base, b.base))
    return Number(None, wants=frozenset({Cut(e.cond)}))


def _call(v: Values, e: Call, s: State) -> Number:
    if e.fn == "cdiv" and isinstance(e.ty, Scalar):
        n, by = (cast(x, e.ty) for x in e.args)
        return v.number(Binary("/", Binary("-", Binary("+", n, by), Const(1, e.ty)), by), s)
    if e.fn not in ("min", "max") or not isinstance(e.ty, Scalar) or e.ty.is_float:
        return UNKNOWN
    a, b = (v.number(x, s) for x in e.args)
    d = combined(a, b, -1)
    if d.base is None:
        return d
    least, most = s.limits(d)
    for first, second, sure in ((a, b, np.all(np.asarray(most) <= 0)), (b, a, np.all(np.asarray(least) >= 0))):
        if sure:
            return first if e.fn == "min" else second
    if a.concrete and b.concrete:
        return _plainly(np.minimum if e.fn == "min" else np.maximum, a, b)
    return Number(None, wants=frozenset({Cut(Binary("<", *e.args))}))


def _load(v: Values, e: Load, s: State) -> Number:
    t = e.type
    found = v.element(e, s, np.integer) if isinstance(t, Scalar) and not t.is_float else UNKNOWN
    if found.base is None:
        return found
    whole = np.asarray(found.base, np.int64)
    return Number(int(whole) if whole.ndim == 0 else whole)


_HANDLERS: dict[type, Callable[..., Number]] = {
    Const: _const,
    Var: _var,
    Knob: _knob,
    HwIndex: _hw_index,
    Unary: _unary,
    Binary: _binary,
    Cast: _cast,
    Select: _select,
    Call: _call,
    Load: _load,
}
