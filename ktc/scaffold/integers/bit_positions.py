"""Integers that say which bit of an index is meant: the qubit that a gate acts on, the digit of a butterfly.

A kernel that takes an index apart at a bit, ``(i >> q) << (q + 1) | i & ((1 << q) - 1)``, is called with small numbers
for ``q``, no two of them alike, and with powers of two elements, more than the highest of those bits says. As sizes
they would be larger than any integer has bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    Assign,
    Binary,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Sym,
    Var,
    While,
)  # fmt: skip
from ktc.ir.sequences import launch_extents
from ktc.ir.types import BOOL, Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, stmt_exprs, used, walk, walk_expr

from ..given_values import definitions, made_of, spelled_out, symbols_behind
from ..windows import names_in, spelled

FIRST = 2
"""The least position, the next is one more: neighbours are not the only elements that belong together."""

SHIFTS = frozenset({"<<", ">>"})


@dataclass(frozen=True)
class BitPositions:
    """``numbers``: parameters, or the host's variables that those are made of, that are positions, with a number each;
    and what is joined to an index bit by bit. ``tied``: positions above all of an index: how many bits it has.
    ``ends``: the sizes that say how far the index goes that is taken apart, powers of two from ``2 ** bits`` on."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    ends: frozenset[str] = frozenset()
    bits: int = 0


def bit_positions(k: Kernel, passed: Mapping[str, str]) -> BitPositions:
    """The bit positions of ``k``; ``passed``: parameters that the launch computes, with the formulas."""
    sources, params = definitions(k), {p.sym for p in k.params if isinstance(p.sym.type, Scalar)}
    shifts = [e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op in SHIFTS and isinstance(e.type, Scalar)]
    only = _only_shifting(k, shifts, sources) & params
    behind = [(e, found) for e in shifts if (found := symbols_behind([e.b], sources) & only)]
    inside = {s for e, found in behind for s in found if _is_of_threads(e.a, sources)}
    inside |= {s for e, found in behind for s in found if _is_number(e.a, sources)} & _masking(k, sources)
    whole = [(e, found - inside) for e, found in behind if _is_passed(e.a, sources, params)]
    above = {s for _, found in whole for s in found}
    numbered = inside | {s for e, found in behind for s in found - inside - above if _is_number(e.a, sources)}
    ends = _ends(k, sources, numbered) if inside | above else None
    names = _numbered(k, numbered, passed) if ends is not None and inside else []
    joined = _joined(k, sources, params - numbered - above)
    clear = {s for s, op in joined.items() if op == "|"}
    if ends is None or (inside and not names):
        return BitPositions(dict.fromkeys((s.name for s in clear), 0))
    listed = any(isinstance(x, Load) for e in shifts if _is_of_threads(e.a, sources) for x in made_of([e.b], sources))
    first = 0 if listed else FIRST  # lists of positions begin with the least of all bits
    last = first + len(names) - 1
    clear |= {s for s in _shifted({e for e, found in whole if found}, k) if s in params}
    turned = {s.name: 0 if listed else 1 << last for s, op in joined.items() if op == "^" and names}
    numbers = {n: first + i for i, n in enumerate(names)} | turned | dict.fromkeys((s.name for s in clear), 0)
    length = next(filter(None, (spelled(e, params, sources) for e in ends)), None)
    tied = {s.name: f"ceil_log2({length})" for s in above} if length else {}
    sizes = frozenset(s.name for e in ends for s in symbols_behind([e], sources) & params) - exponents(k)
    return BitPositions(numbers, tied, sizes, last + 1 if names else 0)


def position_lists(k: Kernel) -> set[str]:
    """The buffers of whose elements nothing but how far an index is shifted depends: positions in ascending order."""
    sources = definitions(k)
    shifts = [e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op in SHIFTS]
    moved = [e for e in shifts if _is_of_threads(e.a, sources)]
    lists = {x.buffer for e in moved for x in made_of([e.b], sources, places=False) if isinstance(x, Load)}
    only = _only_shifting(k, shifts, sources)
    whole = {p.sym for p in k.params if isinstance(p.sym.type, Ptr) and scalar_of(p.sym.type).is_int}
    return {s.name for s in lists & whole & only}


