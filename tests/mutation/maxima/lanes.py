"""What some lanes alone agree on, where nobody asks the others: a sum that is lane 0's alone.

Between lanes values go by shuffles. ``v += shfl_down(v, o)`` leaves the sum of a warp in its lane 0, as ``shfl_xor``
does, and something else in the other lanes. That is as good wherever no other lane's ``v`` is ever used: where what is
computed of it reaches no condition, no address, no exchange between lanes, and no memory that others see, but in a
place to which only threads come that agree (z3).

On symbols (:mod:`tests.mutation.symbolic.symbolic`) a run of both versions says which threads of a block end with the
same values. From there on, along the rest of the kernel and around its loops, what may differ in the other threads is
followed: a variable does once it is given a value that may, and no longer where it is given one that does not, or all
of an array is (:mod:`tests.mutation.zeros.renewed`). Conditions are the same in all threads, so both versions run the
same statements; memory is the same for all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Scalar, Vec
from ktc.ir.walk import all_exprs, assigned, stmt_exprs, used, used_in, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.sites import branches
from tests.mutation.symbolic.effort import Effort
from tests.mutation.symbolic.lockstep import Run
from tests.mutation.symbolic.symbolic import SAME, known_extents, outliving, runs
from tests.mutation.symbolic.symbolic_values import WARP, Threads
from tests.mutation.zeros.renewed import renewed

ASKED = "what other lanes than those that agree hold is not asked for"

PURE = (Const, Knob, Var, HwIndex, Load, Binary, Unary, Cast, Select, Call, VecGet, VecMake)


class Asked(Exception):
    """What threads hold that do not agree is used."""


@dataclass(frozen=True)
class Window:
    """Statements ``first`` to ``end`` of ``body`` in one kernel: where it differs from the other one."""

    body: Body
    first: int
    end: int

    @property
    def part(self) -> Body:
        return self.body[self.first : self.end]


@dataclass(frozen=True)
class Agreed:
    """Threads of a ``block`` of known extents that agree behind a window, by their number among ``threads``; what the
    others may hold otherwise; and what the window has to do with."""

    threads: Threads
    block: tuple[int, ...]
    who: frozenset[int]
    differing: frozenset[Sym]
    touched: frozenset[Sym]

    def alone(self, context: smt.Context) -> bool:
        """Whether only threads that agree come where ``context`` holds."""
        import z3

        number, stride = z3.IntVal(0), 1
        for axis, n in zip("xyz", self.threads.extents or self.block):
            number, stride = number + context.of(HwIndex("thread", axis)) * stride, stride * n
        lanes = {k % WARP for k in range(self.threads.count)} - {
            k % WARP for k in range(self.threads.count) if k not in self.who
        }
        claims = [z3.Or(*(number % WARP == lane for lane in sorted(lanes)))] if lanes else []
        one_by_one = self.threads.extents and len(self.who) <= WARP
        claims += [z3.Or(*(number == k for k in sorted(self.who)))] if one_by_one else []
        return any(context.proves(claim) for claim in claims)


def unasked(candidate: Kernel, mutant: Kernel, mine: Window, theirs: Window, everyone: bool, effort: Effort) -> str:
    """Why the two kernels, which differ in those windows alone, do the same: the threads for which the windows leave
    other values behind are not asked for them. ``everyone``: all threads of a block come there."""
    if not any(isinstance(e, WarpOp) for e in all_exprs((*mine.part, *theirs.part))):
        return ""
    for threads, one, other in runs(mine.part, theirs.part, candidate, everyone, effort):
        agreed = _agreed(threads, known_extents(candidate), one, other, mine.part, theirs.part)
        if agreed is None or not other.touches_no_more_than(one):
            continue
        try:
            for kernel, window in ((candidate, mine), (mutant, theirs)):
                _Flow(kernel, window, agreed).body(kernel.body, frozenset(), smt.Context(kernel))
        except Asked:
            continue
        return ASKED if agreed.differing else SAME.format(threads)
    return ""


def _agreed(threads: Threads, block: tuple[int, ...], one: Run, other: Run, a: Body, b: Body) -> Agreed | None:
    """Who agrees, if what differs is the threads' own."""
    if threads.extents is None or one.trace != other.trace:
        return None
    who, differing = set(range(threads.count)), set[Sym]()
    for sym in outliving(a, b, part=True):
        different = {k for k in range(threads.count) if one.left(sym, k) != other.left(sym, k)}
        private = isinstance(sym.type, Scalar | Vec) or (isinstance(sym.type, Array) and sym.type.space != "shared")
        if different and not private:
            return None
        who -= different
        differing |= {sym} if different else set()
    touched = frozenset(used_in(a) | used_in(b) | assigned(a) | assigned(b))
    return Agreed(threads, block, frozenset(who), frozenset(differing), touched) if who else None


