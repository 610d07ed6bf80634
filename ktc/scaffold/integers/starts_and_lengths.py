"""Rows of which one buffer says where they begin and another how long they are.

    for (l = 0; l < count[r]; ++l) .. x[start[r] + l] ..        the support vectors of a class, the points of a cell

Starts and lengths of which nothing is said to each other have rows overlap, and the last reach beyond what all of them
are parts of. Drafts have rows that are as far apart as they are long at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand, integer_constants
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Load, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import walk
from ktc.passes.shared.loop_bounds import upper_bound

from ..inner_strides import accesses
from ..windows import spelled


@dataclass(frozen=True)
class Rows:
    """``starts``: the buffer that says where rows begin; ``total``: the size that says how long all of them are
    together, ``count`` that says how many there are, where there are such sizes."""

    starts: str
    total: str = ""
    count: str = ""

    @property
    def apart(self) -> str:
        """The size that rows are apart."""
        return f"{self.starts}_apart"


@by_identity(8)
def row_lengths(k: Kernel) -> dict[str, Rows]:
    """The integer buffers of ``k`` that say how long rows are, each with what it is said of."""
    single = integer_constants(k.body, loads=True)
    params = {p.sym for p in k.params}
    whole = {s for s in params if isinstance(s.type, Ptr) and scalar_of(s.type).is_int}
    loops = [s for s in walk(k.body) if isinstance(s, For)]
    lengths = {s.var: e for s in loops for e in [_length(s, single)] if e is not None}
    ends = {s.var: spelled(end, params) for s in loops if (end := upper_bound(s.cond, s.var)) is not None}
    found: dict[str, Rows] = {}
    for _, index in accesses(k):
        terms = polynomial(expand(index, single))
        for counter, length in lengths.items():
            for start in _added(terms, counter):
                one_row = polynomial(start.index[0]) == polynomial(length.index[0])
                if {start.buffer, length.buffer} <= whole and start.buffer != length.buffer and one_row:
                    count = ends.get(at.sym) if isinstance(at := without_casts(start.index[0]), Var) else None
                    pitch = _pitch(terms, start, counter, params)
                    if pitch is None:
                        found[length.buffer.name] = Rows(start.buffer.name)
                    elif count:
                        found.setdefault(length.buffer.name, Rows(start.buffer.name, pitch.name, count))
    return found


def _pitch(terms: Polynomial, start: Load, counter: Sym, params: Collection[Sym]) -> Sym | None:
    """How far apart what all rows are parts of is: the size that something is multiplied by beside ``start`` and
    ``counter``."""
    others = (f for f in terms if start not in f and Var(counter) not in f and len(f) > 1)
    return next((x.sym for f in others for x in f if isinstance(x, Var) and x.sym in params), None)


def _length(loop: For, single: Mapping[Sym, Expr]) -> Load | None:
    """The element up to which ``loop`` counts from 0 on in ones; None where it counts otherwise."""
    if evaluate(loop.init, {}) != 0 or (step := loop_step(loop)) is None or evaluate(step, {}) != 1:
        return None
    match loop.cond:
        case Binary("<", Var(s), end) if s == loop.var:
            match [*polynomial(expand(end, single)).items()]:
                case [((Load() as length,), 1)]:
                    return length
    return None


def _added(terms: Polynomial, counter: Sym) -> Iterator[Load]:
    """The elements that ``counter`` is added to, whatever the sum of both is multiplied by."""
    by = [(rest, n) for factors, n in terms.items() for rest in [_without(factors, Var(counter))] if rest is not None]
    for others, n in terms.items():
        for element in (f for f in others if isinstance(f, Load)):
            if (_without(others, element), n) in by:
                yield element


def _without(factors: Sequence[Expr], one: Expr) -> list[str] | None:
    """The other ``factors``, in an order of their own; None where ``one`` is not among them just once."""
    rest = [f for f in factors if f != one]
    return sorted(map(repr, rest)) if len(rest) == len([*factors]) - 1 else None


__all__ = ["Rows", "row_lengths"]
