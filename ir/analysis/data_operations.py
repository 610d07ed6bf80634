"""Integer operations, comparisons and choices on data: on what was loaded, and on what is computed from it.

Indices are not among them: compilers turn most of what addresses take into additions, or move it out of loops, where
what is done to each element stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Assign, Binary, Call, Cast, Decl, Expr, Load, Select, Stmt, Sym, Unary, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import stmt_exprs, walk, walk_expr

from .access_nests import visits
from .operation_counts import Counts


def data_operations(kernel: Kernel, count: Counts, shares: Mapping[int, tuple[float, float]]) -> float:
    """How often all threads of a launch execute one; ``shares``: of warps that execute a statement at all
    (:mod:`.guard_shares`)."""
    data, everyone = _data(kernel), (1.0, 1.0)
    made = ((v, _of_statement(v.stmt, data)) for v in visits(kernel))
    return sum(n * count.times(v.axes) * shares.get(id(v.stmt), everyone)[0] for v, n in made if n)


def _data(kernel: Kernel) -> set[Sym]:
    """Variables whose values come from memory, wherever they are set."""
    given = [(s.sym, e) for s in walk(kernel.body) if (e := _value(s)) is not None]  # type: ignore[attr-defined]
    data: set[Sym] = set()
    while True:
        more = {sym for sym, e in given if sym not in data and _is_data(e, data)}
        if not more:
            return data
        data |= more


def _value(s: Stmt) -> Expr | None:
    if isinstance(s, Assign):
        return s.value
    return s.init if isinstance(s, Decl) else None


def _is_data(e: Expr, data: set[Sym]) -> bool:
    return any(isinstance(x, Load) or (isinstance(x, Var) and x.sym in data) for x in walk_expr(e))


def _of_statement(s: Stmt, data: set[Sym]) -> int:
    return sum(_costs(x) for e in stmt_exprs(s) for x in walk_expr(e) if _costs(x) and _is_data(x, data))


def _costs(x: Expr) -> bool:
    if isinstance(x, Select) or (isinstance(x, Binary) and x.op in COMPARISONS):
        return True
    whole = isinstance(x.type, Scalar) and x.type.is_int
    narrow = isinstance(x, Cast) and isinstance(x.x.type, Scalar) and x.x.type.bits < 32
    return narrow or (whole and isinstance(x, Binary | Unary | Call))


__all__ = ["data_operations"]
