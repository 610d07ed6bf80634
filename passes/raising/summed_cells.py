"""One element of shared memory to which a block's threads add, as a sum over the threads.

before                                          after
    x: shared f32[1]                                reduce(+) x_total: f32 = 0.0 over t in 0..256 @ [thread.x 256]
    x[0] = 0.0                                        yield a[block * 256 + t]
    par t in 0..256 @ [thread.x 256]                atomic add y[0], x_total
      atomic add x[0], a[block * 256 + t]
    atomic add y[0], x[0]

What a tree through shared memory says step by step: both are one sum of the block then, whatever is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeGuard

from ktc.ir.analysis.accumulators import combine, is_identity
from ktc.ir.atomic_ops import ATOMIC_OF, COMBINED_BY
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Atomic, Body, Decl, Expr, Load, Par, Reduce, Stmt, Store, Sym, Var
from ktc.ir.storage import is_shared
from ktc.ir.walk import assigned, map_body, substitute, walk, with_list_around
from ktc.passes.core.refusals import Refused, attempted
from ktc.passes.raising.normalise.block_values import arrays_of_one, is_touched, with_block_values
from ktc.passes.reductions.reduce_atomics import as_sums
from ktc.passes.reductions.repeated_updates import Update, updates


def with_summed_cells(raised: Kernel) -> Kernel:
    """``raised`` with sums in place of the arrays of one element that all threads of a block change atomically."""
    for array in filter(is_shared, list(arrays_of_one(raised.body))):
        done = _summed(raised, array)
        left = with_block_values(done.body)
        if not is_touched(left, array):
            raised = done.with_(body=_without_copies(map_body(left, partial(_without_array, array))))
    return raised


def _without_array(array: Sym, s: Stmt) -> Stmt | None:
    return None if isinstance(s, Alloc) and s.sym == array else s


def _without_copies(body: Body) -> Body:
    """``body`` with sums under their own names."""
    sums = {a.sym for s in walk(body) if isinstance(s, Reduce) for a in s.accs} - assigned(body)
    copies: dict[Sym, Expr] = {
        s.sym: s.init for s in walk(body) if isinstance(s, Decl) and isinstance(s.init, Var) and s.init.sym in sums
    }
    for x in copies.keys() & assigned(body):
        del copies[x]
    return substitute(map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in copies else s), copies)


def _summed(kernel: Kernel, cell: Sym) -> Kernel:
    """``kernel`` with a sum for each loop whose iterations all update ``cell``, which a block's threads share."""
    threads = [s for s in walk(kernel.body) if isinstance(s, Par) and _runs_on_threads(s)]
    spread = {id(x) for s in threads for x in walk(s.body)}
    for once in [s for s in walk(kernel.body) if _adds(s, cell) and id(s) not in spread]:  # what the block adds up to
        body = with_list_around(kernel.body, once, partial(_with_value, once))
        kernel = kernel.with_(body=body or kernel.body)
    for loop in threads:
        found = attempted(updates, kernel, loop) if any(_adds(s, cell) for s in walk(loop.body)) else ()
        mine = [] if isinstance(found, Refused) else [u for u in found if u.atomic.buffer == cell]
        if mine and all(not u.chosen and u.atomic.op in ATOMIC_OF.values() for u in mine):
            body = with_list_around(kernel.body, loop, partial(_with_sum, loop, mine))
            kernel = kernel.with_(body=body or kernel.body)
    return kernel


def _with_sum(loop: Par, mine: Sequence[Update], before: Body, behind: Body) -> Body:
    """The list around ``loop`` with the sum of the updates ``mine``."""
    before, nothing = _from_nothing(before, mine[0].atomic) if len(mine) == 1 else (before, False)
    return (*before, *as_sums(loop, mine, lambda u, total: _stored(u.atomic, Var(total), nothing)), *behind)


def _with_value(once: Atomic, before: Body, behind: Body) -> Body:
    """The list around ``once``, which the block does, with a store in its place."""
    before, nothing = _from_nothing(before, once)
    return (*before, *_stored(once, once.value, nothing), *behind)


def _from_nothing(before: Body, x: Atomic) -> tuple[Body, bool]:
    """Whether the cell that ``x`` changes holds nothing yet behind ``before``: this without the store that says so."""
    starts = [s for s in before if x.buffer in assigned((s,))][-1:]
    t = x.buffer.type.elem  # type: ignore[attr-defined]
    if not starts or not isinstance(s := starts[0], Store) or not is_identity(s.value, COMBINED_BY[x.op], t):
        return before, False
    return tuple(b for b in before if b is not s), True


def _stored(x: Atomic, value: Expr, nothing: bool) -> Body:
    """What the cell holds when ``value`` has been put to it; ``nothing``: to nothing."""
    whole = value if nothing else combine(COMBINED_BY[x.op], Load(x.buffer, x.index, 1), value)
    return (Store(x.buffer, x.index, whole, loc=x.loc, comments=x.comments),)


def _runs_on_threads(s: Par) -> bool:
    return bool(s.dist) and all(lv.kind not in ("block", "cluster") for lv in s.dist)


def _adds(s: Stmt, cell: Sym) -> TypeGuard[Atomic]:
    """Whether ``s`` puts a value to ``cell`` and takes nothing from it."""
    return isinstance(s, Atomic) and s.buffer == cell and s.dst is None and s.op in ATOMIC_OF.values()


__all__ = ["with_summed_cells"]
