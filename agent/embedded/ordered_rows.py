"""Rows that a thread each goes along because every element needs the one before: tridiagonal solvers, filters, paths.

    par row in 0..n @ [thread.x 256, block.x]
      for j in 1..m
        y[row * m + j] -= y[row * m + j - 1] * a[row * m + j] / b[row * m + j - 1]

What is computed has to stay in its order. What can be mended is the waiting: for memory between one element and the
next (``forward-stores``), and for elements that lie a row apart from the neighbour's (``stage-rows``: a tile of rows in
shared memory). Loops that are sums or running sums are not for this module: they need no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par
from ktc.ir.walk import walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import allowed
from ktc.passes.mapping.parallelize import spread
from ktc.passes.reductions.recurrences import recognised
from ktc.passes.shared.serial_sums import counted_to

from .nest_shapes import Idea
from .rows import outermost, walk_apart
from .trials import after, with_fast_quotients

ROWS, COLUMNS = "$R:(16,32,64)", "$C:(32,64,128)"
"""Rows of a block, of which each has a thread that goes along it, and columns of a tile in shared memory: the longer
it is, the less often a thread waits for the next one. Of 1024 rows of 1024, the middle ones took 79 us, half as many
rows or half as many at once 86 to 93 (H100)."""

AT_ONCE = "$TY:(4,8,16)"
"""Rows that a copy moves at once: the other warps of a block have nothing else to do."""

UNROLLED = "$U:(2,4,8)"
"""Iterations whose loads go ahead of what they wait for."""

SMALL = "thread.x $T:(32,64,128)"
"""Threads of a block where few rows or columns are to keep every unit busy."""


def ordered_rows(raised: Kernel) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain."""
    spread_out = [
        p for p in walk(raised.body) if isinstance(p, Par) and [lv.kind for lv in p.dist] == ["thread", "block"]
    ]
    if len(spread_out) != 1:
        return
    (row,) = spread_out
    loops = [s for s in outermost(row.body) if _needs_its_order(raised, s)]
    if not loops:
        return
    kept = "".join(
        f"forward-stores{{loop={place_of(raised, s)}}} | "
        for s in loops
        if after(raised, f"forward-stores{{loop={place_of(raised, s)}}}") is not None
    )
    name, axis = row.var.name, row.dist[-1].axis or "x"
    if walk_apart(raised, row, loops):
        staged = _staged(raised, kept, name, loops)
        if staged:
            why = "rows in their order, tiles of them copied by neighbouring threads"
            fast = with_fast_quotients(raised, staged)
            yield from ([(fast, f"{why}, quotients without branches", 12.0)] if fast else [])
            yield staged, why, 10.0
    if kept:
        unrolled = "".join(f" | unroll{{loop={place_of(raised, s)} factor={UNROLLED}}}" for s in loops)
        small = f"{kept}distribute{{loop={name} map=[{SMALL}, block.{axis}]}}{unrolled}"
        yield small, "what the element before was is in a register", 3.0


def _needs_its_order(raised: Kernel, loop: For) -> bool:
    """Whether the iterations of ``loop`` are neither independent nor parts of a sum or of a running sum."""
    name = place_of(raised, loop)
    return counted_to(loop) is not None and not (
        allowed(spread, raised, Loops(name)) or allowed(recognised, loop, raised)
    )


def _staged(raised: Kernel, kept: str, row: str, loops: Sequence[For]) -> str:
    """Steps by which tiles of rows are in shared memory; '' where no array has such rows."""
    steps = f"{kept}tile{{loops={row} sizes={ROWS}}} | distribute{{loop={row} map=[thread.x {ROWS}]}}"
    arrays: list[str] = []
    for s in loops:
        name = place_of(raised, s)
        steps += f" | tile{{loops={name} sizes={COLUMNS}}} | register-tile{{loop={name}_tile}}"
        along = [
            a.buffer.name for a in accesses(raised) if any(x.stmt is s for x in a.axes) and a.pattern(name) == "unit"
        ]
        for array in dict.fromkeys(along):
            more = f"{steps} | stage-rows{{array={array} loop={name} rows={AT_ONCE}}}"
            if after(raised, more) is not None:
                steps, arrays = more, [*arrays, array]
    pads = "".join(f" | pad-shared{{array={a}_s by=1}}" for a in dict.fromkeys(arrays))
    ahead = "".join(f" | unroll{{loop={place_of(raised, s)} factor={UNROLLED}}}" for s in loops)
    return steps + pads + ahead if arrays else ""


__all__ = ["ordered_rows"]
