"""Threads that a source sends away: ``if (threadIdx.x >= n) return;`` in a kernel whose threads meet afterwards.

Where such threads exist, those that stay wait for them, or exchange values with lanes that are gone: nothing is known
of that. Where ``n`` is at least the size of the block there are none, and the kernel is the one without the condition;
the launcher checks it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import is_exit
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import cast
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, Expr, HwIndex, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import without


def without_spare(kernel: Kernel, launch: Launch) -> Iterator[tuple[Assume, str, Kernel]]:
    """What may be assumed, how to say it, and ``kernel`` without the condition that is never true then."""
    params = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)}
    named = definitions(kernel.body)
    for s in kernel.body:
        if not is_exit(s):
            continue
        end = _end(expand(s.cond, named), params)
        if end is not None:
            t = end.type
            assert isinstance(t, Scalar)
            fact = Assume(Binary(">=", Var(end), cast(launch.block[0], t)), "guessed")
            what = f"'{end.name}' is at least the number of threads of a block"
            yield fact, what, kernel.with_(body=without(kernel.body, s))


def _end(cond: Expr, params: set[Sym]) -> Sym | None:
    """The parameter ``n`` where ``cond`` is ``threadIdx.x >= n``."""
    if not isinstance(cond, Binary):
        return None
    sides = {">=": (cond.a, cond.b), "<=": (cond.b, cond.a)}.get(cond.op)
    if sides is None or without_index_casts(sides[0]) != HwIndex("thread", "x"):
        return None
    end = without_index_casts(sides[1])
    return end.sym if isinstance(end, Var) and end.sym in params else None


__all__ = ["without_spare"]
