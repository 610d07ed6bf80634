"""How many blocks there are along an axis of the grid that nothing is compared with: what their numbers say.

    out[(blockIdx.y * H + blockIdx.x) * 128 + d]    // a row of blocks is H of them
    int n = blockIdx.z / K, k = blockIdx.z % K;     // there are K of them for each n

Only what is stored counts for the first: blocks store in places of their own, where what they read may be shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Binary, Expr, HwIndex, Store, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used, walk, walk_expr

from ..given_values import definitions, made_of, spelled_out
from ..windows import spelled
from .factors import factors_of


def row_of_blocks(k: Kernel, axis: str) -> str:
    """The parameter that counts the blocks along ``axis``, as all stores step over a row of them; '' if there is none
    or stores do not agree."""
    sources, params = definitions(k), {p.sym for p in k.params}
    found = set[str]()
    for s in walk(k.body):
        if isinstance(s, Store | Atomic) and s.buffer in params:
            found |= {_row(s.index[0], axis, sources, params)}
    return found.pop() if len(found) == 1 else ""


def _row(index: Expr, axis: str, sources: Mapping[Sym, list[Expr]], params: set[Sym]) -> str:
    """The one size of the product that the number of a block is added to in ``index``; '' where there is none."""
    rows = set[str]()
    for e in made_of([index], sources, places=False):
        if isinstance(e, Binary) and e.op == "+":
            for place, whole in ((e.a, e.b), (e.b, e.a)):
                mine = spelled_out(place, sources)
                if isinstance(mine, HwIndex) and (mine.level, mine.axis) == ("block", axis):
                    factors = (without_casts(f) for f in factors_of(whole))
                    sizes = [f.sym.name for f in factors if isinstance(f, Var) and f.sym in params]
                    rows.add(sizes[0] if len(sizes) == 1 else "")
    return rows.pop() if len(rows) == 1 else ""


def shared_out(k: Kernel, axis: str) -> str:
    """What the number of a block along ``axis`` is taken apart by, as a formula over the parameters: '' if it is
    not."""
    sources, params = definitions(k), {p.sym for p in k.params}
    divided, left = (set(_by(k, axis, op, sources, params)) for op in ("/", "%"))
    both = divided & left
    return both.pop() if len(both) == 1 else ""


def _by(k: Kernel, axis: str, op: str, sources: Mapping[Sym, list[Expr]], params: set[Sym]) -> Iterator[str]:
    for e in (x for y in all_exprs(k.body) for x in walk_expr(y)):
        if isinstance(e, Binary) and e.op == op and isinstance(e.type, Scalar) and e.type.is_int:
            place, by = spelled_out(e.a, sources), without_casts(e.b)
            if isinstance(place, HwIndex) and (place.level, place.axis) == ("block", axis):
                text = spelled(by, params, sources) if used(by) else None
                if text is not None:
                    yield text


__all__ = ["row_of_blocks", "shared_out"]
