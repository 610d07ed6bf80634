"""Iterations that touch rows of their own: ``q[i / d * stride + i % d]`` in a loop over ``i``.

Iterations of one row touch different elements of it. Whether rows overlap is a matter of their stride. Where they do,
threads of the source touch one element without an order, unless each such element is one thread's own by the size of
the block: nothing that a check on small launches would find. So the launcher checks that the stride is at least what a
row takes (:mod:`ktc.passes.raising.check.assumed_independence`), and falls back to the source where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, minus, polynomial, same_value, scaled
from ktc.ir.fold import cast, evaluate, i32, mul, simplify
from ktc.ir.nodes import Binary, Body, Const, Expr, Load, Store, Sym, Var, fresh
from ktc.ir.storage import is_visible
from ktc.ir.types import I32
from ktc.ir.walk import map_expr, stmt_exprs, used, walk, walk_expr

MOST_PARTS = 8
"""Parts of the loop's divisor that a row may have: halves, quarters."""


@dataclass(frozen=True)
class Touched:
    """Where an iteration touches a buffer that it writes, names spelled out; elements of the widest access, None where
    that is not known."""

    indices: tuple[tuple[Expr, ...], ...]
    widest: int | None


def touched(body: Body) -> dict[Sym, Touched]:
    """Every buffer that ``body`` writes, but for its own, by name."""
    named = definitions(body)
    found: dict[Sym, list[Store | Load]] = {}
    for s in walk(body):
        if isinstance(s, Store) and is_visible(s.buffer):
            found.setdefault(s.buffer, []).append(s)
    for s in walk(body):
        for e in stmt_exprs(s):
            for x in walk_expr(e):
                if isinstance(x, Load) and x.buffer in found:
                    found[x.buffer].append(x)
    return {b: Touched(tuple(tuple(expand(i, named) for i in a.index) for a in accesses), _widest(accesses))
            for b, accesses in found.items()}  # fmt: skip


def _widest(accesses: Sequence[Store | Load]) -> int | None:
    widths = [a.width for a in accesses]
    return max(w for w in widths if isinstance(w, int)) if all(isinstance(w, int) for w in widths) else None


@dataclass(frozen=True)
class Rows:
    """Rows ``stride`` elements apart of which iterations touch ``span`` elements each."""

    stride: Expr
    span: Expr


def rows_of(var: Sym, start: Expr, t: Touched) -> Rows | None:
    """The rows that iterations over ``var``, from ``start``, share out; None where they touch anything else."""
    first = simplify(start)
    if t.widest != 1 or any(len(i) != 1 for i in t.indices):
        return None
    if not isinstance(first, Const) or first.value < 0:
        return None  # quotients of negative numbers are rounded up
    row, place = fresh("row", I32), fresh("place", I32)
    divisors: list[Expr] = []

    def on(e: Expr) -> Expr:
        if not isinstance(e, Binary) or e.op not in "/%" or without_index_casts(e.a) != Var(var) or var in used(e.b):
            return e
        divisors.append(e.b)
        return cast(Var(row if e.op == "/" else place), e.type)  # type: ignore[arg-type]

    forms = [linear_form(map_expr(i, on), {row, place, var}) for (i,) in dict.fromkeys(t.indices)]
    if not divisors or any(not same_value(d, divisors[0]) for d in divisors):
        return None
    known = [f for f in forms if f is not None and var not in f.coeffs]
    step = {evaluate(f.coeff(place), {}) for f in known}
    if len(known) != len(forms) or len(step) != 1 or any(
            not same_value(f.coeff(row), known[0].coeff(row)) for f in known):  # fmt: skip
        return None
    if same_value(known[0].coeff(row), i32(0)):
        return None
    span = _span(next(iter(step)), divisors[0], [polynomial(f.rest) for f in known])
    return None if span is None else Rows(known[0].coeff(row), span)


def _span(step: int | None, divisor: Expr, offsets: list[Polynomial]) -> Expr | None:
    """Elements of a row: parts of ``divisor`` elements side by side, or ``step`` to each place."""
    gaps = [minus(o, offsets[0]) for o in offsets]
    whole = polynomial(divisor)
    if step == 1:
        parts = [next((k for k in range(-MOST_PARTS, MOST_PARTS + 1) if scaled(whole, k) == g), None) for g in gaps]
        if None in parts:
            return None
        known = [k for k in parts if k is not None]
        return mul(i32(max(known) - min(known) + 1), divisor)
    numbers = [g.get((), 0) for g in gaps if set(g) <= {()}]
    if step is None or step < 2 or len(numbers) != len(gaps) or max(numbers) - min(numbers) >= step:
        return None
    return mul(i32(step), divisor)


__all__ = ["Rows", "Touched", "rows_of", "touched"]
