"""Combining per-thread partial results across the threads of a reduction.

shuffle: within warps by butterfly exchanges, across warps by one shared slot per warp, which every thread then reads.
shared:  a tree in shared memory; needs no warp operations, so it is the portable choice.
Either way every thread of the reduction ends with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import beats, combine, identity
from ktc.ir.fold import add, both, cast, fold_node
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Level,
    Load,
    Produce,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_private
from ktc.ir.types import I32, U32, Array
from ktc.ir.walk import all_exprs, walk, walk_expr
from ktc.passes.lowering.distribution.levels import Jam
from ktc.passes.lowering.distribution.scope import Guard, Scope, nest
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State
from ktc.passes.shared.mma import is_mma

Group = tuple[Acc, ...]
"""Accumulators that are combined as one, see ``ir.analysis.accumulators``."""

FULL_MASK = Const(0xFFFFFFFF, U32, "0xffffffffu")


def guards_of_start(a: Acc, scope: Scope) -> tuple[Guard, ...]:
    """The guards under which the initial value of ``a`` may be computed: none unless it reads memory."""
    reads = any(isinstance(x, Load) and not is_private(x.buffer) for x in walk_expr(a.init))
    return scope.guards if reads else ()


def merge(group: Group, others: Sequence[Expr]) -> Stmt:
    """The accumulators of ``group`` combined with ``others``."""
    return merged(group, tuple(Var(a.sym) for a in group), others, lambda a, v: Assign(a.sym, v))


def merged(group: Group, mine: Sequence[Expr], others: Sequence[Expr], put: Callable[[Acc, Expr], Stmt]) -> Stmt:
    """``mine`` combined with ``others``, left where ``put`` says; a key takes its place along."""
    if len(group) == 1:
        return put(group[0], combine(group[0].op, mine[0], others[0]))
    key = group[0]
    return If(beats(key, (mine[0], mine[1]), (others[0], others[1])), tuple(put(a, v) for a, v in zip(group, others)))


def across_threads(
    s: Reduce, group: Group, axis: str, n: Expr, st: State, repeats: bool, dims: tuple[Jam, ...] = ()
) -> tuple[Body, Body]:
    """Statements that make the variables of ``group``, of every thread along ``axis`` (``n``), the combined values.

    Returns (allocations, statements). ``dims``: the jams that they have values for; all of them go together, so that
    they share barriers. ``repeats``: the code runs again with the same slots, so readers must be done first.

    Raises:
        LoweringError: E-LOWER-REDUCE-SHAPE when the thread count does not suit the strategy.
    """
    if _is_runtime(n, st):
        raise LoweringError(
            "E-LOWER-REDUCE-SHAPE", "a reduction across threads needs a thread count known at compile time", s.loc,
            hint="distribute the reduction over a constant or a knob number of threads",
        )  # fmt: skip
    size = st.decide.value(n)
    strategy = s.strategy
    if strategy in ("auto", "atomic", "ticket"):  # the last two say how blocks combine
        strategy = "shuffle" if axis == "x" and (size is None or size % WARP == 0 or _pow2(size)) else "shared"
    if size == 1:
        return (), ()
    if strategy == "shuffle":
        if axis != "x" or (size is not None and size % WARP and not (size < WARP and _pow2(size))):
            raise LoweringError(
                "E-LOWER-REDUCE-SHAPE",
                f"a shuffle reduction needs threadIdx.x in whole warps or a power of two below {WARP}, got {size}",
                s.loc,
                hint="use reduce-strategy{strategy=shared}, or a power-of-two thread count",
            )
        return _shuffle(group, n, size, st, repeats, dims)
    return _shared(group, axis, n, size, st, repeats, dims)


def within_warps(body: Body, st: State) -> bool:
    """Whether threads of one warp alone must meet in ``body``.

    That is so for sums by shuffles over at most a warp along x, in a launch whose rows of threads are whole warps.
    """
    x = st.decide.value(st.extents["x"]) if "x" in st.extents else None
    if x is None or x % WARP:
        return False
    for s in walk(body):
        if isinstance(s, Barrier | Produce) or is_mma(s):
            return False
        if isinstance(s, Reduce) and not all(_within_warp(s, lv, st) for lv in s.dist if lv.kind not in INSIDE):
            return False
    return not any(isinstance(e, WarpOp) for e in all_exprs(body))


INSIDE = ("vec", "unroll", "seq")
"""Levels of a distribution that stay inside a thread."""


def _within_warp(s: Reduce, lv: Level, st: State) -> bool:
    n = st.decide.value(lv.n) if lv.n is not None else None
    whole = n is not None and n <= WARP and _pow2(n)
    return lv.kind == "thread" and lv.axis == "x" and whole and s.strategy != "shared"


def _each(dims: tuple[Jam, ...], st: State, *body: Stmt) -> Body:
    """``body`` for every value that the thread holds."""
    return nest(dims, (), st.rewrite(body))


def _pow2(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _tid(axis: str) -> Expr:
    return cast(HwIndex("thread", axis), I32)


def _other_axes(axis: str, st: State) -> list[tuple[str, Expr]]:
    """The other thread axes of the launch, each of which holds reductions of its own."""
    return [(a, n) for a, n in sorted(st.extents.items()) if a != axis and st.decide.value(n) != 1]


@dataclass(frozen=True)
class Slots:
    """A shared array with a place for each part of a reduction."""

    array: Sym
    place: tuple[Expr, ...]
    axis: int

    def at(self, i: Expr) -> tuple[Expr, ...]:
        """The place of part ``i`` of the thread's own reduction."""
        return (*self.place[: self.axis], i, *self.place[self.axis + 1 :])


