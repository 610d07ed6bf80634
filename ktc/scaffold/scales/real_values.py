"""What the source's launch computes of sizes for floating-point parameters, as a workload says it: ``ne10 / ne00``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, Select, Sym, Unary, Var
from ktc.ir.types import F32, Scalar
from ktc.ir.walk import map_expr, used
from ktc.ir.workload.formula_grammar import parse_formula
from ktc.ir.workload.real_expressions import evaluate
from ktc.ir.workload.reference import names as names_of
from ktc.ir.workload.reference import parse

from .usual_reals import usual_real

_OPERATORS = {o: o for o in ("+", "-", "*", "%", *COMPARISONS)} | {"&&": "and", "||": "or"}

_CALLS = {
    **{fn: fn for fn in ("min", "max", "abs", "cdiv", "sqrt", "exp", "exp2", "log", "log2", "pow", "floor", "ceil")},
    "fmin": "min", "fmax": "max", "fabs": "abs",
}  # fmt: skip
"""Functions of host code that formulas have, with what these call them."""


@dataclass(frozen=True)
class RealValues:
    """Formulas over sizes of floating-point parameters, and numbers of those that come to one."""

    formulas: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    """The integers that they are made of, not those alone that decide which number it is."""


def real_values(k: Kernel) -> RealValues:
    """What ``k``'s launch computes of integers for floating-point parameters, where a formula says that and one of the
    sizes in it is known otherwise, too: as a parameter, of the launch, or of what this passes for others."""
    if k.launch is None:
        return RealValues()
    mine = {p.sym.name for p in k.params if not p.host}
    others = (*k.launch.grid, *k.launch.block, *(e for _, e in k.launch.passed))
    known = {p.sym for p in k.params if not p.host} | {s for e in others for s in used(e)}
    formulas, numbers, counted = dict[str, str](), dict[str, float](), set[str]()
    for name, whole in k.launch.reals:
        e = map_expr(map_expr(whole, _named), lambda x: _usual(x, known))
        text = spelled_real(e)
        if name not in mine or text is None or _has_real(e):
            continue
        if not used(e):
            numbers[name] = evaluate(text, {})
        elif used(e) & known:
            formulas[name] = ast.unparse(parse(text))
            counted |= {s.name for s in _counted(e)}
    return RealValues(formulas, numbers, frozenset(counted))


def _counted(e: Expr) -> set[Sym]:
    """The variables of ``e`` outside of conditions."""
    if isinstance(e, Select):
        return _counted(e.a) | _counted(e.b)
    inside = [x for x in children(e) if isinstance(x, Expr)]
    return {e.sym} if isinstance(e, Var) else set[Sym]().union(*map(_counted, inside))


def settled(text: str) -> str:
    """``text`` without the choices that numbers decide: ``a if 1 == 2 else b`` is ``b``."""
    return ast.unparse(_Settled().visit(parse_formula(text)))


class _Settled(ast.NodeTransformer):
    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        truth = _truth(node.test)
        return node if truth is None else node.body if truth else node.orelse

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        truths = {id(v): _truth(v) for v in node.values}
        if decides in truths.values():
            return next(v for v in node.values if truths[id(v)] is decides)
        left = [v for v in node.values if truths[id(v)] is None] or node.values[:1]
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _truth(test: ast.expr) -> bool | None:
    """Whether a condition holds; None where sizes decide that."""
    text = ast.unparse(test)
    return None if names_of(text) else bool(evaluate(f"1 if {text} else 0", {}))


def _named(e: Expr) -> Expr:
    """A number of the host that is called as what has a usual one, as that."""
    real = isinstance(e, Var) and isinstance(t := e.sym.type, Scalar) and t.is_float
    usual = usual_real(e.sym.name) if isinstance(e, Var) and real else None
    return e if usual is None else Const(usual, e.type)  # type: ignore[arg-type]


def _usual(e: Expr, known: set[Sym]) -> Expr:
    """Of a choice between numbers of sizes and some that a caller has (``preset ? scale : n / m``), the former; of one
    by something that nothing else is made of (``if (mode & 256)``), what was there before it."""
    if not isinstance(e, Select):
        return e
    if _has_real(e.a) != _has_real(e.b):
        return e.b if _has_real(e.a) else e.a
    return e if used(e.cond) <= known else e.b


def _has_real(e: Expr) -> bool:
    """Whether ``e`` is made of real numbers that somebody else has."""
    return any(isinstance(s.type, Scalar) and s.type.is_float for s in used(e))


def spelled_real(e: Expr) -> str | None:
    """An expression over integers as the value of a floating-point scalar is written; None for one that cannot be."""
    match e:
        case Const(bool() | int() as v, _):
            return str(int(v))
        case Const(float() as v, t):
            return str(np.float32(v)) if t == F32 else repr(v)
        case Var(s):
            return s.name
        case Cast(to, x):
            text = spelled_real(x)
            return f"int({text})" if text and _is_float(x) and isinstance(to, Scalar) and to.is_int else text
        case Binary("/", a, b):
            return _joined("/" if _is_float(e) else "//", a, b)
        case Binary(op, a, b) if op in _OPERATORS:
            return _joined(_OPERATORS[op], a, b)
        case Unary("-" | "!" as op, x):
            text = spelled_real(x)
            return f"({'-' if op == '-' else 'not '}{text})" if text else None
        case Call("rsqrt", (x,)):
            text = spelled_real(x)
            return f"(1 / sqrt({text}))" if text else None
        case Call(fn, args) if fn in _CALLS:
            each = [spelled_real(x) for x in args]
            return f"{_CALLS[fn]}({', '.join(x for x in each if x)})" if all(each) else None
        case Select(c, x, y):
            parts = [spelled_real(part) for part in (x, c, y)]
            return "({} if {} else {})".format(*parts) if all(parts) else None
    return None


def _joined(op: str, a: Expr, b: Expr) -> str | None:
    left, right = spelled_real(a), spelled_real(b)
    return f"({left} {op} {right})" if left and right else None


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_float


__all__ = ["RealValues", "real_values", "settled", "spelled_real"]
