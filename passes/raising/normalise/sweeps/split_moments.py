"""A sweep that keeps a running mean becomes plain sums, once the threads' parts are reductions.

before                                                        after
    for i: c, m, q = these and x[i] (``running_moments``)         for i: c += 1
    reduce(+) count of c, total of c * m                          reduce(+) count of c
    let mean = total / count                                      let share = 1 / count
    reduce(+) all of q + (m - mean)^2 * c                         for i: s += x[i] * share
                                                                  reduce(+) mean of s
                                                                  for i: z += (x[i] - mean)^2
                                                                  reduce(+) all of z

A thread's c m is the sum of its elements, and q + (m - mean)^2 c that of their squared distances from any ``mean``.
What is gained: no quotient an element, each of which has to wait for the one before; how many there are is known
without counting. Elements are divided before they are added up: their sum may be too large for its type, their mean
is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.effects import has_effect
from ktc.ir.fold import cast
from ktc.ir.nodes import (
    Acc,
    Assign,
    Binary,
    Body,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Reduce,
    Stmt,
    Sym,
    Var,
    While,
    fresh,
)
from ktc.ir.types import I32, scalar_of
from ktc.ir.walk import assigned, declared, refresh, used, used_in, with_bodies
from ktc.passes.shared.running.running_moments import State, Update, update_of
from ktc.passes.shared.running.two_sweeps import from_zero


def moments_apart(body: Body, around: Body = ()) -> Body:
    """``body``, in thread form, with every such sweep as sums. ``around``: what has run before it."""
    out: list[Stmt] = []
    rest = list(body)
    while rest:
        s = rest.pop(0)
        split = _split(around, tuple(out), (s, *rest)) if isinstance(s, Reduce) else None
        if split is not None:
            before, after = split
            out, rest = [*before, after[0]], [*after[1:]]
        else:
            out.append(_inside(s, (*around, *out)))
    return tuple(out)


def _inside(s: Stmt, before: Body) -> Stmt:
    if isinstance(s, If):
        then, orelse = moments_apart(s.then, before), moments_apart(s.orelse, before)
        return s if (then, orelse) == (s.then, s.orelse) else dataclasses.replace(s, then=then, orelse=orelse)
    return with_bodies(s, moments_apart) if isinstance(s, For | While) else s


def _split(around: Body, before: Body, rest: Body) -> tuple[Body, Body] | None:
    """``before`` and ``rest``, which begins with a reduction of a running mean's parts, with plain sums."""
    found = _parts(rest)
    if found is None:
        return None
    state, mean, second = found
    last = max((k for k, s in enumerate(before) if assigned((s,)) & state.syms), default=-1)
    first = next((k for k, s in enumerate(before[: last + 1]) if _keeps(s, state)), -1)
    region, earlier = before[first : last + 1], (*around, *before[:first])
    if first < 0 or any(has_effect(s) for s in before[first:]) or not from_zero(earlier, state.syms):
        return None
    counted = _swept(region, state, lambda u: (u.counting,))
    if counted is None or used_in(before[last + 1 :]) & state.syms:
        return None
    sweeps = Sweeps(earlier, region, state)
    share, total = fresh("share", state.mean.type), fresh(f"{state.mean.stem}_sum", state.mean.type)
    head, sums, means = _means(rest[0], state, mean, total, share)
    shares = sweeps.again(total, lambda x: Binary("*", x, Var(share)))
    known = rest.index(next(s for s in rest if isinstance(s, Decl) and s.sym == mean))
    if shares is None or any(has_effect(s) for s in rest[1:known]) or used_in(region) & assigned(rest[1:known]):
        return None
    tail = rest[known + 1 :]
    if second is not None:
        squares = fresh(f"{state.mean.stem}_squares", state.mean.type)
        apart = sweeps.again(squares, lambda x: Binary("*", Binary("-", x, Var(mean)), Binary("-", x, Var(mean))))
        between, reduction = rest[known + 1 : second], rest[second]
        if apart is None or used_in(region) & assigned(between) or any(has_effect(s) for s in between):
            return None
        tail = (*between, *apart, _with_value(reduction, state.squares_about(mean), Var(squares)), *rest[second + 1 :])
    after = (head, *rest[1:known], *shares, *sums, means, *tail)
    begun = (*before[:first], *counted, *before[last + 1 :])
    return None if used_in((*counted, *after)) & (state.syms - {state.count}) else (begun, after)


def _keeps(s: Stmt, state: State) -> bool:
    """Whether ``s`` is more than where ``state`` begins."""
    return bool(assigned((s,)) & state.syms) and not isinstance(s, Decl | Assign)


