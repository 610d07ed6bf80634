"""Tables that a kernel searches: their elements have to ascend, and what is looked for has to lie among them.

    for (x = 0; x < n; x++) if (cdf[x] >= u[i]) break;          the first that is no less
    while (lo < hi) { .. if (keys[mid] < x[i]) lo = mid + 1; else hi = mid; }

Of numbers in no order the first search ends after two elements, wherever the table does, and the second means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    ORDERINGS,
    Assign,
    Binary,
    Body,
    Break,
    Expr,
    For,
    If,
    Load,
    Return,
    Stmt,
    Sym,
    While,
)
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import assigned, walk, walk_expr

from .given_values import definitions, spelled_out, symbols_behind

Sources = Mapping[Sym, list[Expr]]


def searched(k: Kernel) -> dict[str, str]:
    """Buffers of numbers that are searched ("sorted") and those of what is looked for in them ("uniform")."""
    sources, params = definitions(k), {p.sym for p in k.params}
    tables, keys = dict[Sym, None](), dict[Sym, None]()
    for loop in walk(k.body):
        if not isinstance(loop, For | While):
            continue
        moving = assigned(loop.body) | ({loop.var} if isinstance(loop, For) else set())
        for c in _deciding(loop, sources):
            sides = [x for e in (c.a, c.b) if isinstance(x := spelled_out(e, sources), Load) and x.buffer in params]
            if len(sides) == 2 and all(_is_number(x) for x in sides):
                found = [x.buffer for x in sides if symbols_behind(x.index, sources) & moving]
                tables |= dict.fromkeys(found)
                keys |= dict.fromkeys(x.buffer for x in sides if found and x.buffer not in found)
    return {s.name: "uniform" for s in keys if s not in tables} | {s.name: "sorted" for s in tables}


def _is_number(x: Load) -> bool:
    t = scalar_of(x.buffer.type)
    return isinstance(t, Scalar) and t.kind != "bool" and t.bits >= 16


def _deciding(loop: For | While, sources: Sources) -> Iterator[Binary]:
    """The orderings that decide whether ``loop`` goes on: those of its condition, those behind which it is left, and
    those by which its ends are moved together."""
    bounds = symbols_behind([loop.cond], sources)
    yield from _orderings(loop.cond)
    for s in walk(loop.body):
        if isinstance(s, If) and (any(_leaves(x) for x in (*s.then, *s.orelse)) or _narrows(s, bounds)):
            yield from _orderings(s.cond)


def _leaves(s: Stmt) -> bool:
    return isinstance(s, Break | Return)


def _narrows(s: If, bounds: set[Sym]) -> bool:
    """Whether both ways of ``s`` move another end of a loop."""
    ends = [_moved(way) & bounds for way in (s.then, s.orelse)]
    return all(ends) and ends[0] != ends[1]


def _moved(body: Body) -> set[Sym]:
    return {s.sym for s in body if isinstance(s, Assign)}


def _orderings(cond: Expr) -> Iterator[Binary]:
    yield from (x for x in walk_expr(cond) if isinstance(x, Binary) and x.op in ORDERINGS)


__all__ = ["searched"]
