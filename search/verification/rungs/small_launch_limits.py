"""Launches whose limits are made small: what happens above ``min(blocks, 65535)`` blocks is seen at usual sizes.

No instance of bounded size comes to such a limit (:mod:`.unmet_limits`). So the number becomes a small one, in the
original and in the candidate alike, in the launch and wherever else it stands, and the two are compared on the usual
instances. A candidate that only holds below the limit differs there: one without the loop that the limit makes
necessary, or without the second axis of blocks. What raising makes of such a launch has the launcher's own conditions
in the kernel: these are taken both ways.

A number may mean something else as well, or stand in others (a stride of 65535 blocks of 256). There are several ways
of replacing it, and it is enough if in one of them the candidate does what the original does. Only instances on which
the original itself, with its limit made small, still does what it did are held against a candidate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import simplify
from ktc.ir.interp import RunResult, compare, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Cast, Expr
from ktc.ir.text import print_expr
from ktc.ir.verifier.launch_rules import launch_exprs
from ktc.ir.walk import all_exprs, map_expr, walk_expr
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.search.verification.instances.instances import LARGER, MAX_ELEMENTS, Instance, Maker, larger_instances
from ktc.search.verification.job import Job

from .replaced_numbers import WAYS, Way, small_numbers, strides, with_numbers
from .shorter_instances import shortened
from .unmet_limits import Numbers, UnmetLimits, launch_conditions, met_conditions, numbers_of, outcomes, unmet_limits

SMALL = (2, 3)
"""What the least limit is made: two values, for sizes on both sides of each. Larger limits stay larger ones."""

MOST_RUNS = 8
"""Instances that are compared at a small limit."""

MOST_STATEMENTS = 4_000
"""Statements of one run. Longer instances are run with smaller sizes, and as they are where these do not show all."""


@dataclass
class SmallLaunches:
    """What launches of small limits have shown.

    ``settled``: conditions of the candidate, by ``id``, that are the launcher's own and came out both
    ways, without small limits or with them.
    ``differs``: where the candidate does something else than the original; '' if nowhere. ``unmet``: a condition of the
    candidate's launch that came out one way even so; '' if none did.
    """

    settled: frozenset[int] = frozenset()
    differs: str = ""
    unmet: str = ""


def small_launches(job: Job, conditions: Sequence[Expr]) -> SmallLaunches:
    """Original and candidate compared in launches whose limits, those that no instance came to, are made small.

    ``conditions``: those of the candidate's body that came out one way.
    """
    mine, theirs = unmet_limits(job, job.candidate), unmet_limits(job, job.original)
    wanted = _of_the_launch(job.original, job.candidate, conditions)
    named = definitions(job.candidate.body)
    expanded = {key: [expand(e, named) for e in es] for key, es in wanted.items()}
    met = {_spelled(e) for e in met_conditions(job, job.original)}
    parts = [x for es in expanded.values() for e in es for x in walk_expr(e) if _spelled(x) not in met]
    limits = mine.limits.and_also(theirs.limits, *(numbers_of(job.candidate, x) for x in parts))
    if not limits.numbers:
        return SmallLaunches()
    found: SmallLaunches | None = None
    for way in WAYS:
        tried = _Attempt(job, mine, wanted, expanded, limits, way)
        tried.run()
        said = tried.told()
        if not (tried.meaningless or said.differs or said.unmet):
            return said
        if found is None or (said.differs and not found.differs):
            found = said
    return found or SmallLaunches()


@dataclass
class _Attempt:
    """One way of making limits small, and what it showed."""

    job: Job
    mine: UnmetLimits
    wanted: Mapping[str, list[Expr]]
    expanded: Mapping[str, list[Expr]]
    limits: Numbers
    way: Way
    differs: str = ""
    meaningless: bool = False
    """Whether the original has done something else than without limits: the numbers were more than limits."""
    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How conditions of the candidate's body came out, by how they read."""
    known: dict[int, str] = field(default_factory=dict)
    """Where they stand, by ``id``, in the candidates that are run."""
    ways: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """How conditions of both launches came out, without small limits as well, by program (0 the original) and place."""
    launched: dict[int, int] = field(default_factory=dict)
    """How conditions of its launch came out, by their place."""

    def run(self) -> None:
        self.launched = dict(self.mine.conditions)
        for instance in self.job.coverage.tried:
            self._note_ways((self.job.original, self.job.candidate), instance)
        later: list[tuple[tuple[Kernel, Kernel], str, list[Instance]]] = []
        for small in SMALL:
            pair, made = self._limited(small)
            short, long = self._instances(pair)
            if not self._agree(pair, made, short):
                return
            later.append((pair, made, long))
        for pair, made, long in later:
            for instance in long:
                if self._is_all_shown():
                    return
                if self._shows_more(pair, instance) and not self._agree(pair, made, [instance]):
                    return

    def _limited(self, small: int) -> tuple[tuple[Kernel, Kernel], str]:
        """Original and candidate with the least limit made ``small``; and what is said of that."""
        programs = self.job.original, self.job.candidate
        numbers = small_numbers(self.limits.numbers, small)
        made = ", ".join(f"{n} made {v}" for n, v in numbers.items() if n in self.limits.numbers)
        if self.way.strides:
            numbers = {**strides(programs, self.limits.numbers, numbers), **numbers}
        original, candidate = (with_numbers(k, numbers, self.limits.knobs, self.way) for k in programs)
        self._texts(candidate, numbers)
        return (original, candidate), made

    def _agree(self, pair: tuple[Kernel, Kernel], made: str, instances: list[Instance]) -> bool:
        """Whether original and candidate with small limits do the same, and the original what it does without."""
        for instance in instances:
            self._compare(pair, instance, made)
            if self.differs or self.meaningless:
                return False
        return True

    def _shows_more(self, pair: tuple[Kernel, Kernel], instance: Instance) -> bool:
        """Whether a condition of a launch, which is what all conditions that are wanted are, comes out in a way in
        which it did at no sizes that were run."""
        return any(how & ~self.ways[at] for at, how in self._ways(pair, instance).items())

    def _ways(self, pair: tuple[Kernel, Kernel], instance: Instance) -> dict[tuple[int, int], int]:
        """How the conditions of both launches come out, by program and place."""
        scalars = scalars_of(self.job.workload, instance.sizes)
        return {(n, k): how for n, kernel in enumerate(pair) for k, how in outcomes(kernel, scalars).items()}

    def _note_ways(self, pair: tuple[Kernel, Kernel], instance: Instance) -> None:
        for (program, k), how in self._ways(pair, instance).items():
            self.ways[program, k] |= how
            if program and k in self.launched:
                self.launched[k] |= how

    def _is_all_shown(self) -> bool:
        """Whether all conditions that are wanted have come out both ways."""
        return not self.unmet and len(self._settled()) == sum(map(len, self.wanted.values()))

    def _settled(self) -> frozenset[int]:
        """Conditions that came out one way at small limits and the other one without, or both ways, by ``id``."""
        usual = self.job.coverage.outcomes
        each = ((id(e), self.seen[key]) for key, es in self.wanted.items() for e in es)
        return frozenset(at for at, how in each if how | usual.get(at, 0) == 3)

    @property
    def unmet(self) -> str:
        conditions = launch_conditions(self.job.candidate)
        open_ = (e for k, e in enumerate(conditions) if k in self.mine.conditions and self.launched[k] != 3)
        return next(map(print_expr, open_), "")

    def told(self) -> SmallLaunches:
        settled = frozenset[int]() if self.meaningless or self.differs else self._settled()
        return SmallLaunches(settled, self.differs, self.unmet)

    def _instances(self, pair: tuple[Kernel, Kernel]) -> tuple[list[Instance], list[Instance]]:
        """The usual ones of many elements, and those that are large for launches as small as those of ``pair``, in a
        few statements each; and those that take more as they are."""
        usual = [i for i in self.job.instances if i.cost <= MAX_ELEMENTS] or self.job.instances
        large = larger_instances(Maker(pair, self.job.workload, MAX_ELEMENTS // LARGER))
        maker = Maker(pair, self.job.workload, max([MAX_ELEMENTS, *(i.cost for i in usual)]))
        chosen = [*sorted(usual, key=lambda i: sum(i.sizes.values()))[-MOST_RUNS:], *large]
        return shortened(maker, chosen, MOST_STATEMENTS)

    def _texts(self, candidate: Kernel, numbers: Mapping[int, int]) -> None:
        """Finds the conditions that are wanted in ``candidate``, which has ``numbers``."""
        texts = {_spelled(self.way.on(es[0], numbers)): key for key, es in self.expanded.items()}
        self.known |= {at: texts[text] for at, text in _texts(candidate).items() if text in texts}

    def _compare(self, pair: tuple[Kernel, Kernel], instance: Instance, made: str) -> None:
        """Original and candidate with small limits on one instance."""
        job = self.job
        try:
            args = job.oracle.inputs(instance.sizes, "exact")
            want, got = (self._run(k, args) for k in pair)
        except KtcError:
            return
        if not want.ok or not got.ended:
            return  # nothing to compare with, or too long
        if not self._still_does(instance, want):
            self.meaningless = True
            return
        if not got.ok or compare(want, got, job.domains[0], 0) is not None:
            sizes = " ".join(f"{n}={v}" for n, v in instance.sizes.items())
            self.differs = f"in a launch of small limits ({made}) the result differs from the original's at {sizes}"
            return
        for at, how in got.outcomes.items():
            if at in self.known:
                self.seen[self.known[at]] |= how
        self._note_ways(pair, instance)

    def _run(self, kernel: Kernel, args: Mapping[str, Any]) -> RunResult:
        return run(kernel, args, domain=self.job.domains[0], undefined=self.job.oracle.undefined)

    def _still_does(self, instance: Instance, want: RunResult) -> bool:
        """Whether the original with small limits did what it does without."""
        usual = self.job.oracle.run(instance.sizes, self.job.domains[0], "exact")
        return usual.ok and compare(usual, want, self.job.domains[0], 0) is None


def _of_the_launch(original: Kernel, candidate: Kernel, conditions: Sequence[Expr]) -> dict[str, list[Expr]]:
    """Those of ``conditions`` that stand in the original's launch as well, by how they read there."""
    theirs = {_spelled(x) for e in launch_exprs(original) for x in walk_expr(e)}
    named = definitions(candidate.body)
    out: dict[str, list[Expr]] = {}
    for e in conditions:
        if (key := _spelled(expand(e, named))) in theirs:
            out.setdefault(key, []).append(e)
    return out


def _spelled(e: Expr) -> str:
    """``e`` as text, without conversions: those of a launch are the host's."""
    return print_expr(simplify(map_expr(e, lambda x: x.x if isinstance(x, Cast) else x)))


def _texts(candidate: Kernel) -> dict[int, str]:
    named = definitions(candidate.body)
    return {id(e): _spelled(expand(e, named)) for top in all_exprs(candidate.body) for e in walk_expr(top)}


__all__ = ["SmallLaunches", "small_launches"]
