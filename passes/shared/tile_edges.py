"""What is known of a tile at the edge: that it has elements, and which reads all of its iterations have in common.

Both are read off the form of loops over tiles, as ``tile`` makes them: a tile is there because the loop over tiles has
come to it, so something is left for it. No :class:`ktc.ir.arith.Facts` are asked: there are none yet of the bodies that
a pass is just putting together, and what they would rest on are these two loops and nothing of the kernel around them.
Equality is that of polynomials (:mod:`ktc.ir.arith.polynomial`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ktc.ir.analysis.footprint import Loop
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.loop_extents import extent_of
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fields import children
from ktc.ir.fold import is_const
from ktc.ir.nodes import Assign, Binary, Body, Call, Decl, Eval, Expr, For, Load, Par, Select, Stmt, Store, Sym, Var
from ktc.ir.purity import is_volatile
from ktc.ir.walk import assigned, declared, stmt_exprs, used, walk


def nonempty(loop: Loop, path: tuple[Stmt, ...]) -> bool:
    """Whether ``loop`` runs at least once wherever its region, inside the loops ``path``, does: a tile that exists has
    elements."""
    reach = extent_of(loop)
    if reach is None or reach.cap is None:
        return False
    return all(_left_of_a_tile(clip, path) for clip in reach.clips)


def _left_of_a_tile(clip: Expr, path: tuple[Stmt, ...]) -> bool:
    for s in path:
        if isinstance(s, Par) and isinstance(s.hi, Call) and s.hi.fn == "cdiv" and is_const(s.lo, 0):
            n, size = s.hi.args
            if same_value(clip, Binary("-", n, Binary("*", Var(s.var), size))):
                return True
        form = counting(s) if isinstance(s, For) else None
        if isinstance(s, For) and form is not None and same_value(clip, Binary("-", form.hi, Var(s.var))):
            return True
    return False


def read_by_all(nest: Par, path: tuple[Stmt, ...]) -> frozenset[Load]:
    """Reads that each iteration of ``nest`` makes, of the same elements: one iteration more reads nothing else."""
    if not all(nonempty(s, path) for s in walk((nest,)) if isinstance(s, Par)):
        return frozenset()
    moving = {*declared((nest,)), *assigned((nest,))}
    return frozenset(x for x in _unconditional(nest.body, frozenset(moving)) if not is_volatile(x))


def _unconditional(body: Body, moving: frozenset[Sym]) -> Iterator[Load]:
    """Reads in ``body`` that nothing stands before, whose places hang on none of ``moving``."""
    for s in body:
        if isinstance(s, Par):
            yield from _unconditional(s.body, moving)
        elif isinstance(s, For):
            inside = moving - {s.var}
            if s.var not in assigned(s.body) and not any(used(e) & inside for e in (s.init, s.cond, s.step)):
                yield from _unconditional(s.body, inside)
        elif isinstance(s, Decl | Assign | Store | Eval):
            reads = chain.from_iterable(map(_evaluated, stmt_exprs(s)))
            yield from (x for x in reads if x.buffer not in moving and not any(used(i) & moving for i in x.index))


def _evaluated(e: Expr) -> Iterator[Load]:
    """The reads of ``e`` that are made whatever its values are."""

    if isinstance(e, Load):
        yield e
    first = isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("&&", "||"))
    for x in list(children(e))[: 1 if first else None]:
        yield from _evaluated(x)


__all__ = ["nonempty", "read_by_all"]
