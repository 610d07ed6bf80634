"""What each kind of statement does to the iterations that reach it, for :class:`.iteration_walk.Walk`.

A handler takes the walk, the statement and one state, notes accesses and operations, and gives the states that go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.nodes import (
    MIRRORED,
    ORDERINGS,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Eval,
    For,
    HwIndex,
    If,
    Launched,
    Par,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    asks_for_nan,
    bodies,
)
from ktc.ir.walk import all_exprs, assigned, used, walk

from .iteration_states import (
    UNKNOWN,
    Axis,
    Ints,
    Number,
    Round,
    State,
    combined,
    scaled,
)
from .loop_integers import Values
from .operations import accumulation

if TYPE_CHECKING:
    from .iteration_walk import Walk


def _decl(w: Walk, s: Decl, state: State) -> list[State]:
    return w.define(s.sym, s.init, state)


def _assign(w: Walk, s: Assign, state: State) -> list[State]:
    return w.define(s.sym, s.value, state)


def _store(w: Walk, s: Store, state: State) -> list[State]:
    for x in (*s.index, s.value):
        w.visit(x, state)
    w.touch("write", s.buffer, s.index[0], s.width if isinstance(s.width, int) else 1, state)
    return [state]


def _atomic(w: Walk, s: Atomic, state: State) -> list[State]:
    for x in (*s.index, s.value):
        w.visit(x, state)
    w.touch("read", s.buffer, s.index[0], 1, state)
    w.touch("write", s.buffer, s.index[0], 1, state)
    w.count(accumulation(s.op, s.value, w.narrow_kind), s.index[0], state, w.dependences(s.value))
    return [state.having({s.dst: UNKNOWN}) if s.dst is not None else state]


def _async_copy(w: Walk, s: AsyncCopy, state: State) -> list[State]:
    if s.valid is None:
        w.touch("read", s.src, s.src_index[0], s.width if isinstance(s.width, int) else 1, state)
    else:
        w.whole = False
    return [state]


def _eval(w: Walk, s: Eval, state: State) -> list[State]:
    w.visit(s.value, state)
    return [state]


def _if(w: Walk, s: If, state: State) -> list[State]:
    w.visit(s.cond, state)
    if asks_for_nan(s.cond):
        return w.body(s.orelse, [state])  # sums that go wrong are summed again
    found = w.cut(state, s.cond)
    if found is None:
        return w.unsure(state, s.then, s.orelse)
    return [*w.body(s.then, found[0]), *w.body(s.orelse, found[1])]


def _return(w: Walk, s: Stmt, state: State) -> list[State]:
    return []


def _continue(w: Walk, s: Continue, state: State) -> list[State]:
    if w.rounds and (around := w.rounds[-1]) is not None:
        around.continues.append(state)
    return []


def _break(w: Walk, s: Break, state: State) -> list[State]:
    if w.rounds and (around := w.rounds[-1]) is not None:
        around.breaks.append(state)
    return []


def other(w: Walk, s: Stmt, state: State) -> list[State]:
    """A statement that is not followed: nothing of it counts, what it assigns is unknown."""
    inside = tuple(bodies(s))
    if inside:
        return w.unsure(state, *inside)
    if not isinstance(s, Alloc):
        changed = assigned((s,))
        return [w.forget(state, changed)]
    return [state]


def _while(w: Walk, s: While, state: State) -> list[State]:
    if not s.post:
        w.visit(s.cond, state)
    w.whole = False
    if any(isinstance(x, Return) for x in walk(s.body)):
        return []
    return [w.forget(state, assigned(s.body))]


MOST_IN_TURN, DEEPEST_IN_TURN = 16, 2
"""Rounds of a loop that are gone through one after the other, and such loops within one another."""


def _for(w: Walk, s: For, state: State) -> list[State]:
    w.visit(s.init, state)
    changed = assigned(s.body)
    after = w.forget(state, changed)
    by = _stride(s, w.values, state)
    if by is not None and _hangs_together(s, w, state, by):
        return _in_turn(w, s, state, by)
    if by is None or s.var in changed or any(isinstance(x, Break | Return) for x in _own(s.body)):
        w.whole = False  # how often it goes round is not known, but that it ends is, unless it ends the thread's work
        return [] if any(isinstance(x, Return) for x in walk(s.body)) else [after]
    inside = w.forget(state, changed)
    count = _most_rounds(w, s, by, inside)
    if count is None:
        return [after]
    moved = {v: n for v, n in _moved(s, w.values, inside).items() if state.numbers.get(v, UNKNOWN).known}
    inside = inside.having({v: state.numbers[v] for v in moved})
    if _is_exact(s, w.values, inside) and isinstance(count, int):
        after = after.having({v: combined(state.numbers[v], Number(n * count)) for v, n in moved.items()})
    entered, k = w.enter(inside, Axis(s.var), count)
    entered = entered.having({v: combined(entered.numbers[v], scaled(k, n)) for v, n in moved.items()})
    # the start may depend on an axis, so it is taken where the round is known
    first = w.number(s.init, entered)
    if not first.known:
        return [after]
    w.visit(s.cond, inside.having({s.var: w.values.number(s.init, inside)}))
    entered = entered.having({s.var: combined(first, scaled(k, by))})
    w.depends[s.var] = w.dependences(s.init) | {s.var}
    for sym in changed:
        w.depends[sym] = w.depends.get(sym, frozenset()) | {s.var}
    found = w.cut(entered, s.cond)
    for there in found[0] if found is not None else ():
        w.visit(s.cond, there.having({s.var: combined(there.numbers[s.var], Number(by))}))
    if found is not None:
        _serially(w, s.var, lambda: w.body(s.body, found[0]))
    return [after]


def _hangs_together(s: For, w: Walk, state: State, by: int) -> bool:
    """Whether the rounds of ``s`` are few, and each hangs on what integers the one before left, as where an index is
    taken apart by the extents of dimensions, or may be the last."""
    changed = assigned(s.body)
    if s.var in changed or sum(r is not None for r in w.rounds) >= DEEPEST_IN_TURN or not _is_exact(s, w.values, state):
        return False
    count = _most_rounds(w, s, by, w.forget(state, changed))
    if not isinstance(count, int) or count > MOST_IN_TURN:
        return False
    moved = _moved(s, w.values, w.forget(state, changed))
    carried = [v for v in changed if v not in moved and state.numbers.get(v, UNKNOWN).known]
    return bool(carried) or any(isinstance(x, Break) for x in _own(s.body))


def _in_turn(w: Walk, s: For, state: State, by: int) -> list[State]:
    """The states in which a loop of few rounds is left."""
    first = w.values.number(s.init, state)
    changed = frozenset(assigned(s.body))
    going = [state.having({s.var: first})]
    after: list[State] = []
    w.depends[s.var] = frozenset()
    for _ in range(MOST_IN_TURN + 1):
        inside: list[State] = []
        for there in going:
            w.visit(s.cond, there)
            found = w.cut(there, s.cond)
            if found is None:
                return [w.forget(x, set(changed)) for x in (*after, *going)]
            inside, after = [*inside, *found[0]], [*after, *found[1]]
        if not inside:
            break
        w.rounds.append(left := Round(changed))
        ended = w.body(s.body, inside)
        w.rounds.pop()
        after += left.breaks
        going = [x.having({s.var: combined(x.numbers[s.var], Number(by))}) for x in (*ended, *left.continues)]
    return after


def _serially(w: Walk, var: Sym, run: Callable[[], Any]) -> None:
    outer, w.loops = w.loops, (*w.loops, var)
    w.rounds.append(None)
    run()
    w.rounds.pop()
    w.loops = outer


def _own(body: Body) -> Iterator[Stmt]:
    """Statements of ``body``, those of inner loops left out: what a ``break`` there leaves is not this loop."""
    for s in body:
        yield s
        if isinstance(s, If):
            yield from _own(s.then)
            yield from _own(s.orelse)
        elif any(isinstance(x, Return) for b in bodies(s) for x in walk(b)):
            yield Return()


def _stride(s: For, values: Values, state: State) -> int | None:
    """What a round adds to the loop's variable: a constant."""
    step = without_casts(s.step)
    if not isinstance(step, Binary) or step.op not in ("+", "-"):
        return None
    by = values.number(step.b, state).constant
    return None if without_casts(step.a) != Var(s.var) or not by else by if step.op == "+" else -by


