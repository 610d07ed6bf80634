"""Constant folding and light algebraic simplification, and evaluation of integer expressions.

``simplify`` never changes meaning: integer identities only (``x+0``, ``x*1``, constant arithmetic that does not
overflow), and no floating-point algebra. A float made of constants is folded where it is converted to an integer, and
a choice between values that are widened only to be rounded back is one between the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ctypes import c_float
from dataclasses import replace
from typing import Any, TypeAlias

from .nodes import COMPARISONS, KNOB_MARK, Binary, Call, Cast, Const, Expr, Knob, Select, Unary, Var, i32
from .types import BOOL, F32, F64, I32, SCALARS, Scalar, is_signed_integer
from .walk import map_expr


def _trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INT_OPS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _trunc_div,
    "%": lambda a, b: a - b * _trunc_div(a, b),
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}
"""Integer operators with C's truncating division, over unbounded Python ints."""

INT_FUNCS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "cdiv": lambda a, b: -(-a // b),
}
"""``cdiv(a, b)`` is ceil(a / b) for positive b; it appears in launches and trip counts."""

BIT_FUNCS: dict[str, Callable[[int, int], int]] = {
    "popc": lambda x, bits: x.bit_count(),
    "clz": lambda x, bits: bits - x.bit_length(),
    "ffs": lambda x, bits: (x & -x).bit_length(),
}
"""Functions of the bits of one integer, given as it is without a sign, with its width."""


class KnobValues(dict[str, int]):
    """Values of knobs by name: an environment in which no variable has a value, even if it is called as a knob is."""


def evaluate(e: Expr, env: Mapping[str, int]) -> int | bool | None:
    """Value of an integer expression; variables are looked up by *name* in ``env``, knobs by their marked name, else by
    their plain one. None if unknown."""
    value = _VALUE_OF.get(type(e))
    return None if value is None else value(e, env, {})


Known: TypeAlias = dict[int, "int | bool | None"]
"""Values of the parts met so far, by ``id``: a next power of two has its operand 64 times, at one place in memory."""


def _value(e: Expr, env: Mapping[str, int], known: Known) -> int | bool | None:
    """The value of a part of an expression."""
    value = _VALUE_OF.get(type(e))
    if value is None or isinstance(e, Const | Var | Knob):
        return None if value is None else value(e, env, known)
    if id(e) not in known:
        known[id(e)] = value(e, env, known)
    return known[id(e)]


def _cast_value(e: Cast, env: Mapping[str, int], known: Known) -> int | bool | None:
    return _value(e.x, env, known) if isinstance(e.to, Scalar) and not e.to.is_float else None


def _unary_value(e: Unary, env: Mapping[str, int], known: Known) -> int | bool | None:
    x = _value(e.x, env, known)
    return None if x is None else _SIGNS[e.op](x)


def _select_value(e: Select, env: Mapping[str, int], known: Known) -> int | bool | None:
    c = _value(e.cond, env, known)
    return None if c is None else _value(e.a if c else e.b, env, known)


def _binary_value(e: Binary, env: Mapping[str, int], known: Known) -> int | bool | None:
    a, b = _value(e.a, env, known), _value(e.b, env, known)
    return None if a is None or b is None or _undefined(e.op, b) else INT_OPS[e.op](a, b)


def _call_value(e: Call, env: Mapping[str, int], known: Known) -> int | bool | None:
    if e.fn in BIT_FUNCS and isinstance(of := e.args[0].type, Scalar):
        x = _value(e.args[0], env, known)
        return None if x is None else BIT_FUNCS[e.fn](int(x) & ((1 << of.bits) - 1), of.bits)
    if e.fn not in INT_FUNCS:
        return None
    args = [_value(a, env, known) for a in e.args]
    if any(a is None for a in args) or (e.fn == "cdiv" and args[1] == 0):
        return None
    return INT_FUNCS[e.fn](*args)


_SIGNS: dict[str, Callable[[int], int | bool]] = {
    "-": lambda x: -x,
    "~": lambda x: ~x,
    "!": lambda x: not x,
    "+": lambda x: x,
}
_VALUE_OF: dict[type, Callable[..., int | bool | None]] = {
    Const: lambda e, env, known: e.value if not isinstance(e.value, float) else None,
    Knob: lambda e, env, known: env.get(KNOB_MARK + e.name, env.get(e.name)),
    Var: lambda e, env, known: None if isinstance(env, KnobValues) else env.get(e.sym.name),
    Cast: _cast_value,
    Unary: _unary_value,
    Select: _select_value,
    Binary: _binary_value,
    Call: _call_value,
}
"""How a node of each kind is evaluated; others have no integer value."""


