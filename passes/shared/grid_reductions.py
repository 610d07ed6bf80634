"""Reductions whose parts lie in several blocks: which these are, where they may stand, and what atomics combine."""

from __future__ import annotations

from ktc.ir.analysis.effects import has_effect
from ktc.ir.nodes import Body, If, Par, Reduce, Stmt, bodies
from ktc.ir.walk import walk


def spans_blocks(s: Stmt) -> bool:
    """Whether ``s`` is a reduction whose iterations several blocks share."""
    return isinstance(s, Reduce) and any(lv.kind == "block" for lv in s.dist)


def is_last_act(body: Body, s: Reduce) -> bool:
    """Whether ``s`` is in ``body``, nothing with an effect comes before it, and nothing after the loops around it.

    What follows it in its own list runs in one block, so it may not be spread over blocks.
    """
    for k, x in enumerate(body):
        before = body[:k]
        if x.var == s.var if isinstance(x, Reduce) else False:
            return not any(has_effect(y) for y in before) and not _uses_blocks(body[k + 1 :])
        if any(isinstance(y, Reduce) and y.var == s.var for y in walk((x,))):
            if any(has_effect(y) for y in before) or k + 1 < len(body):
                return False
            if isinstance(x, If):  # all blocks of one sum take the same way, before any of them has come to its end
                return not x.orelse and is_last_act(x.then, s)
            return isinstance(x, Par) and all(is_last_act(b, s) for b in bodies(x))
    return False


def _uses_blocks(body: Body) -> bool:
    return any(lv.kind == "block" for s in walk(body) if isinstance(s, Par | Reduce) for lv in s.dist)


__all__ = ["is_last_act", "spans_blocks"]
