"""Row pointers: where the parts of something begin, one after the other, so that each ends where the next begins.

    for (i = rowptr[v] + lane; i < rowptr[v + 1]; ..)       a loop over one part
    if (n >= ptr[b] && n < ptr[b + 1])                      the part in which something is
    if (ptr[v + 1] - ptr[v] > picks)                        how long a part is, against how much of it is wanted

Numbers in no order are no such parts, and zeros make all of them empty: nothing that a run does shows then what the
loops over them reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import ORDERINGS, Binary, Call, Const, Expr, For, HwIndex, If, Load, Select, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import I64, Ptr, scalar_of
from ktc.ir.walk import map_expr, stmt_exprs, used, walk, walk_expr

from ..given_values import definitions, spelled_out

PART = 16
"""Elements that each part of something has on average: tokens of an expert, entries of a sparse row."""

Sources = Mapping[Sym, Sequence[Expr]]


@by_identity(8)
def row_pointers(k: Kernel) -> frozenset[str]:
    """The integer buffers of ``k`` that hold where parts begin and end."""
    sources = definitions(k)
    pairs = [(s.init, bound) for s in walk(k.body) if isinstance(s, For) for bound in _bounds(s)]
    for s in walk(k.body):
        conditions = [s.cond] if isinstance(s, If) else []
        for e in (x for c in (*stmt_exprs(s), *conditions) for x in walk_expr(c)):
            pairs += _both_sides(e)
    pairs += [(length.b, length.a) for length, _ in _lengths(k, sources)]
    return frozenset(b.name for begin, end in pairs for b in _ends_where_the_next_begins(begin, end, sources))


@by_identity(8)
def part_limits(k: Kernel) -> frozenset[str]:
    """The parameters that lengths of parts are compared with: of longer ones, so much is wanted."""
    sources, params = definitions(k), {p.sym for p in k.params}
    told = ((length, without_casts(other)) for length, other in _lengths(k, sources) if other is not None)
    return frozenset(
        by.sym.name
        for length, by in told
        if isinstance(by, Var) and by.sym in params and [*_ends_where_the_next_begins(length.b, length.a, sources)]
    )


@by_identity(8)
def part_starts(k: Kernel) -> dict[str, str]:
    """The integer buffers of ``k`` that hold where parts begin, each with the parameter that the last part ends at:
    ``end = v + 1 < n ? first[v + 1] : total``."""
    sources, params = definitions(k), {p.sym for p in k.params}
    pairs = [(length.b, length.a) for length, _ in _lengths(k, sources)]
    pairs += [(s.init, bound) for s in walk(k.body) if isinstance(s, For) for bound in _bounds(s)]
    found: dict[str, str] = {}
    for begin, end in pairs:
        if not isinstance(chosen := spelled_out(end, sources), Select):
            continue
        for part, last in ((chosen.a, chosen.b), (chosen.b, chosen.a)):
            total = spelled_out(last, sources)
            if isinstance(total, Var) and total.sym in params:
                next_ones = _ends_where_the_next_begins(begin, part, sources)
                found |= {b.name: total.sym.name for b in next_ones}
    return found


def _lengths(k: Kernel, sources: Sources) -> Iterator[tuple[Binary, Expr | None]]:
    """The differences that decide how long something goes on, or whether it is done, each with what it is compared
    with, None where it ends a loop."""
    compared: list[tuple[Expr, Expr | None]]
    compared = [(s.cond.b, None) for s in walk(k.body) if isinstance(s, For) and isinstance(s.cond, Binary)]
    for e in (x for s in walk(k.body) for whole in stmt_exprs(s) for x in walk_expr(whole)):
        if isinstance(e, Binary) and e.op in ORDERINGS:
            compared += [(e.a, e.b), (e.b, e.a)]
        elif isinstance(e, Call) and e.fn == "min" and len(e.args) == 2:
            compared += [(e.args[0], e.args[1]), (e.args[1], e.args[0])]
    for side, other in compared:
        if isinstance(length := spelled_out(side, sources), Binary) and length.op == "-":
            yield length, other


def _bounds(loop: For) -> Iterator[Expr]:
    """What the counter of ``loop`` stays below."""
    for e in walk_expr(loop.cond):
        if isinstance(e, Binary) and e.op in ("<", "<=") and loop.var in used(e.a):
            yield e.b


def _both_sides(e: Expr) -> Iterator[tuple[Expr, Expr]]:
    """What one value is compared with by the two sides of a conjunction: ``a <= n && n < b``."""
    if isinstance(e, Binary) and e.op == "&&" and all(isinstance(x, Binary) and x.op in ORDERINGS for x in (e.a, e.b)):
        for n, low in _sides(e.a):
            yield from ((low, high) for other, high in _sides(e.b) if other == n)


def _sides(e: Expr) -> list[tuple[Expr, Expr]]:
    assert isinstance(e, Binary)
    return [(without_casts(a), b) for a, b in ((e.a, e.b), (e.b, e.a))]


def _ends_where_the_next_begins(begin: Expr, end: Expr, sources: Sources) -> Iterator[Sym]:
    """The buffer of which ``begin`` adds something to one element, and ``end`` is the next."""
    last = without_casts(_followed(end, sources))
    for first in walk_expr(_followed(begin, sources)):
        if isinstance(first, Load) and isinstance(last, Load) and first.buffer == last.buffer and _holds(first.buffer):
            distance = Binary("-", _followed(last.index[-1], sources), _followed(first.index[-1], sources))
            if first.index[:-1] == last.index[:-1] and _is_one(distance):
                yield first.buffer


def _holds(buffer: Sym) -> bool:
    return isinstance(buffer.type, Ptr) and scalar_of(buffer.type).is_int


def _followed(e: Expr, sources: Sources) -> Expr:
    """``e`` without casts, variables that are given one value as that."""

    def one(x: Expr) -> Expr:
        x = without_casts(x)
        given = sources.get(x.sym, ()) if isinstance(x, Var) else ()
        return _followed(given[0], sources) if len(given) == 1 else x

    return map_expr(e, one)


def _is_one(distance: Expr) -> bool:
    """Whether the difference of two indices is 1 whatever they are made of."""
    leaves: dict[Expr, int] = {}

    def number(e: Expr) -> Expr:
        return Const(leaves.setdefault(e, 3 + 2 * len(leaves)), I64) if isinstance(e, Var | HwIndex | Load) else e

    return evaluate(simplify(map_expr(distance, number)), {}) == 1


__all__ = ["PART", "part_limits", "part_starts", "row_pointers"]
