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

from dataclasses import dataclass

from ktc.ir.fold import add, both, cast, lt, mul, simplify
from ktc.ir.fragments import FRAGMENTS, Digit, Fragment, Layout
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Binary,
    Body,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
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
)  # fmt: skip
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import substitute_expr, used

from .errors import LoweringError
from .levels import Jam, Lowered, plan
from .scope import Guard, Scope, nest
from .state import State
from .vary import is_private


@dataclass(frozen=True)
class Side:
    """One dimension of the accumulator: the loop over it, and which of its jams are fragment slots."""

    var: Sym
    loop: Lowered
    slots: dict[int, Jam]  # index of a slot digit of the accumulator's layout -> the jam that runs over it
    outer: tuple[tuple[Jam, Expr], ...]  # jams that repeat the fragment, with strides
    origin: Expr  # index of the fragment's first row or column, over hardware indices and ``outer``


@dataclass(frozen=True)
class Operand:
    """One factor: its load, layout, and the loop variables that are its rows and columns."""

    load: Load
    layout: Layout
    row: Sym
    col: Sym
    side: Side


def part(digit: int) -> Expr:
    """The value of one digit of the lane number: lanes run over parts x0, x1, ... of ``threadIdx.x``."""
    return cast(HwIndex("thread", f"x{digit}"), I32)


def axis_levels(layout: Layout, rows: bool) -> list[tuple[str, int, Digit, int]]:
    """The digits that move along one dimension, smallest step first: (lane | slot, number, digit, step)."""
    found = [("lane", i, d) for i, d in enumerate(layout.lane)] + [("slot", i, d) for i, d in enumerate(layout.slot)]
    steps = [(kind, i, d, d.row if rows else d.col) for kind, i, d in found]
    return sorted((x for x in steps if x[3]), key=lambda x: x[3])


def lower_mma(s: Reduce, scope: Scope, st: State) -> Body:
    """The accumulators, the loop over k with its fragments, and nothing after it."""
    f = FRAGMENTS[s.strategy]
    acc = _accumulator(s, f)
    rows, cols = (_side(s, f, st, rows=r) for r in (True, False))
    a, b = _operands(s, acc, f, rows, cols, st)
    here = frozenset(j.var for j in scope.jams)
    dims = scope.ordered(here)
    st.variation.seed(acc.sym, here)
    st.depth[acc.sym] = len(scope.jams)
    front = st.expand(Decl(acc.sym, None, loc=s.loc, comments=s.comments), dims)
    front += nest(dims, (), st.rewrite((Assign(acc.sym, acc.init, loc=s.loc),)))
    step = fresh(s.var.name, I32)
    lo, hi = st.expr(s.lo), st.expr(s.hi)
    k = add(lo, mul(Var(step), i32(f.k)))
    exact = st.decide.divisible(Binary("-", hi, lo), i32(f.k))
    body: list[Stmt] = []
    sources: list[Expr] = []
    for name, x in (("a", a), ("b", b)):
        outside = _bounds(s, x, {rows.loop.base, cols.loop.base}, scope, None if exact else hi)
        code, source = _fragment(name, f, x, (s.var, k), outside, st)
        body += code
        sources.append(source)
    array, at = st.storage[acc.sym]
    places = tuple(Load(array, tuple(_slot_index(v, slot, f, rows, cols) for v in at)) for slot in range(f.c.slots))
    repeats = tuple(j for j, _ in (*rows.outer, *cols.outer))
    body += nest(repeats, (), (Mma(s.strategy, places, sources[0], sources[1], loc=s.loc),))
    trips = simplify(Binary("/", add(Binary("-", hi, lo), i32(f.k - 1)), i32(f.k)))
    unroll = 0 if st.decide.value(trips) is not None else None
    loop = For(step, i32(0), lt(Var(step), trips), add(Var(step), i32(1)), tuple(body), unroll, loc=s.loc)
    return (*front, loop)