State = frozenset[Sym]
"""What may hold other values in threads that do not agree."""


@dataclass
class _Flow:
    """Follows what may differ through one kernel."""

    kernel: Kernel
    window: Window
    agreed: Agreed
    jumped: set[Sym] = field(default_factory=set)
    """What may differ where a round of a loop is left."""

    def body(self, body: Body, state: State, context: smt.Context) -> State:
        if body is not self.window.body:
            return self._statements(body, state, context)
        state = self._statements(body[: self.window.first], state, context)
        if state & self.agreed.touched:
            raise Asked
        return self._statements(body[self.window.end :], state | self.agreed.differing, context)

    def _statements(self, body: Body, state: State, context: smt.Context) -> State:
        for s in body:
            state = self._statement(s, state, context)
            context.after(s)
        return state

    def _statement(self, s: Stmt, state: State, context: smt.Context) -> State:
        alone = self._checked(s, state, context)
        match s:
            case Decl() | Assign():
                return self._given(s, state, alone)
            case Alloc():
                return state - {s.sym}
            case Store():
                differs = bool(used(s.value) & state) and not alone
                return state | {s.buffer} if differs else state
            case If():
                return frozenset().union(*(self._inner(s, name, state, context) for name in ("then", "orelse")))
            case For() | While():
                return self._rounds(s, state, context)
            case Break() | Continue():
                self.jumped |= state
        return state

    def _given(self, s: Decl | Assign, state: State, alone: bool) -> State:
        value = s.init if isinstance(s, Decl) else s.value
        if value is not None and used(value) & state:
            return state if alone else state | {s.sym}
        return state - {s.sym}

    def _inner(self, s: Stmt, name: str, state: State, context: smt.Context) -> State:
        inner = context.branch()
        inner.enter(s, name)
        return self.body(getattr(s, name), state, inner)

    def _rounds(self, s: For | While, state: State, context: smt.Context) -> State:
        if isinstance(s, For):
            state -= {x for x in state if renewed(s, x, self.kernel)}
        around, self.jumped = self.jumped, set()
        while True:
            after = state | self._inner(s, "body", state, context) | self.jumped
            if after == state:
                break
            state = after
            self._checked(s, state, context)
        self.jumped = around
        return state

    def _checked(self, s: Stmt, state: State, context: smt.Context) -> bool:
        """Whether only threads that agree come to ``s``, as far as that matters; nothing else that ``s`` itself does
        may hang on what differs."""
        tops = [e for e in stmt_exprs(s) if used(e) & state]
        written = assigned((s,)) if not branches(s) else set()
        if not tops and not (written & state and not isinstance(s, KNOWN)):
            return False
        if not isinstance(s, KNOWN) or any(_exchanged(e, state) for e in tops):
            raise Asked
        if self.agreed.alone(context):
            return True
        if not isinstance(s, Decl | Assign | Store | Eval) or any(_asks(e, state) for e in tops):
            raise Asked
        if isinstance(s, Store) and (_seen(s.buffer) or any(used(i) & state for i in s.index)):
            raise Asked
        return False


KNOWN = (Decl, Assign, Store, Eval, Atomic, If, For, While, Alloc, Barrier, Fence, Return, Break, Continue)
"""Statements that do nothing that cannot be seen."""


def _seen(sym: Sym) -> bool:
    """Whether other threads see what is stored there."""
    return isinstance(sym.type, Ptr) or (isinstance(sym.type, Array) and sym.type.space == "shared")


def _exchanged(e: Expr, state: State) -> bool:
    """Whether lanes exchange what may differ, or it is used in a way that is not known."""
    mine = [x for x in walk_expr(e) if used(x) & state]
    return any(not isinstance(x, PURE) or (isinstance(x, Call) and x.effects != "pure") for x in mine)


def _asks(e: Expr, state: State) -> bool:
    """Whether what is read, in ``e``, hangs on what may differ."""
    for x in walk_expr(e):
        if isinstance(x, Load) and any(used(i) & state for i in x.index):
            return True
        decides = x.cond if isinstance(x, Select) else x.a if isinstance(x, Binary) and x.op in ("&&", "||") else None
        if decides is not None and used(decides) & state and any(_reads(y) for y in _arms(x)):
            return True
    return False


def _arms(e: Expr) -> Collection[Expr]:
    return (e.a, e.b) if isinstance(e, Select) else (e.b,) if isinstance(e, Binary) else ()


def _reads(e: Expr) -> Any:
    return any(isinstance(x, Load | WarpOp) or (isinstance(x, Call) and x.effects != "pure") for x in walk_expr(e))


__all__ = ["ASKED", "Window", "unasked"]
