"""Values of floating-point scalars that the host makes of sizes: ``ne10 / ne00``, ``1 / sqrt(head_dim)``.

The texts are those of sizes (:mod:`.size_expressions`), but their numbers are real: ``/`` divides as real numbers do,
there are numbers with a point, roots and logarithms. What of them is whole stays whole: ``//``, ``%`` and ``cdiv`` are
what they are of sizes. All is computed in double, and rounded once, to the scalar's own type, when it is passed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .reference import FormulaError, parse

Number = int | float

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip

_FUNCTIONS: dict[str, tuple[int, Callable[..., Number], str]] = {
    "min": (2, min, "min({}, {})"),
    "max": (2, max, "max({}, {})"),
    "abs": (1, abs, "abs({})"),
    "cdiv": (2, lambda a, b: -(-a // b), "-(-({}) // ({}))"),
    "int": (1, math.trunc, "math.trunc({})"),
    **{
        fn: (1, getattr(math, fn), f"math.{fn}({{}})") for fn in ("sqrt", "exp", "exp2", "log", "log2", "floor", "ceil")
    },
    "pow": (2, math.pow, "math.pow({}, {})"),
}
"""What may be called: the number of arguments, what it does, and its text in Python."""


def evaluate(text: str, env: Mapping[str, Number]) -> float:
    """The finite number that ``text`` stands for; every name must be in ``env``.

    Raises:
        FormulaError: malformed, an unknown name, or no number (a division by zero, the root of a negative one).
    """
    value = float(_value(parse(text), env))
    if not math.isfinite(value):
        raise FormulaError(f"'{text}' is no finite number for {dict(env)}")
    return value


def check(text: str, known: Collection[str]) -> None:
    """Whether ``text`` is such an expression over the names ``known``, whatever their values.

    Raises:
        FormulaError: it is none.
    """
    python(text, {name: name for name in known})


def python(text: str, names: Mapping[str, str]) -> str:
    """``text`` as Python over ``math``, where sizes are called as ``names`` has them.

    Raises:
        FormulaError: malformed, or an unknown name.
    """
    return _python(parse(text), names)


def _value(node: ast.AST, env: Mapping[str, Number]) -> Number:
    try:
        return _number(node, env)
    except FormulaError as e:
        e.at = getattr(node, "col_offset", None) if e.at is None else e.at
        raise
    except (ValueError, TypeError, ArithmeticError) as e:
        raise FormulaError(f"'{ast.unparse(node)}': {e}", at=getattr(node, "col_offset", None)) from e


def _number(node: ast.AST, env: Mapping[str, Number]) -> Number:
    def rec(n: ast.AST) -> Number:
        return _value(n, env)

    match node:
        case ast.Constant(value=int() | float() as v):
            return v
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="arg"), args=[ast.Constant(value=str() as name)]):
            return _known(name, env)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return _BINARY[type(op)](rec(a), rec(b))
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -rec(x)
        case ast.UnaryOp(op=ast.Not(), operand=x):
            return not rec(x)
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](rec(a), rec(b))
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.And) else any)(map(rec, values))
        case ast.IfExp(test=c, body=a, orelse=b):
            return rec(a) if rec(c) else rec(b)
        case ast.Call(func=ast.Name(id=fn), args=args, keywords=[]) if fn in _FUNCTIONS:
            return _FUNCTIONS[fn][1](*map(rec, _arguments(fn, args)))
    raise _not_allowed(node)


def _python(node: ast.AST, names: Mapping[str, str]) -> str:
    def rec(n: ast.AST) -> str:
        return _python(n, names)

    match node:
        case ast.Constant(value=int() | float() as v):
            return repr(v)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="arg"), args=[ast.Constant(value=str() as name)]):
            return _known(name, names)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return f"({rec(a)} {_SYMBOLS[type(op)]} {rec(b)})"
        case ast.UnaryOp(op=ast.USub() | ast.Not() as op, operand=x):
            return f"({'-' if isinstance(op, ast.USub) else 'not '}{rec(x)})"
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _COMPARE:
            return f"({rec(a)} {_SYMBOLS[type(op)]} {rec(b)})"
        case ast.BoolOp(op=op, values=values):
            return f"({(' and ' if isinstance(op, ast.And) else ' or ').join(map(rec, values))})"
        case ast.IfExp(test=c, body=a, orelse=b):
            return f"({rec(a)} if {rec(c)} else {rec(b)})"
        case ast.Call(func=ast.Name(id=fn), args=args, keywords=[]) if fn in _FUNCTIONS:
            return _FUNCTIONS[fn][2].format(*map(rec, _arguments(fn, args)))
    raise _not_allowed(node)


_SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def _known(name: str, env: Mapping[str, Any]) -> Any:
    if name not in env:
        raise FormulaError(f"no size or parameter named '{name}'", hint=f"known here: {', '.join(sorted(env))}")
    return env[name]


def _arguments(fn: str, args: list[ast.expr]) -> list[ast.expr]:
    if len(args) != (wanted := _FUNCTIONS[fn][0]):
        raise FormulaError(f"{fn} takes {wanted} argument{'s' * (wanted > 1)}, not {len(args)}")
    return args


def _not_allowed(node: ast.AST) -> FormulaError:
    return FormulaError(
        f"{type(node).__name__} is not allowed in the value of a floating-point scalar",
        hint=f"allowed: + - * / // %, comparisons, and or not, a if c else b, {' '.join(_FUNCTIONS)}",
        at=getattr(node, "col_offset", None),
    )


__all__ = ["check", "evaluate", "python"]
