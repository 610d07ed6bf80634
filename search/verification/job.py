"""One candidate against its original, as the layers see it."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import FUEL, LANES, Finding, Kept, RunResult, run
from ktc.ir.interp.launches_at_once import Lanes, apart, differing
from ktc.ir.kernel import Kernel
from ktc.ir.walk import assigned
from ktc.ir.workload import Workload
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.special_values import SpecialRows
from ktc.search.verification.instances.coverage import Coverage
from ktc.search.verification.instances.instances import Instance, extents
from ktc.search.verification.instances.sizes import scalars_of

from .oracle import Inputs, Oracle, text_of
from .sharing.shared_runs import TURN, Data, Planned, SharedRuns, planned
from .verdict import Failure

SERIES = 4
"""Instances of a series in the first domain, each launched twice: a process makes one series while others make others.
In every other domain all launches are one series, of the same instances."""

Memory = tuple[str, str, int]
"""See :attr:`Planned.memory`."""


@dataclass(frozen=True)
class Outcome:
    """pass | fail | skip | unknown, with one line, and the failure of a ``fail``.

    ``ratio``: the largest error observed, as a share of what its bound allows; None where bits had to be equal.
    """

    status: str
    detail: str
    failure: Failure | None = None
    ratio: float | None = None


def exact_domains(candidate: Kernel) -> tuple[str, ...]:
    """The domains in which ``candidate`` is compared with its original, bit for bit: quotients of sums are rational
    functions in the field, in the ring of integers an even number has no inverse (:mod:`ktc.ir.interp.domains.ring`).
    """
    return ("field",) if "rational" in candidate.flags else ("int", "field")


@dataclass
class Job:
    """``steps`` holds, for the instances that ended so far, how many statements the candidate executed.

    ``kept`` is its working memory in each domain and series: launch after launch finds it as the one before left it,
    whatever that one's sizes were, as it does on a device. ``unsure``: a branch or guard has come out one way only
    where the sanitizer looked, so it looks at the other runs as well. ``only``: the candidate runs for no other
    instances. ``large``: these are so large that one domain has to do. ``shared``: other processes may make some of
    the runs; ``name``: by which they know a member that runs in the candidate's place. ``next_rung``: the runs that the
    rung after the exact one will need.
    """

    original: Kernel
    candidate: Kernel
    oracle: Oracle
    instances: list[Instance]
    workload: Workload
    domains: tuple[str, ...] = field(init=False)
    steps: dict[int, int] = field(default_factory=dict)
    executed: dict[int, int] = field(default_factory=dict)
    """How many statements one thread of the candidate comes to, for the instances that ended so far."""
    kept: dict[Memory, Kept] = field(default_factory=dict)
    unsure: bool = False
    only: bool = False
    large: bool = False
    shared: SharedRuns | None = None
    name: str = ""
    next_rung: Callable[[Job], Iterable[Planned]] | None = None
    _history: dict[Memory, str] = field(default_factory=dict)  # the key of the run that left what is kept
    _series: dict[tuple[int, ...], int] = field(default_factory=dict)
    _at_once: dict[Planned, Planned] = field(default_factory=dict)  # the run that makes a planned one with others
    _clean: dict[tuple[tuple[str, int], ...], RunResult] = field(default_factory=dict)
    """By sizes, what runs under the sanitizer left in which nothing was found."""
    _lanes: Lanes = field(default_factory=Lanes)
    _made: dict[Planned, RunResult] = field(default_factory=dict)  # what such runs left that was not asked for yet
    coverage: Coverage = field(init=False)

    theirs: Coverage = field(init=False)

    @property
    def remembers(self) -> bool:
        """Whether a launch of the candidate finds what the one before left."""
        return any(p.scratch is not None for p in self.candidate.params)

    def __post_init__(self) -> None:
        self.domains = exact_domains(self.candidate)
        self.coverage = Coverage(self.candidate, self.workload)
        self.theirs = Coverage(self.original, self.workload, self.coverage.tried)
        if self.shared is not None:
            self.shared.performers[self.name] = self.perform

    def run(
        self,
        instance: Instance,
        data: Data,
        domain: str,
        want: RunResult,
        *,
        sanitize: bool = False,
        known: Collection[Finding] = (),
        most: int | None = None,
    ) -> RunResult:
        """The candidate on one kind of data in one domain; endless if it takes a hundred times the original's
        statements, and many, and twice what it took for these sizes before, or ``most``. Under the sanitizer, up to the
        first defect that the original has not (``known``: its defects, where ``want`` was not sanitized). What a run
        that did not end has exercised does not count: nothing says that it was right."""
        before = self.steps.get(id(instance), 0)
        what = self.planned("candidate", instance, domain, data, sanitize)
        result = self._against(want, what, known, most, before)
        if result.ended:
            self.steps[id(instance)] = result.steps
            self.executed[id(instance)] = (result.steps + result.spared) // self._batches(instance)
            if (at := tuple(instance.sizes.values())) not in self._lanes.known:
                self._lanes.note(self.candidate, self.oracle.inputs(instance.sizes, data), at, result)
            self.coverage.note(None, result)
            self.theirs.note(None, want)
        return result

    def _batches(self, instance: Instance) -> int:
        """How many times the interpreter goes through a launch of the candidate: a part of its blocks at a time."""
        if self.candidate.launch is None:
            return 1
        return -(-math.prod(extents(self.candidate, scalars_of(self.workload, instance.sizes))) // LANES) or 1

    def looked_at(
        self, instance: Instance, data: Data, domain: str, want: RunResult, most: int | None = None
    ) -> tuple[RunResult, list[Finding]]:
        """The candidate under the sanitizer in a domain in which the original is not, and what is known of that one.
        What is found there may be the original's on such data: it is asked before anything is held against the
        candidate."""
        known = self.defects_for(instance.sizes)
        got = self.run(instance, data, domain, want, sanitize=True, known=known, most=most)
        seen = {(f.kind, f.buffer) for f in (*want.findings, *known)}
        if new := {(f.kind, f.buffer) for f in got.findings if f.kind != "fuel"} - seen:
            theirs = self.oracle.defects_on(instance.sizes, domain, data)
            if new & {(f.kind, f.buffer) for f in theirs}:
                known = [*known, *theirs]
                got = self.run(instance, data, domain, want, sanitize=True, known=known, most=most)
        return got, known

    def alone(self, instance: Instance, data: Data, domain: str) -> RunResult:
        """The candidate in a domain in which it is compared with no run of the original."""
        return self._alone(self.planned("alone", instance, domain, data))

    def planned(
        self,
        who: str,
        instance: Instance,
        domain: str,
        data: Data,
        sanitize: bool = False,
        fuel: int = FUEL,
        most: int | None = None,
    ) -> Planned:
        """A run that will be needed; see :class:`Planned`."""
        in_series = self.remembers and who == "candidate" and domain == self.domains[0]
        series = self._series_of(instance) if in_series else 0
        return planned(who, instance.sizes, domain, data, sanitize, fuel, self.name, most or 0, series)

    def _series_of(self, instance: Instance) -> int:
        """Which series of launches the sizes are one of, in the order in which they were first spoken of."""
        return self._series.setdefault(tuple(instance.sizes.values()), len(self._series) // SERIES)

    def announce(self, runs: Iterable[Planned]) -> None:
        """Say which runs will be needed from now on: those of one kernel that differ in data alone are made at once,
        and processes that have nothing else to do hear of all. Those of a candidate that remembers what came before
        come in turn, in one process for each series; the original's beside them do not."""
        if not self.remembers:
            runs = self._grouped(runs)
        if self.shared is None:
            return
        if self.remembers:
            said = list(runs)
            mine = [p for p in said if p.who == "candidate"]
            said = [*map(_in_turn, mine), *map(_of_original, mine), *(p for p in said if p.who != "candidate")]
            runs = said
        self.shared.announce(runs)

    def _grouped(self, runs: Iterable[Planned]) -> list[Planned]:
        """Runs that come together in the place of those that are made at once."""
        alike: dict[tuple[Planned, bool], list[Planned]] = {}
        for p in dict.fromkeys(runs):  # special data apart: what their errors may be is not always asked
            alike.setdefault((replace(p, data=""), isinstance(p.data, str)), []).append(p)
        found: list[Planned] = []
        self._at_once = {}
        for some in alike.values():
            most = self._most_at_once(some[0]) if len(some) > 1 else 1
            for few in (some[k : k + most] for k in range(0, len(some), most)):
                datas = tuple(p.data for p in few if not isinstance(p.data, tuple))
                group = few[0] if len(few) == 1 else replace(few[0], data=datas)
                self._at_once.update({p: group for p in few if p is not group})
                found.append(group)
                if group is not few[0] and group.who != "alone":
                    self.oracle.expect(dict(group.sizes), group.domain, datas)
        return found

    def _most_at_once(self, what: Planned) -> int:
        """How many runs that differ from this one in their data are made at once."""
        if isinstance(what.data, tuple) or what.who not in ("original", "candidate", "alone"):
            return 1
        sizes = dict(what.sizes)
        try:
            if what.who == "original":
                return self.oracle.most_at_once(sizes, what.domain, what.data)
            args = self.oracle.inputs(sizes, what.data)
        except KtcError:
            return 1  # said where the run is needed
        return self._lanes.most_at_once(self.candidate, args, tuple(sizes.values()))

    def most_at_once(self, kernel: Kernel, args: Inputs, instance: Instance) -> int:
        """How many runs of original or candidate that differ in their data are made at once."""
        sizes = tuple(instance.sizes.values())
        lanes = self._lanes if kernel is self.candidate else self.oracle.lanes_of(kernel)
        return lanes.most_at_once(kernel, args, sizes)

    def foreseen(self) -> Iterable[Planned]:
        """What the next rung will need, as far as this one is through; nothing where nobody is to know."""
        if self.shared is None or self.next_rung is None:
            return ()
        with contextlib.suppress(KtcError):  # said where the runs are needed
            return list(self.next_rung(self))
        return ()

    def perform(self, what: Planned) -> None:
        """Make a run that was announced."""
        sizes = dict(what.sizes)
        try:
            if isinstance(what.data, tuple):
                self._make(what)
                return
            if what.who == "alone":
                self._alone(what)
                return
            if what.who == TURN:
                self._take_turns(what)
                return
            awaited = what.who == "candidate" and what.fuel == FUEL  # whatever the original takes
            if awaited and not self.remembers and self.oracle.is_being_run(sizes, what.domain, what.kind):
                self._ahead_of_the_original(what)
                return
            want = self.oracle.run(sizes, what.domain, what.kind, what.fuel)
            if what.who == "candidate" and want.ended and not self.remembers:
                self._beside(want, what)
        except KtcError:
            return  # said where the run is needed

    def _make(self, group: Planned) -> None:
        """Make runs that were announced at once; they are kept until they are asked for, as far as nothing was found in
        any of them: where something was, each one has to say for itself what it is."""
        assert isinstance(group.data, tuple)
        oracle, sizes, datas, fuel = self.oracle, dict(group.sizes), group.data, FUEL
        if group.who != "alone":
            oracle.expect(sizes, group.domain, datas)
            wants = [oracle.run(sizes, group.domain, data, group.fuel) for data in datas]
            if group.who == "original" or not all(want.ended for want in wants):
                return
            fuel = group.most or max(FUEL // 5, 100 * max(want.steps for want in wants))
        first, *others = (oracle.inputs(sizes, data) for data in datas)
        if differing(self.candidate, [first, *others]) is None:
            return

        def compute() -> RunResult:
            return run(
                self.candidate, first, domain=group.domain, sanitize=group.sanitize, fuel=fuel, fatal=lambda _: True,
                undefined=oracle.undefined, returned=self.stored, beside=others,
                before=self._looked_at_before(group, datas),
            )  # fmt: skip

        try:
            made = self._spread(group, fuel, compute, [])
        except KtcError:
            return  # said by the run that it is about
        self._lanes.note_at_once(made)
        for data, result in zip(datas, apart(made, len(datas)) if made.ok else ()):
            self._made[replace(group, data=data)] = result

    def _made_at_once(self, what: Planned, fuel: int) -> RunResult | None:
        """A run that was made with others, now if need be; None where it has to be made alone."""
        group = self._at_once.pop(what, None)
        if group is not None and what not in self._made:
            self._at_once = {p: g for p, g in self._at_once.items() if g is not group}
            self._make(group)
        made = self._made.pop(what, None)
        return made if made is not None and made.steps <= fuel else None

    def _beside(self, want: RunResult, what: Planned) -> RunResult:
        """A run of the candidate that was announced."""
        first = what.domain == self.domains[0]
        known = [] if first or not what.sanitize else self.defects_for(dict(what.sizes))
        return self._against(want, what, known, what.most or None, 0)

    def _take_turns(self, first: Planned) -> None:
        """Make the runs that come in turn with ``first``, as long as the leader still wants those that were made."""
        assert self.shared is not None
        self.kept.pop(first.memory, None)
        self._history.pop(first.memory, None)
        made: list[Planned] = []
        while (turns := self.shared.turns(first))[: len(made)] == made and len(turns) > len(made):
            what = turns[len(made)]
            want = self.oracle.run(dict(what.sizes), what.domain, what.kind, what.fuel)
            if not want.ended or not self._beside(want, replace(what, who="candidate")).ended:
                return
            made.append(what)
            self.shared.plan_again()

    def defects_for(self, sizes: Mapping[str, int]) -> list[Finding]:
        """The original's defects, from the domain in which it is sanitized."""
        try:
            return self.oracle.run(sizes, self.domains[0], "exact").findings
        except KtcError:
            return []

    def _against(
        self, want: RunResult, what: Planned, known: Collection[Finding], most: int | None, before: int
    ) -> RunResult:
        """The candidate, where the original came to ``want``."""
        endless = not want.ended
        fuel = most or (FUEL // 15 if endless else max(FUEL // 5, 100 * want.steps, 2 * before))
        return self._limited(what, {(f.kind, f.buffer) for f in (*want.findings, *known)}, fuel)

    def _ahead_of_the_original(self, what: Planned) -> None:
        """The candidate, while another process runs the original: as if that had no defect, and took few statements.
        Where this is not so, it is run again when it is asked for."""
        self._limited(what, set(), what.most or FUEL // 5)

    def _limited(self, what: Planned, theirs: set[tuple[str, str]], fuel: int) -> RunResult:
        """The candidate, for ``fuel`` statements at most, and under the sanitizer up to the first defect that is none
        of ``theirs``, which are the original's."""

        if (made := self._made_at_once(what, fuel)) is not None:
            return made
        memory = self.kept.setdefault(what.memory, {})

        def compute() -> RunResult:
            return run(
                self.candidate,
                self.oracle.inputs(dict(what.sizes), what.kind),
                domain=what.domain,
                sanitize=what.sanitize,
                fuel=fuel,
                undefined=self.oracle.undefined,
                returned=self.stored,
                fatal=(lambda f: (f.kind, f.buffer) not in theirs) if what.sanitize else None,
                kept=memory,
                before=self._looked_at_before(what, [what.kind]),
            )

        if not self.remembers:
            result = self._spread(what, fuel, compute, sorted(theirs))
            if what.sanitize and (what.domain, what.data) == (self.domains[0], "exact") and result.ok:
                self._clean[what.sizes] = result
            return result
        if self.shared is None:
            return compute()
        key = self._key(what, sorted(theirs), self._history.get(what.memory, ""))
        result = self.shared.in_turn(_in_turn(what), key, self.candidate, fuel, compute, memory)
        self._history[what.memory] = key
        return result

    def _looked_at_before(self, what: Planned, several: Sequence[str | SpecialRows]) -> RunResult | None:
        """A run of the candidate under the sanitizer in which nothing was found, on the integers that ``several`` kinds
        of data have for these sizes; None where none is known, or a launch finds more than its arguments."""
        clean = self._clean.get(what.sizes) if what.sanitize and not self.remembers else None
        if clean is None:
            return None
        sizes = dict(what.sizes)
        known = integers_of(self.oracle.inputs(sizes, "exact"))
        return clean if all(integers_of(self.oracle.inputs(sizes, data)) == known for data in several) else None

    @cached_property
    def stored(self) -> frozenset[str]:
        """What the original may store to, and a candidate for some numbers alone has no statement for."""
        written = assigned(self.original.body)
        return frozenset(p.sym.name for p in self.original.params if p.sym in written)

    def _alone(self, what: Planned) -> RunResult:
        if (made := self._made_at_once(what, FUEL)) is not None:
            return made

        def compute() -> RunResult:
            args = self.oracle.inputs(dict(what.sizes), what.kind)
            undefined, returned = self.oracle.undefined, self.stored
            return run(self.candidate, args, domain=what.domain, sanitize=False, undefined=undefined, returned=returned)

        return self._spread(what, FUEL, compute, [])

    def _spread(
        self, what: Planned, fuel: int, compute: Callable[[], RunResult], theirs: list[tuple[str, str]]
    ) -> RunResult:
        """A run of the candidate, by whatever process gets to it first."""
        if self.shared is None:
            return compute()
        return self.shared.run(what, self._key(what, theirs), self.candidate, fuel, compute)

    def _key(self, what: Planned, theirs: list[tuple[str, str]], *before: str) -> str:
        """What a run's result depends on. ``before``: the same of the run that came before, if that left something."""
        facts = (text_of(self.candidate), self.oracle.key, what.name, theirs, *before)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


def integers_of(args: Inputs) -> dict[str, object]:
    """What of the arguments is no float, to be compared."""
    return {
        n: x.tobytes() if isinstance(x, np.ndarray) else x
        for n, x in args.items()
        if not (is_float(x.dtype) if isinstance(x, np.ndarray) else isinstance(x, float))
    }


def _in_turn(p: Planned) -> Planned:
    return replace(p, who=TURN)


def _of_original(p: Planned) -> Planned:
    """The run that one of the candidate is compared with."""
    return replace(p, who="original", sanitize=False, most=0, series=0)


__all__ = ["Job", "Outcome", "Planned"]
