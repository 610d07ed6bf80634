"""The real lab: one device, its ledger, and the measuring protocol.

A configuration is bound, printed, compiled, checked against the original on the device, and only then timed. All of it
goes through :func:`ktc.search.tuning.tune.tune`, so that every outcome is in the ledger before anybody acts on it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.driver.printing import prints_loops
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.support import time_limits
from ktc.ir.workload import Scenario, Workload
from ktc.passes.lowering import materialise
from ktc.search.bounds import speed_of_light
from ktc.search.bounds.compulsory_work import Work
from ktc.search.bounds.cpu_rates import rates_of_today
from ktc.search.bounds.rates import Rates
from ktc.search.bounds.speed_of_light import Bound, ceilings
from ktc.search.bounds.workload_work import work_of
from ktc.search.limiters.limiter import Profile
from ktc.search.records.ledger import Ledger, StudyKey
from ktc.search.records.outcome import Outcome
from ktc.search.records.recipe import ktc_version
from ktc.search.space.first_configuration import faster_configuration, first_configuration
from ktc.search.space.knob_space import Config, Space
from ktc.search.tuning.tune import Budget, tune
from ktc.search.verification import Verdict
from ktc.search.workers.timing import rotation

from .build import Candidate
from .gate import Gate, bound, strict, verifying_processes
from .lab import Comparison, Configuration, Tuned
from .limits import space_for
from .profiler import Profiler
from .report import Timed
from .station import Opening, Station
from .stopping import TimeShares

if TYPE_CHECKING:
    from ktc.search.target import DeviceInfo, Timing

LEAST_COUNTED_S = 1.0
"""Seconds for counting what a launch has to do, however late it is."""

COMPILE_AHEAD = 2
"""Configurations compiled while another one is measured; larger batches mislead the sampler."""

AS_FAST_AS_MAY_BE = ("memory", "matrix", "launch")
"""What limits a configuration whose knobs the cost model does not know better values for."""

LOOKING = 0.03
"""Share of a run's time limit in which better values are looked for, of one script at one scenario's sizes."""


class Bench:
    """Implements :class:`ktc.agent.lab.Lab` on a device of this machine.

    Raises:
        KtcError: no such device; a ledger that cannot be opened.
    """

    def __init__(
        self,
        work: Workload,
        original: Kernel,
        *,
        variant: str | None = None,
        device: str | None = None,
        ledger: str | Path = ":memory:",
        seed: int = 0,
        opening: Opening | None = None,
        counters: bool = False,
        shares: TimeShares = TimeShares(),  # noqa: B008  frozen
    ) -> None:
        """``counters``: hardware counters are read of what is profiled, where they may be. ``shares``: the time that
        there is for counting what launches have to do."""
        self._shares = shares
        self.work, self.original, self.variant, self.seed = work, original, variant, seed
        self.station = Station(work, original, variant=variant, device=device, seed=seed, opening=opening)
        self.device: DeviceInfo = self.station.device
        self.ledger = Ledger(ledger)
        folder = None if str(ledger) == ":memory:" else Path(ledger).parent / "verdicts"
        self.gates = 0 if self.device.is_cpu else verifying_processes()  # what is measured on a CPU is alone there
        self.between: Callable[[], object] = lambda: None
        ask = self.station.gate if self.gates else None
        self._gate = Gate(work, original, variant, seed, folder, ask, prints_loops(self.device.profile), shares)
        self._profiler = Profiler(self.device, self.station.count if counters else None)
        self._resources: dict[tuple[str, str, str], Mapping[str, int]] = {}  # of what was measured: registers, bytes
        self._spaces: dict[tuple[str, str], Space | KtcError] = {}
        self._began: dict[tuple[str, str], Config] = {}
        self._works: dict[str, Work] = {}
        self._source = hashlib.sha256(b"".join(p.read_bytes() for p in (work.source, *work.sources))).hexdigest()

    def close(self) -> None:
        self.station.close()
        self.ledger.close()

    def is_as_expected(self) -> bool:
        """As :meth:`.station.Station.is_as_expected`."""
        return self.station.is_as_expected()

    # -------------------------------------------------------------------------------------------------- the protocol

    def gate(self, kernel: Kernel) -> Future[Verdict]:
        return self._gate(kernel)

    def renew(self) -> None:
        self.station.executor.renew()

    def prepare(self, c: Candidate, scenario: Scenario) -> Mapping[str, int] | None:
        space = self._space(c, scenario)
        if isinstance(space, KtcError):
            return None
        first = self._first(c, scenario, space)
        if not self.device.is_cpu:
            self.station.prepare(strict(bound(c.kernel, first)))
        return first

    def tune(
        self,
        c: Candidate,
        scenario: Scenario,
        total: int,
        seeds: Sequence[Mapping[str, int]],
        seconds: float = math.inf,
    ) -> Tuned:
        space = self._space(c, scenario)
        if isinstance(space, KtcError):
            return Tuned((), 0, exhausted=True, why_empty=space.message)

        def at(config: Mapping[str, int]) -> Kernel:
            return strict(bound(c.kernel, config))

        def measured(config: Mapping[str, int], incumbent: object) -> Outcome:
            self.between()
            meanwhile = self.between if self.gates else None  # verdicts come from elsewhere
            return self.station.evaluate(at(config), scenario, max(0.0, until - time.monotonic()), meanwhile)

        until = time.monotonic() + seconds
        ahead = 0 if self.device.is_cpu else COMPILE_AHEAD  # on a CPU, compiling would disturb what is measured
        found = tune(
            None,
            measured,
            space,
            budget=Budget(total, seconds),
            ledger=self.ledger,
            study_key=self._study(c, scenario),
            first=self._first(c, scenario, space),
            seeds=seeds,
            seed=self.seed,
            prepare=(lambda config: self.station.prepare(at(config))) if ahead else None,
            ahead=ahead,
        )
        timed = [(t.config, t.objective) for t in found.trials if t.objective is not None and not t.outcome.early]
        ranked = sorted(timed, key=lambda x: x[1])
        failures = [
            (t.config, t.outcome.status, _first_line(t.outcome.details)) for t in found.trials if not t.outcome.ok
        ]
        for t in found.trials:
            if isinstance(known := t.outcome.details.get("resources"), Mapping):
                self._resources[c.key, scenario.name, repr(sorted(t.config.items()))] = known
        n = len(found.trials)
        return Tuned(tuple(ranked), n, n - found.resumed, n >= space.size, tuple(failures), trials=found.trials)

    def compare(
        self, c: Candidate, knobs: Mapping[str, int], scenario: Scenario, rival: Configuration | None = None
    ) -> Comparison:
        other = strict(bound(rival[0].kernel, rival[1])) if rival is not None else None
        said, verdict = self.station.compare(strict(bound(c.kernel, knobs)), scenario, other)
        assert said.baseline is not None and said.timing is not None and said.ratio is not None
        return Comparison(_timed(said.baseline), _timed(said.timing), said.ratio, verdict)

    def feasible(self, c: Candidate, knobs: Mapping[str, int], scenario: Scenario) -> bool:
        space = self._space(c, scenario)
        return not isinstance(space, KtcError) and space.contains(dict(knobs))

    def runs(self, c: Candidate, scenario: Scenario) -> bool:
        return not isinstance(self._space(c, scenario), KtcError)

    def traffic(self, scenario: Scenario) -> int:
        return self._work(scenario).bytes

    def knows_rates(self) -> bool:
        return self.station.executor.knows_rates() or (self.device.is_cpu and rates_of_today(self.device) is not None)

    def bound(self, scenario: Scenario, beaten_by: float = 0.0) -> Bound | None:
        if not self.knows_rates() and self._shares.is_over("counted"):
            return None  # to measure the device takes seconds
        found = self._bound(scenario, self.station.executor.rates())
        if found is not None and self.device.is_cpu and beaten_by and found.alarm(beaten_by):
            return self._bound(scenario, self.station.executor.rates(anew=True))  # others were on the cores then
        return found

    def _bound(self, scenario: Scenario, rates: Rates) -> Bound | None:
        work = self._work(scenario)
        limits = ceilings(self.device, rates, self._footprint(scenario, work))
        return speed_of_light.bound(work, limits) if limits.read else None

    def _footprint(self, scenario: Scenario, work: Work) -> int:
        """Bytes that launches go through before one finds the same again: of each set of arguments what it touches."""
        whole = self.work.call_bytes(scenario.sizes, self.variant)
        sets = rotation(whole, self.device.l2_bytes, self.device.global_bytes)
        return sets * min(whole, max(work.bytes_in, work.bytes_out))

    def profile(
        self, c: Candidate, knobs: Mapping[str, int], scenario: Scenario, seconds: float = 0.0
    ) -> Profile | None:
        known = self._resources.get((c.key, scenario.name, repr(sorted(knobs.items()))))
        scalars = self.station.scalars(scenario)
        return self._profiler.of(strict(c.kernel), knobs, scalars, scenario.sizes, seconds, known)

    def _work(self, scenario: Scenario) -> Work:
        found = self._works.get(scenario.name)
        if found is None:
            found = self._works[scenario.name] = self._counted(scenario)
        return found

    # ------------------------------------------------------------------------------------------------------- details

    def _counted(self, scenario: Scenario) -> Work:
        """What a launch has to do; where there is no time to count it, nothing, which is never too much."""
        moment = max(self._shares.until("counted"), time.monotonic() + LEAST_COUNTED_S)
        try:
            with time_limits.until(moment):
                return work_of(self.work, scenario.sizes, self.original, self.variant, self.seed)
        except time_limits.OutOfTime:
            return Work(0, 0, whole=False)

    def _space(self, c: Candidate, scenario: Scenario) -> Space | KtcError:
        """Feasible tuples on this scenario's sizes: the passes' constraints, guards that must hold, device limits."""
        key = (c.key, scenario.name)
        if key not in self._spaces:
            try:
                self._spaces[key] = space_for(c.kernel, self.device, self.station.scalars(scenario))
            except KtcError as e:
                self._spaces[key] = e
        return self._spaces[key]

    def _first(self, c: Candidate, scenario: Scenario, space: Space) -> Config:
        key = (c.key, scenario.name)
        if key not in self._began:
            units = 1 if self.device.is_cpu else self.device.compute_units
            scalars, lowered = self.station.scalars(scenario), materialise(c.kernel)
            first = first_configuration(space, lowered, scalars, units)
            expected = self._profiler.expected(lowered, first, scalars) if space.names else None
            late = time.monotonic() + LOOKING * self._shares.limit

            def seconds(knobs: Config) -> float | None:
                found = self._profiler.expected(lowered, knobs, scalars) if time.monotonic() < late else None
                return found.seconds if found is not None else None

            if expected is not None and expected.limiter not in AS_FAST_AS_MAY_BE:
                first = faster_configuration(space, first, seconds)
            self._began[key] = first
        return self._began[key]

    def _study(self, c: Candidate, scenario: Scenario) -> StudyKey:
        """What the ledger keeps ``c`` under. An original that failed is tried again by the next run, under another key:
        without it nothing can be compared, and the machine may have been busy."""
        key = self._key(c, scenario)
        for n in itertools.count(1) if not c.script else ():
            if all(r.outcome.ok for r in self.ledger.outcomes(self.ledger.study(key))):
                break
            key = self._key(c, scenario, f" tried {n} times")
        return key

    def _key(self, c: Candidate, scenario: Scenario, more: str = "") -> StudyKey:
        recipe = hashlib.sha256(f"{self._source} {self.variant or ''} {c.key}{more}".encode()).hexdigest()
        device = f"{self.device.backend}:{self.device.name}"
        shape = json.dumps(dict(scenario.sizes), sort_keys=True)
        return StudyKey(recipe, device, f"ktc {ktc_version()}, {self.device.profile}", f"{scenario.name} {shape}")


def _timed(t: Timing) -> Timed:
    return Timed(t.median, t.low, t.high)


def _first_line(details: Mapping[str, object]) -> str:
    """The first line of an outcome's message."""
    text = str(details.get("error", "")).strip()
    return text.splitlines()[0][:300] if text else ""
