"""Loops that data may end early, as they are where data do not.

``for (k = 0; k < n && found < most; ++k)`` goes to ``n`` then. How far a kernel reaches into its rows would depend on
what a probe's buffers hold; callers have whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import ORDERINGS, Binary, Expr, For, Stmt, Sym
from ktc.ir.types import BOOL
from ktc.ir.walk import assigned, map_body, used


def with_whole_loops(k: Kernel) -> Kernel:
    """``k`` with loops that go on to where their counters end."""
    params = {p.sym for p in k.params}

    def whole(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return s
        end = _counted_end(s, params)
        return s if end is None else replace(s, cond=end)

    return k.with_(body=map_body(k.body, whole))


def _counted_end(loop: For, params: set[Sym]) -> Expr | None:
    """The one of the conditions of ``loop`` that compares its counter with parameters, where all others are about what
    its body changes; None if it has no others."""
    parts = [*_parts(loop.cond)]
    changed = assigned(loop.body) - {loop.var}
    ends = [e for e in parts if isinstance(e, Binary) and e.op in ORDERINGS and loop.var in used(e)]
    ends = [e for e in ends if used(e) <= params | {loop.var}]
    return (
        ends[0] if len(ends) == 1 < len(parts) and all(used(e) & changed for e in parts if e is not ends[0]) else None
    )


def _parts(e: Expr) -> Iterator[Expr]:
    """The conditions that hold together where ``e`` does; ``&`` of truths is written for ``&&``, too."""
    e = without_casts(e)
    both = isinstance(e, Binary) and e.op in ("&&", "&")
    if both and (e.op == "&&" or all(without_casts(x).type == BOOL for x in (e.a, e.b))):  # type: ignore[attr-defined]
        yield from (*_parts(e.a), *_parts(e.b))  # type: ignore[attr-defined]
    else:
        yield e


__all__ = ["with_whole_loops"]
