"""Lanes for the loop with unit stride: threads take what each iteration of an outer loop went through alone.

A kernel that gives a thread a whole row (a token, a query) has its threads a row apart in memory. Where
the loops inside go through neighbouring elements, schedules are proposed that give the outer loop to blocks, or to
groups of threads side by side, and those loops to the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.arith.affine import is_unit_stride
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, For, Load, Par, Reduce, Store, Sym
from ktc.ir.types import Ptr
from ktc.ir.walk import initial_values, stmt_exprs, substitute_expr, walk, walk_expr
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.pipeline import apply_step
from ktc.passes.core.places import PARALLEL, place_of, places_of
from ktc.passes.core.refusals import Refused
from ktc.passes.core.script import Step

Idea = tuple[str, str, float]

NORMALISE = Step("normalise")

GAIN = 8.0
"""What accesses side by side are worth against accesses a row apart: a sector has eight floats."""

MAPS = (
    (
        "[thread.y $ROWS:(1,2,4,8), block.x]",
        "thread.x $LANES:(8,16,32), seq",
        "rows side by side, a group of lanes each",
    ),
    ("[block.x]", "thread.x $T, seq", "a block a row"),
)
"""Levels of the outer loop, and of the loops inside after wide accesses, if these can be; fastest first."""

WIDE = ("vec $V, ", "")


def lanes(raised: Kernel, able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    normal = apply_step(raised, NORMALISE)
    kernel = raised if isinstance(normal, Refused) else normal.kernel
    before = "" if isinstance(normal, Refused) else f"{NORMALISE} | "
    for outer in loops(kernel):
        inside = _unit_stride(kernel, outer)
        for levels, own, why in MAPS if inside else ():
            maps = (" ".join(f"{name}=[{wide}{own}]" for name in inside) for wide in WIDE)
            steps = (f"{before}map{{{place_of(kernel, outer)}={levels} {inner}}}" for inner in maps)
            first = next(filter(able, steps), None)
            if first is not None:
                yield first, f"{why}: neighbouring lanes take neighbouring elements", GAIN
                if len(inside) > 1 or inside[0].endswith(".*"):
                    kept = f"{first} | row-cache{{loop={inside[0]} keep=loaded}}"
                    yield from [(kept, f"{why}, its elements loaded once", GAIN)] if able(kept) else ()
        if inside:
            return


def _unit_stride(kernel: Kernel, outer: Loop) -> list[str]:
    """The loops inside ``outer``, whose iterations are threads now, that a thread goes through alone and that move by
    one element; none where ``outer`` itself does so in most accesses."""
    if not isinstance(outer, Par) or not any(lv.kind == "thread" for lv in outer.dist):
        return []
    inner = [s for s in walk(outer.body) if isinstance(s, Par | Reduce) and [lv.kind for lv in s.dist] == ["seq"]]
    leaves = [s for s in inner if not any(x is not s and isinstance(x, For | Par | Reduce) for x in walk(s.body))]
    values = initial_values(outer.body)
    along = [s for s in leaves if any(_moves_by_one(e, s.var, values) for e in _subscripts(s))]
    across = [e for s in leaves for e in _subscripts(s) if _moves_by_one(e, outer.var, values)]
    total = sum(1 for s in leaves for _ in _subscripts(s))
    if not along or 2 * len(across) > total:
        return []
    return list(places_of(kernel, along, PARALLEL))


def _subscripts(loop: Loop) -> Iterator[Expr]:
    """Subscripts of buffers in ``loop``."""
    for s in walk((loop,)):
        if isinstance(s, Store) and isinstance(s.buffer.type, Ptr):
            yield s.index[0]
        for e in stmt_exprs(s):
            yield from (x.index[0] for x in walk_expr(e) if isinstance(x, Load) and isinstance(x.buffer.type, Ptr))


def _moves_by_one(index: Expr, var: Sym, values: dict[Sym, Expr]) -> bool:
    for _ in range(4):
        index = substitute_expr(index, values)
    return is_unit_stride(index, var)
