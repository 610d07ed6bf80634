"""Sums over words in which several numbers lie, as sums over the numbers: each picks its bits by its place.

before                                              after
    for i in 0..n / 2                                   for k in 0..n / 2 * 2
      var b: u8 = w[i]                                    var b: u8 = w[k / 2]
      s += x[2 * i] * f32(b & 15)                         s += x[k] * f32(b >> k % 2 * 4 & 15)
      s += x[2 * i + 1] * f32(b >> 4)

A product of a matrix and weights in few bits is then one that passes can tile: by rows, columns and terms. Nothing is
proven here: the forms are guesses for raising to check. Where a word's numbers are not beside each other (the low ones
of 16 bytes before the high ones), they are summed in the order of what they are multiplied by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ktc.ir.analysis.accumulators import combine, operands
from ktc.ir.analysis.effects import has_effect
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fields import children
from ktc.ir.fold import cast, i32, is_const, lt, mul, simplify
from ktc.ir.nodes import Acc, Assign, Binary, Body, Decl, Expr, For, Load, Par, Reduce, Scan, Store, Sym, Var, fresh
from ktc.ir.storage import is_local_array
from ktc.ir.types import Scalar
from ktc.ir.walk import declared, map_body, stmt_exprs, used, walk, walk_expr
from ktc.passes.shared.accumulations import Accumulation, accumulations

from .lane_loops import MOST_LANES
from .merged_index import Merged
from .rolled import Rolled
from .scalar_lanes import Lanes, NotLanes
from .vector_sums import with_parts

CUTTING = (">>", "&", "/", "%")
"""Operators that leave a part of a word."""


def packed_sums(body: Body) -> tuple[Body, bool]:
    """``body`` with each serial loop that adds up products of numbers that lie in words, as a loop over the numbers;
    and whether floats are added up in another order then."""
    turned: list[For] = []
    done = map_body(body, lambda s: _by_elements(s, turned) if isinstance(s, For) else s)
    return done, bool(turned)


def _by_elements(s: For, turned: list[For]) -> For:
    """``s`` over numbers, if it can be; it is among those ``turned`` if that is another order of its floats."""
    form, t = counting(s), s.var.type
    if not _takes_bits(s.body) or form is None or not form.by_one or why_unsteady(s, form) or not is_const(form.lo, 0):
        return s
    split = accumulations(with_parts(s).body)
    if split is None or not split[1] or not isinstance(t, Scalar):
        return s
    inner, sums = split
    if not _is_pure(inner):
        return s
    accs = tuple(Acc(fresh(a.sym.name, a.sym.type), a.op, Var(a.sym), a.value) for a in sums)
    try:
        lanes = Lanes(over=s.var).run(inner)
    except NotLanes:
        return s
    for count in _counts(accs, lanes):
        for turns in (n for n in range(1, count) if count % n == 0):
            rolled = Rolled(lanes, count, packed=True)
            try:
                one = [rolled.accumulated(a, lanes, turns) for a in accs]
                rolled.conditions(one)
                body = rolled.body()
            except NotLanes:
                continue
            j = fresh(s.var.name, t)
            merged = Merged(s.var, rolled.lane, count, j, False)
            body = merged.body(body)
            values = [simplify(merged.of_names(a.value)) for a in one]
            if rolled.fields and _is_in_order(body, values, j, count):
                found = (Assign(a.sym, combine(a.op, Var(a.sym), v), loc=s.loc) for a, v in zip(sums, values))
                hi = from_polynomial(polynomial(mul(form.hi, cast(i32(count), t))), t)
                step = Binary("+", Var(j), cast(i32(1), t))
                turned += [s] if turns > 1 or not all(_one_by_one(s.body, a) for a in sums) else []
                return replace(s, var=j, init=cast(i32(0), t), cond=lt(Var(j), hi), step=step, body=(*body, *found))
    return s


def _one_by_one(body: Body, a: Accumulation) -> bool:
    """Whether each update of ``a`` in ``body`` takes one value, or nothing hangs on the order of values."""
    if not isinstance(a.sym.type, Scalar) or not a.sym.type.is_float or a.op not in "+*":
        return True
    return all(
        isinstance(e := x.value, Binary) and e.op == a.op and Var(a.sym) in (e.a, e.b) and len(operands(e, a.op)) == 2
        for x in walk(body) if isinstance(x, Assign) and x.sym == a.sym
    )  # fmt: skip


def _takes_bits(body: Body) -> bool:
    """Whether ``body`` shifts or masks what it reads, outside of the places of elements."""
    if any(isinstance(s, Par | Reduce | Scan) for s in walk(body)):
        return False
    exprs = chain.from_iterable(_values(e) for s in walk(body) for e in stmt_exprs(s))
    return any(isinstance(e, Binary) and e.op in CUTTING for e in exprs)


def _values(e: Expr) -> Iterator[Expr]:
    """The parts of ``e`` but for the places of elements."""
    yield e
    for x in () if isinstance(e, Load) else children(e):
        yield from _values(x)


def _is_pure(body: Body) -> bool:
    """Whether ``body`` computes values and does nothing else."""
    own = set(declared(body))
    stored = {x.buffer for x in walk(body) if isinstance(x, Store)}
    return stored <= {v for v in own if is_local_array(v)} and not any(
        has_effect(x) for x in body if not isinstance(x, Store)
    )


def _counts(accs: Sequence[Acc], lanes: Lanes) -> list[int]:
    """How many numbers an iteration may be of, the most first."""
    try:
        found = Rolled(lanes, 1).terms_of(accs[0], lanes)
    except NotLanes:
        return []
    return [n for n in range(min(found, MOST_LANES), 1, -1) if found % n == 0]


def _is_in_order(body: Body, values: Sequence[Expr], j: Sym, count: int) -> bool:
    """Whether some elements are taken one by one as ``j`` counts, and no other is picked by its place in a word."""
    in_order = False
    exprs = [*(x for s in walk(body) for x in stmt_exprs(s)), *values]
    cut = (e.a for x in exprs for e in walk_expr(x) if isinstance(e, Binary) and e.op == ">>")
    words = {v for e in cut for v in used(e)}
    others = [x for s in walk(body) if not (isinstance(s, Decl) and s.sym in words) for x in stmt_exprs(s)]
    for e in (*others, *values):
        for x in _beside_words(e):
            for i in x.index:
                places = [y for y in walk_expr(i) if isinstance(y, Binary) and y.op == "%" and y.a == Var(j)]
                if any(is_const(y.b, count) for y in places):
                    return False
                in_order = in_order or any(Var(j) in factors for factors in polynomial(i))
    return in_order


def _beside_words(e: Expr) -> Iterator[Load]:
    """What ``e`` reads, but for words that it shifts."""
    if isinstance(e, Load):
        yield e
    for x in () if isinstance(e, Binary) and e.op == ">>" else children(e):
        yield from _beside_words(x)


__all__ = ["packed_sums"]
