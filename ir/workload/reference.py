"""Formulas of a workload file: numpy expressions over whole arrays, in float64, from whitelists.

``"silu(input[:, :d]) * input[:, d:]"`` is parsed (:mod:`ktc.ir.workload.formula_grammar`) and walked; nothing is ever
evaluated by the interpreter of Python, and no attribute, comprehension, lambda or name outside the tables below exists.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ktc.ir.diagnostics import KtcError

from .formula_grammar import MAX_DEPTH, MAX_TEXT, GrammarError, parse_formula


class FormulaError(KtcError):
    """A formula that does not parse, names something unknown or fails on its operands (E-WORKLOAD-FORMULA).

    ``at``: the offset in the formula's text of what is wrong, where it is known."""

    def __init__(self, message: str, hint: str = "", at: int | None = None) -> None:
        super().__init__("E-WORKLOAD-FORMULA", message, hint=hint)
        self.at = at


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


_NUMPY_FUNCTIONS = """
    abs all any arctan arctan2 argmax argmin argsort bincount cbrt ceil clip concatenate cos cosh cumsum diff einsum
    exp exp2 expm1 flip floor isfinite isinf isnan log log10 log1p log2 matmul max maximum mean min minimum ones_like
    power prod repeat reshape rint roll sign sin sinh sort sqrt squeeze stack sum take tan tanh tile transpose var where
    zeros_like
"""


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """Every function a formula may call, by name."""
    import numpy as np

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    def softmax(x: Any, axis: int = -1) -> Any:
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return e / np.sum(e, axis=axis, keepdims=True)

    def logsumexp(x: Any, axis: int = -1, keepdims: bool = False) -> Any:
        top = np.max(x, axis=axis, keepdims=True)
        s = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
        return s if keepdims else np.squeeze(s, axis=axis)

    def rms(x: Any, eps: float = 0.0, axis: int = -1) -> Any:
        return np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps)

    def layernorm(x: Any, eps: float = 0.0, axis: int = -1) -> Any:
        c = x - np.mean(x, axis=axis, keepdims=True)
        return c / rms(c, eps, axis)

    def iota(like: Any, axis: int = 0) -> Any:
        """Each element's index along ``axis``, in a shape that broadcasts against ``like``."""
        shape = [1] * like.ndim
        shape[axis] = -1
        return np.arange(like.shape[axis]).reshape(shape)

    erf = np.vectorize(math.erf, otypes=[np.float64])
    plain = {name: getattr(np, name) for name in _NUMPY_FUNCTIONS.split()}
    return plain | {
        "sigmoid": sigmoid,
        "silu": lambda x: x * sigmoid(x),
        "relu": lambda x: np.maximum(x, 0.0),
        "gelu": lambda x: 0.5 * x * (1.0 + erf(x / math.sqrt(2.0))),
        "gelu_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
        "erf": erf,
        "softmax": softmax,
        "logsumexp": logsumexp,
        "rms": rms,
        "rsqrt": lambda x: 1.0 / np.sqrt(x),
        "layernorm": layernorm,
        "iota": iota,
        "arange": lambda n: np.arange(int(n)),
        "int": lambda x: np.asarray(x).astype(np.int64),
        "float": lambda x: np.asarray(x).astype(np.float64),
    }  # fmt: skip


CONSTANTS: dict[str, Any] = {
    "inf": math.inf, "nan": math.nan, "pi": math.pi, "true": True, "false": False,
    "True": True, "False": False, "None": None, "newaxis": None,
}  # fmt: skip
"""What a name means that is no argument, no size and no formula's."""