def _slots(name: str, var: Sym, axis: str, n: Expr, st: State, dims: tuple[Jam, ...]) -> Slots:
    """A shared array of ``n`` values a reduction.

    One reduction for each value that a thread holds, and for each place on the launch's other axes. The axes lie as
    threads are numbered, x innermost, so that the lanes of a warp meet different banks.
    """
    axes = sorted([*_other_axes(axis, st), (axis, n)], reverse=True)
    array = fresh(name, Array(var.type, (*(j.extent for j in dims), *(m for _, m in axes)), "shared"))
    at = (*(Var(j.var) for j in dims), *(_tid(a) for a, _ in axes))
    return Slots(array, at, len(dims) + [a for a, _ in axes].index(axis))


def _shuffle(
    group: Group, n: Expr, size: int | None, st: State, repeats: bool, dims: tuple[Jam, ...]
) -> tuple[Body, Body]:
    lanes = i32(min(size, WARP)) if size is not None else fold_node(Call("min", (n, i32(WARP)), I32))
    offset = fresh("offset", I32)
    half = Binary("/", lanes, i32(2)) if size is None else i32(min(size, WARP) // 2)
    exchanged = [WarpOp("shfl_xor", Var(a.sym), Var(offset), i32(WARP), FULL_MASK) for a in group]
    within = For(
        offset, half, Binary(">", Var(offset), i32(0)), Binary("/", Var(offset), i32(2)),
        merge_named(group, exchanged), unroll=0,
    )  # fmt: skip
    if size is not None and size <= WARP:
        return (), _each(dims, st, within)
    warps = fold_node(Binary("/", n, i32(WARP)))
    slots = [_slots(f"{a.sym.name}_warp", a.sym, "x", warps, st, dims) for a in group]
    lane = fold_node(Binary("%", _tid("x"), i32(WARP)))
    warp = fold_node(Binary("/", _tid("x"), i32(WARP)))
    w = fresh("w", I32)
    reads = [Load(x.array, x.at(Var(w))) for x in slots]
    across: list[Stmt] = [
        If(
            Binary("==", lane, i32(0)),
            _each(dims, st, *(Store(x.array, x.at(warp), Var(a.sym)) for a, x in zip(group, slots))),
        ),
        Barrier(),
        *_each(
            dims, st,
            *(Assign(a.sym, Load(x.array, x.at(i32(0)))) for a, x in zip(group, slots)),
            For(
                w, i32(1), Binary("<", Var(w), warps), Binary("+", Var(w), i32(1)), merge_named(group, reads), unroll=0,
            ),
        ),
    ]  # fmt: skip
    if repeats:
        across.append(Barrier())
    allocs = tuple(Alloc(x.array) for x in slots)
    if size is not None:
        return allocs, (*_each(dims, st, within), *across)
    return allocs, (*_each(dims, st, within), If(Binary(">", n, i32(WARP)), tuple(across)))


def merge_named(group: Group, others: Sequence[Expr]) -> Body:
    """``merge`` with what is evaluated once: all lanes take part in an exchange, whatever comes of it."""
    if len(group) == 1:
        return (merge(group, others),)
    named = [Decl(fresh(f"{a.sym.name}_other", a.sym.type), e, const=True) for a, e in zip(group, others)]
    return (*named, merge(group, [Var(d.sym) for d in named]))


def _shared(
    group: Group, axis: str, n: Expr, size: int | None, st: State, repeats: bool, dims: tuple[Jam, ...]
) -> tuple[Body, Body]:
    slots = {a.sym: _slots(f"{a.sym.name}_shared", a.sym, axis, n, st, dims) for a in group}
    tid = _tid(axis)
    k = fresh("offset", I32)
    power = size is not None and _pow2(size)
    start: Expr = fold_node(Binary("/", n, i32(2))) if power else _ceil_pow2_half(n, size)
    mine = [Load(x.array, x.at(tid)) for x in slots.values()]
    theirs = [Load(x.array, x.at(add(tid, Var(k)))) for x in slots.values()]
    active: Expr = Binary("<", tid, Var(k))
    if not power:
        active = both(active, Binary("<", add(tid, Var(k)), cast(n, I32)))  # type: ignore[assignment]
    put = merged(group, mine, theirs, lambda a, v: Store(slots[a.sym].array, slots[a.sym].at(tid), v))
    step = (If(active, _each(dims, st, put)), Barrier())
    tree = For(k, start, Binary(">", Var(k), i32(0)), Binary("/", Var(k), i32(2)), step, unroll=0 if size else None)
    body: list[Stmt] = [
        *_each(dims, st, *(Store(x.array, x.at(tid), Var(var)) for var, x in slots.items())), Barrier(), tree,
        *_each(dims, st, *(Assign(var, Load(x.array, x.at(i32(0)))) for var, x in slots.items())),
    ]  # fmt: skip
    if repeats:
        body.append(Barrier())
    return tuple(Alloc(x.array) for x in slots.values()), tuple(body)


def _is_runtime(n: Expr, st: State) -> bool:
    from ktc.ir.walk import used

    return bool(used(n)) or (st.decide.value(n) is None and not _has_knob(n))


def _has_knob(n: Expr) -> bool:
    from ktc.ir.walk import knobs_in

    return bool(knobs_in(n))


def _ceil_pow2_half(n: Expr, size: int | None) -> Expr:
    """Half of the smallest power of two >= n; 512 (half the largest block) for an open n: it only adds idle steps."""
    if size is None:
        return i32(512)
    p = 1
    while p < size:
        p *= 2
    return i32(p // 2)


__all__ = ["across_threads", "identity", "merge", "merge_named"]
