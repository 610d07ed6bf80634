"""What ``optimize`` needs from the world: verdicts, measurements and fair comparisons.

One protocol, so that the loop can be tested without a device; the real one is :mod:`ktc.agent.bench`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ktc.ir.kernel import Kernel
from ktc.ir.workload import Scenario
from ktc.search.verification import Verdict

from .build import Candidate
from .report import Timed

if TYPE_CHECKING:
    from ktc.search.bounds.speed_of_light import Bound
    from ktc.search.limiters.limiter import Profile
    from ktc.search.target import DeviceInfo
    from ktc.search.tuning.result import Trial


Configuration: TypeAlias = tuple[Candidate, Mapping[str, int]]
"""A template and the values of its knobs."""


@dataclass(frozen=True)
class Tuned:
    """A template's standing on one scenario. ``ranked`` holds valid configurations, fastest first, in seconds.

    ``spent`` counts configurations measured so far, ``fresh`` those measured by this call; ``exhausted``: none is left.
    ``failures`` are configurations that did not work: (knobs, status, detail). ``trials`` is everything, as measured.
    """

    ranked: tuple[tuple[Mapping[str, int], float], ...]
    spent: int
    fresh: int = 0
    exhausted: bool = False
    failures: tuple[tuple[Mapping[str, int], str, str], ...] = ()
    why_empty: str = ""
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Original (or another) and candidate timed interleaved in one process; ``ratio`` = original / candidate with a
    95 % interval.

    ``verdict`` is the device's: outputs of the timed run against the original's.
    """

    before: Timed
    after: Timed
    ratio: tuple[float, float, float]
    verdict: str = "ok"


class Lab(Protocol):
    """One device, one kernel."""

    device: DeviceInfo
    gates: int
    """Verdicts that may be asked for while it measures, at a time; 0: each is waited for where it is asked for."""
    between: Callable[[], object]
    """Called before each measurement that :meth:`tune` makes: whoever waits for verdicts hears them there."""

    def gate(self, kernel: Kernel) -> Future[Verdict]:
        """The verification ladder without a device, begun; ``kernel`` may have open knobs (their defaults count)."""
        ...

    def renew(self) -> None:
        """Measure in a fresh process from now on: a wrong kernel ran in the one before."""
        ...

    def prepare(self, c: Candidate, scenario: Scenario) -> Mapping[str, int] | None:
        """The knobs of ``c`` that are measured first; None where none may be. That configuration begins to be compiled,
        where this disturbs nothing."""
        ...

    def tune(
        self,
        c: Candidate,
        scenario: Scenario,
        total: int,
        seeds: Sequence[Mapping[str, int]],
        seconds: float = math.inf,
    ) -> Tuned:
        """Measure until ``c`` has had ``total`` configurations on ``scenario``, or ``seconds`` are over; nothing that
        the ledger has is measured again."""
        ...

    def compare(
        self, c: Candidate, knobs: Mapping[str, int], scenario: Scenario, rival: Configuration | None = None
    ) -> Comparison:
        """A duel with the original, or with ``rival``, which then takes its place in the result. Raises KtcError when
        the candidate does not run there."""
        ...

    def feasible(self, c: Candidate, knobs: Mapping[str, int], scenario: Scenario) -> bool:
        """Whether this configuration may run on this scenario's sizes."""
        ...

    def runs(self, c: Candidate, scenario: Scenario) -> bool:
        """Whether there is any configuration of ``c`` that may run on this scenario's sizes."""
        ...

    def traffic(self, scenario: Scenario) -> int:
        """Bytes that must move: those that the source touches, each read and written once."""
        ...

    def knows_rates(self) -> bool:
        """Whether what the device attains is known: then :meth:`bound` answers at once."""
        ...

    def bound(self, scenario: Scenario, beaten_by: float = 0.0) -> Bound | None:
        """The least time possible, from bytes, operations and the device's ceilings (None: unknown). ``beaten_by``:
        seconds that were measured; where they are fewer, ceilings that others may have disturbed are measured again."""
        ...

    def profile(
        self, c: Candidate, knobs: Mapping[str, int], scenario: Scenario, seconds: float = 0.0
    ) -> Profile | None:
        """What limits a configuration that takes ``seconds`` (0: not measured); None where that is not known."""
        ...

    def close(self) -> None: ...
