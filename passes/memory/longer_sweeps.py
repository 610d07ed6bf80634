"""A sweep that goes further than the one before it, and asks first where it reads what that one stored.

    for k in 0..q: y[k] = f(k)
    for k in 0..n: y[k] = k < q ? y[k] * s : 0.0        reads y[k] where the first sweep wrote it, and overwrites it all

The condition may be any that bounds the loop's variable as the first sweep's end does (``k <= q - 1``), alone or joined
by ``&&``; the value that is read there is computed again in its place, behind the condition.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Expr, Load, Select, Sym
from ktc.ir.walk import keep, map_body, stmt_exprs, walk
from ktc.passes.core.places import LoopStmt
from ktc.passes.shared.loop_bounds import upper_bound

Range = tuple[Expr, Expr]
"""The first iteration of a loop and its end."""


def goes_further(first: Range, last: Range, at: LoopStmt, kernel: Kernel) -> bool:
    """Whether a sweep over ``last``, which is the loop ``at``, goes through all of ``first`` at least."""
    return same_value(first[0], last[0]) and facts_of(kernel, REWRITES).at(at).at_most(first[1], last[1])


def asks_first(loop: LoopStmt, buffer: Sym, end: Expr) -> bool:
    """Whether ``loop`` reads ``buffer`` only behind conditions that its variable is below ``end``."""
    exprs = (e for s in walk(loop.body) for e in stmt_exprs(s))
    return all(known for e in exprs for known in _reads(e, loop.var, buffer, end, False))


def reading_instead(body: Body, buffer: Sym, value: Expr) -> Body:
    """``body`` with ``value`` where it reads ``buffer``."""

    def on(e: Expr) -> Expr:
        return value if isinstance(e, Load) and e.buffer == buffer else e

    return map_body(body, keep, on)


def _reads(e: Expr, var: Sym, buffer: Sym, end: Expr, known: bool) -> Iterator[bool]:
    """Of every read of ``buffer`` in ``e``, whether ``var`` is known to be below ``end`` there."""
    if isinstance(e, Load) and e.buffer == buffer:
        yield known
    if isinstance(e, Select):
        yield from _reads(e.cond, var, buffer, end, known)
        yield from _reads(e.a, var, buffer, end, known or _bounds(e.cond, var, end))
        yield from _reads(e.b, var, buffer, end, known)
        return
    for x in children(e):
        yield from _reads(x, var, buffer, end, known)


def _bounds(cond: Expr, var: Sym, end: Expr) -> bool:
    """Whether ``cond`` holds only where ``var`` is below ``end``."""
    if isinstance(cond, Binary) and cond.op == "&&":
        return _bounds(cond.a, var, end) or _bounds(cond.b, var, end)
    found = upper_bound(cond, var)
    return found is not None and same_value(found, end)


__all__ = ["asks_first", "goes_further", "reading_instead"]
