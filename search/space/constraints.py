"""Constraints on knob tuples, evaluated on whole numpy columns at once.

A :class:`Constraint` is a set of knob names and a function from columns (one integer array per name, broadcastable
against each other) to booleans. :func:`from_expr` makes one from an expression of the IR, with exactly the meaning of
:func:`ktc.ir.fold.evaluate`; :mod:`ktc.search.recorded.kernel_tuner_conditions` makes them from Kernel Tuner's Python
conditions.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Knob, Select, Unary, Var
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import walk_expr

Columns = Mapping[str, np.ndarray]
"""One integer array per knob, broadcastable against each other."""


PARAMETER = "#"
"""Marks the values of parameters among the columns: a knob may be called as a parameter is."""


@dataclass(frozen=True)
class Constraint:
    """A predicate over the knobs ``names``; ``text`` is its Python spelling, for messages and interchange files."""

    names: frozenset[str]
    holds: Callable[[Columns], np.ndarray]
    text: str


# ----------------------------------------------------------------------------------------------- expressions of the IR


def from_expr(e: Expr, envs: Sequence[Mapping[str, int]], knobs: frozenset[str]) -> Constraint:
    """``e`` must hold in every environment of ``envs`` (one per scenario: parameter and device values by name).

    As in :func:`ktc.ir.kernel.bind`, a constraint whose value is unknown (a name nobody bound, a division by zero) does
    not exclude anything.
    """
    names = frozenset(x.name for x in walk_expr(e) if isinstance(x, Knob) and x.name in knobs)
    # a parameter only matters by its value: scenarios that agree on the parameters used are one environment
    used = {x.sym.name for x in walk_expr(e) if isinstance(x, Var)}
    used |= {x.name for x in walk_expr(e) if isinstance(x, Knob)} - names
    distinct = {tuple((n, env[n]) for n in sorted(used) if n in env) for env in envs} or {()}

    def holds(columns: Columns) -> np.ndarray:
        verdicts = [_truth(e, {**columns, **{PARAMETER + n: np.asarray(v) for n, v in env}}) for env in distinct]
        return functools.reduce(np.logical_and, verdicts)

    return Constraint(names, holds, python_text(e))


def _truth(e: Expr, columns: Columns) -> np.ndarray:
    wide = magnitude(e, {n: int(np.abs(c).max(initial=0)) for n, c in columns.items()}) >= 1 << 62
    # Python integers where int64 could wrap; int64 otherwise
    value, known = _eval(e, {n: c.astype(object if wide else np.int64) for n, c in columns.items()})
    return np.logical_or(np.asarray(value).astype(bool), ~known)


Value = tuple[np.ndarray, np.ndarray]
"""(values, known): ``known`` is False where ``fold.evaluate`` would answer None."""

_KNOWN = np.asarray(True)
_UNKNOWN: Value = (np.asarray(0), np.asarray(False))


def _eval(e: Expr, columns: Columns) -> Value:
    """The vectorised ``fold.evaluate``."""
    match e:
        case Const(value=v):
            if isinstance(v, float):
                return _UNKNOWN
            return np.asarray(int(v), np.int64 if abs(v) < 1 << 62 else object), _KNOWN
        case Knob(name=name):
            return _column(columns, name, PARAMETER + name)
        case Var(sym=sym):
            return _column(columns, PARAMETER + sym.name)
        case Cast(to=Scalar() as to, x=x) if not to.is_float:
            return _eval(x, columns)
        case Unary(op=op, x=x):
            inner, known = _eval(x, columns)
            return _UNARY[op](inner), known
        case Select(cond=cond, a=a, b=b):
            (c, kc), (va, ka), (vb, kb) = _eval(cond, columns), _eval(a, columns), _eval(b, columns)
            chosen = c != 0
            return np.where(chosen, va, vb), kc & np.where(chosen, ka, kb)
        case Binary(op=op, a=a, b=b):
            return _binary(op, _eval(a, columns), _eval(b, columns))
        case Call(fn="cdiv", args=(a, b)):
            (va, ka), (vb, kb) = _eval(a, columns), _eval(b, columns)
            return -(-va // np.where(vb == 0, 1, vb)), ka & kb & (vb != 0)
        case Call(fn=("min" | "max" | "abs") as fn, args=args):
            values, knowns = zip(*(_eval(x, columns) for x in args))
            return functools.reduce(_FUNCS[fn], values) if len(values) > 1 else _FUNCS[fn](values[0]), _all(knowns)
    return _UNKNOWN


def _column(columns: Columns, *names: str) -> Value:
    """The first of ``names`` that there is."""
    return next(((columns[n], _KNOWN) for n in names if n in columns), _UNKNOWN)


def _all(knowns: Sequence[np.ndarray]) -> np.ndarray:
    return functools.reduce(np.logical_and, knowns)


def _binary(op: str, left: Value, right: Value) -> Value:
    (a, ka), (b, kb) = left, right
    known = ka & kb
    if op in "/%":
        known = known & (b != 0)
        safe = np.where(b == 0, 1, b)
        # C truncates towards zero, numpy floors
        q = np.abs(a) // np.abs(safe) * np.where((a < 0) == (safe < 0), 1, -1)
        return (q if op == "/" else a - safe * q), known
    if op in ("<<", ">>"):
        known = known & (b >= 0)
        b = np.where(b < 0, 0, b)
    return _BINARY[op](a, b), known


def _int(x: np.ndarray) -> np.ndarray:
    """Truth values as 0/1 integers, as C and ``fold.evaluate`` (Python bools) treat them in arithmetic."""
    return np.asarray(x).astype(np.int64)


_UNARY: dict[str, Callable] = {"-": operator.neg, "~": operator.invert, "+": lambda v: v, "!": lambda v: _int(v == 0)}
_FUNCS: dict[str, Callable] = {"min": np.minimum, "max": np.maximum, "abs": np.abs}
_BINARY: dict[str, Callable] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": lambda a, b: _int(a < b),
    "<=": lambda a, b: _int(a <= b),
    ">": lambda a, b: _int(a > b),
    ">=": lambda a, b: _int(a >= b),
    "==": lambda a, b: _int(a == b),
    "!=": lambda a, b: _int(a != b),
    "&&": lambda a, b: _int((a != 0) & (b != 0)),
    "||": lambda a, b: _int((a != 0) | (b != 0)),
}


def magnitude(e: Expr, columns: Mapping[str, int]) -> int:
    """An upper bound of |value| over ``e`` and all its sub-expressions, given one of each knob and parameter."""
    match e:
        case Const(value=v):
            return abs(int(v)) if not isinstance(v, float) else 0
        case Knob(name=name):
            return columns.get(name, columns.get(PARAMETER + name, 0))
        case Var(sym=sym):
            return columns.get(PARAMETER + sym.name, 0)
        case Binary(op=op, a=a, b=b):
            x, y = magnitude(a, columns), magnitude(b, columns)
            if op == "<<":
                return max(x, 1) << min(y, 128)
            return {"*": x * y, "+": x + y, "-": x + y}.get(op, 2 * max(x, y, 1))
        case Unary(x=x):
            return magnitude(x, columns) + 1
    return max((magnitude(c, columns) for c in _operands(e)), default=1)


def _operands(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Cast(x=x):
            return (x,)
        case Select(cond=c, a=a, b=b):
            return (c, a, b)
        case Call(args=args):
            return args
    return ()


# ---------------------------------------------------------------------------------------------- the spelling in Python

_PYTHON_OPS = {"&&": "and", "||": "or"}


def python_text(e: Expr) -> str:
    """``e`` as a Python expression with the same value, which Kernel Tuner accepts as a restriction."""
    match e:
        case Const(value=v):
            return str(int(v)) if not isinstance(v, float) else repr(v)
        case Knob(name=name):
            return name
        case Var(sym=sym):
            return sym.name
        case Cast(x=x):
            return python_text(x)
        case Unary(op="!", x=x):
            return f"(not {python_text(x)})"
        case Unary(op=op, x=x):
            return f"({op}{python_text(x)})"
        case Select(cond=c, a=a, b=b):
            return f"({python_text(a)} if {python_text(c)} else {python_text(b)})"
        case Binary(op="/", a=a, b=b):
            return (
                f"int({python_text(a)} / {python_text(b)})" if _signed(e) else f"({python_text(a)} // {python_text(b)})"
            )
        case Binary(op="%", a=a, b=b) if _signed(e):
            left, right = python_text(a), python_text(b)
            return f"({left} - {right} * int({left} / {right}))"
        case Binary(op=("&&" | "||") as op, a=a, b=b):
            return f"({_truth_text(a)} {_PYTHON_OPS[op]} {_truth_text(b)})"
        case Binary(op=op, a=a, b=b):
            return f"({python_text(a)} {op} {python_text(b)})"
        case Call(fn="cdiv", args=(a, b)):
            return f"(-(-{python_text(a)} // {python_text(b)}))"
        case Call(fn=fn, args=args):
            return f"{fn}({', '.join(map(python_text, args))})"
    raise KtcError("E-CONSTRAINT-TEXT", f"a constraint contains a {type(e).__name__}, which has no value before launch")


def _truth_text(e: Expr) -> str:
    """A side of ``and``/``or``: Python returns the operand itself, so an integer is compared first."""
    return python_text(e) if e.type == BOOL else f"({python_text(e)} != 0)"


def _signed(e: Expr) -> bool:
    """Whether an operand may be negative, so that Python's floor differs from C's truncation (knobs are >= 0)."""
    return any(
        (isinstance(x, Binary) and x.op == "-")
        or (isinstance(x, Unary) and x.op in "-~")
        or (isinstance(x, Const) and x.value < 0)
        for x in walk_expr(e)
    )
