"""Kernel Tuner's conditions: Python expressions over parameter names, as constraints.

They are read through a whitelist of syntax nodes and compiled to closures over numpy columns; nothing is executed as
code.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.search.space.constraints import Columns, Constraint

_BINARY: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARE: dict[type, Callable] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _int(truth: np.ndarray) -> np.ndarray:
    """0 and 1: Python's bools are integers in arithmetic, numpy's are not."""
    return np.asarray(truth).astype(np.int64)


_UNARY: dict[type, Callable] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: lambda v: _int(np.logical_not(v)),
}
_CALLS: dict[str, Callable] = {
    "min": lambda *xs: functools.reduce(np.minimum, xs),
    "max": lambda *xs: functools.reduce(np.maximum, xs),
    "abs": np.abs,
    "int": lambda x: np.trunc(x).astype(np.int64),
}


def from_python(text: str) -> Constraint:
    """A condition such as ``"KWG % ((MDIMC * NDIMC)/MDIMA) == 0"`` (``/`` is true division, as in Python).

    Raises:
        KtcError: E-CONDITION-SYNTAX for anything outside arithmetic, comparisons, and/or/not, min, max, abs and int.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names = frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) - _CALLS.keys()
        run = _compile(tree, text)
    except (SyntaxError, RecursionError, ValueError) as err:
        raise KtcError("E-CONDITION-SYNTAX", f"cannot read the condition '{text}': {err}", exit_code=2) from None

    def holds(columns: Columns) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(run(columns)).astype(bool)

    return Constraint(names, holds, text)


def _compile(n: ast.expr, text: str) -> Callable[[Columns], np.ndarray]:
    """A closure tree for a whitelisted syntax tree."""

    def sub(x: ast.expr) -> Callable[[Columns], np.ndarray]:
        return _compile(x, text)

    match n:
        case ast.Constant(value=int() | float() as v):
            return lambda _: np.asarray(v)
        case ast.Name(id=name):
            return lambda columns: columns[name]
        case ast.UnaryOp(op=op, operand=x) if type(op) in _UNARY:
            f1, fx = _UNARY[type(op)], sub(x)
            return lambda c: f1(fx(c))
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            f2, fa, fb = _BINARY[type(op)], sub(a), sub(b)
            return lambda c: f2(fa(c), fb(c))
        case ast.BoolOp(op=op, values=values):
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            parts = [sub(v) for v in values]
            return lambda c: _int(functools.reduce(join, (p(c) for p in parts)))
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(o) in _COMPARE for o in ops):
            terms = [sub(t) for t in (left, *rights)]
            links = list(zip((_COMPARE[type(o)] for o in ops), terms, terms[1:]))
            return lambda c: _int(functools.reduce(np.logical_and, (f(x(c), y(c)) for f, x, y in links)))
        case ast.IfExp(test=test, body=a, orelse=b):
            ft, fa, fb = sub(test), sub(a), sub(b)
            return lambda c: np.where(ft(c), fa(c), fb(c))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            fn, fs = _CALLS[name], [sub(a) for a in args]
            return lambda c: fn(*(f(c) for f in fs))
    raise KtcError(
        "E-CONDITION-SYNTAX",
        f"the condition '{text}' uses {type(n).__name__}, which conditions may not",
        hint="arithmetic, comparisons, and, or, not, min, max, abs and int are understood",
        exit_code=2,
    )