# ------------------------------------------------------------------------------------------------------- what it needs


def _refuse(s: Stmt, why: str, hint: str = "distribute both loops by tensorize") -> LoweringError:
    return LoweringError("E-LOWER-MMA", why, s.loc, hint=hint)


def _accumulator(s: Reduce, f: Fragment) -> Acc:
    if len(s.accs) != 1 or s.accs[0].op != "+" or s.accs[0].sym.type != f.accumulator:
        raise _refuse(s, f"{f.name} sums into one {f.accumulator} value")
    p = plan(s, lambda e: None)
    if p.jams or p.hw:
        raise _refuse(s, f"'{s.var.name}' runs inside the instruction: it takes no level but seq")
    return s.accs[0]


def _side(s: Reduce, f: Fragment, st: State, rows: bool) -> Side:
    """The enclosing loop whose levels begin as the accumulator's rows (columns) do."""
    want = axis_levels(f.c, rows)
    for var, loop in st.loops.items():
        slots: dict[int, Jam] = {}
        hw, jams = list(loop.plan.hw), list(loop.plan.jams)
        for kind, i, digit, step in want:
            if kind == "lane":
                hit = next((h for h in hw if h.axis == f"x{i}" and h.level == "thread"), None)
                if hit is None or not _is(hit.n, digit.size, st) or not _is(hit.stride, step, st):
                    break
                hw.remove(hit)
            else:
                found = next((x for x in jams if _is(x[0].extent, digit.size, st) and _is(x[1], step, st)), None)
                if found is None:
                    break
                slots[i] = found[0]
                jams.remove(found)
        else:
            if var.type != I32 or s.var.type != I32:
                raise _refuse(s, f"'{var.name}' and '{s.var.name}' must be i32")
            if loop.plan.seqs:
                raise _refuse(s, f"'{var.name}' has a seq level: fragments must be known when it is unrolled")
            origin = loop.lo
            for h in hw:
                origin = add(origin, h.expr(I32))
            for j, stride in jams:
                origin = add(origin, mul(Var(j.var), cast(stride, I32)))
            return Side(var, loop, slots, tuple(jams), origin)
    what = "rows" if rows else "columns"
    raise _refuse(s, f"no loop around is distributed as the {what} of {f.name} are")


def _is(e: Expr | None, value: int, st: State) -> bool:
    return e is not None and st.decide.value(e) == value


def _operands(s: Reduce, acc: Acc, f: Fragment, rows: Side, cols: Side, st: State) -> tuple[Operand, Operand]:
    """The two loads of ``f32(a) * f32(b)``, the one that moves with the rows first."""
    env: dict[Sym, Expr] = {}
    for d in s.body:
        if not isinstance(d, Decl) or d.init is None:
            raise _refuse(s, "the reduction does more than multiply two elements")
        env[d.sym] = substitute_expr(d.init, env)
    value = st.resolve(substitute_expr(acc.value, env))
    factors = (value.a, value.b) if isinstance(value, Binary) and value.op == "*" else ()
    loads = [x.x for x in factors if isinstance(x, Cast) and isinstance(x.x, Load) and x.x.type == f.operand]
    if len(loads) != 2:
        raise _refuse(s, f"what is summed is not a product of two {f.operand} elements in {f.accumulator}")
    loads = [Load(x.buffer, tuple(st.resolve(i) for i in x.index), cache=x.cache) for x in loads]
    if _mentions(loads[1], rows.var):
        loads.reverse()
    for load, own, other in ((loads[0], rows, cols), (loads[1], cols, rows)):
        if is_private(load.buffer):
            raise _refuse(s, f"'{load.buffer.name}' is private to a thread: operands come from memory")
        if not _mentions(load, own.var) or _mentions(load, other.var):
            raise _refuse(s, f"'{load.buffer.name}' is not indexed by one of the two loops and '{s.var.name}'")
        if st.variation.of(load) - st.variation.of(Var(own.var)):
            raise _refuse(s, f"the index of '{load.buffer.name}' varies with a loop that is no side of the product")
    return Operand(loads[0], f.a, rows.var, s.var, rows), Operand(loads[1], f.b, s.var, cols.var, cols)


