"""What a launch must do, whatever program does it: the bytes that its source touches, and its operations.

The source (raised or not) is gone through once for all iterations (:mod:`.iteration_states`). What is sure to happen is
counted: a branch that depends on floats, a loop that ends when the data say so, and iterations beyond this module's
limits count nothing, and then ``Work.whole`` is false. So a count may be too small and is never too large: no time is
below the bound that follows.

An element counts as read if its contents before the launch are read: not if the kernel writes it first, and not at all
if the workload says that the argument is an output. It counts as written if it is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    Break,
    Cast,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Return,
    Scan,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
)
from ktc.ir.types import BOOL, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import assigned, walk

from .conditions import Undecided
from .element_sets import Runs, covered_bytes, runs
from .integer_values import Contents, Values
from .iteration_states import (
    UNKNOWN,
    Axis,
    Expand,
    Ints,
    Number,
    Request,
    Split,
    State,
    combined,
    scaled,
)
from .operations import NONE, Operations, accumulation, kind_of, own_operations

MOST_POINTS = 1 << 20
"""Points that enumerated loops may make."""

MOST_STATES = 64
"""States that conditions may cut a body into."""

MOST_ROUNDS = 24
"""How often the walk begins again because a loop has to be enumerated or split."""


@dataclass(frozen=True)
class Work:
    """Bytes read and written, at least, in whole ``granule``s of memory; operations; whether all was counted."""

    bytes_in: int
    bytes_out: int
    operations: Operations = NONE
    whole: bool = True

    @property
    def bytes(self) -> int:
        return self.bytes_in + self.bytes_out


def compulsory_work(
    kernel: Kernel,
    scalars: Mapping[str, int | float],
    contents: Contents = lambda name: None,
    outputs: frozenset[str] = frozenset(),
    granule: int = 1,
) -> Work:
    """The work of one launch of ``kernel``.

    Args:
        scalars: values of the scalar parameters by name.
        contents: the workload's contents of a buffer, asked for where it holds indices.
        outputs: names of buffers whose contents before the launch mean nothing.
        granule: bytes that the device's memory moves at once.
    """
    integers = {k: int(v) for k, v in scalars.items() if not isinstance(v, float)}
    plan: dict[Axis, Request] = {}
    for round_ in range(MOST_ROUNDS + 1):
        walk_ = _Walk(kernel, integers, contents, plan, final=round_ == MOST_ROUNDS)
        try:
            walk_.run()
        except _Refine as e:
            plan[e.request.axis] = e.request
            continue
        return walk_.work(outputs, granule)
    raise AssertionError("the last round asks for nothing")


class _Refine(Exception):
    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


@dataclass(frozen=True)
class _Access:
    """One access of a buffer in one state. ``place``: when, in the order of the text; ``loops``: the serial loops."""

    runs: Runs
    index: Expr
    place: int
    loops: tuple[Sym, ...]


@dataclass
class _Touched:
    """The accesses of one buffer, and the bytes of an element."""

    element: int
    reads: list[_Access] = field(default_factory=list)
    writes: list[_Access] = field(default_factory=list)


class _Walk:
    """One pass over a kernel, under a plan that says which loops are enumerated or split."""

    def __init__(
        self, kernel: Kernel, scalars: Mapping[str, int], contents: Contents, plan: Mapping[Axis, Request], final: bool
    ) -> None:
        self.kernel, self.plan, self.final = kernel, plan, final
        env = kernel.environment(scalars)
        written = frozenset(s.buffer for s in walk(kernel.body) if isinstance(s, Store | Atomic))
        self.values = Values(env, contents, written)
        self.env = env
        self.touched: dict[Sym, _Touched] = {}
        self.operations, self.whole = NONE, True
        self.places = {id(s): i for i, s in enumerate(walk(kernel.body))}
        self.place = 0
        self.loops: tuple[Sym, ...] = ()
        self.narrow: dict[Sym, str] = {}

    def run(self) -> None:
        state = State()
        if not self.kernel.is_parallel:
            launched = self._launched(state)
            if launched is None:
                self.whole = False
                return
            state = launched
        self.body(self.kernel.body, [state])

    def _launched(self, state: State) -> State | None:
        """The threads of the launch as axes, blocks first."""
        launch = self.kernel.launch
        if launch is None:
            return None
        for level, dims, size in (("block", launch.grid, "grid_dim"), ("thread", launch.block, "block_dim")):
            for axis, e in zip("xyz", dims, strict=True):
                n = evaluate(e, self.env)
                if n is None:
                    return None
                state, value = self.enter(state, Axis(f"{level}.{axis}"), int(n))
                state = state.having({(level, axis): value, (size, axis): Number(int(n))})
        return state

    def work(self, outputs: frozenset[str], granule: int) -> Work:
        """The figures, once the walk is over."""
        read = written = 0
        for sym, t in self.touched.items():
            out, whole = covered_bytes((w.runs for w in t.writes), t.element, granule)
            self.whole &= whole
            written += out
            if sym.name not in outputs:
                read += self._read(t, granule)
        return Work(read, written, self.operations, self.whole)

    def _read(self, t: _Touched, granule: int) -> int:
        """Bytes of ``t`` that are read before the kernel itself writes them.

        An access in a serial loop reads what an earlier iteration wrote, unless every write of that loop goes to the
        very element that the iteration reads first.
        """
        fresh = [a for a in t.reads if not any(_may_come_first(w, a) for w in t.writes)]
        later = [a for a in t.reads if any(_may_come_first(w, a) for w in t.writes)]
        covered, whole = covered_bytes((a.runs for a in fresh), t.element, granule)
        self.whole &= whole
        if not later:
            return covered
        before = [w for w in t.writes if any(_may_come_first(w, a) for a in later)]
        every = [a.runs for a in (*fresh, *later, *before)]
        together, _ = covered_bytes(every, t.element, granule)
        apart, _ = covered_bytes([a.runs for a in (*fresh, *before)], t.element, granule)
        return covered + max(0, together - apart)

    # -------------------------------------------------------------------------------------------------------- loops

    def enter(self, state: State, axis: Axis, count: Ints) -> tuple[State, Number]:
        """``state`` inside a loop of ``count`` rounds, and the round's number, as the plan says."""
        planned = self.plan.get(axis)
        if isinstance(planned, Split):
            rounds = Number(count).constant
            if rounds is None or rounds < planned.by:
                return state.spanned(axis, count), Number(0, {axis: 1})
            self.whole &= rounds % planned.by == 0
            digit = (str(axis.loop), axis.part)
            state, high = self.enter(state, Axis(axis.loop, axis.part + "/"), rounds // planned.by)
            state, low = self.enter(state.having({digit: high}), Axis(axis.loop, axis.part + "%"), planned.by)
            return state, combined(scaled(state.numbers[digit], planned.by), low)
        if planned is not None:
            state, value, whole = state.enumerated(0, count, MOST_POINTS)
            self.whole &= whole
            return state, Number(value)
        return state.spanned(axis, count), Number(0, {axis: 1})

    def refine(self, wants: frozenset[Request]) -> None:
        """Begin again under a plan in which one of ``wants`` is granted, unless none can be: then something that is
        not known is left out."""
        open_ = [w for w in wants if w.axis not in self.plan]
        if open_ and not self.final:
            raise _Refine(min(open_, key=lambda w: (isinstance(w, Expand), w.axis.part, str(w.axis.loop))))
        self.whole = False

    def cut(self, state: State, condition: Expr) -> tuple[list[State], list[State]] | None:
        """The states in which a condition holds and fails; None where that is not known."""
        try:
            found = self.values.condition(condition, state)
        except Undecided as e:
            self.refine(e.wants)
            found = None
        if found is None:
            self.whole = False
        return found

    def number(self, e: Expr, state: State) -> Number:
        """A number that something hangs on: more is enumerated where that makes it known."""
        found = self.values.number(e, state)
        if not found.known:
            self.refine(found.wants)
        return found

    # --------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body, states: list[State]) -> list[State]:
        """Go through ``body`` in each of ``states``; the states that reach its end."""
        for s in body:
            handler = _STATEMENTS.get(type(s), _other)
            place, after = self.places[id(s)], []
            for state in states:
                self.place = place
                after += handler(self, s, state)
            states = after
            if len(states) > MOST_STATES:
                self.whole = False
                states = sorted(states, key=State.iterations)[-MOST_STATES:]
        return states

    def forget(self, state: State, syms: set[Sym]) -> State:
        """``state`` after something that is not followed has assigned ``syms``."""
        return state.having(dict.fromkeys(syms, UNKNOWN)) if syms else state

    def unsure(self, state: State, *skipped: Body) -> list[State]:
        """What is left of ``state`` after bodies that may or may not run: nothing if they may end the thread's work."""
        self.whole = False
        if any(isinstance(s, Return | Break | Continue) for b in skipped for s in walk(b)):
            return []
        return [self.forget(state, set().union(*(assigned(b) for b in skipped)))]

    def count(self, operations: Operations, state: State) -> None:
        if operations is not NONE:
            self.operations = self.operations + operations * state.iterations()

    def touch(self, kind: str, buffer: Sym, index: Expr, width: int, state: State) -> None:
        """Note an access of ``width`` elements at ``index``."""
        if not isinstance(buffer.type, Ptr):
            return
        t = buffer.type.elem
        lanes = t.n if isinstance(t, Vec) and isinstance(t.n, int) else 1
        found = self.number(index, state)
        if found.base is None:
            self.whole = False
            return
        start, dims = found.base, []
        for axis, (lo, hi) in state.ranges.items():
            c = found.terms.get(axis, 0)
            start, dims = start + c * lo, [*dims, (c, hi - lo)]
        note = _Access(runs(start, width, dims, state.points), index, self.place, self.loops)
        kept = self.touched.setdefault(buffer, _Touched(scalar_of(t).bytes * lanes))
        (kept.reads if kind == "read" else kept.writes).append(note)

    def visit(self, e: Expr, state: State) -> None:
        """Count what evaluating ``e`` does, lazy operands only where they are sure to be evaluated."""
        if isinstance(e, Select):
            self.visit(e.cond, state)
            self._either(e.cond, state, e.a, e.b)
            return
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            self.visit(e.a, state)
            self._either(e.a, state, *((e.b, None) if e.op == "&&" else (None, e.b)))
            return
        for x in _operands(e):
            self.visit(x, state)
        if isinstance(e, Load):
            width = e.width if isinstance(e.width, int) else int(evaluate(e.width, self.env) or 1)
            self.touch("read", e.buffer, e.index[0], width, state)
        self.count(own_operations(e, self._narrow), state)

    def _either(self, cond: Expr, state: State, a: Expr | None, b: Expr | None) -> None:
        if not any(x is not None and _costs(x) for x in (a, b)):
            return
        found = self.cut(state, cond)
        for x, there in zip((a, b), found or (), strict=False):
            for s in there if x is not None else ():
                self.visit(x, s)  # type: ignore[arg-type]

    def _narrow(self, sym: Sym) -> str:
        return self.narrow.get(sym, "")

    def define(self, sym: Sym, value: Expr | None, state: State) -> State:
        """``state`` after ``sym = value``."""
        t = sym.type
        if value is None:
            return state.having({sym: UNKNOWN})
        self.visit(value, state)
        if isinstance(t, Scalar) and t.is_float:
            self.narrow[sym] = kind_of(value, self._narrow)
            return state
        number = self.values.number(value, state) if isinstance(t, Scalar) and (t.is_int or t == BOOL) else UNKNOWN
        return state.having({sym: number})


def _may_come_first(write: _Access, read: _Access) -> bool:
    """Whether ``write`` may have changed what ``read`` sees."""
    if write.place < read.place:
        return True
    shared = any(loop in read.loops for loop in write.loops)
    return shared and write.index != read.index


def _operands(e: Expr) -> Iterator[Expr]:
    for f in dataclasses.fields(e):
        x = getattr(e, f.name)
        if isinstance(x, Expr):
            yield x
        elif isinstance(x, tuple):
            yield from (y for y in x if isinstance(y, Expr))


def _costs(e: Expr) -> bool:
    """Whether evaluating ``e`` could count at all."""
    return (not isinstance(e, Var) and (isinstance(e, Load) or bool(own_operations(e, lambda s: "").total))) or any(
        map(_costs, _operands(e))
    )


# ------------------------------------------------------------------------------------------------ by kind of statement


def _decl(w: _Walk, s: Decl, state: State) -> list[State]:
    return [w.define(s.sym, s.init, state)]


def _assign(w: _Walk, s: Assign, state: State) -> list[State]:
    return [w.define(s.sym, s.value, state)]


def _store(w: _Walk, s: Store, state: State) -> list[State]:
    for x in (*s.index, s.value):
        w.visit(x, state)
    w.touch("write", s.buffer, s.index[0], s.width if isinstance(s.width, int) else 1, state)
    return [state]


def _atomic(w: _Walk, s: Atomic, state: State) -> list[State]:
    for x in (*s.index, s.value):
        w.visit(x, state)
    w.touch("read", s.buffer, s.index[0], 1, state)
    w.touch("write", s.buffer, s.index[0], 1, state)
    w.count(accumulation(s.op, s.value, w._narrow), state)
    return [state.having({s.dst: UNKNOWN}) if s.dst is not None else state]


def _async_copy(w: _Walk, s: AsyncCopy, state: State) -> list[State]:
    if s.valid is None:
        w.touch("read", s.src, s.src_index[0], s.width if isinstance(s.width, int) else 1, state)
    else:
        w.whole = False
    return [state]


def _eval(w: _Walk, s: Eval, state: State) -> list[State]:
    w.visit(s.value, state)
    return [state]


def _if(w: _Walk, s: If, state: State) -> list[State]:
    w.visit(s.cond, state)
    found = w.cut(state, s.cond)
    if found is None:
        return w.unsure(state, s.then, s.orelse)
    return [*w.body(s.then, found[0]), *w.body(s.orelse, found[1])]


def _return(w: _Walk, s: Stmt, state: State) -> list[State]:
    return []


def _other(w: _Walk, s: Stmt, state: State) -> list[State]:
    """A statement that is not followed: nothing of it counts, what it assigns is unknown."""
    inside = tuple(bodies(s))
    if inside:
        return w.unsure(state, *inside)
    if not isinstance(s, Alloc):
        changed = assigned((s,))
        return [w.forget(state, changed)]
    return [state]


def _while(w: _Walk, s: While, state: State) -> list[State]:
    if not s.post:
        w.visit(s.cond, w.forget(state, set()))
    return [w.forget(state, assigned(s.body))] if w.unsure(state) else []


def _for(w: _Walk, s: For, state: State) -> list[State]:
    w.visit(s.init, state)
    changed = assigned(s.body)
    after = w.forget(state, changed)
    by = _stride(s, w.values, state)
    if by is None or s.var in changed or any(isinstance(x, Break | Return) for x in _own(s.body)):
        return w.unsure(state, tuple(x for x in s.body if not isinstance(x, Break | Continue))) and [after]
    inside = w.forget(state, changed)
    count = _most_rounds(w, s, by, inside)
    if count is None:
        return [after]
    entered, k = w.enter(inside, Axis(s.var), count)
    # the start may depend on an axis, so it is taken where the round is known
    first = w.number(s.init, entered)
    if not first.known:
        return [after]
    w.visit(s.cond, inside.having({s.var: w.values.number(s.init, inside)}))
    entered = entered.having({s.var: combined(first, scaled(k, by))})
    found = w.cut(entered, s.cond)
    for there in found[0] if found is not None else ():
        w.visit(s.cond, there.having({s.var: combined(there.numbers[s.var], Number(by))}))
    if found is not None:
        _serially(w, s.var, lambda: w.body(s.body, found[0]))
    return [after]


def _serially(w: _Walk, var: Sym, run: Callable[[], Any]) -> None:
    outer, w.loops = w.loops, (*w.loops, var)
    run()
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
    step = s.step
    while isinstance(step, Cast):
        step = step.x
    if not isinstance(step, Binary) or step.op not in ("+", "-"):
        return None
    a = step.a
    while isinstance(a, Cast):
        a = a.x
    by = values.number(step.b, state).constant
    return None if a != Var(s.var) or not by else by if step.op == "+" else -by


def _most_rounds(w: _Walk, s: For, by: int, state: State) -> Ints | None:
    """An upper bound of the rounds: from the least start to the greatest limit."""
    cond = s.cond
    if not isinstance(cond, Binary) or cond.op not in _MIRRORED:
        w.unsure(state)
        return None
    op, a, b = cond.op, cond.a, cond.b
    if _plain(b) == Var(s.var):
        op, a, b = _MIRRORED[op], b, a
    if _plain(a) != Var(s.var) or (op in (">", ">=")) != (by < 0):
        w.unsure(state)
        return None
    first, limit = w.number(s.init, state), w.number(b, state)
    if not (first.known and limit.known):
        return None
    (first_lo, first_hi), (limit_lo, limit_hi) = state.limits(first), state.limits(limit)
    length = limit_hi - first_lo if by > 0 else first_hi - limit_lo
    length = length + (op in ("<=", ">="))
    rounds = -(-length // abs(by))
    return max(0, rounds) if isinstance(rounds, int) else np.maximum(0, rounds)


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _plain(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.x
    return e


def _ranged(w: _Walk, s: Par | Reduce | Scan, state: State) -> list[State]:
    """``state`` inside a parallel loop."""
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


def _par(w: _Walk, s: Par, state: State) -> list[State]:
    for x in (s.lo, s.hi):
        w.visit(x, state)
    changed = assigned(s.body)
    w.body(s.body, _ranged(w, s, w.forget(state, changed)))
    return [w.forget(state, changed)]


def _reduce(w: _Walk, s: Reduce, state: State) -> list[State]:
    for a in s.accs:
        w.visit(a.init, state)
    changed = assigned(s.body)
    for end in w.body(s.body, _ranged(w, s, w.forget(state, changed))):
        for a in s.accs:
            w.visit(a.value, end)
            w.count(accumulation(a.op, a.value, w._narrow), end)
    return [w.forget(state, changed | {a.sym for a in s.accs})]


def _scan(w: _Walk, s: Scan, state: State) -> list[State]:
    w.visit(s.acc.init, state)
    changed = assigned(s.body) | assigned(s.then) | {s.acc.sym}
    for end in w.body(s.body, _ranged(w, s, w.forget(state, changed))):
        w.visit(s.acc.value, end)
        w.count(accumulation(s.acc.op, s.acc.value, w._narrow), end)
        w.body(s.then, [end])
    return [w.forget(state, changed)]


_STATEMENTS: dict[type, Callable[..., list[State]]] = {
    Decl: _decl,
    Assign: _assign,
    Store: _store,
    Atomic: _atomic,
    AsyncCopy: _async_copy,
    Eval: _eval,
    If: _if,
    Return: _return,
    Continue: _return,
    For: _for,
    While: _while,
    Par: _par,
    Reduce: _reduce,
    Scan: _scan,
}
