"""Blocks that differ in what they write and weigh, not in what they read: output channels of a convolution.

    par k @ [block.z]: par y, x: for c, r, s: acc += in[c, y + r, x + s] * w[k, c, r, s]

Each block of pixels loads all of ``in`` once for every channel. A thread that takes several channels loads an element
once for all of them, and asks once whether it lies within the image.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Expr, For, Load, Par
from ktc.ir.storage import is_visible
from ktc.ir.walk import all_exprs, used, walk, walk_expr

from .nest_shapes import Idea

GAIN = 4.0
"""Eight products from nine loads, over one from two behind a condition of its own."""

FACTORS = "$UK:(2,4,8,16)"


def shared_inputs(raised: Kernel) -> Iterator[Idea]:
    """Several iterations a thread, for each loop over blocks alone around sums with a factor that does not change."""
    defs = definitions(raised.body)
    for loop in walk(raised.body):
        if not isinstance(loop, Par) or not loop.dist or any(level.kind != "block" for level in loop.dist):
            continue
        cols = [p for p in walk(loop.body) if isinstance(p, Par) and _kinds(p) == {"thread", "block"}]
        loads = [expand(x.index[0], defs) for s in _sums(loop.body) for x in _loads(s.body)]
        mine = [index for index in loads if loop.var in used(index)]
        shared = [index for index in loads if loop.var not in used(index) and used(index) & {p.var for p in cols}]
        if not mine or not shared:
            continue
        axis = loop.dist[0].axis or "x"
        several = f"distribute{{loop={loop.var.name} map=[unroll {FACTORS}, block.{axis}] tail=cut}}"
        shape = " | ".join(_shape(p) for p in cols)
        name = loop.var.name
        yield f"{several} | {shape}", f"several {name} a thread share what they read", GAIN
        yield several, f"several {name} a thread share what they read, blocks as they are", GAIN


def _shape(p: Par) -> str:
    """``p`` with as many threads as the search likes."""
    thread, block = (next(level for level in p.dist if level.kind == kind) for kind in ("thread", "block"))
    axis = thread.axis or "x"
    return f"distribute{{loop={p.var.name} map=[thread.{axis} $T{axis.upper()}, block.{block.axis or 'x'}]}}"


def _kinds(p: Par) -> set[str]:
    return {level.kind for level in p.dist}


def _sums(body: Body) -> list[For]:
    """The innermost serial loops of ``body``."""
    loops = [s for s in walk(body) if isinstance(s, For)]
    return [s for s in loops if not any(isinstance(x, For) for x in walk(s.body))]


def _loads(body: Body) -> Iterator[Load]:
    """What is read of memory in ``body``."""
    exprs: Iterator[Expr] = (x for e in all_exprs(body) for x in walk_expr(e))
    return (x for x in exprs if isinstance(x, Load) and is_visible(x.buffer))
