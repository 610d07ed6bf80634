"""The argument sets on which a source and its guesses are compared: few, small, and reaching all that can be reached.

Sizes are chosen by what a run at them takes, per statement of the source: a size that two nested loops run to is drawn
smaller than one that only says how many threads there are, whatever range is promised of either. Larger ones are added
where something of the source stays out of reach: a branch, or a second block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ktc.ir.interp.execution.run_state import work_of
from ktc.ir.interp.run import RunResult
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Kernel

from .buffer_extents import with_room
from .invented_arguments import (
    MOST_ELEMENTS,
    SIZES,
    Arguments,
    chooses,
    constants,
    extreme_arguments,
    far_apart,
    invented_arguments,
    invented_sizes,
    scalars_of,
    values_around,
)
from .large_arguments import far_arguments
from .run_length import allowed, statements
from .size_ties import tied_arguments
from .small_launches import MAX_FIXED, launched, least_statements, single_axes, volume
from .work_budget import CHECK_FUEL, CHOOSING_WORK, Budget, endless, fuel_of, unchecked

MOST_TRIED = 40
FAR_WORK = 4_000
"""Statements, and work, of one run at sizes beyond what the source reaches at once."""

FAR_ELEMENTS = 1 << 25
"""Elements of a buffer that an index may ask for at these sizes."""

MORE_TRIED = 8
"""Sets of larger sizes that are tried where small ones leave something out of reach."""

DEFECTS = ("race", "barrier-divergence", "warp-divergence", "unwaited-copy", "uninitialised")
"""Kinds of defects that are the program's own, whatever buffers and values it is given."""

AROUND = 2
"""How many sets are repeated with values around the source's constants."""


GUESS_FOR_SOURCE = 4
"""Work for a guess that is compared on all sets, for what the source takes on them: loops are longer than threads, and
some sets are gone through again by what the guess is lowered to."""

RUNAWAY = 16
"""Statements of a run for one of a run on the same set in another domain, from which on it is not waited for: rounds of
its loops are counted by numbers that only that domain makes."""