def _mentions(load: Load, var: Sym) -> bool:
    return any(var in used(i) for i in load.index)


# ------------------------------------------------------------------------------------------------------------ operands


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


@dataclass(frozen=True)
class Bounds:
    """When an element of an operand exists: limits of its own index and of k, and conditions of loops further out."""

    side: Expr | None
    k: Expr | None
    others: tuple[Guard, ...]

    @property
    def always(self) -> bool:
        return self.side is None and self.k is None and not self.others


def _bounds(s: Reduce, x: Operand, sides: set[Sym], scope: Scope, k: Expr | None) -> Bounds:
    others = tuple(g for g in scope.guards if not used(g.cond) & sides)
    if any(g.jams for g in others):
        raise _refuse(s, "a guard around the product depends on a loop that is no side of it")
    return Bounds(None if x.side.loop.covered else x.side.loop.hi, k, others)


def _fragment(name: str, f: Fragment, x: Operand, k: tuple[Sym, Expr], bounds: Bounds, st: State) -> tuple[Body, Expr]:
    """(statements that fill the registers of one operand, the operand of one ``mma``)."""
    from .matrices import matrix_loads

    found = matrix_loads(name, f, x, k, st) if bounds.always else None
    if found is not None:
        return found
    registers = fresh(name, Array(f.operand, (*(j.extent for j, _ in x.side.outer), i32(x.layout.slots))))
    at = tuple(Var(j.var) for j, _ in x.side.outer)
    inner = [
        Store(registers, (*at, i32(slot)), _element(f, x, k, bounds, st, slot), loc=None)
        for slot in range(x.layout.slots)
    ]
    code = (Alloc(registers, align=16), *nest(tuple(j for j, _ in x.side.outer), (), tuple(inner)))
    return code, Load(registers, (*at, i32(0)), width=x.layout.slots)


def _element(f: Fragment, x: Operand, k: tuple[Sym, Expr], bounds: Bounds, st: State, slot: int) -> Expr:
    """The element that this lane keeps in ``slot``, zero where it does not exist."""
    row, col = (i32(v) for v in x.layout.element(0, slot))
    index = {x.row: add(_lane_offset(x.layout, rows=True), row), x.col: add(_lane_offset(x.layout, rows=False), col)}
    values = {x.side.var: add(x.side.origin, index[x.side.var]), k[0]: add(k[1], index[k[0]])}
    element = at_indices(x.load, values, st)
    cond: Expr | None = None
    for g in bounds.others:
        cond = both(cond, st.expr(g.cond))
    if bounds.side is not None:
        cond = both(cond, lt(values[x.side.var], bounds.side))
    if bounds.k is not None:
        cond = both(cond, lt(values[k[0]], bounds.k))
    return element if cond is None else Select(cond, element, Const(0.0, f.operand))


def _lane_offset(layout: Layout, rows: bool) -> Expr:
    out: Expr = i32(0)
    for i, d in enumerate(layout.lane):
        step = d.row if rows else d.col
        if step:
            out = add(out, mul(part(i), i32(step)))
    return out


def at_indices(load: Load, values: dict[Sym, Expr], st: State) -> Load:
    """``load`` with loop variables replaced by ``values`` (already in lowered terms) and the rest lowered."""
    held = {v: fresh(v.name, v.type) for v in values}
    index = [st.expr(substitute_expr(i, {v: Var(h) for v, h in held.items()})) for i in load.index]
    back = {h: _typed(values[v], v) for v, h in held.items()}
    return Load(load.buffer, tuple(simplify(substitute_expr(i, back)) for i in index), cache=load.cache)


def _typed(e: Expr, v: Sym) -> Expr:
    assert isinstance(v.type, Scalar)
    return cast(e, v.type)
