"""Pages of a cache: where each part of a sequence lies is looked up in a row of a table.

    at = lengths[s] - 1                                     // a sequence of up to most * block
    page = table[s * most + at / block]                     // n * most pages, each in one place of the table
    cache[page * (heads * dim * block) + at % block * dim + i]

Sequences are as long as their rows of the table have room for, and no two parts of them share a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, HwIndex, Load, Sym, Var
from ktc.ir.walk import all_exprs

from ..contents import Content
from ..given_values import definitions, made_of, spelled_out
from ..inner_strides import addends, kept_below
from ..windows import spelled


@dataclass(frozen=True)
class Paged:
    """A table by its buffer, how many ``rows`` of how many pages (``row``) it has, the elements of a page (``block``),
    and the buffers that say how far sequences go."""

    table: str
    rows: str
    row: str
    block: str
    lengths: frozenset[str]


def with_pages(k: Kernel, contents: Sequence[Content]) -> list[Content]:
    """``contents`` with what pages that tables hold, and how far sequences go, are below."""
    known, given = {c.buffer for c in contents if c.kind == "index"}, definitions(k)
    counted = {p.sym.name for p in k.params if p.sym.name in known and kept_below(k, p.sym, given)}
    out = [*contents]
    for p in (p for p in _tables(k) if p.table in known and p.lengths <= known):
        pages, length = f"{p.rows} * {p.row}", f"{p.row} * {p.block}"
        out = [replace(c, within=pages, first=0) if c.buffer == p.table else c for c in out]
        out = [
            replace(c, within=length, first=int(c.first or c.buffer in counted)) if c.buffer in p.lengths else c
            for c in out
        ]
    return out


def pages_of_a_row(k: Kernel) -> set[str]:
    """The sizes that say how many pages a row of a table has: a few hold sequences that are long for a probe."""
    return {p.row for p in _tables(k)}


def lengths_in_pages(k: Kernel) -> set[str]:
    """The buffers that say how far sequences go whose parts lie in pages."""
    return {b for p in _tables(k) for b in p.lengths}


def with_pages_apart(k: Kernel, contents: Sequence[Content]) -> list[Content]:
    """``contents`` with no page in two places of a table, where stores go to pages."""
    tables = {p.table for p in _tables(k)}
    apart = {c.buffer for c in contents if c.kind == "distinct-rows"} & tables
    return [replace(c, kind="distinct") if c.buffer in apart else c for c in contents]


def _tables(k: Kernel) -> Iterator[Paged]:
    params, sources = {p.sym for p in k.params}, definitions(k)
    single = {s: given[0] for s, given in sources.items() if len(given) == 1}
    taken = {_parts(e, single) for e in all_exprs(k.body) if isinstance(e, Binary) and e.op == "%"}
    for e in all_exprs(k.body):
        if not isinstance(e, Load) or e.buffer not in params:
            continue
        terms = [spelled_out(x, sources) for x in addends(e.index[0], single)]
        parts = [x for x in terms if isinstance(x, Binary) and x.op == "/" and _parts(x, single) in taken]
        rows = [found for x in terms if (found := _row(k, x, params, single)) is not None]
        if len(terms) == 2 and len(parts) == len(rows) == 1:
            lengths = {x.buffer.name for x in made_of([parts[0].a], sources) if isinstance(x, Load)}
            block = spelled(parts[0].b, params, sources)
            if block and lengths:
                yield Paged(e.buffer.name, *rows[0], block, frozenset(lengths))


def _parts(e: Binary, single: dict[Sym, Expr]) -> tuple[Expr, Expr]:
    """What a quotient or remainder is of, as far as it is written so, and by what."""
    return without_casts(e.a), without_casts(e.b)


def _row(k: Kernel, e: Expr, params: set[Sym], single: dict[Sym, Expr]) -> tuple[str, str] | None:
    """How many rows of how many elements a table has that blocks go to by ``e``, a number of a block times a stride."""
    if not isinstance(e, Binary) or e.op != "*" or k.launch is None:
        return None
    for which, stride in ((e.a, e.b), (e.b, e.a)):
        index, by = spelled_out(which, {s: [x] for s, x in single.items()}), without_casts(stride)
        if isinstance(index, HwIndex) and index.level == "block" and isinstance(by, Var) and by.sym in params:
            rows = spelled(k.launch.grid["xyz".index(index.axis)], params)
            return (rows, by.sym.name) if rows is not None and rows.isidentifier() else None
    return None


__all__ = ["lengths_in_pages", "pages_of_a_row", "with_pages", "with_pages_apart"]
