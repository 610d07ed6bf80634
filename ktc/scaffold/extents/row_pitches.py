"""Rows whose pitch is a number of the source: ``c[i * 512 + j]`` has room for 512 columns.

No buffer grows with such a row, so that nothing which a probe reaches says how long it may be. Columns beyond it belong
to the next row: two threads write the same element, and no order of theirs is the right one. A draft keeps sizes below,
as a stride that is a parameter is kept no shorter than its row (:mod:`.footprints`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Binary, Expr, Store, Sym, Var
from ktc.ir.walk import walk
from ktc.ir.workload.size_expressions import evaluate

from ..largest_index import DEEPEST, Bounds, Largest
from ..scenarios import MOST_SIZE
from ..size_polynomials import Polynomial, plus, text_of
from ..windows import names_in

LEAST_READ = 32
"""The least pitch of rows where they are read. Those of windows, which overlap as they should, are shorter: a
convolution moves on by 2, frames of a signal by 10."""


MOST_TERMS = 256
"""Summands that an index is taken apart into. Variables that are each the sum of two others double them a step: such
indices are searched for, as by halving, and move by no rows."""


@dataclass(frozen=True)
class Row:
    """What lies between two steps of ``pitch`` elements: ``last`` is the largest place in it, in sizes."""

    pitch: int
    last: Polynomial


def longest_rows(k: Kernel, free: Collection[str], meanings: Mapping[str, str | int]) -> dict[str, int]:
    """The sizes among ``free`` that are no larger than what rows of a literal pitch have room for, with that number;
    ``meanings``: what parameters are that are no sizes of their own. The inner rows come first: planes have room for
    as many of the rows in them as those allow."""
    largest = Largest(k, meanings)
    written = {id(s.index[0]) for s in walk(k.body) if isinstance(s, Store | Atomic)}
    found = [
        row
        for _, index, bounds in largest.accesses()
        for row in _rows(index, bounds, largest)
        if row.pitch >= (2 if id(index) in written else LEAST_READ)
    ]
    most: dict[str, int] = {}
    for row in sorted(found, key=lambda r: r.pitch):
        text = text_of(row.last)
        names = names_in(text)
        open_ = [n for n in names if n not in most] or names[:1]
        if len(open_) == 1 and open_[0] in free and (n := _room(text, open_[0], row.pitch, most)) is not None:
            most[open_[0]] = min(n, most.get(open_[0], n))
    return most


def widest_pitches(k: Kernel, meanings: Mapping[str, str | int]) -> dict[str, int]:
    """For each buffer, the largest number that something in an index is multiplied by: elements of a plane, or of a
    struct among others."""
    largest = Largest(k, meanings)
    out: dict[str, int] = {}
    for buffer, index, bounds in largest.accesses():
        for by, _, _ in _terms(index, 1, bounds, largest):
            if by > 1:
                out[buffer.name] = max(by, out.get(buffer.name, 1))
    return out


def _room(text: str, name: str, pitch: int, known: Mapping[str, int]) -> int | None:
    """The largest value of the size ``name`` with which ``text`` is below ``pitch``; None if any is, or none."""

    def last(n: int) -> int:
        return evaluate(text, {**known, name: n})

    try:
        room = bisect_left(range(1, MOST_SIZE + 1), pitch, key=last)
    except KtcError:  # a division by a size that is not known
        return None
    return room if 0 < room < MOST_SIZE else None


def _rows(index: Expr, b: Bounds, largest: Largest) -> Iterator[Row]:
    """The rows of a literal pitch in ``index``, a sum of what moves by elements, by rows and by planes; none where it
    has more than :data:`MOST_TERMS` summands. What is the same for all threads and in all rounds, as ``3 * n`` where
    the third of several arrays begins, moves by nothing."""
    terms = list(islice(_terms(index, 1, b, largest), MOST_TERMS + 1))
    if len(terms) > MOST_TERMS:
        return
    for pitch in {by for by, _, moves in terms if by > 1 and moves}:
        last: Polynomial | None = {}
        for by, most, _ in (t for t in terms if t[0] < pitch):
            last = None if last is None or most is None else plus(last, most, by)
        if last is not None and {*last} - {()}:
            yield Row(pitch, last)


def _terms(
    e: Expr, by: int, b: Bounds, largest: Largest, inside: frozenset[Sym] = frozenset()
) -> Iterator[tuple[int, Polynomial | None, bool]]:
    """The summands of ``by * e``: the number that each is multiplied by, the largest value of the rest of it, None
    where nothing says, and whether that moves by ones: one value for all threads does not move, and a product with a
    size moves by that. What a guard or a loop bounds stays
    one, and so does a variable in what itself is made of (``inside``): an index that is counted on is a sum of its
    steps. One that moves on once, outside of all loops, is where it began and that step."""
    e = without_casts(e)
    if isinstance(e, Var) and e.sym in inside and e.sym not in largest.counted:
        return
    if isinstance(e, Binary) and e.op == "+":
        for x in (e.a, e.b):
            yield from _terms(x, by, b, largest, inside)
        return
    if isinstance(e, Binary) and e.op in ("*", "<<"):
        sides = ((e.a, e.b), (e.b, e.a)) if e.op == "*" else ((e.a, e.b),)
        for x, factor in sides:
            n = _number(factor, largest)
            if n is not None and n > 0:
                yield from _terms(x, by * n if e.op == "*" else by << n, b, largest, inside)
                return
    if isinstance(e, Var) and len(inside) < DEEPEST and e.sym not in inside | b.most.keys():
        given = largest.sources.get(e.sym)
        if given is not None:
            yield from _terms(given, by, b, largest, inside | {e.sym})
            return
    yield by, largest.most(e, b), not largest.of_sizes(e) and not _times_a_size(e, largest)


def _times_a_size(e: Expr, largest: Largest) -> bool:
    """Whether ``e`` moves by a size or a product with one: ``3 * (i * n)`` are rows of ``3 * n`` elements, not of 3."""
    e = without_casts(e)
    if not isinstance(e, Binary) or e.op not in ("*", "<<"):
        return False
    return any(largest.of_sizes(x) or _times_a_size(x, largest) for x in (e.a, e.b))


def _number(e: Expr, largest: Largest) -> int | None:
    """The number that ``e`` is at all sizes."""
    value = largest.most(e, Bounds()) if largest.of_sizes(e) else None
    return value.get((), 0) if value is not None and not {*value} - {()} else None


__all__ = ["longest_rows", "widest_pitches"]