class ChosenSets:
    """A source kernel, the argument sets chosen for it, and what it does on them.

    Sets are chosen so that together they reach as much of the source as the invented sizes can: a guess that was never
    exercised is not a checked one. ``unreached``: what no set reached, branches by ``id``. ``single``: axes of the grid
    along which every launch had one block, though at other sizes there are more.
    """

    def __init__(
        self,
        source: Kernel,
        *,
        instances: int = 4,
        seed: int = 7,
        sizes: Sequence[int] = (),
        budget: Budget | None = None,
        choosing: float = math.inf,
    ) -> None:
        """``choosing``: work after which no more sets are looked for, whatever the first ones leave out."""
        self.source, self.sizes = source, sizes or SIZES
        self._runs: dict[tuple[int, str], RunResult] = {}
        self.sets: list[Arguments] = []
        self.unreached: frozenset[int] = frozenset()
        self.single: frozenset[str] = frozenset()
        self.endless, self.defects = False, math.inf
        self.budget = budget or Budget()
        self.choosing_ends = self.budget.work + choosing
        self.within = allowed(source, least_statements(source))
        self._choose(instances, seed)
        self.chosen_work = self.budget.work

    @property
    def late(self) -> bool:
        """Whether the whole check has used up its budget: what is not checked by then is not raised."""
        return self.budget.spent

    @property
    def is_chosen(self) -> bool:
        """Whether there is no work left for choosing more sets."""
        return self.late or self.budget.work > self.choosing_ends

    @property
    def is_short(self) -> bool:
        """Whether the budget is just enough for one more guess on all sets, and for what it is lowered to."""
        return self.budget.limit - self.budget.work < GUESS_FOR_SOURCE * sum(r.work for r in self._runs.values())

    @property
    def why_none(self) -> str:
        """Why there is no set to compare anything on."""
        if self.endless:
            return endless()
        threads = launched(self.source, {})
        if threads > MAX_FIXED:
            return unchecked(
                f"the launch has {threads:,} threads at all sizes, and the check runs at most {MAX_FIXED:,}"
            )
        return unchecked("no small launch satisfies the kernel's assumptions")

    @property
    def clean(self) -> bool:
        """Whether the source has no defect on the sets."""
        return not self.defects

    def _fits(self, result: RunResult) -> bool:
        """Whether the source has no more defects in this run than in those that were chosen."""
        return _defects(result) <= self.defects

    @property
    def defect(self) -> Finding | None:
        """A defect of the source, where it has some in all launches that were tried."""
        found = [f for r in self._runs.values() for f in r.findings if f.kind in DEFECTS]
        return None if self.clean or not found else min(found, key=lambda f: DEFECTS.index(f.kind))

    def _choose(self, instances: int, seed: int) -> None:
        """Sets on which the source has no defect, if there are any, else those with the fewest: where rows overlap it
        may have one more. The first ones, then those that reach more."""
        most, missing = min(self.budget.work + CHOOSING_WORK, self.choosing_ends), None
        for tried, (args, fuel) in enumerate(self._drawn(seed)):
            late = self.budget.work > most
            if len(self.sets) >= instances and (late or (self.clean and (not missing or tried > 3 * instances))):
                break
            if late and (self.sets or self.endless):
                break
            args, result = self._with_room(args, fuel)
            if not result.ended:
                self.endless = True
                continue
            if _defects(result) < self.defects:
                self.sets, self._runs, missing, self.defects = [], {}, None, _defects(result)
            here = self._missed(args, result)
            new = missing is None or not missing <= here
            if self._fits(result) and (new or len(self.sets) < instances):
                self._runs[len(self.sets), "int"] = result
                self.sets.append(args)
                missing = here if missing is None else missing & here
        self._reach(missing or frozenset())
        self._tied(seed)
        self._around_constants(seed)
        self._far_apart(seed)
        self._larger(seed)
        self._add(extreme_arguments(self.source, seed, self.sizes, self.within))
        self._beyond_reach(seed)

    def _drawn(self, seed: int) -> Iterator[tuple[Arguments, float]]:
        """Sets of small sizes, with the statements a run on them may take; any sizes if none of those is one."""
        yield from (
            (a, 2 * self.within) for a in invented_arguments(self.source, MOST_TRIED, seed, self.sizes, self.within)
        )
        if not self.sets and not self.budget.spent:
            yield from ((a, CHECK_FUEL) for a in invented_arguments(self.source, MOST_TRIED, seed, self.sizes))

    def _larger(self, seed: int) -> None:
        """Sets of larger sizes, the cheapest first, where small ones miss a branch, a second block or thread."""
        if not self.sets or not self._missing:
            return
        most = self.budget.work + CHOOSING_WORK
        drawn = list(invented_sizes(self.source, 2 * MOST_TRIED, seed + 1, self.sizes, 4 * self.within))
        costs = sorted((cost, k) for k, a in enumerate(drawn) if (cost := self._cost(a.scalars)) > self.within)
        for k in [k for _, k in costs][:MORE_TRIED]:
            if self.is_chosen or self.budget.work > most or not self._missing:
                return
            if not self.unreached and self.single <= single_axes(self.source, drawn[k].scalars):
                continue
            args, result = self._with_room(drawn[k].arguments(self.source), 8 * self.within)
            if self._fits(result) and result.ended and self._missing - self._missed(args, result):
                self._take(args, result)

    def _cost(self, scalars: dict[str, int | float]) -> float:
        """Statements of a run, and the work of its threads, about."""
        return statements(self.source, scalars) * work_of(launched(self.source, scalars))

    @property
    def _missing(self) -> frozenset[object]:
        return self.unreached | self.single

    def _missed(self, args: Arguments, result: RunResult) -> frozenset[object]:
        """What a run did not reach: branches, and second blocks and threads."""
        branches = (id(s) for s in result.unreached)
        return frozenset[object](chain(branches, single_axes(self.source, scalars_of(args))))

    def _reach(self, missing: frozenset[object]) -> None:
        self.unreached = frozenset(x for x in missing if isinstance(x, int))
        self.single = frozenset(x for x in missing if isinstance(x, str))

    def _take(self, args: Arguments, result: RunResult) -> None:
        self._reach(self._missing & self._missed(args, result))
        self._runs[len(self.sets), "int"] = result
        self.sets.append(args)

    def _with_room(
        self, args: Arguments, fuel: float = CHECK_FUEL, elements: int = MOST_ELEMENTS
    ) -> tuple[Arguments, RunResult]:
        """``args`` in buffers that are large enough, and what the source does: up to its first defect if the others
        have none. ``elements``: of all buffers, at most."""
        most = fuel_of(fuel, launched(self.source, scalars_of(args)))
        args, result = with_room(
            self.source, args, len(self.sets),
            lambda a: self.budget.run(self.source, a, "int", most, () if self.clean else _InBounds()),
            elements,
        )  # fmt: skip
        if not self.clean and any(f.kind == "out-of-bounds" for f in result.findings):  # whatever size its buffers have
            result = self.budget.run(self.source, args, "int", most)
        return args, result

    def _tied(self, seed: int) -> None:
        """Sets of which sizes are as the source compares them, where that leads somewhere new."""
        for args in tied_arguments(self.source, self.sets, seed, max(self.within, FAR_WORK)):
            if self.is_chosen or not self.unreached:
                return
            result = self.budget.run(self.source, args, "int", CHECK_FUEL, () if self.clean else None)
            if result.ended and self._fits(result) and not self.unreached <= frozenset(id(s) for s in result.unreached):
                self._take(args, result)

    def _beyond_reach(self, seed: int) -> None:
        """Sets larger than what the source's blocks and tiles hold at once, as far as that is cheap."""
        if self.sizes is not SIZES:
            return
        for candidates in far_arguments(self.source, seed, FAR_WORK):
            for args in candidates:
                if self.is_chosen:
                    return
                reach = max(MOST_ELEMENTS, min(volume(scalars_of(args)), FAR_ELEMENTS))
                args, result = self._with_room(args, FAR_WORK, reach)
                if self._fits(result) and result.work <= FAR_WORK and result.ended:
                    self._take(args, result)
                    break

    def _around_constants(self, seed: int) -> None:
        """The sets once more with values on both sides of the source's constants, where it has no defect on them.

        A start value of -100 and a maximum of small positive values look like a maximum without a start value.
        """
        limits = constants(self.source)
        for k, args in enumerate(self.sets[:AROUND] if limits else ()):
            self._add([{**args, **values_around(self.source, limits, args, seed + k)}])

    def _far_apart(self, seed: int) -> None:
        """The largest sets once more with values that are all different, where the source picks some by their size."""
        if not chooses(self.source):
            return
        for number in sorted(range(len(self.sets)), key=lambda n: -self._runs[n, "int"].work)[:AROUND]:
            args = self.sets[number]
            apart = [far_apart(self.source, args, seed + number, whole) for whole in (True, False)]
            self._add({**args, **values} for values in (apart if len(apart[0]) > len(apart[1]) else apart[:1]))

    def _add(self, more: Iterable[Arguments]) -> None:
        """Further sets, those on which the source has no more defects than on the others."""
        longest = max((r.steps for r in self._runs.values()), default=0)
        fuel = min(
            2 * CHECK_FUEL, int(max(2 * self.within, 4 * longest))
        )  # sizes below zero often mean loops without end
        for args in more if self.sets else ():
            if self.is_chosen:
                break
            result = self.budget.run(self.source, args, "int", fuel, () if self.clean else None)
            if not result.ended:
                fuel = min(fuel, max(CHECK_FUEL // 20, 2 * longest))  # the next one is rarely better
            elif self._fits(result):
                self._take(args, result)

    def _run(self, number: int, domain: str) -> RunResult:
        key = number, domain
        if key not in self._runs:
            before = self._runs.get((number, "int"))
            fuel = CHECK_FUEL if before is None else min(CHECK_FUEL, max(CHECK_FUEL // 2, RUNAWAY * before.steps))
            self._runs[key] = self.budget.run(self.source, self.sets[number], domain, fuel, None, before)
        return self._runs[key]


def _defects(result: RunResult) -> int:
    """How many defects a run of the source has: kinds at different places."""
    return 0 if result.ok else max(1, len({(f.kind, f.loc, f.buffer) for f in result.findings}))


class _InBounds:
    """All kinds of defects but accesses beyond a buffer."""

    def __contains__(self, kind: object) -> bool:
        return kind != "out-of-bounds"


__all__ = ["ChosenSets"]
