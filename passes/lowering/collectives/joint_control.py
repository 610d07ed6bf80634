"""Control flow that threads which must meet go through together: over a block, or over each warp by itself."""

from __future__ import annotations

from ktc.ir.nodes import Body, Expr, Stmt
from ktc.ir.walk import used
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State

from .reduction import within_warps


def stay_together(s: Stmt, control: tuple[Expr, ...], st: State) -> None:
    """Refuse control over a barrier that mentions a loop variable spread over threads.

    Raises:
        LoweringError: E-LOWER-DIVERGENT.
    """
    if any(used(st.resolve(e)) & st.threaded.keys() for e in control):
        raise divergent(s)


def divergent(s: Stmt) -> LoweringError:
    return LoweringError(
        "E-LOWER-DIVERGENT", "threads that must meet at a barrier below would take different ways here", s.loc
    )


def warp_takes_one_way(control: tuple[Expr, ...], body: Body, st: State) -> bool:
    """Whether ``control`` is the same for all lanes of a warp, and ``body`` has threads meet within warps only."""
    return "x" not in axes_of(control, st) and within_warps(body, st)


def axes_of(control: tuple[Expr, ...], st: State) -> frozenset[str]:
    """The thread axes along which ``control`` differs."""
    spread = (st.threaded[v] for e in control for v in used(st.resolve(e)) & st.threaded.keys())
    return frozenset[str]().union(*spread)
