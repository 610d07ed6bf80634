"""Cells of a block's shared arrays that hold something else where nobody reads them.

A tile is clipped where it is loaded and where it is used: ``if row < n: tile[row] = x``. Another guard at the first
place stores more cells, or fewer, and the second one asks for none of them; a stencil in several levels of time does
not ask for the corners of its halo. What a cell held before the statement came in question matters no more to those
who have read it by then, a barrier in between.

Who touches an array without being ordered by a barrier must touch other cells (z3): under the facts where it does, of
any thread of the block and any round. No loop runs around the array: what one round leaves behind the next one finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Alloc, Assign, Barrier, Decl, Eval, Expr, For, If, Load, Stmt, Store, Sym, Var, While
from ktc.ir.storage import is_shared
from ktc.ir.walk import assigned, declared, stmt_exprs, used_in, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.proofs.ending import may_run
from tests.mutation.proofs.extents import readable
from tests.mutation.sites import branches, sites
from tests.mutation.symbolic.barriers import of_block
from tests.mutation.symbolic.meetings import Meetings

from .refilled import Place

PLAIN = (Assign, Decl, Store, For, If)
"""Statements of a guarded body that do no more than give values."""
KNOWN = (*PLAIN, Alloc, Barrier, Eval)
"""Statements of which it is known how they touch an array."""


def unread(kernel: Kernel, s: If, other: Expr | None, context: smt.Context) -> bool:
    """Whether the body of ``s``, a statement of ``kernel`` without an else, may run where ``other`` holds (None:
    everywhere) instead of where its own guard does. ``context``: where it stands."""
    import z3

    if s.orelse or not all(isinstance(x, PLAIN) for x in walk(s.then)):
        return False
    if not context.lasting(s.cond) or not (other is None or context.lasting(other)):
        return False
    inner = context.branch()
    mine, theirs = inner.truth(s.cond), z3.BoolVal(True) if other is None else inner.truth(other)
    inner.facts.append(mine != theirs)
    more = inner.branch()
    more.facts.append(theirs)
    return _Cells(Meetings(kernel), s, runs=not more.impossible()).all_unread(inner)


@dataclass(frozen=True)
class _Access:
    """``of``, a load or store of ``array`` in the statement ``by``, and what holds there. ``new``: it is one of those
    in question."""

    of: Load | Store
    by: Stmt
    context: smt.Context
    new: bool = False

    @property
    def array(self) -> Sym:
        return self.of.buffer

    @property
    def reads(self) -> bool:
        return isinstance(self.of, Load)


@dataclass
class _Cells:
    """The shared cells that the body of ``s`` touches where it is in question; ``runs``: where the candidate does not
    run it, and not only the other way round."""

    meetings: Meetings
    s: If
    runs: bool

    def all_unread(self, context: smt.Context) -> bool:
        """Whether nobody reads what the body stores where ``context`` holds, nor minds what it reads."""
        own = set(declared(self.s.then)) | {x.var for x in walk(self.s.then) if isinstance(x, For)}
        mine: list[_Access] = []
        for x, here in sites(self.s.then, context):
            if self.runs and not (may_run(x, here) and readable(x, here)) and not here.impossible():
                return False
            if (isinstance(x, Assign) and x.sym not in own) or (isinstance(x, Store) and not is_shared(x.buffer)):
                return False
            mine += [_Access(a, x, here.branch(), True) for a in _accesses(x) if is_shared(a.buffer)]
        return all(self._unfelt(access, mine) for access in mine)

    def _unfelt(self, mine: _Access, others: list[_Access]) -> bool:
        """Whether no access minds that ``mine`` is made, or is not; ``others``: all that are in question."""
        if mine.reads and not self.runs:
            return True
        place = self._home(mine.array)
        if place is None or not self._plain(mine.array):
            return False
        steady = self.meetings.lasting(place, place[-1][0])
        every = [_Access(a, x, there) for x, there in self.meetings.sites() for a in _accesses(x)]
        every += others if self.runs else []
        return all(self._does_not_mind(x, mine, steady) for x in every if x.array == mine.array)

    def _does_not_mind(self, theirs: _Access, mine: _Access, steady: set[Sym]) -> bool:
        """Whether ``theirs`` is in another cell than ``mine``, or ordered so that it finds the same: of what is read
        in question as well only who comes first matters, to other threads."""
        if theirs.reads and mine.reads:
            return True
        asks = theirs.reads and not theirs.new
        if not asks and not self.runs:
            return True
        order = self._order(theirs.by)
        if order == "before" or (order and not asks):
            return True
        store, other = (theirs, mine) if mine.reads else (mine, theirs)
        assert isinstance(store.of, Store)
        met = self.meetings.meeting(store.of, store.context, other.of, other.context, steady, others=not asks)
        return met is not None and met.impossible()

    def _order(self, x: Stmt) -> str:
        """'before' or 'after' if a barrier of the block is between ``x`` and the statement in question, of which each
        runs but once in a run of the kernel; '' otherwise."""
        (one, *others), (mine, *more) = (self.meetings.places.get(id(s), [()]) for s in (x, self.s))
        if others or more:
            return ""
        for (body, k), (other, at) in zip(one, mine):
            if body is not other:
                return ""
            if k != at:
                waits = any(of_block(b) for b in body[min(k, at) + 1 : max(k, at)])
                return ("before" if k < at else "after") if waits else ""
            if isinstance(body[k], For | While):
                return ""
        return ""

    def _home(self, array: Sym) -> Place | None:
        """The bodies around the statement in question down to the one that declares ``array``; None if it is not
        known, or stands in a loop."""
        (place, *others) = self.meetings.places.get(id(self.s), [()])
        if others or self.meetings.declared.count(array) != 1:
            return None
        for depth, (body, k) in enumerate(place):
            if any(isinstance(x, Alloc) and x.sym == array for x in body[:k]):
                return place[: depth + 1]
            if isinstance(body[k], For | While):
                return None
        return None

    def _plain(self, array: Sym) -> bool:
        """Whether ``array`` is named by subscripts alone."""
        for x in walk(self.meetings.kernel.body):
            exprs = [e for top in stmt_exprs(x) for e in walk_expr(top)]
            if any(e == Var(array) or (isinstance(e, AddrOf) and e.buffer == array) for e in exprs):
                return False
            if any(a.buffer == array and a.width != 1 for a in _accesses(x)):
                return False
            if not isinstance(x, KNOWN) and not branches(x) and array in used_in((x,)) | assigned((x,)):
                return False
        return True


def _accesses(x: Stmt) -> Iterator[Load | Store]:
    if isinstance(x, Store):
        yield x
    yield from (e for top in stmt_exprs(x) for e in walk_expr(top) if isinstance(e, Load))


__all__ = ["unread"]
