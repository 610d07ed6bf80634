"""Whether two values are the same: integer parts by evaluation at many points, the rest by structure."""

from __future__ import annotations

from ktc.ir.fields import children
from ktc.ir.nodes import Cast, Const, Expr, Load, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import walk_expr
from ktc.passes.shared.equal_integers import same


def alike(a: Expr, b: Expr) -> bool:
    """Equal structure, where integer expressions without loads need only agree in value (a guess, checked later)."""
    if a == b:
        return True
    if _is_index(a) and _is_index(b):
        return same(a, b)
    if isinstance(a, Cast) and a.style == "implicit" and not isinstance(b, Cast):
        return alike(a.x, b)
    if isinstance(b, Cast) and b.style == "implicit" and not isinstance(a, Cast):
        return alike(a, b.x)
    if type(a) is not type(b) or isinstance(a, Var | Const):
        return False
    if isinstance(a, Load) and isinstance(b, Load) and (a.buffer != b.buffer or a.width != b.width):
        return False
    if any(getattr(a, n, None) != getattr(b, n, None) for n in ("op", "fn", "to", "kind")):
        return False
    x, y = list(children(a)), list(children(b))
    return len(x) == len(y) and all(alike(p, q) for p, q in zip(x, y))


def _is_index(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_int and not any(isinstance(x, Load) for x in walk_expr(e))
