"""The loops of one distribution: none where its levels cover the range, counted ones, one that strides to the end."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.fold import add, cast, lt, mul, simplify
from ktc.ir.nodes import Body, Decl, Expr, For, Sym, Var, fresh, i32
from ktc.ir.types import Scalar
from ktc.passes.lowering.lowering_state import State

from .levels import Plan
from .scope import Guard


def covers(p: Plan, extent: Expr, st: State) -> bool:
    """Whether the levels visit exactly the range, so that no tail guard is needed."""
    if p.covered is None:
        return st.decide.divisible(extent, p.unit)
    return st.decide.equal(p.covered, extent)


def bounded(p: Plan, base: Sym, start: Expr, body: Body, t: Scalar) -> Body:
    """No open-ended loop: a base index, inside the loops of the counted ``seq`` levels."""
    loops = []
    for q in p.seqs:
        v = fresh("s", t)
        start = add(start, mul(Var(v), cast(q.stride, t)))
        loops.append((v, q.n))
    code: Body = (Decl(base, start, const=True), *body)
    for v, n in reversed(loops):
        assert n is not None
        code = (For(v, cast(i32(0), t), lt(Var(v), cast(n, t)), add(Var(v), cast(i32(1), t)), code),)
    return code


def strided(
    p: Plan, base: Sym, lo: Expr, hi: Expr, guard: Guard, together: bool, lowered: Callable[[bool], Body], back: Body,
    t: Scalar,
) -> Body:  # fmt: skip
    """The open-ended ``seq`` level: ``for (base = first; base < hi; base += stride)``.

    When all threads must stay together, the trip count may not depend on the thread: the thread's part of the index
    moves inside, and a guard takes over.
    """
    assert p.rest is not None
    stride = cast(simplify(p.rest.stride), t)
    counted = [q for q in p.seqs if q.n is not None]
    inside = together and bool(p.thread_axes)
    if not inside and not counted:
        code = lowered(bool(guard.jams)) + back
        start = add(cast(lo, t), p.offset(t))
        return (For(base, start, lt(Var(base), hi), add(Var(base), stride), code),)
    outer = fresh(f"{base.name}_0", t)
    start = add(Var(outer), p.offset(t, "thread") if inside else cast(i32(0), t))
    plain = Plan(p.jams, tuple(counted), (), None, p.unit)
    code = bounded(plain, base, start, lowered(True) + back, t)  # a round of the counted loops meets the next one too
    first = add(cast(lo, t), p.offset(t, "block") if inside else p.offset(t))
    return (For(outer, first, lt(Var(outer), hi), add(Var(outer), stride), code),)
