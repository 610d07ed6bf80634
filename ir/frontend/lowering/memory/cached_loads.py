"""``__ldg`` of memory that the kernel also writes: an ordinary load, which sees the same or newer values."""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.nodes import Expr, Load, Stmt
from ktc.ir.walk import all_exprs, assigned, keep, map_body


def plainly_loaded(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """``body`` without the read-only hint on loads from buffers that it writes.

    The hint promises that nobody writes there while the kernel runs. Where the kernel itself does, the program has a
    meaning only if each such element is read before it is written, and then a plain load reads the same.
    """
    hinted = {x.buffer for x in all_exprs(body) if isinstance(x, Load) and x.cache == "ldg"}
    written = assigned(body) & hinted if hinted else set()
    if not written:
        return body

    def expr(e: Expr) -> Expr:
        return replace(e, cache="") if isinstance(e, Load) and e.cache == "ldg" and e.buffer in written else e

    return map_body(body, keep, expr)
