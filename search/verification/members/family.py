"""The family of kernels that a candidate for one set of sizes belongs to.

A number of the candidate is a formula over the sizes that it binds (:mod:`.number_formulas`), found by making the
candidate for other sizes (:mod:`.other_sizes`). A member of the family has the candidate's statements, and in their
numbers' places what the formulas say for its sizes. The member of the candidate's own sizes is the candidate itself,
number by number: where the formulas come from does not matter to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ktc.ir.kernel import Kernel
from ktc.ir.types import Scalar
from ktc.ir.workload import Workload
from ktc.ir.workload.reference import names as names_in
from ktc.ir.workload.scenario_facts import runnable, scalars_of

from .number_formulas import Formula, Itself, formula
from .other_sizes import Rerun
from .template import Number, numbers, same_statements, with_numbers

TIMES = (Fraction(2), Fraction(1, 2))
"""How much larger a size is made to see which numbers follow it: what divides the size divides this one too. Half as
large where that does not do, as of lanes that are a warp already."""

LARGEST_TILE = 16
"""The logarithm of the largest tile that may not be among a kernel's numbers, for it is a product of them."""


@dataclass(frozen=True)
class Bound:
    """What a candidate binds: ``parameters``, to the values that they have at these ``sizes`` of the workload; ``real``
    are all sizes of a scenario for which the candidate runs, of which those are a part."""

    parameters: frozenset[str]
    sizes: Mapping[str, int]
    real: Mapping[str, int]

    def values(self, workload: Workload, sizes: Mapping[str, int]) -> dict[str, int]:
        """The values of the parameters for other sizes."""
        scalars = scalars_of(workload, {**self.real, **sizes})
        return {n: int(v) for n, v in scalars.items() if n in self.parameters}


@dataclass(frozen=True)
class Family:
    """``formulas`` are those of the candidate's numbers, place by place, over the sizes in ``names``; the ``fixed``
    ones of the sizes are the same for all members."""

    candidate: Kernel
    bound: Bound
    names: tuple[str, ...]
    formulas: tuple[Formula | Itself, ...]

    def at(self, sizes: Mapping[str, int]) -> Kernel | None:
        """The member for these sizes, if there is one."""
        values = self.numbers(sizes)
        return None if values is None else with_numbers(self.candidate, values)

    def numbers(self, sizes: Mapping[str, int]) -> list[Number] | None:
        """The numbers of that member, place by place."""
        at = [sizes[n] for n in self.names]
        out: list[Number] = []
        for f in self.formulas:
            value = f.at(at)
            if value is None:
                return None
            out.append(value)
        return out


def bound_by(original: Kernel, candidate: Kernel, workload: Workload) -> Bound | None:
    """What ``candidate`` binds that ``original`` does not, if a scenario has such sizes."""
    theirs = {p.sym.name: p.range for p in original.params}
    parameters = frozenset(
        p.sym.name
        for p in candidate.params
        if isinstance(p.sym.type, Scalar) and _is_one(p.range) and not _is_one(theirs.get(p.sym.name, (None, None)))
    )
    told = [a.value for a in workload.args if a.name in parameters and isinstance(a.value, str)]
    names = {n for value in told for n in names_in(value)}
    for s in workload.scenarios if names else ():
        if min(s.sizes[n] for n in names) > 0 and all(runnable(k, workload, s.sizes) for k in (original, candidate)):
            return Bound(parameters, {n: int(v) for n, v in s.sizes.items() if n in names}, dict(s.sizes))
    return None


def _is_one(values: tuple[int | None, int | None]) -> bool:
    return values[0] is not None and values[0] == values[1]


def family_of(
    original: Kernel, candidate: Kernel, workload: Workload, bound: Bound, rerun: Rerun | None = None
) -> Family | str:
    """The family of a candidate; a sentence where it has none that could be found. ``rerun``: what makes it for other
    sizes, where it is not its script with other sizes bound."""
    rerun, seen, at = rerun or Rerun(original, candidate), [numbers(candidate)], [dict(bound.sizes)]
    for name, value in bound.sizes.items():
        for times in TIMES:
            other = {**bound.sizes, name: int(times * value)}
            made = rerun.at(bound.values(workload, other), value, times) if other[name] == times * value else None
            if made is not None:
                seen.append(numbers(made))
                at.append(other)
                break
    names = tuple(n for n, v in bound.sizes.items() if any(s[n] != v for s in at))
    if not names:
        return "no other sizes were found for which the passes make the same statements"
    tiles = {n for n in seen[0] if isinstance(n, int) and n > 1} | {1 << k for k in range(1, LARGEST_TILE)}
    points = [[s[n] for n in names] for s in at]
    found = []
    for values in zip(*seen, strict=True):
        f = formula(values, points, tiles)
        if f is None:
            return f"the number {values[0]} follows no formula over {', '.join(names)}"
        found.append(f)
    family = Family(candidate, bound, names, tuple(found))
    assert family.numbers(bound.sizes) == numbers(candidate)
    return family


__all__ = ["Bound", "Family", "bound_by", "family_of", "same_statements"]
