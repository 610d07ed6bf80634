"""What the thread-loop raiser asks about statements: what all threads do alike, what waits, what touches memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.uniformity import Uniformity
from ktc.ir.diagnostics import Loc
from ktc.ir.fold import fold_node, is_const, simplify
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Body,
    Break,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    Fence,
    For,
    HwIndex,
    If,
    InlineAsm,
    Load,
    RawStmt,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    While,
    bodies,
)  # fmt: skip
from ktc.ir.storage import is_local_array, is_shared
from ktc.ir.support.memo import by_identity
from ktc.ir.types import U32, Scalar
from ktc.ir.walk import all_exprs, keep, map_body, map_expr, stmt_exprs, used, walk, walk_expr

HOST_THREADS = 256
"""Threads of a block whose size the host decides when it launches: what most would choose."""


@dataclass
class Left(Exception):
    """This part cannot become loops: why, and where."""

    code: str
    why: str
    loc: Loc | None


def has_block_barrier(s: Stmt) -> bool:
    return any(isinstance(x, Barrier) and x.scope == "block" for x in walk((s,)))


@by_identity(4096)
def has_warp_op(s: Stmt) -> bool:
    return any(isinstance(e, WarpOp) for x in stmt_exprs(s) for e in walk_expr(x)) or any(
        has_warp_op(x) for b in bodies(s) for x in b
    )


def refuse_waiting_blocks(body: Body, launch: Launch) -> None:
    """Nothing, where ``body`` is launched as one block, or its blocks do not wait for each other.

    Raises:
        Left: otherwise; a loop over blocks has no place at which all of its iterations have come as far.
    """
    barrier = next((s for s in walk(body) if isinstance(s, Barrier) and s.scope == "grid"), None)
    if barrier is not None and any(not is_const(simplify(n), 1) for n in launch.grid):
        what = "blocks wait for each other here, and iterations of a loop over blocks do not"
        raise Left("E-RAISE-BARRIER", what, barrier.loc)


def threads_in(e: Expr) -> set[str]:
    """The axes of ``threadIdx`` that ``e`` mentions."""
    return {x.axis for x in walk_expr(e) if isinstance(x, HwIndex) and x.level == "thread"}


def with_hardware(body: Body, values: dict[HwIndex, Expr]) -> Body:
    """``body`` with hardware indices replaced (integer expressions of any type), casts folded."""
    return map_body(body, keep, lambda e: _replaced(e, values))


def expr_with_hardware(e: Expr, values: dict[HwIndex, Expr]) -> Expr:
    return map_expr(e, lambda x: _replaced(x, values))


def _replaced(e: Expr, values: dict[HwIndex, Expr]) -> Expr:
    if isinstance(e, HwIndex) and e in values:
        v = values[e]
        return v if v.type == U32 else fold_node(Cast(U32, v, "implicit"))
    if isinstance(e, Cast) and isinstance(e.x, Cast) and e.x.to == U32 and e.x.style == "implicit":
        inner = e.x.x
        if inner.type == e.to and isinstance(e.to, Scalar) and e.to.is_int:
            return inner  # (i32)(u32)v
        if isinstance(e.to, Scalar) and e.to.is_int and e.to.bits > 32 and isinstance(inner, Var):
            return Cast(e.to, inner, e.style)  # a thread index is never negative
    return fold_node(e)


def made_of_threads(named: Mapping[Sym, Expr]) -> dict[Sym, Expr]:
    """Those of the variables that are made of the thread's number, through others of them too."""
    found = {s for s, e in named.items() if threads_in(e)}
    asked: dict[Sym, list[Sym]] = {}
    for s, e in named.items():
        for v in used(e):
            asked.setdefault(v, []).append(s)
    left = [*found]
    while left:
        more = [s for s in asked.get(left.pop(), ()) if s not in found]
        found.update(more)
        left += more
    return {s: e for s, e in named.items() if s in found}


def plain(s: Stmt, facts: Uniformity) -> bool:
    """Whether all threads of the block do the same in ``s``, so that the block can do it once."""
    if isinstance(s, Alloc):
        return is_shared(s.sym)
    if isinstance(s, Decl):
        return s.sym not in facts.varying and _same_for_all(s, facts)
    if isinstance(s, Assign):
        return s.sym not in facts.varying and _same_for_all(s, facts)
    if isinstance(s, Store):
        return not is_local_array(s.buffer) and hasattr(s.buffer.type, "space") and _same_for_all(s, facts)
    if isinstance(s, Break | Continue | Return | Fence):
        return True
    if isinstance(s, If | For | While):
        if isinstance(s, For) and s.var in facts.varying:
            return False
        return _same_for_all(s, facts) and all(plain(t, facts) for b in bodies(s) for t in b)
    return False


def _same_for_all(s: Stmt, facts: Uniformity) -> bool:
    return all(facts.is_uniform(e) for e in stmt_exprs(s)) and not reads_own(s)


def reads_own(s: Stmt) -> bool:
    """Whether ``s`` itself loads from an array that each thread has one of: what all of them hold alike is in none that
    the block has."""
    return any(isinstance(x, Load) and is_local_array(x.buffer) for e in stmt_exprs(s) for x in walk_expr(e))


UNMOVED = (InlineAsm, RawStmt, AsyncCopy, AsyncCommit, AsyncWait)
"""Statements that keep a kernel in thread form."""


def unsupported(body: Body) -> Stmt | None:
    """The first statement that only a thread program can express."""
    for s in walk(body):
        if isinstance(s, UNMOVED):
            return s
        for e in stmt_exprs(s):
            for x in walk_expr(e):
                if isinstance(x, HwIndex) and x.level in ("block_dim", "grid_dim"):
                    return s
    return None


def constant(value: int, like: Expr) -> Expr:
    assert isinstance(like.type, Scalar)
    return Const(value, like.type)


def loads(s: Stmt) -> set[Sym]:
    """Buffers read by ``s`` (not private scalars)."""
    return {x.buffer for x in all_exprs((s,)) if isinstance(x, Load)}


def stores(s: Stmt) -> set[Sym]:
    """Memory written by ``s``: shared and global buffers."""
    out = set()
    for x in walk((s,)):
        if isinstance(x, Store | Atomic) and getattr(x.buffer.type, "space", "local") != "local":
            out.add(x.buffer)
    return out