MOST_EXPONENT, LARGE_EXPONENT = 30, 16
"""What a power of two may be in integers, and what it is at most in scenarios."""


def exponents(k: Kernel) -> set[str]:
    """The parameters that something is shifted by, in the launch or in the body: how often something is halved, or
    which power of two. Such a number is small."""
    several = () if k.launch is None else (*launch_extents(k), *(e for _, e in k.launch.passed))
    shifts = [x for e in several for x in walk_expr(e) if isinstance(x, Binary) and x.op in SHIFTS]
    sources, params = definitions(k), {p.sym for p in k.params if isinstance(p.sym.type, Scalar)}
    inside = [e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op in SHIFTS and isinstance(e.type, Scalar)]
    found = {s.name for x in shifts for s in used(x.b)}
    return found | {s.name for e in inside for s in [_shifting(e, sources)] if s in params}


def _shifting(e: Binary, sources: Mapping[Sym, Sequence[Expr]]) -> Sym | None:
    """The one variable that says how far something is shifted, but for a number that is added or taken off."""
    match spelled_out(e.b, sources):
        case Var(s):
            return s
        case Binary("+" | "-", a, b) if not used(b) and isinstance(x := spelled_out(a, sources), Var):
            return x.sym
        case Binary("-", a, b) if not used(a) and isinstance(x := spelled_out(b, sources), Var):
            return x.sym
    return None


def _numbered(k: Kernel, positions: Collection[Sym], passed: Mapping[str, str]) -> list[str]:
    """The names of ``positions``, or of what the host makes them of; none where it makes anything else of that."""
    mine = {s.name for s in positions}
    taken = {s.name for e in launch_extents(k) for s in used(e)}
    taken |= {n for name, text in passed.items() if name not in mine for n in names_in(text)}
    ordered = (p.sym.name for p in k.params if p.sym in positions)
    names = list(dict.fromkeys(n for p in ordered for n in (names_in(passed[p]) if p in passed else (p,))))
    return [] if taken & {*names} else names


