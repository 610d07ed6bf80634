"""Warp exchanges on symbolic lanes: which lane values a tree of shuffles has combined, lane by lane.

The loop is run once for all inputs: a lane's value is a multiset of the 32 initial values (a set where the operation is
idempotent), so that equal multisets are equal sums whatever the values. Where two trees differ in some lanes, what
follows is read for the threads that use the result.
"""

from __future__ import annotations

from collections import Counter

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Expr,
    For,
    HwIndex,
    If,
    Stmt,
    Sym,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32
from ktc.ir.walk import map_expr, stmt_exprs, used_in, walk_expr

WARP = 32
ROUNDS = 64
IDEMPOTENT = ("min", "max")


def same_exchange(a: Body, b: Body, after: Body, kernel: Kernel) -> str:
    """Why the exchanges ``a`` and ``b`` (one loop each) do the same for what ``after`` reads; '' if that is not so."""
    if len(a) != 1 or len(b) != 1 or not (isinstance(a[0], For) and isinstance(b[0], For)):
        return ""
    mine, theirs = _combined(a[0]), _combined(b[0])
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return ""
    differ = {k for k in range(WARP) if mine[1][k] != theirs[1][k]}
    if not differ:
        return "32 symbolic lanes: every lane holds the same combination"
    if _unread(mine[0][0], after, differ, kernel):
        return "32 symbolic lanes: the lanes that are read hold the same combination"
    return ""


def _combined(s: For) -> tuple[tuple[Sym, str], list[Counter]] | None:
    """The accumulator of a loop of shuffles with its operation, and what each lane's holds at its end; None for any
    other loop."""
    if len(s.body) != 1 or not isinstance(s.body[0], Assign):
        return None
    step = s.body[0]
    parts = _parts(step.value)
    if parts is None:
        return None
    op, x, shuffle = parts
    if x != Var(step.sym) or shuffle.value != Var(step.sym) or shuffle.arg is None:
        return None
    i = evaluate(s.init, {})
    lanes = [Counter({k: 1}) for k in range(WARP)]
    for _ in range(ROUNDS):
        env = {s.var.name: int(i)} if i is not None else {}
        going = evaluate(s.cond, env) if env else None
        arg, width, mask = (evaluate(e, env) for e in (shuffle.arg, shuffle.width, shuffle.mask))
        if going is None:
            return None
        if not going:
            return (step.sym, op), lanes
        if arg is None or width is None or mask is None or int(mask) & 0xFFFFFFFF != 0xFFFFFFFF or int(arg) < 0:
            return None
        source = [_source(shuffle.kind, k, int(arg), int(width)) for k in range(WARP)]
        lanes = [_join(op, lanes[k], lanes[source[k]]) for k in range(WARP)]
        i = evaluate(s.step, env)
    return None


def _parts(e: Expr) -> tuple[str, Expr, WarpOp] | None:
    if isinstance(e, Binary) and e.op == "+":
        pair: tuple[Expr, ...] = (e.a, e.b)
        op = "+"
    elif isinstance(e, Call) and e.fn in IDEMPOTENT and len(e.args) == 2:
        pair, op = e.args, e.fn
    else:
        return None
    for x, y in (pair, pair[::-1]):
        if isinstance(y, WarpOp) and y.kind.startswith("shfl"):
            return op, x, y
    return None


def _source(kind: str, lane: int, arg: int, width: int) -> int:
    start = lane - lane % width
    if kind == "shfl":
        return start + arg % width
    if kind == "shfl_up":
        return lane - arg if lane - arg >= start else lane
    if kind == "shfl_down":
        return lane + arg if lane + arg < start + width else lane
    return lane ^ arg if lane ^ arg < start + width else lane


def _join(op: str, a: Counter, b: Counter) -> Counter:
    return a + b if op == "+" else Counter(dict.fromkeys({*a, *b}, 1))


def _unread(sym: Sym, after: Body, lanes: set[int], kernel: Kernel) -> bool:
    """Whether no thread of ``lanes`` reads ``sym`` in ``after`` before it is assigned anew."""
    for s in after:
        if isinstance(s, Assign) and s.sym == sym and sym not in _reads(s):
            return True
        if sym not in used_in((s,)):
            continue
        if not (isinstance(s, If) and not s.orelse and sym not in _reads(s)):
            return False
        takes = _takers(s.cond, kernel)
        if takes is None or takes & lanes:
            return False
    return True


def _reads(s: Stmt) -> set[Sym]:
    return {e.sym for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Var)}


def _takers(cond: Expr, kernel: Kernel) -> set[int] | None:
    """Lanes whose threads may meet ``cond``, a condition on ``threadIdx.x`` alone; None for any other.

    Blocks must be one row of threads, or rows of whole warps.
    """
    launch = kernel.launch
    if launch is None or not (
        _whole_warps(launch.block[0], kernel) or all(evaluate(e, {}) == 1 for e in launch.block[1:])
    ):
        return None
    full = expand(cond, definitions(kernel.body))
    thread = Var(_THREAD)
    plain = map_expr(full, lambda e: thread if e == HwIndex("thread", "x") else e)
    if any(isinstance(e, HwIndex) or (isinstance(e, Var) and e != thread) for e in walk_expr(plain)):
        return None
    taken = [evaluate(plain, {_THREAD.name: t, **kernel.knob_values}) for t in range(MOST_THREADS)]
    return None if any(t is None for t in taken) else {k % WARP for k, t in enumerate(taken) if t}


def _whole_warps(extent: Expr, kernel: Kernel) -> bool:
    n = evaluate(extent, kernel.knob_values)
    return n is not None and n % WARP == 0


MOST_THREADS = 1024
_THREAD = fresh("threadIdx.x", I32)
