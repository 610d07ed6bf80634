"""Values of the other sign that are only squared, or of which only the magnitude is asked: ``c = m - x`` for ``x - m``.

A difference of floating-point numbers the other way round is its exact negative in round-to-nearest, but for a zero,
which is positive either way; the product of two negatives is that of the two numbers, its sign and all.
"""

from __future__ import annotations

from ktc.ir.nodes import AddrOf, Binary, Body, Call, Decl, Expr, Sym, Unary, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned

MAGNITUDE = frozenset({"abs", "fabs"})


def only_squared(s: Decl, t: Decl, rest: Body) -> bool:
    """Whether ``t`` gives the variable of ``s`` the negative of its value there, and ``rest``, its scope, only squares
    it or takes its magnitude."""
    if s.init is None or t.init is None or s.sym in assigned(rest) or not _negative(s.init, t.init):
        return False
    every = list(all_exprs(rest))
    uses = sum(e == Var(s.sym) for e in every)
    hidden = any(isinstance(e, AddrOf) and e.buffer == s.sym for e in every)
    return 0 < uses == sum(_even(e, s.sym) for e in every) and not hidden


def _negative(a: Expr, b: Expr) -> bool:
    """Whether ``b`` is the exact negative of ``a``, or the same zero."""
    if not isinstance(a.type, Scalar) or not a.type.is_float or a.type != b.type:
        return False
    swapped = isinstance(a, Binary) and isinstance(b, Binary) and a.op == b.op == "-" and (a.a, a.b) == (b.b, b.a)
    return swapped or b == Unary("-", a) or a == Unary("-", b)


def _even(e: Expr, sym: Sym) -> int:
    """How many operands of ``e`` itself are uses of ``sym`` whose sign does not matter."""
    if isinstance(e, Binary):
        return 2 if e.op == "*" and e.a == e.b == Var(sym) else 0
    if isinstance(e, Call) and e.fn in MAGNITUDE:
        return int(e.args == (Var(sym),))
    if isinstance(e, Call) and e.fn == "fma":
        return 2 if e.args[0] == e.args[1] == Var(sym) else 0
    return 0


__all__ = ["only_squared"]
