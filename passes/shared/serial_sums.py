"""Serial loops that add something up, as reductions.

before                              after
    var s: f32 = 0.0                    reduce(+) s: f32 = 0.0 over i in 0..n
    for i in 0..n                         yield x[i]
      s += x[i]

A sum that is changed elsewhere too, or does not start right before the loop, keeps its variable and takes the result.
So do extremes that are kept with where they are (``serial_extremes``).
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import places
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import cast, evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Assign,
    Body,
    Decl,
    Expr,
    For,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.walk import assigned, declared, used, used_in, walk, with_bodies
from ktc.passes.core.refusals import Refusal

from .accumulations import accumulations
from .loop_bounds import upper_bound
from .serial_extremes import as_reduction, earlier, extreme_update, searches
from .serial_parts import own_parts


def converted(kernel: Kernel, loop: For) -> Kernel:
    """``kernel`` with the serial ``loop`` as one reduction, with its accumulators' declarations where they may move."""
    locs = places(loop)
    own = {id(s) for s in walk((loop,))}
    changed = {s.sym for s in walk(kernel.body) if isinstance(s, Assign) and id(s) not in own}
    starts = {s.sym: s.init for s in walk(kernel.body) if isinstance(s, Decl) and s.sym not in changed}
    direct = tuple(_extreme(s, starts) for s in loop.body)
    plain, found = searches(dataclasses.replace(loop, body=own_parts(direct)))
    split = accumulations(plain)
    hi = counted_to(loop)
    if split is None or not (split[1] or found) or hi is None:
        raise Refusal("E-SPLIT-NONE", f"'{loop.var.name}' is not a plain loop that adds something up", locs)
    inner, sums = split
    kept_in = {s.buffer for s in walk(inner) if isinstance(s, Store)} - set(declared(inner))
    if kept_in or any(has_effect(s) for s in inner) or (used(hi) | used(loop.init)) & assigned(loop.body):
        why = f"'{loop.var.name}' does more than add up: its iterations write memory or move its end"
        raise Refusal("E-SPLIT-CARRIED", why, locs)

    def on_list(body: Body) -> Body:
        if not any(s is loop for s in body):
            return tuple(with_bodies(s, on_list) for s in body)
        at = next(k for k, s in enumerate(body) if s is loop)
        accs: list[Acc] = []
        results: list[Stmt] = []
        dropped: set[Sym] = set()
        for a in sums:
            start = None if a.sym in changed else _start(body[:at], a.sym)
            if start is not None:
                dropped.add(a.sym)
                accs.append(Acc(a.sym, a.op, start, a.value))
            else:
                whole = fresh(a.sym.name, a.sym.type)
                accs.append(Acc(whole, a.op, Var(a.sym), a.value))
                results.append(Assign(a.sym, Var(whole), loc=loop.loc))
        first = earlier(loop, body[:at], accs, found)
        for search in found:
            own, taken = as_reduction(loop, search)
            accs += own
            results.append(taken)
        lo = cast(first or loop.init, loop.var.type)  # type: ignore[arg-type]
        reduce = Reduce(tuple(accs), loop.var, lo, hi, (), inner, loc=loop.loc, comments=loop.comments, tags=loop.tags)
        kept = [s for s in body[:at] if not (isinstance(s, Decl) and s.sym in dropped)]
        return (*kept, reduce, *results, *body[at + 1 :])

    return kernel.with_(body=on_list(kernel.body))


def counted_to(loop: For) -> Expr | None:
    """The end of a loop that counts up by one; None for any other."""
    step = loop_step(loop)
    return upper_bound(loop.cond, loop.var) if step is not None and same_value(step, i32(1)) else None


def counted_range(loop: For | Par | Reduce) -> tuple[Expr, Expr] | None:
    """Where a loop begins and ends that goes up by one through all in between; None for any other."""
    if not isinstance(loop, For):
        return loop.lo, loop.hi
    end = counted_to(loop)
    return None if end is None or loop.var in assigned(loop.body) else (loop.init, end)


def known_count(loop: For) -> int | None:
    """How often a loop that counts up by one goes round, where its ends are numbers; None for any other."""
    end = counted_to(loop)
    first, last = evaluate(loop.init, {}), None if end is None else evaluate(end, {})
    return None if first is None or last is None else max(0, int(last - first))


def _start(before: Body, sym: Sym) -> Expr | None:
    """What ``sym`` is declared as, where nothing between that and the end of ``before`` has to do with it."""
    at = next((k for k in range(len(before) - 1, -1, -1) if getattr(before[k], "sym", None) == sym), None)
    decl = None if at is None else before[at]
    if at is None or not isinstance(decl, Decl) or decl.init is None:
        return None
    between = before[at + 1 :]
    return None if sym in used_in(between) or used(decl.init) & assigned(between) else decl.init


def _extreme(s: Stmt, starts: dict[Sym, Expr | None]) -> Stmt:
    """``if (e > m) m = e`` as ``m = max(m, e)``, for an ``m`` that starts as a number and so never is a NaN."""
    update = extreme_update(s)
    start = None if update is None else starts.get(update.sym)
    return s if update is None or start is None or used(start) else update


__all__ = ["converted", "counted_range", "counted_to", "known_count"]
