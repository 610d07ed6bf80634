"""What a ticket may be: the old value of a counter that goes round from its limit to zero.

``t = atomic inc c[i], last`` counts from zero to ``last`` and begins again. Working memory begins as zeros; if nothing
but such increments by one limit ever touches it, every ticket is within zero and that limit. The limit is made of the
launch alone, so that what is known of it holds for every launch that left something in the counter.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Atomic, Binary, Cast, Const, Expr, HwIndex, Knob, Load, Sym, Var, has_bodies
from ktc.ir.walk import all_exprs, assigned, walk, walk_expr

from .interval_arithmetic import Interval

LAUNCH = (Const, Knob, Cast, Binary)


def limit_of(s: Atomic, kernel: Kernel) -> Expr | None:
    """The largest value that ``s`` may give its variable; None if that is not known."""
    counter = next((p for p in kernel.params if p.sym == s.buffer and p.scratch is not None), None)
    if counter is None or counter.init or s.op != "inc" or not _of_the_launch(s.value):
        return None
    writers = [x for x in walk(kernel.body) if not has_bodies(x) and s.buffer in assigned((x,))]
    alike = all(isinstance(x, Atomic) and x.op == "inc" and x.value == s.value for x in writers)
    return s.value if alike and not any(_names(e, s.buffer) for e in all_exprs(kernel.body)) else None


def up_to(limit: Interval | None) -> Interval | None:
    """What a ticket may be whose limit is one of these."""
    return (0, limit[1]) if limit is not None and limit[0] >= 0 else None


def _names(e: Expr, counter: Sym) -> bool:
    return e == Var(counter) or (isinstance(e, AddrOf | Load) and e.buffer == counter)


def _of_the_launch(e: Expr) -> bool:
    return all(isinstance(x, LAUNCH) or (isinstance(x, HwIndex) and x.level.endswith("_dim")) for x in walk_expr(e))


__all__ = ["limit_of", "up_to"]
