"""Parameters that only say how far apart things lie: ``x[token * stride + i]``.

A number as small as a size makes rows lie on each other, and a source that writes them has races of its own, in which
nothing can be compared. Strides are drawn apart from sizes: from numbers of all magnitudes, some of which are in order,
or so that those of one access lie in each other, ``x[token * outer + head * inner + i]``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Atomic, Binary, Expr, For, Load, Par, Reduce, Store, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import all_exprs, initial_values, used, walk, walk_expr

APART = (16, 48, 96, 192, 384, 1024, 2112, 6144)
"""Strides: multiples of 16, so that vectors of any width stay aligned."""

INNERMOST, WITHIN = (192, 384), 32
"""The innermost stride of an access, and how many of it the next one is: more than there are sizes beside strides."""

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


@by_identity(64)
def nests_of(kernel: Kernel) -> tuple[tuple[str, ...], ...]:
    """The strides of each access that has several, in the order in which its index names them."""
    strides, named = strides_of(kernel), initial_values(kernel.body)
    accesses = [(s.index, s.buffer) for s in walk(kernel.body) if isinstance(s, Store | Atomic)]
    accesses += [(x.index, x.buffer) for e in all_exprs(kernel.body) for x in walk_expr(e) if isinstance(x, Load)]
    found: dict[tuple[str, ...], None] = {}
    for index, buffer in accesses:
        if isinstance(buffer.type, Ptr):
            parts = (x for e in index for x in walk_expr(expand(e, named)))
            names = dict.fromkeys(x.sym.name for x in parts if isinstance(x, Var) and x.sym.name in strides)
            found[tuple(names)] = None
    return tuple(names for names in found if len(names) > 1)


def _used_in(exprs: Iterable[Expr]) -> set[Sym]:
    return {s for e in exprs for s in used(e)}


def drawn_apart(kernel: Kernel, scalars: dict[str, int | float], rng: random.Random) -> dict[str, int | float]:
    """``scalars`` with strides that may be larger than what lies between."""
    bounds = {p.sym.name: (p.range, max(1, p.divisible_by)) for p in kernel.params}
    out = dict(scalars)
    nested = _nested(nests_of(kernel), rng) if rng.random() < 0.5 else {}
    for name in sorted(strides_of(kernel) & scalars.keys()):
        (lo, hi), step = bounds[name]
        wanted = (nested[name],) if name in nested else APART
        fits = [n * step for n in wanted if (lo is None or n * step >= lo) and (hi is None or n * step <= hi)]
        if fits:
            out[name] = rng.choice(fits)
    return out


def _nested(nests: tuple[tuple[str, ...], ...], rng: random.Random) -> dict[str, int]:
    """Strides of which each is larger than all that lies in the next one; the first of an access is the largest, or
    the last is."""
    inner, first = rng.choice(INNERMOST), rng.random() < 0.7
    out: dict[str, int] = {}
    for names in nests:
        for depth, name in enumerate(reversed(names) if first else names):
            out.setdefault(name, inner * WITHIN**depth)
    return out


__all__ = ["FEW", "drawn_apart", "nests_of", "strides_of"]
