"""Levels of an image pyramid, one behind the other in a buffer: how high and wide each is, and where it begins.

    for (l = 0; l < levels; l++) {
      h = shapes[2 * l]; w = shapes[2 * l + 1]; begin = starts[l];
      .. value[b * total * row + begin * row + (y * w + x) * row + c] ..          y < h, x < w
    }

Numbers that are drawn apart from each other say of no buffer how long it is. Drafts have four levels, each half as high
and as wide as the one before, as multi-scale attention has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Load, Sym, Var
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import initial_values, stmt_exprs, walk, walk_expr

from ..given_values import definitions, spelled_out
from ..inner_strides import accesses, addends
from ..roles import Roles

LEVELS = 4
"""How many levels there are."""

WIDTHS = tuple(2**n for n in reversed(range(LEVELS)))
"""How wide each level is over the last."""

TOTAL = sum(w * w for w in WIDTHS)
"""Elements of all of them over those of the last."""

SIZE = "level"
"""The size that is the width of the last level."""


@dataclass(frozen=True)
class LevelTable:
    """``levels``: the parameter that says how many there are; ``shapes`` and ``starts``: the buffers; ``total``: the
    parameters that are as much as all levels have."""

    levels: str
    shapes: str
    starts: str
    total: frozenset[str]


def with_levels(k: Kernel, roles: Roles) -> Roles:
    """``roles`` with what buffers of levels hold, and the sizes that are made of it; as they are where there are
    none."""
    for t in _tables(k):
        if t.levels not in roles.sizes:
            continue
        shapes = [f"{w} * {SIZE}".removeprefix("1 * ") for w in WIDTHS for _ in "hw"]
        starts = [f"{n} * {SIZE} * {SIZE}" if n else "0" for n in _before()]
        gone = {t.levels, *t.total}
        return replace(
            roles,
            sizes=(*(n for n in roles.sizes if n not in gone), SIZE),
            fixed={**roles.fixed, t.levels: LEVELS},
            tied={**roles.tied, **dict.fromkeys(t.total & {*roles.sizes}, f"{TOTAL} * {SIZE} * {SIZE}")},
            divisors=roles.divisors - gone,
            listed={**roles.listed, t.shapes: tuple(shapes), t.starts: tuple(starts)},
        )
    return roles


def _before() -> list[int]:
    """Elements of the levels before each, over those of the last."""
    return [sum(w * w for w in WIDTHS[:n]) for n in range(LEVELS)]


def _tables(k: Kernel) -> Iterator[LevelTable]:
    params, once = {p.sym for p in k.params}, initial_values(k.body)
    for loop in (s for s in walk(k.body) if isinstance(s, For)):
        end = without_casts(loop.cond.b) if isinstance(loop.cond, Binary) and loop.cond.op == "<" else None
        if not isinstance(end, Var) or end.sym not in params or evaluate(loop.init, {}) != 0:
            continue
        places = _places(loop, params, once)
        shapes = {b for b, _, _ in places if {(b, 2, 0), (b, 2, 1)} <= places}
        for begin in sorted({b for b, step, first in places if (step, first) == (1, 0)} - shapes):
            totals = [total for _, index in accesses(k) if (total := _total(index, begin, k)) is not None]
            if len(shapes) == 1 and totals:
                yield LevelTable(end.sym.name, shapes.pop(), begin, frozenset().union(*totals))
                break


def _places(loop: For, params: set[Sym], once: Mapping[Sym, Expr]) -> set[tuple[str, int, int]]:
    """The integer buffers that the loop goes through, each with by how much its index grows and where it begins."""
    found = set[tuple[str, int, int]]()
    for x in (x for s in walk(loop.body) for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)):
        if x.buffer in params and isinstance(x.buffer.type, Ptr) and scalar_of(x.buffer.type).is_int:
            index = expand(x.index[0], once)
            first, second, third = (evaluate(index, {loop.var.name: n}) for n in range(3))
            if first is not None and second is not None and third == 2 * second - first:
                found.add((x.buffer.name, int(second - first), int(first)))
    return found


def _total(index: Expr, begin: str, k: Kernel) -> set[str] | None:
    """The parameters that something is multiplied by in ``index`` beside all that elements of ``begin`` are; None where
    no such element is multiplied in it."""
    sources, params = definitions(k), {p.sym for p in k.params}
    single = {s: given[0] for s, given in sources.items() if len(given) == 1}
    terms = [_factors(e, sources) for e in addends(index, single)]
    rows = [[f for f in t if not _is_of(f, begin)] for t in terms if any(_is_of(f, begin) for f in t)]
    if not rows or not rows[0]:
        return None
    others = (t for t in terms if all(f in t for f in rows[0]) and not any(_is_of(f, begin) for f in t))
    return {f.sym.name for t in others for f in t if isinstance(f, Var) and f.sym in params and f not in rows[0]}


def _factors(e: Expr, sources: Mapping[Sym, list[Expr]]) -> list[Expr]:
    """What ``e`` is a product of, through variables."""
    e = spelled_out(e, sources)
    return [*_factors(e.a, sources), *_factors(e.b, sources)] if isinstance(e, Binary) and e.op == "*" else [e]


def _is_of(e: Expr, buffer: str) -> bool:
    return isinstance(e, Load) and e.buffer.name == buffer


__all__ = ["with_levels"]
