"""What flags are in trial runs: of the numbers that the kernel tells from each other, those with which it reaches most.

A caller may pass another mode than the one that was guessed. Buffers that are long enough for the mode that reaches
furthest are so for all, so that verification can try them. Where a flag says what the elements of a ``void*`` are, it
is the mode in which they are of the type that the parameter is taken to have: halves that are read as floats are no
data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktc.ir.analysis.compared_numbers import compared_numbers
from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Cast, Const, Expr, If, Stmt
from ktc.ir.types import BOOL, scalar_of
from ktc.ir.walk import map_body, stmt_exprs, substitute, walk, walk_expr

from ..probe import Prober
from ..roles import Roles

MOST_FLAGS, MOST_NUMBERS = 6, 4
"""Flags that are looked at, and numbers of each."""


def modes(k: Kernel, roles: Roles) -> dict[str, int]:
    """The number of each flag with which a run reaches more than with 1, other flags staying as they are: each is asked
    once more when all have been, as a mode may show only where another flag is 0."""
    flags = [*_flags(k, roles).items()]
    found = _well_typed(k, roles, dict(flags))
    most = _reached(k, roles, found) if flags else 0
    for name, numbers in flags * 2:
        if name in found:
            continue
        reached = {n: _reached(k, roles, {**found, name: n}) for n in numbers}
        best = max(reached, key=lambda n: reached[n])
        if reached[best] > most:
            found[name], most = best, reached[best]
    return found


def _flags(k: Kernel, roles: Roles) -> dict[str, list[int]]:
    """Flags of which nothing is known, with the numbers other than 1 that the kernel compares them with."""
    open_ = [p.sym for p in k.params if p.sym.name in roles.flags or p.sym.type == BOOL]
    numbers = {
        s.name: [0] if s.type == BOOL else [int(n) for n in dict.fromkeys(compared_numbers(s, k)) if n >= 0 and n != 1]
        for s in open_
        if s.name not in roles.fixed and s.name not in roles.tied
    }
    return {name: found[:MOST_NUMBERS] for name, found in [*numbers.items()][:MOST_FLAGS] if found}


def _well_typed(k: Kernel, roles: Roles, flags: Mapping[str, list[int]]) -> dict[str, int]:
    """The numbers of the flags that say what elements are, in the mode in which they are of the parameters' types; what
    helps most is told first, as other flags may be about the same elements."""
    found: dict[str, int] = {}
    wrong = _mistyped(k, roles, found)
    while wrong:
        open_ = ((name, n) for name, numbers in flags.items() if name not in found for n in numbers)
        left = {(name, n): _mistyped(k, roles, {**found, name: n}) for name, n in open_}
        (name, number), least = min(left.items(), key=lambda x: x[1], default=(("", 0), wrong))
        if least >= wrong:
            break
        found[name], wrong = number, least
    return found


def _mistyped(k: Kernel, roles: Roles, numbers: Mapping[str, int]) -> int:
    """In how many places floats of one width are read or written as those of another, with flags of ``numbers`` (those
    that have none are 1)."""
    flags = [p.sym for p in k.params if p.sym.name in roles.flags or p.sym.type == BOOL]
    known = {**roles.numbers, **numbers}
    body = substitute(k.body, {s: Const(known.get(s.name, 1), s.type) for s in flags})  # type: ignore[arg-type]
    left = (e for s in walk(map_body(body, _taken)) for e in stmt_exprs(s))
    return sum(_is_mistyped(x) for e in left for x in walk_expr(simplify(e)))


def _taken(s: Stmt) -> Stmt | Body:
    """The branch that is taken, where the condition is known."""
    cond = simplify(s.cond) if isinstance(s, If) else None
    return s if not isinstance(s, If) or not isinstance(cond, Const) else s.then if cond.value else s.orelse


def _is_mistyped(e: Expr) -> bool:
    if not isinstance(e, Cast) or e.style != "bit":
        return False
    old, new = scalar_of(e.x.type), scalar_of(e.type)
    return old.is_float and new.is_float and old.bits != new.bits


def _reached(k: Kernel, roles: Roles, numbers: Mapping[str, int]) -> int:
    """How many elements lie before the last that a run reaches, in all buffers; -1 if it cannot be run."""
    probe = Prober(k, replace(roles, numbers={**roles.numbers, **numbers}))
    looks = (probe.look(sizes) for sizes in probe.sizes()[:1])
    return sum(sum(map(seen.extent, seen.reach)) if seen is not None else -1 for seen in looks)


__all__ = ["modes"]
