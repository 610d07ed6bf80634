"""A reduction by tensor cores: ``reduce(+) ... strategy m16n8k16_f16`` inside two distributed loops.

before (i @ [thread.x1 8, unroll 2, unroll MI, ...], j @ [unroll 2, thread.x0 4, unroll NI, ...])
    reduce(+) acc over k in 0..K @ [seq] strategy m16n8k16_f16
      yield f32(A[i, k]) * f32(B[k, j])
after
    acc[MI, 2, NI, 2] = 0
    for k in 0..K step 16
      for mi: a[mi] = the 16 x 16 fragment of A at (rows of mi, k)
      for ni: b[ni] = the 16 x 8 fragment of B at (k, columns of ni)
      for mi, ni: mma acc[mi, :, ni, :], a[mi], b[ni]

The two loops must be distributed the way the instruction spreads its accumulator over lanes and registers
(``ktc.ir.fragments``); whatever levels follow repeat the fragment over registers, warps and blocks. So accumulators are
the reduction's own per-thread results, and everything before and after the reduction is lowered as usual.

Operand fragments have layouts of their own: an element's index is rebuilt from the loops' origins and the operand's
layout. Rows of an operand in shared memory that provably lie in bounds, aligned and eight in a run come by matrix loads
(``matrices``); all others element by element, with zero outside the ranges of i, j and k.
"""

from __future__ import annotations

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, lt, mul, product, simplify, sub
from ktc.ir.fragments import FRAGMENTS, Fragment
from ktc.ir.nodes import (
    Acc,
    Assign,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    Load,
    Mma,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    i32,
)
from ktc.ir.types import I32
from ktc.ir.walk import substitute, used_in
from ktc.passes.lowering.distribution.levels import plan
from ktc.passes.lowering.distribution.scope import Scope, nest
from ktc.passes.lowering.lowering_state import State
from ktc.passes.shared.mma import is_mma

from .fragments_ahead import loaded_ahead, two_sets
from .operands import bounds_of, fill, operands
from .sides import Side, refusal, side_of
from .warpgroup import lower_tile


def lower_mma(s: Reduce, scope: Scope, st: State, in_place: bool = False) -> Body:
    """The accumulators, the loop over k with its fragments, and nothing after it.

    ``in_place``: the sum starts from and goes back to an element that the thread owns, so its registers take it.
    """
    f = FRAGMENTS[s.strategy]
    acc = _accumulator(s, f)
    rows, cols = (side_of(s, f, st, rows=r) for r in (True, False))
    here = frozenset(j.var for j in scope.jams)
    dims = scope.ordered(here)
    st.variation.seed(acc.sym, here)
    st.depth[acc.sym] = len(scope.jams)
    front: list[Stmt] = []
    if in_place:
        assert isinstance(acc.init, Load)
        held = (j.var for i in acc.init.index for j in st.levels_of[without_index_casts(i).sym])  # type: ignore[attr-defined]
        st.storage[acc.sym] = (st.owned[acc.init.buffer][0], tuple(held))
    else:
        front += st.expand(Decl(acc.sym, None, loc=s.loc, comments=s.comments), dims)
        front += nest(dims, (), st.rewrite((Assign(acc.sym, acc.init, loc=s.loc),)))
    lo, hi = st.expr(s.lo), st.expr(s.hi)
    extent = difference(hi, lo)
    array, at = st.storage[acc.sym]
    places = tuple(Load(array, tuple(_slot_index(v, slot, f, rows, cols) for v in at)) for slot in range(f.c.slots))
    if f.from_shared:
        return (*front, lower_tile(s, f, rows, cols, places, extent, lo, st))
    a, b = operands(s, acc, f, rows, cols, st)
    step = fresh(s.var.name, I32)
    k = add(lo, mul(Var(step), i32(f.k)))
    exact = st.decide.divisible(extent, i32(f.k))
    trips = simplify(Binary("/", extent if exact else add(extent, i32(f.k - 1)), i32(f.k)))
    st.counts[Var(step)] = (st.decide.value(trips) or 1 << 30) - 1
    body: list[Stmt] = []
    sources: list[Expr] = []
    for name, x in (("a", a), ("b", b)):
        outside = bounds_of(s, x, {rows.loop.base, cols.loop.base}, scope, None if exact else hi)
        code, source = fill(name, f, x, (s.var, k), outside, st)
        body += code
        sources.append(source)
    ahead = (
        loaded_ahead(tuple(body), (sources[0], sources[1]), step, trips) if _room(f, rows, cols, trips, st) else None
    )
    if ahead is not None:
        before, load, sources = ahead[0], ahead[1], list(ahead[2])
        front, body = [*front, *before], list(load)
    repeats = tuple(j for j, _ in (*rows.outer, *cols.outer))
    body += nest(repeats, (), _to_and_fro(Mma(s.strategy, places, sources[0], sources[1], loc=s.loc), rows, cols))
    unroll = 0 if st.decide.value(trips) is not None else None
    loop = For(step, i32(0), lt(Var(step), trips), add(Var(step), i32(1)), tuple(body), unroll, loc=s.loc)
    return (*front, loop)


