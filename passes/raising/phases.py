"""What threads do between two barriers, read as the code of their block.

before                                                   after
    par tx in 0..256 @ [thread.x 256]                      if whole
      if whole                                               par i in 0..n / 4 @ [thread.x 256, seq] ...
        for i in tx..n / 4 step 256 ...                    else
      else                                                   par i in 0..n @ [thread.x 256, seq] ...
        for i in tx..n step 256 ...

A loop over threads keeps the shape of the block. Where all of its threads take one way, and their loops are dealt out
over them, its iterations are those of the loops.
"""

from __future__ import annotations

from ktc.ir.fold import cast, fold_node
from ktc.ir.kernel import Launch
from ktc.ir.nodes import Body, For, HwIndex, If, Level, Par, Stmt
from ktc.ir.types import Scalar
from ktc.ir.walk import keep, map_body, substitute, walk

from .block import Blocked, raise_block
from .coordinates import hw_indices, inline_thread_values


def opened(body: Body, launch: Launch) -> Body:
    """``body`` with such loops over threads as the loops in them."""

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, Par) or s.dist != (Level("thread", launch.block[0], "x"),) or not _has_ways(s.body):
            return s
        t = s.var.type
        assert isinstance(t, Scalar)
        inner = substitute(s.body, {s.var: cast(HwIndex("thread", "x"), t)})
        inner, coordinates = inline_thread_values(map_body(inner, keep, fold_node), launch)
        if coordinates:
            return s
        try:
            found = next(raise_block(inner, launch))
        except Blocked:
            return s
        return s if any(h.level == "thread" for h in hw_indices(found)) else found

    return map_body(body, on)


def _has_ways(body: Body) -> bool:
    """Whether some loop of ``body`` stands under a condition: others are opened one by one (``tidy``)."""
    return any(isinstance(x, For) for s in walk(body) if isinstance(s, If) for x in walk((s,)))


__all__ = ["opened"]
