"""Integer expressions of a workload file (shapes, launches, facts): Python's operators, C-like meaning, two readings.

``"min(d, 1024)"`` evaluates to a number given the sizes, and translates to an IR expression over the kernel's
parameters. ``/`` and ``//`` both mean integer division; ``cdiv(a, b)`` rounds up; ``next_pow2(n)`` is the least power
of two that is no less than n, ``ceil_log2(n)`` which power that is; ``and or not`` join facts. Values of floating-point
scalars are real numbers instead (:mod:`.real_expressions`).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping

from ktc.ir import fold
from ktc.ir.nodes import Binary, Call, Const, Expr, Select, Unary, Var, fresh, i32
from ktc.ir.types import BOOL, I64, Scalar

from .reference import FormulaError, names, parse

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_TRUTH = {"True": True, "true": True, "False": False, "false": False}
_CALLS = {"min": 2, "max": 2, "cdiv": 2, "abs": 1, "next_pow2": 1, "ceil_log2": 1}


def evaluate(text: str, env: Mapping[str, int | float]) -> int:
    """The integer ``text`` stands for; every name must be in ``env``.

    Raises:
        FormulaError: malformed, an unknown name, a division by zero, or a value that is no integer.
    """
    value = fold.evaluate(_read(text, tuple(env)), {k: v for k, v in env.items() if isinstance(v, int)})
    if value is None:
        raise FormulaError(f"'{text}' has no integer value for {dict(env)}")
    return int(value)


@functools.lru_cache(4096)
def _read(text: str, known: tuple[str, ...]) -> Expr:
    """``text`` over 64-bit variables of the names ``known``: formulas are evaluated again and again."""
    return to_ir(text, {name: Var(fresh(name, I64)) for name in known})


def to_ir(text: str, symbols: Mapping[str, Expr]) -> Expr:
    """``text`` as an IR expression; a name stands for ``symbols[name]``."""
    return _build(parse(text), symbols)


def _build(node: ast.AST, symbols: Mapping[str, Expr]) -> Expr:
    try:
        return _expression(node, symbols)
    except FormulaError as e:
        e.at = getattr(node, "col_offset", None) if e.at is None else e.at
        raise


def _expression(node: ast.AST, symbols: Mapping[str, Expr]) -> Expr:
    def rec(n: ast.AST) -> Expr:
        return _build(n, symbols)

    match node:
        case ast.Constant(value=int() as v) if abs(v) < 1 << 63:
            return i32(v) if abs(v) < 1 << 31 else Const(v, I64)
        case ast.Name(id=name) if name in symbols:
            return symbols[name]
        case ast.Call(func=ast.Name(id="arg"), args=[ast.Constant(value=str() as name)]) if name in symbols:
            return symbols[name]
        case ast.Name(id=name) if name in _TRUTH:
            return Const(_TRUTH[name], BOOL)
        case ast.Name(id=name):
            raise FormulaError(f"no size or parameter named '{name}'", hint=f"known here: {', '.join(sorted(symbols))}")
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return fold.binary(_BINARY[type(op)], rec(a), rec(b))
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _BINARY:
            return fold.binary(_BINARY[type(op)], rec(a), rec(b))
        case ast.BoolOp(op=op, values=values):
            joint = "&&" if isinstance(op, ast.And) else "||"
            return functools.reduce(lambda x, y: fold.fold_node(Binary(joint, x, y)), map(rec, values))
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return fold.sub(i32(0), rec(x))
        case ast.UnaryOp(op=ast.Not(), operand=x):
            return fold.fold_node(Unary("!", rec(x)))
        case ast.IfExp(test=c, body=a, orelse=b):
            return fold.fold_node(Select(rec(c), rec(a), rec(b)))
        case ast.Call(func=ast.Name(id=fn), args=args, keywords=[]) if _CALLS.get(fn) == len(args):
            return _call(fn, [rec(a) for a in args])
    raise FormulaError(
        f"{type(node).__name__} is not allowed in an integer expression",
        hint=f"allowed: + - * / % << >> & | ^, comparisons, and or not, a if c else b, {' '.join(_CALLS)}",
    )


def _call(fn: str, args: list[Expr]) -> Expr:
    if fn == "next_pow2":
        return _next_power(args[0])
    if fn == "ceil_log2":
        return fold.ceil_log2(args[0])
    wide = args[0].type
    for a in args[1:]:
        if not isinstance(wide, Scalar) or not isinstance(a.type, Scalar):
            raise FormulaError(f"{fn} takes numbers")
        wide = fold.common_type(wide, a.type)
    assert isinstance(wide, Scalar)
    return fold.fold_node(Call(fn, tuple(fold.cast(a, wide) for a in args), wide))


def _next_power(n: Expr) -> Expr:
    """One more than n - 1 with all bits set below its highest."""
    bits = fold.sub(_call("max", [n, i32(1)]), i32(1))
    width = bits.type.bits if isinstance(bits.type, Scalar) else 64
    for by in (b for b in (1, 2, 4, 8, 16, 32) if b < width):
        bits = fold.binary("|", bits, fold.binary(">>", bits, i32(by)))
    return fold.binary("+", bits, i32(1))


__all__ = ["evaluate", "names", "to_ir"]
