"""Combining per-thread partial results across the threads of a reduction.

shuffle: within warps by butterfly exchanges, across warps by one shared slot per warp, which every thread then reads.
shared:  a tree in shared memory; needs no warp operations, so it is the portable choice.
Either way every thread of the reduction ends with the result.
"""

from __future__ import annotations

from ktc.ir.fold import INT_OPS, add, both, cast, fold_node
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Call,
    Const,
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
from ktc.ir.types import I32, U32, Array, Scalar
from ktc.ir.walk import all_exprs, walk, walk_expr

from .errors import LoweringError
from .levels import Jam, is_mma
from .scope import Guard, Scope, nest
from .state import State

WARP = 32
FULL_MASK = Const(0xFFFFFFFF, U32, "0xffffffffu")


def identity(op: str, t: Scalar) -> Const:
    """The neutral element of ``op``: what an idle thread contributes."""
    if op in ("+", "|", "^"):
        return Const(0.0 if t.is_float else 0, t)
    if op == "*":
        return Const(1.0 if t.is_float else 1, t)
    if t.is_float:
        return Const(float("inf") if op == "min" else float("-inf"), t)
    low, high = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
    return Const({"min": high, "max": low, "&": -1 if t.is_signed else high}[op], t)


def guards_of_start(a: Acc, scope: Scope) -> tuple[Guard, ...]:
    """The guards under which the initial value of ``a`` may be computed: none unless it reads memory."""
    reads = any(isinstance(x, Load) and not is_private(x.buffer) for x in walk_expr(a.init))
    return scope.guards if reads else ()


def combine(op: str, a: Expr, b: Expr) -> Expr:
    """``a op b``; min and max are calls."""
    if op in ("min", "max"):
        return Call(op, (a, b), a.type)
    assert op in INT_OPS
    return Binary(op, a, b)


def across_threads(
    s: Reduce, acc: Acc, var: Sym, axis: str, n: Expr, st: State, repeats: bool, dims: tuple[Jam, ...] = ()
) -> tuple[Body, Body]:
    """Statements that make ``var`` of every thread along ``axis`` (``n`` of them) the combined value.

    Returns (allocations, statements). ``dims``: the jams that ``var`` has values for; all of them go together, so that
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
        return _shuffle(acc, var, n, size, st, repeats, dims)
    return _shared(acc, var, axis, n, size, st, repeats, dims)


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


def _slots(
    name: str, var: Sym, axis: str, n: Expr, st: State, dims: tuple[Jam, ...]
) -> tuple[Sym, tuple[Expr, ...], int]:
    """A shared array of ``n`` values a reduction, the thread's place in it, and which index is that along ``axis``.

    One reduction for each value that a thread holds, and for each place on the launch's other axes. The axes lie as
    threads are numbered, x innermost, so that the lanes of a warp meet different banks.
    """
    axes = sorted([*_other_axes(axis, st), (axis, n)], reverse=True)
    array = fresh(name, Array(var.type, (*(j.extent for j in dims), *(m for _, m in axes)), "shared"))
    at = (*(Var(j.var) for j in dims), *(_tid(a) for a, _ in axes))
    return array, at, len(dims) + [a for a, _ in axes].index(axis)


def _shuffle(
    acc: Acc, var: Sym, n: Expr, size: int | None, st: State, repeats: bool, dims: tuple[Jam, ...]
) -> tuple[Body, Body]:
    lanes = i32(min(size, WARP)) if size is not None else fold_node(Call("min", (n, i32(WARP)), I32))
    offset = fresh("offset", I32)
    exchange = WarpOp("shfl_xor", Var(var), Var(offset), i32(WARP), FULL_MASK)
    half = Binary("/", lanes, i32(2)) if size is None else i32(min(size, WARP) // 2)
    within = For(
        offset, half, Binary(">", Var(offset), i32(0)), Binary("/", Var(offset), i32(2)),
        (Assign(var, combine(acc.op, Var(var), exchange)),), unroll=0,
    )  # fmt: skip
    if size is not None and size <= WARP:
        return (), _each(dims, st, within)
    warps = fold_node(Binary("/", n, i32(WARP)))
    slots, place, k = _slots(f"{var.name}_warp", var, "x", warps, st, dims)
    lane = fold_node(Binary("%", _tid("x"), i32(WARP)))
    warp = fold_node(Binary("/", _tid("x"), i32(WARP)))
    w = fresh("w", I32)

    def at(i: Expr) -> tuple[Expr, ...]:
        return (*place[:k], i, *place[k + 1 :])

    across: list[Stmt] = [
        If(Binary("==", lane, i32(0)), _each(dims, st, Store(slots, at(warp), Var(var)))),
        Barrier(),
        *_each(
            dims, st,
            Assign(var, Load(slots, at(i32(0)))),
            For(
                w, i32(1), Binary("<", Var(w), warps), Binary("+", Var(w), i32(1)),
                (Assign(var, combine(acc.op, Var(var), Load(slots, at(Var(w))))),), unroll=0,
            ),
        ),
    ]  # fmt: skip
    if repeats:
        across.append(Barrier())
    if size is not None:
        return (Alloc(slots),), (*_each(dims, st, within), *across)
    return (Alloc(slots),), (*_each(dims, st, within), If(Binary(">", n, i32(WARP)), tuple(across)))


def _shared(
    acc: Acc, var: Sym, axis: str, n: Expr, size: int | None, st: State, repeats: bool, dims: tuple[Jam, ...]
) -> tuple[Body, Body]:
    slots, place, d = _slots(f"{var.name}_shared", var, axis, n, st, dims)
    tid = place[d]

    def at(i: Expr) -> tuple[Expr, ...]:
        return (*place[:d], i, *place[d + 1 :])

    k = fresh("offset", I32)
    power = size is not None and _pow2(size)
    start: Expr = fold_node(Binary("/", n, i32(2))) if power else _ceil_pow2_half(n, size)
    mine = Load(slots, place)
    theirs = Load(slots, at(add(tid, Var(k))))
    active: Expr = Binary("<", tid, Var(k))
    if not power:
        active = both(active, Binary("<", add(tid, Var(k)), cast(n, I32)))  # type: ignore[assignment]
    step = (If(active, _each(dims, st, Store(slots, place, combine(acc.op, mine, theirs)))), Barrier())
    tree = For(k, start, Binary(">", Var(k), i32(0)), Binary("/", Var(k), i32(2)), step, unroll=0 if size else None)
    body: list[Stmt] = [
        *_each(dims, st, Store(slots, place, Var(var))), Barrier(), tree,
        *_each(dims, st, Assign(var, Load(slots, at(i32(0))))),
    ]  # fmt: skip
    if repeats:
        body.append(Barrier())
    return (Alloc(slots),), tuple(body)


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


__all__ = ["across_threads", "combine", "identity"]
