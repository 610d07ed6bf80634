"""Row starts: where each row begins, of which no more is said than how far a loop or a block goes from there.

    for (i = threadIdx.x; i < picks; ..) out[start[r] + i] = ..        rows of up to ``picks`` elements

Numbers in no order let rows overlap: threads race for what lies in two of them. Drafts have rows that are as far apart
as they are long at most.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Load, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import walk

from ..given_values import definitions, made_of, spelled_out
from ..inner_strides import accesses, addends
from .row_pointers import row_pointers


@by_identity(8)
def row_starts(k: Kernel) -> dict[str, str]:
    """The integer buffers of ``k`` whose elements say where rows begin, but for those that say where they end, too;
    each with the parameter that rows are no longer than, '' where no loop over them ends at one."""
    sources, params = definitions(k), {p.sym for p in k.params}
    single = {s: given[0] for s, given in sources.items() if len(given) == 1}
    ends = {s.var: _end(s) for s in walk(k.body) if isinstance(s, For)}
    open_ = {v for v, end in ends.items() if any(isinstance(x, Load | Var) for x in made_of([end], sources))}
    found: dict[str, str] = {}
    for buffer, index in accesses(k):
        terms = [spelled_out(x, sources) for x in addends(index, single)]
        steps = [x.sym for x in terms if isinstance(x, Var) and x.sym in open_]
        for x in terms if steps and len(terms) == 2 else ():
            whole = isinstance(x, Load) and isinstance(x.buffer.type, Ptr) and scalar_of(x.buffer.type).is_int
            if isinstance(x, Load) and whole and x.buffer in params and x.buffer.name != buffer:
                last = spelled_out(ends[steps[0]], sources)
                told = last.sym.name if isinstance(last, Var) and last.sym in params else ""
                found[x.buffer.name] = found.get(x.buffer.name) or told
    return {b: room for b, room in found.items() if b not in row_pointers(k)}


def _end(loop: For) -> Expr:
    """What the counter of ``loop`` is compared with; of one by a number, rows are windows around a place."""
    return loop.cond.b if isinstance(loop.cond, Binary) else loop.cond


__all__ = ["row_starts"]