def evaluate(text: str, env: Mapping[str, Any]) -> Any:
    """Value of the formula ``text``; names are looked up in ``env`` (arrays, numbers), then among the constants.

    ``arg('x')`` is the entry of ``env`` of that name, for names that are operators here (``not``).

    Raises:
        FormulaError: the formula is malformed, uses what is not allowed, or numpy refuses its operands.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return _eval(parse(text), env, 0)


@functools.lru_cache(maxsize=512)
def parse(text: str) -> ast.expr:
    """The formula's syntax tree, unchecked beyond its grammar.

    Raises:
        FormulaError: with the offset of what does not fit.
    """
    if len(text) > MAX_TEXT:
        raise FormulaError(f"a formula of {len(text)} characters is longer than {MAX_TEXT}")
    try:
        return parse_formula(text)
    except GrammarError as e:
        hint = "a function comes first: sum(x, axis=0)" if text[e.at : e.at + 1] == "." else ""
        raise FormulaError(f"'{text}' is not an expression: {e.message}", hint, e.at) from e


def names(text: str) -> set[str]:
    """The names a formula mentions, functions excluded."""
    return {n.id for n in named(parse(text))}


def named(tree: ast.AST) -> list[ast.Name]:
    """Where a formula mentions values by name, functions excluded; ``arg('x')`` mentions x."""
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called]
    for n in ast.walk(tree):
        match n:
            case ast.Call(func=ast.Name(id="arg"), args=[ast.Constant(value=str() as name)]):
                found.append(ast.Name(id=name, lineno=1, col_offset=n.col_offset))
    return found


def _eval(node: ast.AST, env: Mapping[str, Any], depth: int) -> Any:
    """The value of a node; whatever goes wrong is told with the node's place."""
    at = getattr(node, "col_offset", None)
    if depth > MAX_DEPTH:
        raise FormulaError(f"a formula nested deeper than {MAX_DEPTH}", at=at)
    try:
        return _value(node, env, depth)
    except FormulaError as e:
        e.at = at if e.at is None else e.at
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError) as e:
        raise FormulaError(f"'{ast.unparse(node)}': {e}", at=at) from e


def _value(node: ast.AST, env: Mapping[str, Any], depth: int) -> Any:
    def rec(n: ast.AST) -> Any:
        return _eval(n, env, depth + 1)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as v):
            return v
        case ast.Name(id=name):
            return _lookup(name, env)
        case ast.BinOp(left=a, op=ast.Pow(), right=b):
            import numpy as np

            return np.power(np.asarray(rec(a), dtype=np.float64), rec(b))
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return _BINARY[type(op)](rec(a), rec(b))
        case ast.UnaryOp(op=op, operand=x) if type(op) in _UNARY:
            return _UNARY[type(op)](rec(x))
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](rec(a), rec(b))
        case ast.Tuple(elts=items):
            return tuple(rec(i) for i in items)
        case ast.List(elts=items):
            return [rec(i) for i in items]
        case ast.Subscript(value=x, slice=s):
            return rec(x)[rec(s)]
        case ast.Slice(lower=lo, upper=hi, step=st):
            return slice(*(None if p is None else rec(p) for p in (lo, hi, st)))
        case ast.Call(func=ast.Name(id="arg"), args=[ast.Constant(value=str() as name)], keywords=[]):
            return _lookup(name, env)
        case ast.Call(func=ast.Name(id=fn), args=args, keywords=kws) if fn in functions():
            return functions()[fn](*(rec(a) for a in args), **{k.arg: rec(k.value) for k in kws if k.arg})
        case ast.Call(func=ast.Name(id=fn)):
            raise unknown_function(fn, node.col_offset)
    raise FormulaError(f"{type(node).__name__} is not allowed in a formula")


def unknown_function(name: str, at: int) -> FormulaError:
    hint = f"there are: {', '.join(sorted(functions()))}"
    return FormulaError(f"no function '{name}' in formulas", hint, at)


def _lookup(name: str, env: Mapping[str, Any]) -> Any:
    if name in env:
        return env[name]
    if name in CONSTANTS:
        return CONSTANTS[name]
    raise FormulaError(f"no value named '{name}'", hint=f"known here: {', '.join(sorted(env)) or 'nothing'}")
