"""Derived barriers: one between two statements iff an element written by one thread is touched by another.

Accesses of one owner (:mod:`.accesses`) are one thread's, and need no barrier between them.
"""

from __future__ import annotations

from collections.abc import Collection

from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.loop_extents import upper_bounds
from ktc.ir.arith.polynomial import polynomial, same_value
from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    Par,
    Reduce,
    Scan,
    Stmt,
    Sym,
    Var,
    While,
    bodies,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_shared
from ktc.ir.walk import assigned, loads_in, used, walk

from .accesses import Access, accesses, asked

SAME_THREADS = ("block", "seq")
"""Levels that leave each iteration to all threads of a block."""


def conflict(before: list[Access], after: list[Access], *, at_once: bool = False) -> bool:
    """Whether some element written on one side may be touched by another thread on the other side.

    ``at_once``: both sides belong to one round of the loops around them, so that equal expressions have equal values
    and buffers of a pipeline can be told apart.
    """
    own = _written_by_one(before), _written_by_one(after)
    for a in before:
        for b in after:
            if a.buffer != b.buffer or not (a.write or b.write):
                continue
            mine = _is_own(b, own[0].get((a.loop, a.buffer), ())) or _is_own(a, own[1].get((b.loop, b.buffer), ()))
            if not a.is_same_threads(b) and not mine and not (at_once and apart(a.slot, b.slot)):
                return True
    return False


def _is_own(access: Access, written: Collection[Access]) -> bool:
    """Whether ``access`` is of what its thread writes in the loop of ``written``, which has an iteration for it."""
    return any(
        w.owner == access.owner and all(own.covers(other) for own, other in zip(w.spreads, access.spreads))
        for w in written
    )


def _written_by_one(found: list[Access]) -> dict[tuple[int, Sym], list[Access]]:
    """What each iteration of a loop over threads writes of a buffer, and so no other: iterations are independent.

    ``a[4 * t], .. a[4 * t + 3]`` written by t, and ``a[4 * t + 1]`` read by t behind it: nobody else wrote that one.
    """
    out: dict[tuple[int, Sym], list[Access]] = {}
    for a in found:
        if a.is_written_by_one:
            out.setdefault((a.loop, a.buffer), []).append(a)
    return out


def apart(a: Expr | None, b: Expr | None) -> bool:
    """Whether two numbers, or ``x % n`` and ``y % n``, differ: ``n`` does not divide ``x - y``, or it is ``n - 1``.

    (``n - 1`` for an open ``n``: one less than a pipeline's stages, of which there are two at least.)
    """
    if is_const(a) and is_const(b):  # type: ignore[arg-type]
        return a != b
    if not (isinstance(a, Binary) and isinstance(b, Binary)) or a.b != b.b:
        return False
    n = polynomial(a.b)
    for x, y in ((a.a, b.a), (b.a, a.a)):
        d = polynomial(Binary("-", x, y))
        if set(d) <= {()} and set(n) == {()}:
            return d.get((), 0) % n[()] != 0
        if d == polynomial(Binary("-", a.b, i32(1))):
            return True
    return False


def siblings_conflict(body: Body, axes: int, asking: Body = ()) -> bool:
    """Whether two statements of ``body``, or of a statement list inside it, need a barrier between them: no two of what
    one thread does by itself. ``asking``: what is read to decide whether ``body`` is run."""
    if not asking and not any(isinstance(s, Par | Reduce) for s in walk(body)):
        return False
    if by_one_thread(body, axes):
        return False
    seen = [a for s in asking for a in accesses(s, axes, body)]
    for s in body:
        here = accesses(s, axes, body)
        if conflict(seen, here, at_once=True):
            return True
        seen += here
    for s in body:
        if isinstance(s, Par | Reduce) and any(lv.kind not in SAME_THREADS for lv in s.dist):
            continue
        if isinstance(s, For | While) and carried_conflict(
            of_a_round(s, axes), axes, s if isinstance(s, For) else None
        ):
            return True
        if any(siblings_conflict(b, axes, asked_by_all(s, axes)) for b in bodies(s)):
            return True
    return False


def by_one_thread(body: Body, axes: int) -> bool:
    """Whether no ``axes`` of threads are left for ``body``, of loops over all of them, and each thread goes through its
    iteration alone, with all loops in it: it waits for nobody. What threads leave in shared memory they leave for
    others, as those of a scan do, whose code has no loop over them."""
    if axes or any(map(is_shared, assigned(body))):
        return False
    inner = (s for s in walk(body) if isinstance(s, Par | Reduce | Scan))
    return all(lv.kind in ("seq", "unroll", "vec") for s in inner for lv in s.dist)


def asked_by_all(s: Stmt, axes: int, *, again: bool = False) -> Body:
    """``asked`` at control that threads of ``axes`` axes go through together; nothing where each goes its own way."""
    reads = asked(s, again=again) if axes else ()
    return reads if reads and any(isinstance(x, Par | Reduce) for x in walk((s,))) else ()


def of_a_round(s: For | While, axes: int) -> Body:
    """The body of ``s`` with what is read after it, to decide whether there is a next round."""
    return (*s.body, *asked_by_all(s, axes, again=True))


def carried_conflict(body: Body, axes: int, loop: For | None = None, *, independent: bool = False) -> bool:
    """Whether a round of a loop over ``body`` may touch what another thread still reads or writes in the last one.

    What is named after the variable of ``loop``, is assigned in a round or read from memory has another value in the
    next one. ``independent``: the rounds are iterations of a parallel loop, which meet in the arrays that each has for
    itself and all have in one place.
    """
    if not any(isinstance(s, Par | Reduce) for s in walk(body)) or (loop is not None and by_one_thread(body, axes)):
        return False
    moved = assigned(body) | ({loop.var} if loop is not None else set())
    for s in walk(body):
        if isinstance(s, Decl) and (s.init is None or used(s.init) & moved or any(True for _ in loads_in(s.init))):
            moved.add(s.sym)
    windows = {s.var for s in walk(body) if loop is not None and isinstance(s, Par) and _tiles(s, loop)}

    def touched(moved: Collection[Sym]) -> list[Access]:
        return [a for s in body for a in accesses(s, axes, moved=moved, windows=windows)]

    if not axes:  # inside the loops over all axes: what the iterations share they do not change
        moved = set()
    last, this = touched(moved), touched(moved)
    if independent:
        own = {s.sym for s in walk(body) if isinstance(s, Alloc)}
        outer = [a for a in touched(()) if a.buffer not in own]
        return conflict([a for a in last if a.buffer in own], this) or conflict(outer, outer)
    return conflict(last, this)


def _tiles(s: Par, loop: For) -> bool:
    """Whether each round of ``loop`` gives ``s`` a range of its own, from its variable on and no longer than its
    step."""
    form = counting(loop)
    if form is None or loop.var in assigned(loop.body) or not same_value(s.lo, Var(loop.var)):
        return False
    return any(same_value(Binary("-", hi, s.lo), form.by) for hi in upper_bounds(s.hi))
