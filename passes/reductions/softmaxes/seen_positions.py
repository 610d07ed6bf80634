"""Which positions the threads of a block see: ranges that depend on a thread's row, as those of all rows of a block.

par t_tile in 0..cdiv(n, 64) @ [block.x]
  par t in t_tile * 64..min(t_tile * 64 + 64, n) @ [thread.y 64]
    reduce(max) m over j in 0..t + 1                all rows see 0..t_tile * 64 + 1, none sees more than
                                                    0..min(t_tile * 64 + 64, n)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.order import places
from ktc.ir.fold import add, both, cast, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Par, Reduce, Stmt, Sym, Var
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import used
from ktc.passes.core.refusals import Refusal
from ktc.passes.shared.tiles import paths

Rows = dict[Sym, tuple[Expr, Expr]]
"""Counters of loops over threads, each with the first and the last of its values."""


@dataclass(frozen=True)
class Seen:
    """Positions from ``any_lo`` on and below ``any_hi`` are all that a block sees, those from ``all_lo`` on and below
    ``all_hi`` are seen by all its threads. ``mine``: whether a thread sees the position that the maximum's counter
    is; None where all threads see the same."""

    any_lo: Expr
    any_hi: Expr
    all_lo: Expr
    all_hi: Expr
    mine: Expr | None = None


def seen_positions(kernel: Kernel, loop: Stmt, top: Reduce, names: Mapping[Sym, Expr]) -> Seen:
    """Of the maximum ``top``, which the statement ``loop`` finds. ``names``: what variables in front of it hold.

    Raises:
        Refusal: E-SOFTMAX-RANGE, a range that depends on the row neither grows nor falls with it.
    """
    path = next(p for p in paths(kernel.body) if p[-1] is loop)
    threads = [s for s in path[:-1] if isinstance(s, Par) and {lv.kind for lv in s.dist} - {"block"}]
    t = scalar_of(top.var.type)
    lo, hi = (cast(simplify(expand(e, names)), t) for e in (top.lo, top.hi))
    rows: Rows = {s.var: (s.lo, sub(s.hi, cast(Const(1, scalar_of(s.hi.type)), scalar_of(s.hi.type)))) for s in threads}
    if not (used(lo) | used(hi)) & rows.keys():
        return Seen(lo, hi, lo, hi)
    ends = [_over_rows(e, threads, rows, lowest, top) for e in (lo, hi) for lowest in (True, False)]
    conds = [
        c
        for e, c in ((lo, Binary(">=", Var(top.var), lo)), (hi, Binary("<", Var(top.var), hi)))
        if used(e) & rows.keys()
    ]
    return Seen(ends[0], ends[3], ends[1], ends[2], conds[0] if len(conds) == 1 else both(*conds))


def _over_rows(e: Expr, threads: Sequence[Par], rows: Rows, lowest: bool, top: Reduce) -> Expr:
    """The least or the largest value of ``e`` in any of the rows."""
    for s in reversed(threads):
        found = _extreme(e, {s.var: rows[s.var]}, lowest)
        if found is None:
            why = f"where '{top.var.name}' starts or ends neither grows nor falls with '{s.var.name}' alone"
            raise Refusal("E-SOFTMAX-RANGE", why, places(top))
        e = simplify(found)
    return e


def _extreme(e: Expr, rows: Rows, lowest: bool) -> Expr | None:
    if not used(e) & rows.keys():
        return e
    if isinstance(e, Var):
        return cast(rows[e.sym][0 if lowest else 1], scalar_of(e.type))
    if isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.bits >= scalar_of(e.x.type).bits and not e.to.is_float:
        x = _extreme(e.x, rows, lowest)
        return None if x is None else cast(x, e.to)
    if isinstance(e, Binary) and e.op in "+-":
        a, b = _extreme(e.a, rows, lowest), _extreme(e.b, rows, lowest == (e.op == "+"))
        return None if a is None or b is None else (add if e.op == "+" else sub)(a, b)
    if isinstance(e, Call) and e.fn in ("min", "max") and isinstance(e.type, Scalar) and not e.type.is_float:
        ends = [_extreme(x, rows, lowest) for x in e.args]
        return None if None in ends else Call(e.fn, tuple(x for x in ends if x is not None), e.type)
    return None


__all__ = ["Seen", "seen_positions"]
