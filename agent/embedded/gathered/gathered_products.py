"""Sums over several loops that are one product: which loops are its rows, its columns and its terms.

    par n, y, x, k: for r, s, c: acc += f32(in(y + r, x + s) ? a[n, y + r, x + s, c] : 0) * f32(w[r, s, c, k])

Loops that only one factor's place (or what is asked before it is read) depends on are a side of the product; those of
both are a batch of products. The innermost loop's side gives the columns: results lie along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import is_name
from ktc.ir.arith.counted_loops import counting
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Cast, Const, Decl, Expr, For, Load, Par, Select, Sym, Var
from ktc.ir.types import BF16, F16, F32
from ktc.ir.walk import substitute_expr, used
from ktc.passes.shared.tiles import paths


@dataclass(frozen=True)
class Factor:
    """One factor of the terms: the element, and what its value depends on."""

    load: Load
    depends: frozenset[Sym]
    asked: bool
    """Whether a condition makes a zero of it."""


@dataclass(frozen=True)
class GatheredProduct:
    """A nest of parallel loops, outermost first, around serial loops that sum ``a * b``. ``sides``: the loops that only
    ``a`` depends on, and only ``b``; the others are the ``batch``."""

    around: tuple[Par, ...]
    terms: tuple[For, ...]
    factors: tuple[Factor, Factor]

    @property
    def sides(self) -> tuple[tuple[Par, ...], tuple[Par, ...]]:
        a, b = (f.depends for f in self.factors)
        first, second = (tuple(p for p in self.around if p.var in x and p.var not in y) for x, y in ((a, b), (b, a)))
        return (first, second)

    @property
    def batch(self) -> tuple[Par, ...]:
        a, b = self.sides
        return tuple(p for p in self.around if p not in a and p not in b)

    @property
    def in_order(self) -> tuple[tuple[Par, ...], tuple[Par, ...]]:
        """The sides, that of the innermost loop last."""
        a, b = self.sides
        return (a, b) if self.around[-1] in b else (b, a)

    @property
    def ordered(self) -> tuple[Par, ...]:
        """The loops of the batch first, and those of either side next to each other."""
        first, last = self.in_order
        return (*self.batch, *first, *last)


def gathered_products(kernel: Kernel) -> Iterator[GatheredProduct]:
    """The sums of ``kernel`` that are products of two 16-bit elements in f32, over several loops, or with zeros for
    some elements."""
    names = definitions(kernel.body)
    for path in paths(kernel.body):
        outer, around = path[-1], path[:-1]
        if not isinstance(outer, For) or not around or not all(isinstance(p, Par) for p in around):
            continue
        nest = _nest(outer)
        factors = _factors(nest[-1].body, names) if nest else None
        if not nest or factors is None or (len(nest) == 1 and not any(f.asked for f in factors)):
            continue
        found = GatheredProduct(tuple(p for p in around if isinstance(p, Par)), nest, factors)
        inner = nest[-1].var
        if all(found.sides) and all(inner in f.depends for f in factors) and _is_plain(found):
            yield found


def _is_plain(found: GatheredProduct) -> bool:
    """Whether all loops run as often whatever the others say."""
    moving = {*(s.var for s in found.around), *(s.var for s in found.terms)}
    bounds = [e for p in found.around for e in (p.lo, p.hi)]
    return not any(used(e) & moving for e in bounds) and all(
        (form := counting(s)) is not None and form.from_zero_by_one and not used(form.hi) & moving for s in found.terms
    )


def _nest(loop: For) -> tuple[For, ...]:
    """``loop`` and those right inside each other in it, with nothing but names of values in between."""
    nest = [loop]
    while nest[-1].body and isinstance(inner := nest[-1].body[-1], For):
        if not all(is_name(d, inner.body) for d in nest[-1].body[:-1]):
            return ()
        nest.append(inner)
    return tuple(nest)


def _factors(body: Body, names: dict[Sym, Expr]) -> tuple[Factor, Factor] | None:
    """The factors of what ``body`` adds to a variable, if that is a product of two elements."""
    *front, update = body or (None,)
    env: dict[Sym, Expr] = {}
    for d in front:
        if not isinstance(d, Decl) or d.init is None:
            return None
        env[d.sym] = substitute_expr(d.init, env)
    match update:
        case Assign(sym=x, value=Binary("+", Var(y), Binary("*") as term)) if x == y and term.type == F32:
            found = [_factor(expand(substitute_expr(e, env), names)) for e in (term.a, term.b)]
            a, b = found
            return (a, b) if a is not None and b is not None else None
    return None


def _factor(e: Expr) -> Factor | None:
    """``f32(a[..])``, or zero where a condition says so."""
    depends, asked = frozenset(used(e)), False
    while isinstance(e, Cast | Select):
        if isinstance(e, Select):
            if not isinstance(e.b, Const) or e.b.value != 0:
                return None
            asked, e = True, e.a
        else:
            e = e.x
    if not isinstance(e, Load) or e.type not in (F16, BF16) or len(e.index) != 1 or e.width != 1:
        return None
    return Factor(e, depends, asked)


__all__ = ["Factor", "GatheredProduct", "gathered_products"]
