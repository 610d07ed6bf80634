"""Parameters that only say how far apart things lie: ``x[token * stride + i]``.

A number as small as a size makes rows lie on each other, and a source that writes them has races of its own, in which
nothing can be compared. Strides are drawn apart from sizes, from numbers of all magnitudes: some of them are in order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Expr, For, Par, Reduce, Sym
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used, walk, walk_expr

APART = (16, 48, 96, 192, 384, 1024, 2112, 6144)
"""Strides: multiples of 16, so that vectors of any width stay aligned."""

FEW = 12
"""Sizes that go with them are at most this large."""


@by_identity(64)
def strides_of(kernel: Kernel) -> frozenset[str]:
    """Integer parameters that something is multiplied by, and that neither the launch nor a bound asks for."""
    named = definitions(kernel.body)
    exprs = [expand(e, named) for e in all_exprs(kernel.body)]
    scaled = _used_in(side for e in exprs for x in walk_expr(e) if isinstance(x, Binary) and x.op == "*"
                      for side in (x.a, x.b))  # fmt: skip
    bounds = [side for e in exprs for x in walk_expr(e) if isinstance(x, Binary) and x.op in COMPARISONS
              for side in (x.a, x.b)]  # fmt: skip
    for s in walk(kernel.body):
        if isinstance(s, Par | Reduce):
            bounds += [expand(s.lo, named), expand(s.hi, named)]
        elif isinstance(s, For):
            bounds += [expand(s.init, named), expand(s.cond, named)]
    geometry = (*kernel.launch.grid, *kernel.launch.block) if kernel.launch is not None else ()
    other = _used_in(bounds) | _used_in(geometry)
    mine = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    return frozenset(s.name for s in (scaled - other) & mine)


def _used_in(exprs: Iterable[Expr]) -> set[Sym]:
    return {s for e in exprs for s in used(e)}


def drawn_apart(kernel: Kernel, scalars: dict[str, int | float], rng: random.Random) -> dict[str, int | float]:
    """``scalars`` with strides that may be larger than what lies between."""
    bounds = {p.sym.name: (p.range, max(1, p.divisible_by)) for p in kernel.params}
    out = dict(scalars)
    for name in sorted(strides_of(kernel) & scalars.keys()):
        (lo, hi), step = bounds[name]
        fits = [n * step for n in APART if (lo is None or n * step >= lo) and (hi is None or n * step <= hi)]
        if fits:
            out[name] = rng.choice(fits)
    return out


__all__ = ["FEW", "drawn_apart", "strides_of"]
