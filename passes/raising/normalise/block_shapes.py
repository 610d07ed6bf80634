"""Block shapes that the index arithmetic of a block of one or two dimensions stands for.

``lane = tid % 32, warp = tid / 32`` (or ``& 31``, ``>> 5``) treats a block of 256 as one of 32 x 8: the same threads in
the same order, with ``lane`` and ``warp`` as their indices. One of 32 x 4 of which groups of 16 threads do something
together is one of 16 x 2 x 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith import Interval
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import add, cast, evaluate, i32, is_const, mul
from ktc.ir.kernel import Launch
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Binary, Body, Const, Expr, For, HwIndex, Par, Reduce
from ktc.ir.types import I32, U32
from ktc.ir.walk import all_exprs, keep, map_body, used, walk, walk_expr
from ktc.passes.raising.recognise.statement_kinds import has_warp_op, with_hardware
from ktc.passes.shared.loop_bounds import upper_bound

from .range_digits import resolved

DIGITS = ("/", "%", ">>", "&")

X, Y, Z = (HwIndex("thread", axis) for axis in "xyz")


def shapes(body: Body, launch: Launch) -> Iterator[tuple[Body, Launch]]:
    """The body as it is, then for every width that it divides ``threadIdx.x`` by; where it divides it by none, for the
    groups of threads whose values shuffles bring together."""
    yield body, launch
    threads = evaluate(launch.block[0], {})
    if threads is None or evaluate(launch.block[2], {}) != 1:
        return
    body = opened(body)
    for width in sorted(_widths(body) or _groups(body)):
        if 1 < width < threads and threads % width == 0 and (_in_warps(width) or not any(map(has_warp_op, body))):
            block = (i32(width), i32(int(threads) // width), launch.block[1])
            yield _shaped(body, block), dataclasses.replace(launch, block=block)


def _in_warps(width: int) -> bool:
    """Whether rows of ``width`` threads are whole warps, or equal parts of one."""
    return width % WARP == 0 or WARP % width == 0


def opened(body: Body) -> Body:
    """``body`` with the thread's number written out where digits are taken of it: ``(b * 256 + tid) / 32`` for
    ``g / 32``."""
    named = {s: e for s, e in definitions(body).items() if X in walk_expr(e)}

    def on(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op in DIGITS and is_const(e.b) and not is_const(e.a):
            return dataclasses.replace(e, a=expand(e.a, named))
        return e

    return map_body(body, keep, on) if named else body


def deals_out(body: Body) -> bool:
    """Whether threads share out a serial loop: it starts at a digit of a thread's number, in a block of another shape
    than the source's, or where a thread's number says and goes on in steps, to an end that is everybody's."""
    loops = [s for s in walk(body) if isinstance(s, Par | Reduce) and any(lv.kind == "thread" for lv in s.dist)]
    threads = {s.var for s in loops}
    named = definitions(body)

    def digit(e: Expr) -> bool:
        return isinstance(e, Binary) and e.op in DIGITS and is_const(e.b) and bool(used(e.a) & threads)

    def dealt(s: For) -> bool:
        start, by, hi = expand(s.init, named), loop_step(s), upper_bound(s.cond, s.var)
        if any(map(digit, walk_expr(start))):
            return True
        stays = hi is not None and not used(expand(hi, named)) & threads
        return stays and bool(used(start) & threads) and by is not None and evaluate(by, {}) != 1

    return any(isinstance(s, For) and dealt(s) for s in walk(body))


def _widths(body: Body) -> set[int]:
    out: set[int] = set()
    for e in all_exprs(body):
        if isinstance(e, Binary) and is_const(e.b) and X in walk_expr(e.a):
            n = int(e.b.value)  # type: ignore[attr-defined]
            if e.op in "/%" and n > 1:
                out.add(n)
            elif e.op == ">>" and 0 < n < 11:
                out.add(1 << n)
            elif e.op == "&" and n > 0 and n & (n + 1) == 0:
                out.add(n + 1)
    return out


def _groups(body: Body) -> set[int]:
    """Warps, where values move between lanes, and the groups of lanes that loops over distances between them span:
    ``for (d = 8; d > 0; d /= 2) v += shfl_xor(v, d)`` goes round groups of 16."""
    if not any(map(has_warp_op, body)):
        return set()
    out = {WARP}
    for s in walk(body):
        if isinstance(s, For) and any(map(has_warp_op, s.body)):
            first, end = evaluate(s.init, {}), upper_bound(s.cond, s.var)
            span = 2 * int(first or 0) if end is None else int(evaluate(end, {}) or 0)
            out.add(span)
    return {n for n in out if 1 < n <= WARP and WARP % n == 0}


def _shaped(body: Body, block: tuple[Expr, Expr, Expr]) -> Body:
    """``body`` in a ``block`` whose first two extents are digits of what was its first."""
    flat = add(cast(X, I32), mul(cast(Y, I32), block[0]))
    body = with_hardware(map_body(body, keep, by_division), {X: flat, Y: Z})
    sizes = {axis: evaluate(n, {}) for axis, n in zip((X, Y, Z), block)}
    return resolved(body, {axis: Interval(0, int(n) - 1) for axis, n in sizes.items() if n is not None})


def by_division(e: Expr) -> Expr:
    """``x >> 5`` and ``x & 31`` of the thread index as division and remainder."""
    if isinstance(e, Binary) and e.op in (">>", "&") and is_const(e.b) and X in walk_expr(e.a):
        n = int(e.b.value)  # type: ignore[attr-defined]
        t = e.b.type
        if e.op == ">>" and 0 < n < 11:
            return Binary("/", e.a, Const(1 << n, e.a.type))  # type: ignore[arg-type]
        if e.op == "&" and n > 0 and n & (n + 1) == 0:
            return Binary("%", e.a, Const(n + 1, t))  # type: ignore[arg-type]
    return e


__all__ = ["DIGITS", "U32", "X", "by_division", "deals_out", "shapes"]