def _moved(s: For, values: Values, state: State) -> dict[Sym, int]:
    """What each round of ``s`` adds to other variables, constants: places that move along with the loop."""
    changed = assigned(s.body)
    if any(isinstance(x, Continue) for x in walk(s.body)):
        return {}
    found: dict[Sym, int] = {}
    for v in changed:
        mine = [x for x in walk(s.body) if v in assigned((x,)) and not any(True for _ in bodies(x))]
        set_ = mine[0] if len(mine) == 1 and any(mine[0] is x for x in s.body) else None
        if not isinstance(set_, Assign) or not isinstance(set_.value, Binary) or set_.value.op not in ("+", "-"):
            continue
        to, by = set_.value.a, set_.value.b
        if set_.value.op == "+" and by == Var(v):
            to, by = by, to
        n = values.number(by, state).constant
        if to == Var(v) and n is not None and not used(by) & {*changed, s.var}:
            found[v] = n if set_.value.op == "+" else -n
    return found


def _is_exact(s: For, values: Values, state: State) -> bool:
    """Whether the rounds of ``s`` are as many in all iterations around it, from one number to another."""
    sides = (s.init, s.cond.a, s.cond.b) if isinstance(s.cond, Binary) else ()
    return all(without_casts(e) == Var(s.var) or values.number(e, state).constant is not None for e in sides)


