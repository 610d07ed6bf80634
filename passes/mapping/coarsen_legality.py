"""Whether the threads or blocks of a kernel in SPMD form can be coarsened."""

from __future__ import annotations

from ktc.ir.analysis.order import is_exit, places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Body,
    For,
    HwIndex,
    If,
    InlineAsm,
    Raw,
    RawStmt,
    Return,
    Stmt,
    Unary,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.walk import stmt_exprs, walk, walk_expr
from ktc.passes.core.refusals import Refusal

from .work_copies import depends, is_uniform, varying_symbols

OPAQUE = (InlineAsm, RawStmt, AsyncCopy, AsyncCommit, AsyncWait)


def has_warp_ops(kernel: Kernel) -> bool:
    """Whether lanes of a warp exchange values or wait for each other."""
    return any(isinstance(s, Barrier) and s.scope == "warp" for s in walk(kernel.body)) or any(
        isinstance(x, WarpOp) for s in walk(kernel.body) for e in stmt_exprs(s) for x in walk_expr(e)
    )


def check(kernel: Kernel, level: str, axis: str, strided: bool) -> None:
    """The kernel's threads or blocks can be coarsened along ``axis``, or it is refused."""
    if kernel.launch is None:
        raise Refusal("E-COARSEN-LAUNCH", "the kernel's launch is not known", hint="give [launch] in the workload")
    for s in walk(kernel.body):
        if isinstance(s, OPAQUE) or any(isinstance(x, Raw) for e in stmt_exprs(s) for x in walk_expr(e)):
            raise Refusal("E-COARSEN-OPAQUE", "opaque code may read the thread's own index", places(s))
        if isinstance(s, Barrier) and s.scope not in ("block", "warp"):
            raise Refusal("E-COARSEN-BARRIER", f"a barrier of scope {s.scope}", places(s))
        if level == "block" and isinstance(s, Alloc) and s.dynamic:
            why = f"blocks need a copy of '{s.sym.name}' each, and its size is only known to the launch"
            raise Refusal("E-COARSEN-SHARED", why, places(s), "make it a static array")
    if level == "thread" and has_warp_ops(kernel):
        x = kernel.launch.block[0]
        whole_rows = hasattr(x, "value") and x.value % 32 == 0  # type: ignore[attr-defined]
        if (axis == "x" and not strided) or (axis != "x" and not whole_rows):
            hint = "map=strided on x" if axis == "x" else ""
            raise Refusal("E-COARSEN-WARP", "lanes would change their warp", hint=hint)
    body = returns_as_guards(kernel.body)
    late = next((s for s in walk(body) if isinstance(s, Return)), None)
    if late is not None:
        raise Refusal("E-COARSEN-RETURN", "a return that is not a guard on the rest of the kernel", places(late))
    varying = varying_symbols(body, HwIndex(level, axis))
    for s in walk(body):
        if isinstance(s, If | For | While) and synchronises(s) and not is_uniform(s, varying):
            why = f"a barrier stands under control that depends on the {level}"
            raise Refusal("E-COARSEN-BARRIER", why, places(s))
        if isinstance(s, Barrier) and any(depends(e, varying) for e in stmt_exprs(s)):
            why = f"who meets at a barrier depends on the {level}"
            raise Refusal("E-COARSEN-BARRIER", why, places(s))


def returns_as_guards(body: Body) -> Body:
    """``if (c) return; rest`` at the top of a kernel as ``if (!c) { rest }``; other returns stay."""
    for k, s in enumerate(body):
        if is_exit(s):
            rest = returns_as_guards(body[k + 1 :])
            return (*body[:k], If(Unary("!", s.cond), rest, loc=s.loc, comments=s.comments))
    return body


def guards_as_returns(body: Body) -> Body:
    """A last ``if (!c) { rest }`` with barriers in it as ``if (c) return; rest``: barriers wait for no thread that has
    left, but for those that pass by."""
    last = body[-1] if body else None
    if not isinstance(last, If) or last.orelse or not synchronises(last):
        return body
    leaves = last.cond.x if isinstance(last.cond, Unary) and last.cond.op == "!" else Unary("!", last.cond)
    first = If(leaves, (Return(),), loc=last.loc, comments=last.comments)
    return (*body[:-1], first, *guards_as_returns(last.then))


def synchronises(s: Stmt) -> bool:
    return any(isinstance(x, Barrier) for x in walk((s,)))
