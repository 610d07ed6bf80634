"""Serial loops that run once, as what they do without the loop; those that never run, as nothing.

before                                after
    let last: i32 = row + 1               y[row] = f(row)
    for p in row..last
      y[p] = f(p)

Templates leave such loops: ``for (int p = row; p < row + ROWS_PER_BLOCK; ++p)`` at one row a block, and
``for (int mask = LANES / 2; mask > 0; mask /= 2)`` at one lane a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import evaluate, simplify, sub
from ktc.ir.nodes import Body, Break, Const, Continue, Decl, Expr, For, Load, Stmt, Store, Sym, Var, While
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_local_array
from ktc.ir.walk import all_exprs, bodies, commented, map_body, substitute, substitute_expr, walk


def without_single_rounds(body: Body, *, but_of_arrays: bool = False) -> Body:
    """``body`` without loops that run once, or never, whatever the sizes are.

    ``but_of_arrays``: those that run once stay where they count elements of private arrays, as at any other length.
    """
    if not any(isinstance(s, For) for s in walk(body)):
        return body
    known = definitions(body)

    def on(s: Stmt) -> Stmt | Body | None:
        if _never_runs(s, known):
            return None
        return s if but_of_arrays and _indexes(s) else _once(s, known)

    return map_body(body, on)


def _indexes(s: Stmt) -> bool:
    """Whether ``s`` is a loop that counts elements of a private array."""
    if not isinstance(s, For):
        return False
    loads = ((e.buffer, e.index) for e in all_exprs(s.body) if isinstance(e, Load))
    stores = ((x.buffer, x.index) for x in walk(s.body) if isinstance(x, Store))
    return any(is_local_array(b) and index[0] == Var(s.var) for b, index in (*loads, *stores))


def _never_runs(s: Stmt, known: Mapping[Sym, Expr]) -> bool:
    """Whether ``s`` is a loop whose condition does not hold at its beginning."""
    if not isinstance(s, For) or not is_removable(s.init) or not is_removable(s.cond):
        return False
    at_first = simplify(substitute_expr(expand(s.cond, known), {s.var: expand(s.init, known)}))
    return evaluate(at_first, {}) in (False, 0)


def _once(s: Stmt, known: Mapping[Sym, Expr]) -> Stmt | Body:
    form = counting(s) if isinstance(s, For) else None
    if not isinstance(s, For) or form is None or why_unsteady(s, form) or _is_left(s.body):
        return s
    span, by = (polynomial(expand(e, known)) for e in (sub(form.hi, form.lo), form.by))
    if set(by) != {()} or not set(span) <= {()} or not max(0, span.get((), 0)) <= by[()]:
        return s
    if span.get((), 0) <= 0:
        return ()
    if isinstance(form.lo, Var | Const):
        return commented(substitute(s.body, {s.var: form.lo}), s.comments)
    return (Decl(s.var, form.lo, loc=s.loc, comments=s.comments), *s.body)


def _is_left(body: Body) -> bool:
    """Whether ``break`` or ``continue`` leaves an iteration of the loop around ``body``."""
    return any(
        isinstance(s, Break | Continue) or (not isinstance(s, For | While) and any(map(_is_left, bodies(s))))
        for s in body
    )


__all__ = ["without_single_rounds"]
