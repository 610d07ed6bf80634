"""A block's business that one thread does for all of them: which one it is does not matter.

    barrier
    if tid == 0                            if tid == 1
      ticket = atomic inc t[0], n            ticket = atomic inc t[0], n
      last[0] = ticket == n                  last[0] = ticket == n
    barrier

All threads meet before and after, and what is done between hangs on nothing that they have of their own.
"""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.analysis.uniformity import Uniformity, uniformity
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Atomic, Barrier, Body, Decl, Expr, Fence, HwIndex, If, Load, Stmt, Store, Sym, Var
from ktc.ir.types import Array
from ktc.ir.walk import declared, stmt_exprs, walk, walk_expr
from tests.mutation.symbolic.single import only_thread

WHICHEVER = "any thread may do what one does for all of its block, between two barriers"

QUIET = (Assign, Atomic, Decl, Fence, If, Store)


def elected(kernel: Kernel, body: Body, k: int, other: Stmt) -> str:
    """Why the statement ``k`` of ``body``, in ``kernel``, may as well be ``other``, which another thread comes to; ''
    if that is not shown."""
    s = body[k]
    if not isinstance(s, If) or not isinstance(other, If) or s.orelse or replace(other, cond=s.cond) != s:
        return ""
    if not (0 < k < len(body) - 1 and all(_everybody_meets(kernel, body[n]) for n in (k - 1, k + 1))):
        return ""
    threads = None if kernel.launch is None else evaluate(kernel.launch.block[0], kernel.knob_values)
    numbers = [only_thread(kernel, cond) for cond in (s.cond, other.cond)]
    if threads is None or not all(n is not None and 0 <= n < int(threads) for n in numbers):
        return ""
    return WHICHEVER if _of_the_block(s.then, uniformity(kernel)) else ""


def _everybody_meets(kernel: Kernel, s: Stmt) -> bool:
    return isinstance(s, Barrier) and s.scope == "block" and not uniformity(kernel).is_divergent(s)


def _of_the_block(body: Body, facts: Uniformity) -> bool:
    """Whether ``body`` neither asks for what threads have of their own, nor leaves any of them something."""
    own = set(declared(body))

    def common(e: Expr) -> bool:
        if isinstance(e, Load):
            return _shared(e.buffer)
        if isinstance(e, Var | HwIndex):
            return (isinstance(e, Var) and e.sym in own) or facts.is_uniform(e)
        return True

    for s in walk(body):
        kept = s.sym if isinstance(s, Assign) else s.dst if isinstance(s, Atomic) else None
        buffer = s.buffer if isinstance(s, Atomic | Store) else None
        parts = (e for top in stmt_exprs(s) for e in walk_expr(top))
        if not isinstance(s, QUIET) or (kept is not None and kept not in own):
            return False
        if (buffer is not None and not _shared(buffer)) or not all(map(common, parts)):
            return False
    return True


def _shared(buffer: Sym) -> bool:
    """Whether all threads of a block see one array."""
    return not isinstance(buffer.type, Array) or buffer.type.space == "shared"


__all__ = ["WHICHEVER", "elected"]
