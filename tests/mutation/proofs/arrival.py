"""Statements that one thread of the whole launch runs, once: an atomic there need not be one.

The last block to arrive is known by a ticket: ``t = atomic inc tickets[0], blocks - 1`` gives ``blocks`` takers as many
different values (modulo ``blocks``), so that at most one finds ``t == blocks - 1``. It may tell its threads through
shared memory.
"""

from __future__ import annotations

import itertools

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Assign,
    Atomic,
    Binary,
    Cast,
    Const,
    Decl,
    Expr,
    HwIndex,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
)
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import all_exprs, walk
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.intervals import uncast
from tests.mutation.operators.program_operators import plain
from tests.mutation.symbolic.single import conjuncts, only_thread
from tests.mutation.zeros.refilled import Place, placed

SEEN_BY_ALL = frozenset({"device", "system"})


STEPS = frozenset({"add", "sub", "and", "or", "xor", "min", "max"})
"""Atomics that are a read, one operation and a write."""

LAST = "z3: one thread of the last block to arrive alone comes there"

SINGLE = "z3: a launch has one thread"


def needs_no_atomic(kernel: Kernel, s: Stmt, t: Stmt) -> str:
    """Why ``t``, the three steps of the atomic ``s`` of ``kernel``, does the same: there is one thread, or nobody else
    runs ``s``, nor uses its buffer; '' if that is not shown."""
    if not isinstance(s, Atomic) or s.dst is not None or s.op not in STEPS or plain(s) != t:
        return ""
    if _single(kernel):
        return SINGLE
    if not _touched_once(kernel, s.buffer):
        return ""
    guards = _guards(kernel, s)
    if guards is None or not _one_thread(kernel, guards):
        return ""
    return LAST if _blocks(kernel) == 1 or any(_last_to_arrive(kernel, c) for c in guards) else ""


def _single(kernel: Kernel) -> bool:
    context = smt.Context(kernel)
    extents = (*kernel.launch.grid, *kernel.launch.block) if kernel.launch is not None else ()
    return bool(extents) and all(context.proves(context.of(e) == 1) for e in extents)


def _guards(kernel: Kernel, s: Stmt) -> list[Expr] | None:
    """The conditions under which the kernel runs ``s`` once; None where it may run more often, or stands twice."""
    found = [place for x, place in placed(kernel.body) if x is s]
    return _conditions(found[0]) if len(found) == 1 else None


def _conditions(place: Place) -> list[Expr] | None:
    out: list[Expr] = []
    for (body, k), (inner, _) in itertools.pairwise(place):
        around = body[k]
        if not isinstance(around, If):
            return None
        out += conjuncts(around.cond) if inner is around.then else []
    return out


def _one_thread(kernel: Kernel, guards: list[Expr]) -> bool:
    launch = kernel.launch
    block = [evaluate(e, kernel.knob_values) for e in launch.block] if launch is not None else []
    return block == [1, 1, 1] or (block[1:] == [1, 1] and any(only_thread(kernel, c) is not None for c in guards))


def _blocks(kernel: Kernel) -> int | None:
    grid = [evaluate(e, kernel.knob_values) for e in kernel.launch.grid] if kernel.launch is not None else []
    return 1 if grid == [1, 1, 1] else None


def _touched_once(kernel: Kernel, buffer: Sym) -> bool:
    """Whether one statement names ``buffer``, and no other pointer leads there."""
    own = any(p.sym == buffer and (p.noalias or p.scratch is not None) for p in kernel.params)
    exprs = list(all_exprs(kernel.body))
    read = any(isinstance(e, Load) and e.buffer == buffer for e in exprs)
    writes = [s for s in walk(kernel.body) if isinstance(s, Store | Atomic) and s.buffer == buffer]
    return own and not read and len(writes) == 1 and not any(isinstance(e, AddrOf) for e in exprs)


def _last_to_arrive(kernel: Kernel, cond: Expr) -> bool:
    """Whether ``cond`` holds in at most one block of a launch."""
    told = cond.a if isinstance(cond, Binary) and cond.op == "!=" and cond.b == Const(0, cond.b.type) else cond  # type: ignore[arg-type]
    told = uncast(told)
    if isinstance(told, Load) and isinstance(told.buffer.type, Array) and told.buffer.type.space == "shared":
        stores = [s for s in walk(kernel.body) if isinstance(s, Store | Atomic) and s.buffer == told.buffer]
        if len(stores) != 1 or not isinstance(stores[0], Store) or stores[0].index != told.index:
            return False
        told = _told(stores[0].value)
    if not isinstance(told, Binary) or told.op != "==":
        return False
    ticket = uncast(told.a)
    return isinstance(ticket, Var) and _one_of_each(kernel, ticket.sym, told.b)


def _told(e: Expr) -> Expr:
    """``e`` without conversions, of truth values too."""
    while isinstance(e, Cast):
        e = e.x
    return e


def _one_of_each(kernel: Kernel, ticket: Sym, number: Expr) -> bool:
    """Whether ``ticket`` is drawn once a block, from a counter to the number of blocks, and ``number`` its last."""
    drawn = [s for s in walk(kernel.body) if isinstance(s, Atomic) and s.dst == ticket]
    given = [s for s in walk(kernel.body) if isinstance(s, Assign | Decl) and s.sym == ticket]
    if len(drawn) != 1 or any(isinstance(s, Assign) or s.init is not None for s in given):
        return False
    (s,) = drawn
    guards = _guards(kernel, s)
    counts = s.op == "inc" and s.scope in SEEN_BY_ALL and isinstance(s.buffer.type, Ptr)
    if not counts or guards is None or not _one_thread(kernel, guards) or not _touched_once(kernel, s.buffer):
        return False
    if not all(isinstance(i, Const) for i in s.index):
        return False
    context = smt.Context(kernel)
    blocks = context.of(HwIndex("grid_dim", "x"))
    one = all(context.proves(context.of(HwIndex("grid_dim", axis)) == 1) for axis in "yz")
    return one and all(context.proves(context.of(e) == blocks - 1) for e in (s.value, number))


__all__ = ["needs_no_atomic"]
