"""What flags are in trial runs: of the numbers that the kernel tells from each other, those with which it reaches most.

A caller may pass another mode than the one that was guessed. Buffers that are long enough for the mode that reaches
furthest are so for all, so that verification can try them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktc.ir.analysis.compared_numbers import compared_numbers
from ktc.ir.kernel import Kernel
from ktc.ir.types import BOOL

from ..probe import Prober
from ..roles import Roles

MOST_FLAGS, MOST_NUMBERS = 6, 4
"""Flags that are looked at, and numbers of each."""


def modes(k: Kernel, roles: Roles) -> dict[str, int]:
    """The number of each flag with which a run reaches more than with 1, other flags staying as they are: each is asked
    once more when all have been, as a mode may show only where another flag is 0."""
    found: dict[str, int] = {}
    flags = [*_flags(k, roles).items()]
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
        if s.name not in roles.fixed
    }
    return {name: found[:MOST_NUMBERS] for name, found in [*numbers.items()][:MOST_FLAGS] if found}


def _reached(k: Kernel, roles: Roles, numbers: Mapping[str, int]) -> int:
    """How many elements lie before the last that a run reaches, in all buffers; -1 if it cannot be run."""
    probe = Prober(k, replace(roles, numbers={**roles.numbers, **numbers}))
    looks = (probe.look(sizes) for sizes in probe.sizes()[:1])
    return sum(sum(map(seen.extent, seen.reach)) if seen is not None else -1 for seen in looks)


__all__ = ["modes"]