def _is_of_threads(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> bool:
    return any(isinstance(x, HwIndex) for x in made_of([e], sources, places=False))


def _masking(k: Kernel, sources: Mapping[Sym, Sequence[Expr]]) -> set[Sym]:
    """What numbers are made of that are joined to an index bit by bit, as ``q`` of ``i ^ (1 << q)``."""
    joins = [e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op in "&|^" and e.type != BOOL]
    sides = [x for e in joins for x, other in ((e.a, e.b), (e.b, e.a)) if _is_of_threads(other, sources)]
    return {s for x in sides if not _is_of_threads(x, sources) for s in symbols_behind([x], sources)}


def _is_number(e: Expr, sources: Mapping[Sym, Sequence[Expr]]) -> bool:
    """Whether ``e`` is made of nothing that is passed or loaded: 1 of ``1 << q``."""
    return not any(isinstance(x, Load) or (isinstance(x, Var) and x.sym not in sources) for x in made_of([e], sources))


def _is_passed(e: Expr, sources: Mapping[Sym, Sequence[Expr]], params: Collection[Sym]) -> bool:
    """Whether ``e`` is made of parameters alone: ``rank`` of ``rank << bits | i``."""
    parts = list(made_of([e], sources))
    return any(isinstance(x, Var) and x.sym in params for x in parts) and not any(
        isinstance(x, Load | HwIndex) for x in parts
    )


def _only_shifting(k: Kernel, shifts: Iterable[Binary], sources: Mapping[Sym, Sequence[Expr]]) -> set[Sym]:
    """The variables that nothing but how far something is shifted, and the order of such numbers, depends on."""
    only = {s for e in shifts for s in symbols_behind([e.b], sources)}
    only -= {s for e in launch_extents(k) for s in used(e)}
    while True:
        gone = {s for e in _other_uses(k, only) for s in _outside(e)} & only
        if not gone:
            return only
        only -= gone


def _other_uses(k: Kernel, only: Collection[Sym]) -> Iterator[Expr]:
    """The expressions of the body that are not what variables of ``only`` are given."""
    for s in walk(k.body):
        if not ((isinstance(s, Decl) and s.sym in only) or (isinstance(s, Assign) and s.sym in only)):
            yield from stmt_exprs(s)


def _outside(e: Expr) -> Iterator[Sym]:
    """The variables of ``e`` but for those in how far something is shifted, and in comparisons of variables alone."""
    if isinstance(e, Var | Load):
        yield e.sym if isinstance(e, Var) else e.buffer
    if isinstance(e, Binary) and e.op in SHIFTS:
        yield from _outside(e.a)
    elif not (isinstance(e, Binary) and e.op in COMPARISONS and _is_plain(e.a) and _is_plain(e.b)):
        for x in children(e):
            yield from _outside(x)


def _is_plain(e: Expr) -> bool:
    return isinstance(without_casts(e), Var)


def _shifted(shifts: Collection[Binary], k: Kernel) -> Iterator[Sym]:
    """The variables that are shifted in ``shifts``, and nowhere else."""
    inside = {id(e.a) for e in shifts}

    def outside(e: Expr, s: Sym) -> bool:
        return id(e) not in inside and (e == Var(s) or any(outside(x, s) for x in children(e)))

    for s in {v.sym for e in shifts for v in (without_casts(e.a),) if isinstance(v, Var)}:
        if not any(outside(e, s) for e in _used_values(k)):
            yield s


def _used_values(k: Kernel) -> Iterator[Expr]:
    """The expressions of the body, without those of variables that nothing asks for."""
    asked = {e.sym for e in all_exprs(k.body) if isinstance(e, Var)}
    for s in walk(k.body):
        if not (isinstance(s, Decl) and s.sym not in asked):
            yield from stmt_exprs(s)


def _ends(k: Kernel, sources: Mapping[Sym, Sequence[Expr]], positions: Collection[Sym]) -> list[Expr] | None:
    """What the numbers of threads are compared with; None if positions say how far they go, as ``n`` of ``1 << n``
    threads does, which is a size, and where nothing bounds them."""
    found: list[Expr] = []
    for s in walk(k.body):
        for e in walk_expr(s.cond) if isinstance(s, If | For | While) else ():
            if isinstance(e, Binary) and e.op in COMPARISONS:
                for index, end in ((e.a, e.b), (e.b, e.a)):
                    if _is_of_threads(index, sources) and not _is_of_threads(end, sources):
                        found.append(end)
    if any(symbols_behind([e], sources) & {*positions} for e in found):
        return None
    return [e for e in found if symbols_behind([e], sources)] or None


def _joined(k: Kernel, sources: Mapping[Sym, Sequence[Expr]], params: Collection[Sym]) -> dict[Sym, str]:
    """Those of ``params`` of which every use is to be joined to an index bit by bit, with how: ``|`` sets bits that are
    clear, ``^`` turns them over. A mask that says which bits are counted, ``popc(i & mask)``, is another matter."""
    found: dict[Sym, set[str]] = {}

    def seen(e: Expr) -> None:
        if isinstance(e, Binary) and e.op in "|^" and e.type != BOOL:
            for one, other in ((e.a, e.b), (e.b, e.a)):
                if isinstance(v := without_casts(one), Var) and v.sym in params and _is_of_threads(other, sources):
                    found.setdefault(v.sym, set()).add(e.op)
                    return seen(other)
        if isinstance(e, Var):
            found.setdefault(e.sym, set()).add("")
        for x in children(e):
            seen(x)

    for e in _used_values(k):
        seen(e)
    return {s: ops.pop() for s, ops in found.items() if s in params and len(ops) == 1 and "" not in ops}


__all__ = ["LARGE_EXPONENT", "MOST_EXPONENT", "BitPositions", "bit_positions", "exponents", "position_lists"]