def _means(head: Stmt, state: State, mean: Sym, total: Sym, share: Sym) -> tuple[Reduce, Body, Decl]:
    """The reduction of the counts alone; that of the threads' shares of the mean, each element as large a part of it as
    it is, so that sums are no larger than the elements; and the mean."""
    assert isinstance(head, Reduce)
    weighted = state.weighted
    (old,) = (a for a in head.accs if a.value == weighted)
    count = next(a for a in head.accs if a.value == Var(state.count) and a.op == "+")
    one = Const(1.0, scalar_of(share.type))
    named = Decl(share, Binary("/", one, cast(Var(count.sym), scalar_of(share.type))), const=True)
    whole = dataclasses.replace(head, accs=(dataclasses.replace(old, value=Var(total)),), var=fresh("t", I32))
    counts = dataclasses.replace(head, accs=tuple(a for a in head.accs if a is not old))
    return counts, (named, whole), Decl(mean, Var(old.sym), const=True)


def _parts(rest: Body) -> tuple[State, Sym, int | None] | None:
    """The state whose mean ``rest`` begins to reduce, the variable of the whole mean, and where in ``rest`` the sum of
    squares is reduced, if it is."""
    head = rest[0]
    assert isinstance(head, Reduce)
    for a in head.accs:
        pair = _product(a.value) if a.op == "+" and not head.body else None
        if pair is None:
            continue
        mean = next((s.sym for s in rest if isinstance(s, Decl) and _is_quotient(s.init, a.sym)), None)
        if mean is None:
            continue
        for k, s in enumerate(rest[1:], 1):
            for b in s.accs if isinstance(s, Reduce) and not s.body else ():
                second = b.value.a if isinstance(b.value, Binary) and b.op == "+" else None
                state = State(*pair, second.sym) if isinstance(second, Var) else None
                if state is not None and b.value == state.squares_about(mean):
                    return state, mean, k
        return State(*pair), mean, None
    return None


def _product(e: Expr) -> tuple[Sym, Sym] | None:
    """(c, m) of ``c * m``."""
    if not (isinstance(e, Binary) and e.op == "*" and isinstance(e.b, Var)):
        return None
    count = e.a.x if isinstance(e.a, Cast) else e.a
    return (count.sym, e.b.sym) if isinstance(count, Var) else None


def _is_quotient(e: Expr | None, of: Sym) -> bool:
    return isinstance(e, Binary) and e.op == "/" and e.a == Var(of)


def _with_value(s: Stmt, old: Expr, new: Expr) -> Stmt:
    assert isinstance(s, Reduce)

    def on(a: Acc) -> Acc:
        return dataclasses.replace(a, value=new) if a.value == old else a

    return dataclasses.replace(s, accs=tuple(map(on, s.accs)))


@dataclass(frozen=True)
class Sweeps:
    """Sweeps over what ``region`` goes over, behind ``earlier``."""

    earlier: Body
    region: Body
    state: State

    def again(self, total: Sym, term: Callable[[Expr], Expr]) -> Body | None:
        """``region`` once more, for the sum of ``term`` of its values, with variables of its own."""
        t = scalar_of(total.type)

        def adding(u: Update) -> Body:
            return (Assign(total, Binary("+", Var(total), term(cast(u.value, t)))),)

        swept = _swept(self.region, self.state, adding)
        moving = assigned(self.region) - self.state.syms - set(declared(self.region))
        starts = [next((s for s in reversed(self.earlier) if isinstance(s, Decl) and s.sym == v), None) for v in moving]
        known = [s for s in starts if s is not None and s.init is not None and not used(s.init) & assigned(self.region)]
        inside = assigned(tuple(s for s in self.earlier if not isinstance(s, Decl)))
        if swept is None or used_in(swept) & self.state.syms or len(known) != len(moving) or moving & inside:
            return None
        return (Decl(total, identity("+", scalar_of(total.type))), *refresh((*known, *swept)))


def _swept(body: Body, state: State, instead: Callable[[Update], Body]) -> Body | None:
    """``body`` with ``instead`` of each update of ``state``; None if it does anything else with it."""
    if any(isinstance(s, Decl | Assign) and s.sym in state.syms for s in body):
        update = update_of(body, state)
        return None if update is None else (*update.before, *instead(update), *update.after)
    failed = False

    def inner(part: Body) -> Body:
        nonlocal failed
        swept = _swept(part, state, instead)
        failed |= swept is None
        return part if swept is None else swept

    done = tuple(with_bodies(s, inner) if assigned((s,)) & state.syms else s for s in body)
    return None if failed else done


__all__ = ["moments_apart"]