def is_const(e: Expr, value: int | None = None) -> bool:
    """Whether ``e`` is an integer literal (equal to ``value`` if given)."""
    return isinstance(e, Const) and not isinstance(e.value, float) and (value is None or e.value == value)


def zero(t: Scalar) -> Const:
    """0 of the type ``t``, a number."""
    return Const(0.0 if t.is_float else 0, t)


def _fits(v: int, t: Scalar) -> bool:
    if t.kind == "bool":
        return v in (0, 1)
    lo, hi = t.extremes
    return lo <= v <= hi


def _undefined(op: str, b: int) -> bool:
    """Whether ``x op b`` has no value: division by zero, a shift by less than nothing or by more than any type has."""
    return (op in ("/", "%") and b == 0) or (op in ("<<", ">>") and not 0 <= b < 64)


_FOLDING = frozenset({Binary, Unary, Select, Cast, Call})


def fold_node(e: Expr) -> Expr:
    """One bottom-up folding step: children are already folded."""
    if type(e) not in _FOLDING:
        return e
    if isinstance(e, Binary):
        a, b = e.a, e.b
        if type(a) is not Const and type(b) is not Const:
            return e
        t = a.type
        if not isinstance(t, Scalar) or t.is_float:
            return e
        if is_const(a) and is_const(b) and not _undefined(e.op, b.value):  # type: ignore[attr-defined]
            v = INT_OPS[e.op](a.value, b.value)  # type: ignore[attr-defined]
            if e.op in COMPARISONS or e.op in ("&&", "||"):
                return Const(bool(v), BOOL)
            if _fits(v, t):
                return Const(v, t)
        if (e.op == "+" and is_const(a, 0)) or (e.op == "*" and is_const(a, 1)):
            return b
        if (e.op in "+-" and is_const(b, 0)) or (e.op in "*/" and is_const(b, 1)):
            return a
        if e.op == "*" and (is_const(a, 0) or is_const(b, 0)):
            return Const(0, t)
        if e.op in "+-" and is_const(b) and isinstance(a, Binary) and a.op in "+-" and is_const(a.b) and t.is_signed:
            return _chained(e, a)
        if e.op == "%" and is_const(b, 1):
            return Const(0, t)
        if e.op == "&&":
            if is_const(a, 1):
                return b
            if is_const(b, 1):
                return a
            if is_const(a, 0):
                return a
        if e.op == "||":
            if is_const(a, 0):
                return b
            if is_const(b, 0):
                return a
            if is_const(a, 1):
                return a
    if isinstance(e, Unary) and e.op == "!" and is_const(e.x):
        return Const(not e.x.value, BOOL)  # type: ignore[attr-defined]
    if isinstance(e, Unary) and e.op == "-" and isinstance(e.x, Const) and is_signed_integer(e.x.type):
        v = -int(e.x.value)
        return Const(v, e.x.type) if _fits(v, e.x.type) else e
    if isinstance(e, Select) and is_const(e.cond):
        return e.a if e.cond.value else e.b  # type: ignore[attr-defined]
    if isinstance(e, Cast) and e.style != "bit" and isinstance(e.to, Scalar):
        if e.x.type == e.to:
            return e.x
        if is_const(e.x) and (e.to.is_int or e.to.kind == "bool") and _fits(int(e.x.value), e.to):  # type: ignore[attr-defined]
            v = e.x.value  # type: ignore[attr-defined]
            return Const(bool(v) if e.to.kind == "bool" else int(v), e.to)
        if e.to == F32 and (number := _number(e.x)) is not None:
            return Const(c_float(number).value, F32)
        if isinstance(e.x, Select) and e.to.is_float:
            then, orelse = (_unwidened(arm, e.to) for arm in (e.x.a, e.x.b))
            return e if then is None or orelse is None else Select(e.x.cond, then, orelse)
    if isinstance(e, Call) and e.fn in INT_FUNCS and all(is_const(a) for a in e.args):
        args = [a.value for a in e.args]  # type: ignore[attr-defined]
        if isinstance(e.ty, Scalar) and not (e.fn == "cdiv" and args[1] == 0) and _fits(INT_FUNCS[e.fn](*args), e.ty):
            return Const(INT_FUNCS[e.fn](*args), e.ty)
    if isinstance(e, Call) and e.fn in BIT_FUNCS and len(e.args) == 1 and is_const(e.args[0]):
        of = e.args[0].type
        if isinstance(of, Scalar) and of.is_int and isinstance(e.ty, Scalar):
            bits = int(e.args[0].value) & ((1 << of.bits) - 1)  # type: ignore[attr-defined]
            return Const(BIT_FUNCS[e.fn](bits, of.bits), e.ty)
    return e