def _most_rounds(w: Walk, s: For, by: int, state: State) -> Ints | None:
    """An upper bound of the rounds: from the least start to the greatest limit."""
    cond = s.cond
    if not isinstance(cond, Binary) or cond.op not in ORDERINGS:
        w.whole = False
        return None
    op, a, b = cond.op, cond.a, cond.b
    if without_casts(b) == Var(s.var):
        op, a, b = MIRRORED[op], b, a
    if without_casts(a) != Var(s.var) or (op in (">", ">=")) != (by < 0):
        w.whole = False
        return None
    first, limit = w.number(s.init, state), w.number(b, state)
    if not (first.known and limit.known):
        return None
    (first_lo, first_hi), (limit_lo, limit_hi) = state.limits(first), state.limits(limit)
    length = limit_hi - first_lo if by > 0 else first_hi - limit_lo
    length = length + (op in ("<=", ">="))
    rounds = -(-length // abs(by))
    return max(0, rounds) if isinstance(rounds, int) else np.maximum(0, rounds)


def _ranged(w: Walk, s: Par | Reduce | Scan, state: State) -> list[State]:
    """``state`` inside a parallel loop."""
    w.depends[s.var] = w.dependences(s.lo) | {s.var}
    lo, hi = w.number(s.lo, state), w.number(s.hi, state)
    length = combined(hi, lo, -1)
    if not length.known:
        return []
    _, most = state.limits(length)
    entered, k = w.enter(state, Axis(s.var), most if isinstance(most, int) else np.maximum(0, most))
    entered = entered.having({s.var: combined(w.number(s.lo, entered), k)})
    if not length.terms:
        return [entered]
    found = w.cut(entered, Binary("<", Var(s.var), s.hi))
    return found[0] if found is not None else []


def _par(w: Walk, s: Par, state: State) -> list[State]:
    for x in (s.lo, s.hi):
        w.visit(x, state)
    changed = assigned(s.body)
    w.body(s.body, _ranged(w, s, w.forget(state, changed)))
    return [w.forget(state, changed)]


def _reduce(w: Walk, s: Reduce, state: State) -> list[State]:
    for a in s.accs:
        w.visit(a.init, state)
    changed = assigned(s.body)
    for end in w.body(s.body, _ranged(w, s, w.forget(state, changed))):
        for a in s.accs:
            w.visit(a.value, end)
            w.count(accumulation(a.op, a.value, w.narrow_kind), a.value, end, frozenset({s.var}))
    for a in s.accs:
        w.depends[a.sym] = (w.dependences(a.value) | w.dependences(a.init)) - {s.var}
    return [w.forget(state, changed | {a.sym for a in s.accs})]


def _scan(w: Walk, s: Scan, state: State) -> list[State]:
    w.visit(s.acc.init, state)
    changed = assigned(s.body) | assigned(s.then) | {s.acc.sym}
    for end in w.body(s.body, _ranged(w, s, w.forget(state, changed))):
        w.visit(s.acc.value, end)
        w.count(accumulation(s.acc.op, s.acc.value, w.narrow_kind), s.acc.value, end, frozenset({s.var}))
        w.body(s.then, [end])
    return [w.forget(state, changed)]


def _launched(w: Walk, s: Launched, state: State) -> list[State]:
    """A launch of a sequence: what a program of threads does is not counted."""
    threads = any(isinstance(e, HwIndex) for e in all_exprs(s.body))
    return w.unsure(state, s.body) if threads else w.body(s.body, [state])


STATEMENTS: dict[type, Callable[..., list[State]]] = {
    Decl: _decl,
    Assign: _assign,
    Store: _store,
    Atomic: _atomic,
    AsyncCopy: _async_copy,
    Eval: _eval,
    If: _if,
    Return: _return,
    Break: _break,
    Continue: _continue,
    For: _for,
    While: _while,
    Par: _par,
    Reduce: _reduce,
    Scan: _scan,
    Launched: _launched,
}
