"""Barriers across which no thread meets another one: who touches which cell, followed thread by thread.

All threads of a block run in lockstep on symbols (:mod:`.lockstep`), the barrier in question taken out. What was
touched before it, and not ordered by another barrier since, is open; whoever touches an open cell of another thread
(of another warp, where a warp barrier stays) has a conflict, unless both read. A cell is known by its numbers, counted
from one term (the first element of the block's part of a buffer, say); cells counted from different terms may be the
same, and where nothing is known, any cell of the array may be meant. A loop whose end is not known is entered not at
all, once and twice, and finds whatever it changes changed in each round: whatever two of its rounds have to do with
each other, these two have (one that is known to run at most once has but one). Code behind a guard that is not known
counts as run.

An atomic may tell other blocks of what its thread has seen, and of what it has not: it conflicts with everything that
other threads do in memory that blocks share and the kernel writes. A fence orders what its own thread does, and that is
no business of a barrier.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    Call,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Scalar, Vec
from ktc.ir.walk import all_exprs, assigned, stmt_exprs, walk, walk_expr
from tests.mutation.zeros.formats import NONE, formats

from .effort import Lost
from .lockstep import Run
from .memories import Memory
from .symbolic import blocks
from .symbolic_values import Active
from .terms import Term, Terms
from .touched_cells import ANY, Cell, Open

MOST_WORK = 300_000
"""Statements times threads; beyond, there is no proof."""

FOLLOWED = (Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, Eval, Fence, For, If, Return, Store)
"""Statements that a kernel may consist of: copies that end some time later are not followed."""


class Meeting(Exception):
    """Two threads may meet in a cell, or it is not known whether they do."""


def keeps_nothing_apart(barrier: Stmt, kernel: Kernel, group: int = 1, once: Collection[int] = ()) -> bool:
    """Whether the block barrier ``barrier`` of ``kernel`` orders no two accesses of different threads, one of them a
    write, that no other barrier orders. ``group``: so many threads in a row are ordered anyway. ``once``: by ``id``,
    loops of the kernel that run at most once."""
    if any(not isinstance(s, FOLLOWED) for s in walk(kernel.body)):
        return False
    if any(isinstance(e, AddrOf) or (isinstance(e, Load) and e.cache == "volatile") for e in all_exprs(kernel.body)):
        return False
    known = formats(kernel)
    for threads in blocks(kernel, kernel.body):
        if threads.extents is None:
            continue
        terms = Terms(False)
        run = _Watch(terms, kernel, known, threads)
        run.without, run.group, run.once = barrier, group, once
        try:
            run.body(kernel.body, dict.fromkeys(range(threads.count), terms.const(True, "bool")))
        except (Lost, Meeting):
            continue
        return True
    return False


class _Watch(Run):
    """A run that notes what is touched; ``before`` the barrier in question, and ``crossed`` it."""

    without: Stmt
    group = 1
    once: Collection[int] = ()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.before, self.crossed = Open(), Open()
        self.written = assigned(self.kernel.body)
        self.rounds = 0

    # ------------------------------------------------------------------------------------------------- statements

    def body(self, body: Body, act: Active) -> Active:
        for s in body:
            if not act:
                break
            self.work += len(act)
            if self.work > MOST_WORK:
                raise Meeting
            before = [dict(e) for e in self.env], dict(self.memory), list(self.trace)
            ordered = _orders(s)
            state = self._state() if ordered else None
            try:
                act = self.statement(s, act)
            except Lost:
                if any(isinstance(x, Return) for x in walk((s,))):
                    raise Meeting from None
                self.env, self.memory, self.trace = before
                if state is None:
                    self._untold(s, act)
                elif isinstance(s, For):
                    self.before, self.crossed = state
                    self._any_rounds(s, act)
                else:
                    raise Meeting from None
        return act

    def statement(self, s: Stmt, act: Active) -> Active:
        if isinstance(s, Barrier):
            self._barrier(s)
            return act
        self._tell(s, act)
        return act if isinstance(s, Fence) else super().statement(s, act)

    def _barrier(self, s: Barrier) -> None:
        if s is self.without:
            self.crossed.update(self.before)
            self.before = Open()
        elif s.scope != "warp" and s.memory == "all" and s.flags is None and s.mask is None:
            self.before, self.crossed = Open(), Open()

    def _if(self, s: If, act: Active) -> Active:
        if not _orders(s):
            return super()._if(s, act)
        conds = {k: self.of(s.cond, k, act) for k in act}
        yes = self._narrowed(act, conds)
        no = self._narrowed(act, {k: self.t.predicate("!", c) for k, c in conds.items()})
        if any(isinstance(x, Return | Break | Continue) for x in walk((s,))):
            raise Meeting
        start = self._state()
        ends = []
        for inner, lanes in ((s.then, yes), (s.orelse, no)):
            if lanes:
                self.before, self.crossed = start[0].copy(), start[1].copy()
                self.body(inner, lanes)
                ends.append((self.before, self.crossed))
        self._join(ends)
        return act

    def _any_rounds(self, s: For, act: Active) -> None:
        """A loop that may end after any number of rounds, or at most one."""
        if any(isinstance(x, Return | Break | Continue) for x in walk((s,))):
            raise Meeting
        self._untold_reads(s, act)
        ends = [self._state()]
        for _ in range(1 if id(s) in self.once else 2):
            self._forget(s)
            self.body(s.body, act)
            self._untold_reads(s, act)
            ends.append(self._state())
        self._forget(s)
        self._join(ends)

    def _state(self) -> tuple[Open, Open]:
        return self.before.copy(), self.crossed.copy()

    def _join(self, ends: list[tuple[Open, Open]]) -> None:
        self.before, self.crossed = Open(), Open()
        for before, crossed in ends:
            self.before.update(before)
            self.crossed.update(crossed)

    def _forget(self, s: For) -> None:
        """Whatever the body of ``s`` changes has some other value."""
        self.rounds += 1
        for sym in assigned((s,)) | {s.var} | {x.var for x in walk(s.body) if isinstance(x, For)}:
            if isinstance(sym.type, Scalar | Vec):
                for k in range(self.threads.count):
                    self.env[k][sym] = self.t.opaque(NONE, "some round", self.rounds, sym, k)
            else:
                for row in range(self._rows(sym)):
                    self.memory[sym, row] = Memory(self.t.make("some round", self.rounds, sym, row))

    # --------------------------------------------------------------------------------------------------- accesses

    def load(self, e: Load, k: int, act: Active) -> Term:
        self._note(e.buffer, e.index if e.width == 1 else (), k, act, wrote=False)
        return super().load(e, k, act)

    def _store(self, s: Store, act: Active) -> None:
        for k in act:
            self._note(s.buffer, s.index if s.width == 1 else (), k, act, wrote=True)
        super()._store(s, act)

    def _note(self, sym: Sym, index: tuple[Expr, ...], k: int, act: Active, wrote: bool) -> None:
        if not self._seen(sym):
            return
        places = [self._counted(self.of(i, k, act)) for i in index]
        whole = len(places) == (len(sym.type.shape) if isinstance(sym.type, Array) else 1)
        cell = tuple(base for base, _ in places), tuple(n for _, n in places)
        self._touch(sym, cell if whole else ANY, k, wrote)

    def _counted(self, t: Term) -> tuple[Term | None, int]:
        """The term that a subscript is counted from, None for zero, and its number from there. Where the sum leaves its
        type, two numbers that differ do so still: the numbers are of that type."""
        if (v := self.number(t)) is not None:
            return None, v
        node = self.t.node(t)
        if node[:2] == ("op", "+"):
            for by, base in (node[3:], node[:2:-1]):
                if (v := self.number(by)) is not None:
                    return base, v
        return t, 0

    def _seen(self, sym: Sym) -> bool:
        """Whether threads can meet there."""
        shared = isinstance(sym.type, Array) and sym.type.space == "shared"
        return shared or (isinstance(sym.type, Ptr) and sym in self.written)

    def _touch(self, sym: Sym | None, cell: Cell, k: int, wrote: bool) -> None:
        for other, theirs in self.crossed.meeting(sym, cell):
            if other // self.group != k // self.group and (wrote or theirs):
                raise Meeting
        self.before.add(sym, cell, {(k, wrote)})

    def _tell(self, s: Stmt, act: Active) -> None:
        """What ``s`` itself, its bodies apart, has to do with what others do, beside loads and stores."""
        calls = any(isinstance(e, Call) and e.effects != "pure" for top in stmt_exprs(s) for e in walk_expr(top))
        told: list[Sym | None] = [None] if calls else []
        if isinstance(s, Atomic):
            told += [sym for sym in self.written if isinstance(sym.type, Ptr)] or [None]
        for sym in told:
            for k in act:
                self._touch(sym, ANY, k, wrote=True)

    def _untold(self, s: Stmt, act: Active) -> None:
        """A statement that cannot be followed touches any cell of what it names."""
        for x in walk((s,)):
            self._untold_reads(x, act)
            if isinstance(x, Store | Atomic) and self._seen(x.buffer):
                for k in act:
                    self._touch(x.buffer, ANY, k, wrote=True)
            self._tell(x, act)
        self._unknown(s, act)

    def _untold_reads(self, s: Stmt, act: Active) -> None:
        for sym in {e.buffer for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load)}:
            for k in act if self._seen(sym) else ():
                self._touch(sym, ANY, k, wrote=False)


def _orders(s: Stmt) -> bool:
    return any(isinstance(x, Barrier) for x in walk((s,)))


__all__ = ["keeps_nothing_apart"]
