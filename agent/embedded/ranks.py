"""Kernels for tensors of any rank: an index is taken apart by extents that lie in memory, one dimension a round.

    for d in 0..rank:  at += i % dims[d] * strides[d];  i /= dims[d]

A division takes longer than all else that such kernels do. With the rank that they are called with, which a launcher
tests, rounds are statements, and divisions by elements that all threads read are products with reciprocals.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, For, Load
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used, walk, walk_expr
from ktc.passes.scalar.written_out import MOST_ROUNDS

from .trials import after

DIVIDED = "invariant-division"


def of_known_rank(raised: Kernel, seen: Sequence[KernelFacts]) -> tuple[str, Kernel]:
    """The steps, each with a bar behind it, that bind the numbers of rounds in which ``raised`` divides by elements of
    buffers, if they are the same at all sizes ``seen``, and the kernel then; '' and the same where there are none."""
    asked = {s.name for loop in walk(raised.body) if isinstance(loop, For) and _divides(loop) for s in _ends(loop)}
    bound = {p.sym.name for p in raised.params if p.sym.name in asked and isinstance(p.sym.type, Scalar)}
    values = {n: {f.sizes.get(n) for f in seen} for n in sorted(bound)}
    known = {n: v for n, found in values.items() if len(found) == 1 and isinstance(v := next(iter(found)), int)}
    if not known or any(not 0 < v <= MOST_ROUNDS for v in known.values()):
        return "", raised
    steps = f"specialize{{{' '.join(f'{n}={v}' for n, v in known.items())}}}"
    there = after(raised, steps)
    if there is None or after(there, DIVIDED) is None:
        return "", raised
    return f"{steps} | ", there


def _ends(loop: For) -> set:
    """The variables that say how often ``loop`` goes round."""
    return used(loop.init) | used(loop.cond)


def _divides(loop: For) -> bool:
    """Whether ``loop`` divides by elements of buffers that hang on its counter."""
    quotients = (e for e in all_exprs(loop.body) if isinstance(e, Binary) and e.op in ("/", "%"))
    return any(isinstance(x, Load) for e in quotients for x in walk_expr(e.b))


__all__ = ["DIVIDED", "of_known_rank"]
