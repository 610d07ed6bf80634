"""A thread's loop over a whole grid that returns: where the launch has a thread for each iteration, that ends just one.

before                                            after
    for (i = global id; i < n; i += threads) {        for (i = global id; i < n; i += threads) {
      if (x[i] < 0) return;                             if (x[i] < 0) continue;
      y[i] = sqrt(x[i]);                                y[i] = sqrt(x[i]);
      return;                                         }
    }

In a launch of fewer threads the source leaves their other iterations undone. The launch has to be made for as many as
there are iterations; up to which number of blocks it is, ``min(ceil(n / 512), 4096)``, is assumed, and tested by the
launcher.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast, evaluate, fold_node, i32, mul, simplify
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, Body, Call, Continue, Expr, For, HwIndex, If, Return, Stmt
from ktc.ir.types import I64, U32
from ktc.ir.walk import assigned, map_expr, used, walk
from ktc.passes.raising.raise_report import Region
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound

from .coordinates import AXES
from .loop_exits import returns_to_continues
from .loop_returns import only_iteration_left


def with_single_trips(kernel: Kernel, launch: Launch) -> tuple[Kernel, tuple[Assume, ...], tuple[Region, ...]]:
    """``kernel`` with ``continue`` for the returns of such a loop, what that assumes, and how to say it; itself where
    it has none."""
    body = returns_to_continues(kernel.body)
    last = body[-1] if body else None
    if not isinstance(last, For) or not any(isinstance(x, Return) for x in walk(last.body)):
        return kernel, (), ()
    inner = _continued(only_iteration_left(last.body))
    hi = upper_bound(last.cond, last.var)
    hi = None if hi is None else expand(hi, definitions(body))
    params = {p.sym for p in kernel.params}
    if any(isinstance(x, Return) for x in walk(inner)) or hi is None or used(hi) - params:
        return kernel, (), ()
    threads = _threads(last, body, launch)
    if threads is None or last.var in assigned(last.body):
        return kernel, (), ()
    enough = _enough(hi, *threads, facts_of(kernel, REWRITES))
    if enough is None:
        return kernel, (), ()
    given = tuple(Assume(fact, "guessed") for fact in enough)
    what = f"every thread has at most one iteration of '{last.var.name}'"
    said = Region("assumed", what, "where it has more, the source's 'return' leaves the others undone", last.loc)
    changed = kernel.with_(body=(*body[:-1], dataclasses.replace(last, body=inner)))
    return changed, given, (said,) if given else ()


def _continued(body: Body) -> Body:
    """``body`` of a loop with its returns as ``continue``; those of loops inside stay."""

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Return):
            return Continue(loc=s.loc)
        if isinstance(s, If):
            return dataclasses.replace(s, then=_continued(s.then), orelse=_continued(s.orelse))
        return s

    return tuple(map(on, body))


def _threads(s: For, body: Body, launch: Launch) -> tuple[Expr, Expr] | None:
    """(blocks, threads of one) along the axis whose threads share out the iterations of ``s``; None if none do."""

    def sized(e: Expr) -> Expr:
        if isinstance(e, HwIndex) and e.level in ("block_dim", "grid_dim"):
            return cast((launch.block if e.level == "block_dim" else launch.grid)[AXES.index(e.axis)], U32)
        return fold_node(e)

    named, step = definitions(body), loop_step(s)
    init, step = (None if e is None else map_expr(expand(e, named), sized) for e in (s.init, step))
    if init is None or step is None:
        return None
    for k, axis in enumerate(AXES):
        thread, block = HwIndex("thread", axis), HwIndex("block", axis)
        form, blocks, threads = linear_form(init, {thread, block}), launch.grid[k], launch.block[k]
        if form is None or not same(form.coeff(thread), i32(1)) or not same(form.coeff(block), threads):
            continue
        if evaluate(simplify(form.rest), {}) == 0 and same(step, mul(threads, blocks)):
            return blocks, threads
    return None


def _enough(n: Expr, blocks: Expr, threads: Expr, known: Facts) -> tuple[Expr, ...] | None:
    """The conditions for ``n`` to be no more than there are threads, where its blocks are made for it, or the least
    of that and of other numbers are; None where they are not."""
    some = without_casts(blocks)
    parts = some.args if isinstance(some, Call) and some.fn == "min" else (some,)
    open_ = [e for e in parts if not known.at_most(n, mul(e, threads))]
    if len(open_) == len(parts):
        return None
    most = [fold_node(mul(cast(e, I64), cast(threads, I64))) for e in open_]
    return tuple(simplify(Binary("<=", cast(n, I64), m)) for m in most)


__all__ = ["with_single_trips"]