def _room(f: Fragment, rows: Side, cols: Side, trips: Expr, st: State) -> bool:
    """Whether two sets of operands fit beside a lane's accumulators."""
    high, wide = (st.decide.value(product([j.extent for j, _ in side.outer])) for side in (rows, cols))
    if high is None or wide is None or f.a is None or f.b is None:
        return False
    operands_ = (high * f.a.slots + wide * f.b.slots) * f.operand.bits // 32
    threads = st.decide.value(product(list(st.extents.values())))
    return two_sets(high * wide * f.c.slots, operands_, st.decide.value(trips), threads)


def _to_and_fro(s: Mma, rows: Side, cols: Side) -> Body:
    """``s``, whose columns go to and fro from row to row of fragments: a row begins with the one that ended the last.

    Registers of operands are read again at once; 5 % of a product of 4096 (H200).
    """
    if not rows.outer or not cols.outer:
        return (s,)
    row, col = rows.outer[-1][0], cols.outer[-1][0]
    back = sub(sub(col.extent, i32(1)), Var(col.var))
    odd = Binary("!=", Binary("%", Var(row.var), i32(2)), i32(0))
    at = fresh(col.var.name, col.var.type)
    return (Decl(at, Select(odd, back, Var(col.var)), const=True), *substitute((s,), {col.var: Var(at)}))


def sums_in_place(s: Stmt, rest: Body, st: State) -> bool:
    """Whether ``s`` is ``reduce sum = acc[i, j] ...`` and next comes the only use of it: ``acc[i, j] = sum``."""
    if not (is_mma(s) and isinstance(s, Reduce) and len(s.accs) == 1 and rest):
        return False
    acc, back = s.accs[0], rest[0]
    if not (isinstance(acc.init, Load) and st.owned.get(acc.init.buffer, (None, 0))[1] == len(acc.init.index)):
        return False
    variables = [
        v.sym for v in map(without_index_casts, acc.init.index) if isinstance(v, Var) and v.sym in st.levels_of
    ]
    same = isinstance(back, Store) and Load(back.buffer, back.index) == acc.init and back.value == Var(acc.sym)
    return len(variables) == len(acc.init.index) and same and acc.sym not in used_in(rest[1:])


# ------------------------------------------------------------------------------------------------------- what it needs


def _accumulator(s: Reduce, f: Fragment) -> Acc:
    if len(s.accs) != 1 or s.accs[0].op != "+" or s.accs[0].sym.type != f.accumulator:
        raise refusal(s, f"{f.name} sums into one {f.accumulator} value")
    p = plan(s, lambda e: None)
    if p.jams or p.hw:
        raise refusal(s, f"'{s.var.name}' runs inside the instruction: it takes no level but seq")
    return s.accs[0]


def _slot_index(v: Sym, slot: int, f: Fragment, rows: Side, cols: Side) -> Expr:
    """The index along jam ``v`` of accumulator ``slot``: a digit of the slot number, or the repetition itself."""
    for side in (rows, cols):
        for i, j in side.slots.items():
            if j.var == v:
                below = 1
                for d in f.c.slot[:i]:
                    below *= d.size
                return i32(slot // below % f.c.slot[i].size)
    return Var(v)
