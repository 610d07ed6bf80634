"""Guards that wait because some statement below must be reached by every thread, and the control flow they cover.

A value that is set under such a guard is set for the iterations that there are, and a loop bound or condition that
reads it runs in every thread. Where nothing inside must be reached by all threads, the guard goes around the loop or
the ``if`` as a whole; where something must, the control may read no such value.

before (row < rows waits for a shuffle below)      after
    int last; if (row < rows) last = ends[row]         int last; if (row < rows) last = ends[row]
    for (k = tid; k < last; k += 32)                   if (row < rows)
      if (row < rows) sum += x[k]                        for (k = tid; k < last; k += 32) sum += x[k]
    sum += shuffle(sum)                                sum += shuffle(sum)
"""

from __future__ import annotations

from ktc.ir.nodes import Body, Expr, Stmt
from ktc.ir.walk import used
from ktc.passes.lowering.collectives.joint_control import warp_takes_one_way
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State

from .scope import Scope, guard_of, is_convergent


def settled(s: Stmt, body: Body, scope: Scope, st: State, meets: bool) -> tuple[Expr | None, Scope]:
    """The condition to put around ``s``, a statement of control flow over ``body``, and the scope inside it.

    ``meets``: whether all threads of the block meet somewhere in ``body``. Guards over jammed iterations keep waiting:
    outside of them nothing decides which iteration is meant.
    """
    now = tuple(g for g in scope.guards if not g.jams)
    apart = not is_convergent(body) or warp_takes_one_way(tuple(g.cond for g in now), body, st)
    if meets or not now or not apart:
        return None, scope
    return guard_of(now, frozenset()), scope.inside(guards=tuple(g for g in scope.guards if g.jams))


def steered_by_all(s: Stmt, control: tuple[Expr, ...], scope: Scope, st: State) -> None:
    """Refuse ``control`` of ``s`` that reads what only threads with an iteration of their own have set.

    Raises:
        LoweringError: E-LOWER-GUARD.
    """
    unset = {v for e in control for v in used(st.expr(e)) & st.unset} if scope.guards else ()
    for v in sorted(unset, key=lambda v: v.name):
        raise LoweringError(
            "E-LOWER-GUARD",
            f"all threads meet below, and '{v.name}', which says whether or how often, is only set in those that have "
            "an iteration of the enclosing loop",
            s.loc,
            hint="spread the enclosing loop over a number of threads that divides it, or over blocks alone",
        )  # fmt: skip


__all__ = ["settled", "steered_by_all"]
