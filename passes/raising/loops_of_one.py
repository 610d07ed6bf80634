"""Loops that one thread goes through for its block, and that do several things: a loop for each of them.

before                                      after
    for j in 0..n                               for j in 0..n
      s[j] = exp(s[j] - m)                        s[j] = exp(s[j] - m)
      total += s[j]                             for j_1 in 0..n
                                                  total += s[j_1]

What is stored for others one thread stores, and what is added up all of them know: as one loop it could not be lowered,
where a thread adds up what it has not stored itself.
"""

from __future__ import annotations

from ktc.ir.analysis.effects import has_effect
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Stmt
from ktc.ir.storage import is_private
from ktc.ir.walk import assigned, declared, walk
from ktc.passes.core.refusals import Refused, attempted
from ktc.passes.loops.fission import cut


def in_parts(raised: Kernel) -> Kernel | None:
    """``raised`` with each serial loop cut between what it stores for others and what it only keeps in variables; None
    where there is no such loop, or none can be cut."""
    done, at = raised, 0
    while at < len(loops := [s for s in walk(done.body) if _does_both(s)]):
        halves = _cut(done, loops[at])
        at += halves is None
        done = halves or done
    return None if done is raised else done


def _does_both(s: Stmt) -> bool:
    """Whether a loop stores for others and changes variables from outside."""
    return isinstance(s, For) and has_effect(s) and _keeps(s)


def _keeps(s: Stmt) -> bool:
    """Whether ``s`` changes variables from outside."""
    return any(map(is_private, assigned((s,)) - set(declared((s,)))))


def _cut(kernel: Kernel, loop: Stmt) -> Kernel | None:
    """``kernel`` with ``loop`` as two that both do something, one of which does not do both; None if it cannot be cut
    so."""
    assert isinstance(loop, For)
    for at in range(1, len(loop.body)):
        done = attempted(cut, kernel, loop, at)
        if isinstance(done, Refused):
            continue
        kernel_in_two, *halves = done
        if all(has_effect(h) or _keeps(h) for h in halves) and not all(map(_does_both, halves)):
            return kernel_in_two
    return None


__all__ = ["in_parts"]
