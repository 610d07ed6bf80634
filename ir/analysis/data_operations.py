"""Integer operations, comparisons and choices on data: on what was loaded, and on what is computed from it.

Indices are not among them: compilers turn most of what addresses take into additions, or move it out of loops, where
what is done to each element stays. Quotients and remainders of indices by sizes that only the launch knows are: GPUs
have no instruction for these.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Assign, Binary, Call, Cast, Decl, Expr, For, Load, Select, Stmt, Sym, Unary, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import stmt_exprs, used, walk, walk_expr

from .access_nests import Axis, visits
from .defs import definitions, expand
from .operation_counts import Counts


def data_operations(kernel: Kernel, count: Counts, shares: Mapping[int, tuple[float, float]]) -> float:
    """How often all threads of a launch execute one; ``shares``: of warps that execute a statement at all
    (:mod:`.guard_shares`)."""
    data, everyone = _data(kernel), (1.0, 1.0)
    made = ((v, _of_statement(v.stmt, data)) for v in visits(kernel))
    return sum(n * count.times(v.axes) * shares.get(id(v.stmt), everyone)[0] for v, n in made if n)


DIVIDED = {32: 22, 64: 75}
"""Instructions of a quotient by a number that is no constant, with the remainder, by bits (a compiler's, for compute
capability 9.0)."""

BY_CONSTANT = 4
"""Those of a quotient by a constant that is no power of two: a product's upper half, shifted."""

RECIPROCAL = 3
"""Instructions that share a unit with special functions, for each number that is divided by: two conversions and a
reciprocal."""


def index_divisions(kernel: Kernel, count: Counts, shares: Mapping[int, tuple[float, float]]) -> tuple[float, float]:
    """What all threads of a launch execute for integer quotients and remainders: instructions, and those of the unit
    for special functions. What a loop does not change is computed in front of it, and what is divided twice once."""
    named = definitions(kernel.body)
    divided: dict[tuple[Expr, Expr], tuple[float, int]] = {}
    reciprocals: dict[Expr, float] = {}
    for v in visits(kernel):
        found = [x for e in stmt_exprs(v.stmt) for x in walk_expr(e) if _is_quotient(x)]
        for x in found:
            a, b = (expand(e, named) for e in (x.a, x.b))  # type: ignore[attr-defined]
            by = count.value(b) if is_const(b) else 0
            if by is not None and by > 0 and by & (by - 1) == 0:
                continue
            share = shares.get(id(v.stmt), (1.0, 1.0))[0]
            times = share * count.times(tuple(axis for axis in v.axes if _moves(axis, {*used(a), *used(b)})))
            each = BY_CONSTANT if by else DIVIDED[64 if x.type.bits > 32 else 32]  # type: ignore[attr-defined]
            divided[a, b] = max(divided.get((a, b), (0.0, each)), (times, each))
            if not by:
                often = share * count.times(tuple(axis for axis in v.axes if _moves(axis, used(b))))
                reciprocals[b] = max(reciprocals.get(b, 0.0), often)
    return sum(n * each for n, each in divided.values()), RECIPROCAL * sum(reciprocals.values())


def _is_quotient(x: Expr) -> bool:
    return isinstance(x, Binary) and x.op in ("/", "%") and isinstance(x.type, Scalar) and x.type.is_int


def _moves(axis: Axis, names: set[Sym]) -> bool:
    """Whether each iteration of ``axis`` computes anew what is made of ``names``: threads and blocks do."""
    return axis.kind in ("thread", "block") or not isinstance(axis.stmt, For) or axis.stmt.var in names


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


__all__ = ["data_operations", "index_divisions"]
