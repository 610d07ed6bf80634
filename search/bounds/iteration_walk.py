"""One pass over a kernel for all of its iterations at once: which elements it accesses, and what it computes.

The walk goes through the statements in every state (:mod:`.iteration_states`) that conditions cut the iterations into.
A number that it needs and does not know raises :class:`Refine`: the caller begins again under a plan in which a loop is
enumerated or split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Atomic,
    Binary,
    Body,
    Break,
    Continue,
    Expr,
    HwIndex,
    Load,
    Return,
    Select,
    Store,
    Sym,
    Var,
)
from ktc.ir.support.time_limits import checkpoint
from ktc.ir.types import BOOL, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import assigned, walk, walk_expr

from .conditions import Undecided
from .element_sets import runs
from .float_operands import real
from .iteration_states import (
    UNKNOWN,
    Axis,
    Cut,
    Expand,
    Ints,
    Number,
    Request,
    Round,
    Split,
    State,
    combined,
    scaled,
)
from .launch_accesses import Access, Accesses
from .loop_integers import Contents, Values
from .operations import NONE, Operations, kind_of, own_operations
from .walked_statements import STATEMENTS, other

MOST_POINTS = 1 << 19
"""Points that enumerated loops may make; a loop that would make more stays symbolic."""

MOST_STATES = 64
"""States that conditions may cut a body into."""

Loop = Sym | str
_NO_LOOPS: frozenset[Loop] = frozenset()


class Refine(Exception):
    """The walk begins again under a plan in which ``request`` is granted."""

    def __init__(self, request: Expand | Split) -> None:
        super().__init__()
        self.request = request


class Walk:
    """One pass over a kernel, under a plan that says which loops are enumerated or split."""

    def __init__(
        self,
        kernel: Kernel,
        scalars: Mapping[str, int],
        contents: Contents,
        plan: Mapping[Axis, Expand | Split],
        final: bool,
    ) -> None:
        self.kernel, self.plan, self.final = kernel, plan, final
        env = kernel.environment(scalars)
        written = frozenset(s.buffer for s in walk(kernel.body) if isinstance(s, Store | Atomic))
        self.values = Values(env, contents, written)
        self.env = env
        self.touched: dict[Sym, Accesses] = {}
        self.operations, self.whole = NONE, True
        self.places = {id(s): i for i, s in enumerate(walk(kernel.body))}
        self.place = 0
        self.loops: tuple[Sym, ...] = ()
        self.narrow: dict[Sym, str] = {}
        self.depends: dict[Sym, frozenset[Loop]] = {}
        self.rounds: list[Round | None] = []  # those around, None for loops that are gone through all at once

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
        if planned is not None and state.points_with(count) <= MOST_POINTS:
            state, value = state.enumerated(0, count)
            return state, Number(value)
        return state.spanned(axis, count), Number(0, {axis: 1})

    def refine(self, wants: frozenset[Request], state: State) -> None:
        """Begin again under a plan in which one of ``wants`` is granted, unless none can be, or together they make too
        many points of ``state``: then something that is not known is left out."""
        open_ = [w for w in wants if isinstance(w, Expand | Split) and w.axis not in self.plan]
        axes = {w.axis for w in wants if isinstance(w, Expand)}
        if open_ and not self.final and state.points_without(axes) <= MOST_POINTS:
            raise Refine(min(open_, key=lambda w: (isinstance(w, Expand), w.axis.part, str(w.axis.loop))))
        self.whole = False

    def cut(self, state: State, condition: Expr) -> tuple[list[State], list[State]] | None:
        """The states in which a condition holds and fails; None where that is not known."""
        try:
            found = self.values.condition(condition, state)
        except Undecided as e:
            self.refine(e.wants, state)
            found = None
        if found is None:
            self.whole = False
        return found

    def number(self, e: Expr, state: State) -> Number:
        """A number that something hangs on: more is enumerated where that makes it known."""
        found = self.values.number(e, state)
        if not found.known:
            self.refine(found.wants, state)
        return found

    # --------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body, states: list[State]) -> list[State]:
        """Go through ``body`` in each of ``states``; the states that reach its end."""
        for s in body:
            checkpoint()
            handler = STATEMENTS.get(type(s), other)
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
        """What is left of ``state`` after bodies that may or may not run: nothing if they may end the thread's work;
        behind the loop that is gone through in turn, if they may end that."""
        self.whole = False
        left = [s for b in skipped for s in walk(b) if isinstance(s, Return | Break | Continue)]
        if left:
            around = self.rounds[-1] if self.rounds else None
            if around is not None and not any(isinstance(s, Return) for s in left):
                around.breaks.append(self.forget(state, set(around.changed)))
            return []
        return [self.forget(state, set().union(*(assigned(b) for b in skipped)))]

    def count(self, operations: Operations, e: Expr, state: State, also: frozenset[Loop] = frozenset()) -> None:
        """Count the operations of ``e``, once for all iterations of the loops that it does not depend on."""
        if operations is not NONE:
            self.operations = self.operations + operations * state.iterations(self.dependences(e) | also)

    def dependences(self, e: Expr) -> frozenset[Loop]:
        """The loops whose iteration ``e`` depends on, contents of memory being the same in all of them."""
        found: set[Loop] = set()
        for x in walk_expr(e):
            if isinstance(x, Var):
                found |= self.depends.get(x.sym, _NO_LOOPS)
            elif isinstance(x, HwIndex):
                found.add(f"{x.level}.{x.axis}")
        return frozenset(found)

    def touch(self, kind: str, buffer: Sym, index: Expr, width: int, state: State) -> None:
        """Note an access of ``width`` elements at ``index``."""
        if not isinstance(buffer.type, Ptr):
            return
        for there in self.parts(index, state):
            self._touch(kind, buffer, index, width, there)

    def parts(self, e: Expr, state: State) -> list[State]:
        """``state``, cut as a minimum, a maximum or a choice in ``e`` wants it."""
        wants = [w for w in self.values.number(e, state).wants if isinstance(w, Cut)]
        if not wants:
            return [state]
        found = self.cut(state, wants[0].condition)
        if found is None or not (found[0] and found[1]):
            return [state]
        return [part for there in (*found[0], *found[1]) for part in self.parts(e, there)]

    def _touch(self, kind: str, buffer: Sym, index: Expr, width: int, state: State) -> None:
        t = buffer.type
        assert isinstance(t, Ptr)
        t = t.elem
        lanes = t.n if isinstance(t, Vec) and isinstance(t.n, int) else 1
        found = self.number(index, state)
        if found.base is None:
            self.whole = False
            return
        start: Ints = found.base
        dims: list[tuple[int, Ints]] = []
        for axis, (lo, hi) in state.ranges.items():
            c = found.terms.get(axis, 0)
            start, dims = start + c * lo, [*dims, (c, hi - lo)]
        note = Access(runs(start, width, dims, state.points), index, self.place, self.loops)
        kept = self.touched.setdefault(buffer, Accesses(scalar_of(t).bytes * lanes))
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
        self.count(own_operations(e, self.narrow_kind), e, state)

    def _either(self, cond: Expr, state: State, a: Expr | None, b: Expr | None) -> None:
        if not any(x is not None and _costs(x) for x in (a, b)):
            return
        found = self.cut(state, cond)
        for x, there in zip((a, b), found or (), strict=False):
            for s in there if x is not None else ():
                self.visit(x, s)  # type: ignore[arg-type]

    def narrow_kind(self, sym: Sym) -> str:
        return self.narrow.get(sym, "")

    def define(self, sym: Sym, value: Expr | None, state: State) -> list[State]:
        """``state`` after ``sym = value``."""
        t = sym.type
        if value is None:
            return [state.having({sym: UNKNOWN})]
        self.visit(value, state)
        self.depends[sym] = self.dependences(value) | self.depends.get(sym, _NO_LOOPS)
        if isinstance(t, Scalar) and t.is_float:
            self.narrow[sym] = kind_of(value, self.narrow_kind)
            return [state.having({sym: real(self.values, value, state)})]
        if not isinstance(t, Scalar) or not (t.is_int or t == BOOL):
            return [state.having({sym: UNKNOWN})]
        self.narrow[sym] = kind_of(value, self.narrow_kind)
        return [s.having({sym: self.values.number(value, s)}) for s in self.parts(value, state)]


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
