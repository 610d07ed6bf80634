"""Statements of one thread: another thread may run them as well, and some may run twice."""

from __future__ import annotations

from ktc.ir.analysis.uniform_control import control_of
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    HwIndex,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.types import U32, Ptr
from ktc.ir.walk import all_exprs, assigned, keep, map_body, stmt_exprs, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.sites import BRANCHES, branches
from tests.mutation.zeros.refilled import Place, placed

IDEMPOTENT = frozenset({"min", "max"})


def other_thread(kernel: Kernel, s: If, t: If) -> bool:
    """Whether ``s``, for one thread of each row of a block, does what ``t`` does, the same for another one: both exist
    and come there, and what is stored, and where, all threads of the row agree on. Nothing else touches that."""
    mine, theirs = conjuncts(s.cond), conjuncts(t.cond)
    differing = [k for k, (x, y) in enumerate(zip(mine, theirs)) if x != y]
    if len(mine) != len(theirs) or len(differing) != 1:
        return False
    (at,) = differing
    one, other = only_thread(kernel, mine[at]), only_thread(kernel, theirs[at])
    threads = evaluate(kernel.launch.block[0], kernel.knob_values) if kernel.launch is not None else None
    if one is None or other is None or threads is None or s.orelse:
        return False
    if not (0 <= one < threads and 0 <= other < threads):
        return False
    if not all(isinstance(x, Store | Atomic) and _only_changes(x) for x in s.then):
        return False
    written = assigned(s.then)
    own = {id(x) for x in s.then}
    elsewhere = [x for x in walk(kernel.body) if assigned((x,)) & written and not branches(x) and id(x) not in own]
    if elsewhere or any(isinstance(e, Load) and e.buffer in written for e in all_exprs(kernel.body)):
        return False
    found = [place for x, place in placed(kernel.body) if x is s]
    if len(found) != 1:
        return False
    rows = kernel.with_(body=map_body(kernel.body, keep, _row))
    facts, there = control_of(rows), _at(rows.body, found[0])
    if facts.is_divergent(there) or any(isinstance(x, Return) and facts.is_divergent(x) for x in walk(rows.body)):
        return False
    if not isinstance(there, If):
        return False
    parts = [*conjuncts(there.cond), *(e for x in there.then for e in stmt_exprs(x))]
    return all(facts.is_uniform(e, there) for k, e in enumerate(parts) if k != at)


def conjuncts(e: Expr) -> list[Expr]:
    """What must all hold for ``e`` to hold, in the order in which it is asked."""
    return [*conjuncts(e.a), *conjuncts(e.b)] if isinstance(e, Binary) and e.op == "&&" else [e]


def _only_changes(s: Store | Atomic) -> bool:
    """Whether ``s`` changes global memory and tells nobody what was there."""
    return isinstance(s.buffer.type, Ptr) and getattr(s, "dst", None) is None


def _row(e: Expr) -> Expr:
    """``e`` as the threads of one row see it, that differ along x alone."""
    return _ROWS[e.axis] if isinstance(e, HwIndex) and e.level == "thread" and e.axis != "x" else e


_ROWS: dict[str, Expr] = {axis: Var(fresh(f"row {axis}", U32)) for axis in "yz"}


def _at(body: Body, place: Place) -> Stmt:
    """The statement of ``body`` at the place of another one in a tree of the same form."""
    (_, k), *inner = place
    s, old = body[k], place[0][0][k]
    for around, n in inner:
        name = next(name for name in BRANCHES if getattr(old, name, ()) is around)
        s, old = getattr(s, name)[n], around[n]
    return s


def only_thread(kernel: Kernel, cond: Expr) -> int | None:
    """The number of the only thread along x for which ``cond`` holds."""
    if not (isinstance(cond, Binary) and cond.op == "==" and isinstance(cond.b, Const)):
        return None
    index: Expr = cond.a
    changed = assigned(kernel.body)
    for _ in range(4):
        while isinstance(index, Cast):
            index = index.x
        if isinstance(index, HwIndex):
            return int(cond.b.value) if (index.level, index.axis) == ("thread", "x") else None
        if not isinstance(index, Var) or index.sym in changed:
            return None
        sym = index.sym
        found = [s.init for s in walk(kernel.body) if isinstance(s, Decl) and s.sym == sym and s.init is not None]
        if len(found) != 1:
            return None
        index = found[0]
    return None


def stored_twice(s: object, context: smt.Context) -> bool:
    """Whether ``s`` stores a maximum (or minimum) of what is there already and of values that it does not change, or
    makes one the value of a variable."""
    if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.fn in IDEMPOTENT:
        others = [a for a in s.value.args if a != Var(s.sym)]
        parts = [e for a in others for e in walk_expr(a)]
        steady = not any(isinstance(e, WarpOp) or (isinstance(e, Call) and e.effects != "pure") for e in parts)
        return len(others) == 1 and steady and Var(s.sym) not in parts
    if not isinstance(s, Store) or not isinstance(s.value, Call) or s.value.fn not in IDEMPOTENT or s.width != 1:
        return False
    mine = [a for a in s.value.args if isinstance(a, Load) and a.buffer == s.buffer and a.index == s.index]
    rest = [e for a in s.value.args if a not in mine for e in walk_expr(a)]
    return bool(mine) and all(_apart(e, s, context) for e in rest if isinstance(e, Load) and e.buffer == s.buffer)


def _apart(e: Load, s: Store, context: smt.Context) -> bool:
    import z3

    if len(e.index) != len(s.index):
        return False
    return context.proves(z3.Or(*(context.of(i) != context.of(j) for i, j in zip(e.index, s.index))))


__all__ = ["conjuncts", "only_thread", "other_thread", "stored_twice"]
