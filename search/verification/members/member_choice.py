"""Which members of a family to run: small ones, and such that no relation of the candidate's own sizes is left out.

One is as small as can be. For each size there is one in which it is what the candidate binds it to (or as close to
that as can be afforded), the others small: whatever holds for that number by itself can be seen there. And one is as
close to the candidate as can be afforded in all sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel
from ktc.ir.verifier import verify as check_ir
from ktc.ir.workload import Workload, size_expressions
from ktc.ir.workload.reference import names as names_in
from ktc.ir.workload.scenario_facts import runnable, scalars_of
from ktc.search.verification.instances.instances import LAUNCHED, impossible

from .family import Family
from .relations_seen import AT_MOST, Unseen, unseen_relation
from .smaller_sizes import largest, least_factor, smaller, tell_apart
from .template import numbers

LIMIT = 10_000_000
"""Array elements and threads of one member's launch."""

CLOSE = 1_000_000
"""Array elements of the member that is close to the candidate in all sizes."""

FREE = 2
"""What a size that the candidate does not bind counts as where costs are estimated."""

MOST_SIZES = 400
"""Sizes of which is asked whether there is a member for them."""


MOST_MENDED = 8
"""Relations for each of which a member of its own is made."""


@dataclass(frozen=True)
class Member:
    """A member of a family, and the sizes that it binds."""

    sizes: Mapping[str, int]
    kernel: Kernel


def chosen_members(
    family: Family,
    original: Kernel,
    workload: Workload,
    grain: int,
    foreseen: Callable[[Mapping[str, int]], float] | None = None,
) -> list[Member] | str:
    """The members to run, the smallest first; a sentence where they would not show what the candidate is.

    ``grain``: see :data:`.smaller_sizes.GRAINS`. ``foreseen``: what a run at such sizes takes, as a share of what it
    may, where that is known.
    """
    choice, names = _Choice(family, original, workload, grain, foreseen), list(family.names)
    found = list(choice.members())
    for mended in range(MOST_MENDED + 1):
        kernels, sizes = (family.candidate, *(m.kernel for m in found)), [family.bound.sizes, *(m.sizes for m in found)]
        unseen = unseen_relation(kernels, sizes, workload) if found else None
        if unseen is None:
            break
        more = choice.mending(unseen) if mended < MOST_MENDED else None
        if more is None or more.sizes in sizes:
            return str(unseen)
        found.append(more)
    if not tell_apart([m.sizes for m in found], names):
        return f"too few smaller values of {', '.join(names)} can be run"
    return found


@dataclass
class _Choice:
    family: Family
    original: Kernel
    workload: Workload
    grain: int
    foreseen: Callable[[Mapping[str, int]], float] | None = None

    @property
    def fixed(self) -> dict[str, int]:
        """Sizes that are the candidate's in all members."""
        return {n: v for n, v in self.family.bound.sizes.items() if n not in self.family.names}

    def members(self) -> Iterator[Member]:
        bound, fixed = self.family.bound.sizes, self.fixed
        found: list[dict[str, int]] = []
        least = self._first(fixed)
        candidates = (self._with(n, least, fixed) for n in self.family.names)
        close = largest(bound, lambda sizes: price if (price := self.cost(sizes)) <= CLOSE else 0)
        for made in (least, *candidates, self.member(close) if close is not None else None):
            if made is not None and dict(made.sizes) not in found:
                found.append(dict(made.sizes))
                yield made

    def _with(self, name: str, least: Member | None, fixed: Mapping[str, int]) -> Member | None:
        """The cheapest member in which one size is as large as can be."""
        value = self.family.bound.sizes[name]
        while least is not None and value > least.sizes[name]:
            made = self._first({**fixed, name: value})
            if made is not None:
                return made
            value //= least_factor(value)
        return None

    def mending(self, unseen: Unseen) -> Member | None:
        """A member in which an extent is larger than the tile that it was at most in all others."""
        bound, fixed = self.family.bound.sizes, self.fixed
        involved = {n for e in unseen.extent for n in names_in(e)} & set(self.family.names)
        kept = {n: bound[n] for n in involved}
        while unseen.relation == AT_MOST and kept and self._extent(unseen, kept) > unseen.tile[0]:
            made = self._first({**fixed, **kept})
            if made is not None:
                return made
            n = max(kept, key=kept.__getitem__)
            kept[n] //= least_factor(kept[n])
        return None

    def _extent(self, unseen: Unseen, kept: Mapping[str, int]) -> int:
        every = {**self.family.bound.real, **kept}
        return math.prod(size_expressions.evaluate(e, every) for e in unseen.extent)

    def _first(self, kept: Mapping[str, int]) -> Member | None:
        """The cheapest member with some sizes ``kept``; one whose numbers are as far from one as the candidate's, if
        there is any."""
        second: Member | None = None
        for sizes in itertools.islice(smaller(self.family.bound.sizes, self.cost, self.grain, kept), MOST_SIZES):
            made = self.member(sizes)
            if made is not None and not self._collapsed(made):
                return made
            second = second or made
        return second

    def _collapsed(self, member: Member) -> bool:
        """Whether a number of the member is one that is not in the candidate: what runs once there shows little."""
        mine = zip(numbers(member.kernel), numbers(self.family.candidate), strict=True)
        return any(a == 1 and b != 1 for a, b in mine)

    def cost(self, sizes: Mapping[str, int]) -> int:
        """Elements of all arrays; 0 for sizes that cannot be."""
        every = dict.fromkeys(self.family.bound.real, FREE) | dict(sizes)
        if impossible(self.workload, tuple(every.items())) or not runnable(self.original, self.workload, every):
            return 0
        total = 0
        for a in self.workload.args if all(v > 0 for v in every.values()) else ():
            n = 1
            for e in a.shape if a.role != "scalar" else (0,):
                n *= size_expressions.evaluate(e, every) if isinstance(e, str) else e
            total += n
        too_long = total > LIMIT or (self.foreseen is not None and self.foreseen(sizes) > 1)
        return 0 if too_long else total

    def member(self, sizes: Mapping[str, int]) -> Member | None:
        """The member for these sizes, if there is one, it is well-formed and its launch is not too large."""
        every = dict.fromkeys(self.family.bound.real, FREE) | dict(sizes)
        made = self.family.at(sizes)
        try:
            if made is None or not runnable(made, self.workload, every) or not _feasible(made) or check_ir(made):
                return None
            g = geometry_of(made, scalars_of(self.workload, every))
        except KtcError:
            return None
        return Member(dict(sizes), made) if g.blocks * g.threads <= min(LIMIT, LAUNCHED) else None


def _feasible(kernel: Kernel) -> bool:
    """Whether the values of the knobs satisfy the constraints, as far as these can be told."""
    return not any(evaluate(e, kernel.environment()) in (False, 0) for e in kernel.constraints)


__all__ = ["Member", "chosen_members"]
