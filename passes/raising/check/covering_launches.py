"""Launches whose grid and block the host passes: that they have a thread for each element is all that a kernel asks.

    scale<<<grid, block>>>(x, n)           i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) ...

Its loop runs to ``min(n, grid.x * block.x)``. A workload says that ``grid.x`` is ``cdiv(n, 256)``, where blocks have
256 threads; other callers have other blocks, and as many of them as cover ``n``. That is assumed, and a launcher tests
it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.arith.integer_casts import without_casts, without_index_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Alloc, Barrier, Binary, Call, Expr, Sym, Var, WarpOp
from ktc.ir.storage import is_shared
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used_in, walk


def in_covering_launch(kernel: Kernel) -> Kernel | None:
    """``kernel`` for launches that cover what its workload's does, along the axes of which the host passes both
    extents; None where there are none, or threads of a block work together: then they ask for more."""
    launch = kernel.launch
    if launch is None or _meets(kernel):
        return None
    facts = tuple(Assume(e, "guessed") for e in _covered(kernel, launch))
    return kernel.with_(assumptions=(*kernel.assumptions, *facts)) if facts else None


def _meets(kernel: Kernel) -> bool:
    shared = any(isinstance(s, Barrier) or (isinstance(s, Alloc) and is_shared(s.sym)) for s in walk(kernel.body))
    return shared or any(isinstance(e, WarpOp) for e in all_exprs(kernel.body))


def _covered(kernel: Kernel, launch: Launch) -> Iterator[Expr]:
    """What the launch has at least as many threads for, along each such axis."""
    host = {p.sym for p in kernel.params if p.host} - used_in(kernel.body)
    passed, numbers = dict(launch.passed), dict(launch.given)
    for grid, block in zip(launch.grid, launch.block):
        g, b = _variable(grid), _variable(block)
        if g is None or b is None or not {g, b} <= host or g == b or g.name not in passed:
            continue
        elements = _rounded_up(passed[g.name], numbers.get(b.name))
        if elements is not None and g.type == b.type == elements.type:
            yield Binary(">=", Binary("*", Var(g), Var(b)), elements)


def _variable(e: Expr) -> Sym | None:
    e = without_index_casts(e)
    return e.sym if isinstance(e, Var) and isinstance(e.type, Scalar) else None


def _rounded_up(e: Expr, by: object) -> Expr | None:
    """What ``e`` is the quotient of, rounded up, by the number ``by``; None if it is none."""
    match without_casts(e):
        case Call(fn="cdiv", args=(n, d)) if evaluate(d, {}) == by:
            return n
    return None


__all__ = ["in_covering_launch"]