def _number(e: Expr) -> float | None:
    """The double that ``e`` says, if it is one, and no less than the least number of 32 bits, or zero, in size."""
    sign, e = (-1.0, e.x) if isinstance(e, Unary) and e.op == "-" else (1.0, e)
    if not isinstance(e, Const) or e.ty != F64 or not math.isfinite(float(e.value)):
        return None
    near = c_float(e.value).value
    return sign * float(e.value) if math.isfinite(near) and (near != 0.0 or e.value == 0) else None


def _unwidened(e: Expr, t: Scalar) -> Expr | None:
    """The value of ``e`` as one of the float type ``t`` where it was widened from ``t``, or is a number that ``t`` has
    too; else None."""
    if not isinstance(e.type, Scalar) or not e.type.is_float or e.type.bits <= t.bits:
        return None
    if isinstance(e, Cast) and e.style != "bit" and e.x.type == t:
        return e.x
    if isinstance(e, Const) and t == F32 and c_float(e.value).value == e.value:
        return Const(e.value, t)
    return None


def _chained(e: Binary, inner: Binary) -> Expr:
    """``(x + c1) - c2`` as ``x + (c1 - c2)`` (signed, so overflow is no concern of ours)."""
    t = e.a.type
    assert isinstance(t, Scalar) and isinstance(e.b, Const) and isinstance(inner.b, Const)
    total = (inner.b.value if inner.op == "+" else -inner.b.value) + (e.b.value if e.op == "+" else -e.b.value)
    if total == 0:
        return inner.a
    if not _fits(abs(int(total)), t):
        return e
    return Binary("+" if total > 0 else "-", inner.a, Const(abs(int(total)), t))


def simplify(e: Expr) -> Expr:
    """Fold constants and integer identities bottom-up."""
    return map_expr(e, fold_node)


# Constructors that fold as they build: the idiom of every lowering.


def binary(op: str, a: Expr, b: Expr) -> Expr:
    """``a op b`` with ``a`` and ``b`` brought to the wider of their integer types (implicit casts), folded."""
    ta, tb = a.type, b.type
    if ta != tb and isinstance(ta, Scalar) and isinstance(tb, Scalar):
        wide = common_type(ta, tb)
        a, b = cast(a, wide), cast(b, wide)
    return fold_node(Binary(op, a, b))


def common_type(a: Scalar, b: Scalar) -> Scalar:
    """C's usual arithmetic conversions for two scalars (after integer promotion)."""
    if a is b and a.bits >= 32:
        return a
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            return a if a.bits >= b.bits else b
        return a if a.is_float else b
    a = I32 if a.bits < 32 or a.kind == "bool" else a
    b = I32 if b.bits < 32 or b.kind == "bool" else b
    if a == b:
        return a
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return SCALARS[f"u{a.bits}"]


def cast(e: Expr, to: Scalar, style: str = "implicit") -> Expr:
    return e if e.type == to else fold_node(Cast(to, e, style))


def add(a: Expr, b: Expr) -> Expr:
    return binary("+", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    return binary("-", a, b)


def plus_number(e: Expr, n: int) -> Expr:
    """``e + n``, or ``e - -n``; ``e`` itself where that is nothing."""
    t = e.type
    assert isinstance(t, Scalar)
    return (sub if n < 0 else add)(e, cast(i32(abs(n)), t)) if n else e


def mul(a: Expr, b: Expr) -> Expr:
    return binary("*", a, b)


def lt(a: Expr, b: Expr) -> Expr:
    return binary("<", a, b)


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """Conjunction where None means true."""
    if a is None:
        return b
    return a if b is None else fold_node(Binary("&&", a, b))


def ceil_log2(n: Expr) -> Expr:
    """The least k with ``1 << k`` no less than the positive ``n``: how many bits n - 1 has."""
    assert isinstance(n.type, Scalar)
    signed = cast(n, replace(n.type, kind="int"))
    return sub(i32(n.type.bits), Call("clz", (sub(signed, i32(1)),), I32))


def cdiv(a: Expr, b: Expr) -> Expr:
    """ceil(a / b) as a ``cdiv`` call, folded when constant; printed as ``(a + b - 1) / b``."""
    if is_const(b, 1):
        return a
    ta, tb = a.type, b.type
    assert isinstance(ta, Scalar) and isinstance(tb, Scalar)
    wide = common_type(ta, tb)
    return fold_node(Call("cdiv", (cast(a, wide), cast(b, wide)), wide))


def product(factors: list[Expr]) -> Expr:
    out: Expr = i32(1)
    for f in factors:
        out = mul(out, f)
    return out
