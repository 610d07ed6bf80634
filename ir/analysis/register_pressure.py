"""An estimate of a thread's registers: the most values alive at one statement, before the device compiler's own work.

Liveness on the statement tree of a kernel in SPMD form: a variable is alive from its definition to its last use, and
through the whole of a loop that it is used in and was defined before. Private arrays count in full (they stay in
registers when every index is a constant after unrolling). 32-bit words; ``BASE`` stands for addresses, indices
and the scheduler's temporaries. ptxas decides: this is for ranking and for telling 40 from 200, not 40 from 48.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, Reduce, Scan, Stmt, Sym, While, bodies
from ktc.ir.types import Array, Ptr, Scalar, Type, Vec
from ktc.ir.walk import assigned, declared, stmt_exprs, used, walk

BASE = 10


def register_estimate(kernel: Kernel) -> int:
    """Registers (32-bit words) of one thread."""
    env = kernel.knob_values
    pointers = sum(2 for p in kernel.params if isinstance(p.sym.type, Ptr) and p.sym in _mentioned(kernel.body))
    return BASE + pointers + max(_most(kernel.body, frozenset(), env), 0)


def _most(body: Body, after: frozenset[Sym], env: Mapping[str, int]) -> int:
    """The most words alive at a statement of ``body``; ``after`` is alive when it ends."""
    alive = set(after)
    worst = _words(alive, env)
    for s in reversed(body):
        inside = set(alive)
        if isinstance(s, For | While | Reduce | Scan):  # what a loop uses from outside lives through all of it
            inside |= _mentioned((s,)) - set(declared((s,)))
        for b in bodies(s):
            worst = max(worst, _most(b, frozenset(inside), env))
        alive |= _mentioned((s,))
        worst = max(worst, _words(alive, env))
        alive -= set(_defined(s))
    return worst


def _defined(s: Stmt) -> list[Sym]:
    return [s.sym] if hasattr(s, "sym") and s.sym in set(declared((s,))) else []


def _mentioned(body: Body) -> set[Sym]:
    out = assigned(body)
    for s in walk(body):
        for e in stmt_exprs(s):
            out |= used(e)
    return out


def _words(alive: set[Sym], env: Mapping[str, int]) -> int:
    return sum(_size(s.type, env) for s in alive)


def _size(t: Type, env: Mapping[str, int]) -> int:
    if isinstance(t, Scalar):
        return (t.bits + 31) // 32
    if isinstance(t, Vec):
        n = t.n if isinstance(t.n, int) else evaluate(t.n, env)
        return (int(n or 1) * t.elem.bits + 31) // 32
    if isinstance(t, Array) and t.space == "local":
        n = 1
        for e in t.shape:
            n *= int((e if isinstance(e, int) else evaluate(e, env)) or 1)
        return n * _size(t.elem, env)
    return 0
