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
from ktc.ir.arith import REWRITES, Interval, facts_of
from ktc.ir.arith.counted_loops import counting, loop_step, why_unsteady
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import evaluate, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Atomic,
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    While,
)
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_local_array
from ktc.ir.types import Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    bodies,
    commented,
    declared,
    map_body,
    substitute,
    substitute_expr,
    used,
    walk,
    walk_expr,
)
from ktc.passes.raising.recognise.coordinates import AXES
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound


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


def with_own_rounds(kernel: Kernel) -> Body:
    """The body of ``kernel`` with loops over the grid's threads that move pointers on, and of which each thread has one
    iteration at most at all sizes that there are, as that iteration.

    ::

        for i = thread; i < n; i + threads      if thread < n
          row += i * 3                            row += thread * 3
          y[row] = f(i)                           y[row] = f(thread)

    Such a pointer means something in the first iteration only, and what a block counts over its iterations (rows with a
    small loss) is of one row. Without either the iterations are shared out as they are.
    """
    if not any(isinstance(s, For) and _hands_on(s) for s in walk(kernel.body)):
        return kernel.body
    facts = facts_of(kernel, REWRITES)

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, For) or not _hands_on(s) or _is_left(s.body):
            return s
        step, end, here = loop_step(s), upper_bound(s.cond, s.var), facts.at(s)
        if step is None or end is None or not any(isinstance(e, HwIndex) for e in walk_expr(s.init)):
            return s
        if (used(step) | used(end) | {s.var}) & set(assigned(s.body)) or not is_removable(end):
            return s
        here_alone = (Decl(s.var, s.init, loc=s.loc), *s.body)
        if _for_each_block(s.init, end, kernel) and same(step, end):
            return commented(here_alone, s.comments)
        if not here.never_negative(s.init) or not here.at_most(end, step):
            return s
        if _may_wrap(s.var, here.interval(end), here.interval(step)):
            return s
        return If(substitute_expr(s.cond, {s.var: s.init}), here_alone, (), loc=s.loc, comments=s.comments)

    return map_body(kernel.body, on)


def _for_each_block(init: Expr, end: Expr, kernel: Kernel) -> bool:
    """Whether ``init`` is the number of a block of a launch that has ``end`` of them."""
    block, launch = without_casts(init), kernel.launch
    if launch is None or not isinstance(block, HwIndex) or block.level != "block":
        return False
    return same(end, launch.grid[AXES.index(block.axis)])


def _may_wrap(counter: Sym, end: Interval, step: Interval) -> bool:
    """Whether an unsigned ``counter`` below ``end`` comes to small numbers again after ``step``: a second iteration."""
    t = counter.type
    assert isinstance(t, Scalar)
    return not t.is_signed and (end.high is None or step.high is None or end.high - 1 + step.high >= 1 << t.bits)


def _hands_on(s: For) -> bool:
    """Whether an iteration of ``s`` leaves something to the next one that keeps them from being shared out."""
    return _moves_pointers(s) or (_is_over_blocks(s) and any(isinstance(v.type, Scalar) for v in _outer(s)))


def _is_over_blocks(s: For) -> bool:
    """Whether ``s`` begins where the number of the block says, alike for all threads."""
    first = [e for e in walk_expr(s.init) if isinstance(e, HwIndex)]
    return bool(first) and all(e.level == "block" for e in first)


def _outer(s: For) -> set[Sym]:
    """What ``s`` changes from outside of it, but its variable."""
    return set(assigned(s.body)) - set(declared(s.body)) - {s.var}


def _moves_pointers(s: For) -> bool:
    """Whether an iteration of ``s`` moves on what says where the next one reads or writes."""
    moved = _outer(s)
    if not moved:
        return False
    places = [i for e in all_exprs(s.body) if isinstance(e, Load) for i in e.index]
    places += [i for x in walk(s.body) if isinstance(x, Store | Atomic) for i in x.index]
    return any(moved & used(i) for i in places)


def _is_left(body: Body) -> bool:
    """Whether ``break`` or ``continue`` leaves an iteration of the loop around ``body``."""
    return any(
        isinstance(s, Break | Continue) or (not isinstance(s, For | While) and any(map(_is_left, bodies(s))))
        for s in body
    )


__all__ = ["with_own_rounds", "without_single_rounds"]
