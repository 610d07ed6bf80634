"""What ``optimize`` found: plain data with a JSON form, and a text table for the terminal."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ktc.ir.support.quantities import percent, times, with_spread

from .failures import INTERNAL, WHAT_TO_SEND, FailureGroup
from .planner import Outcome

STOPPED_LATE = "stopped at the time limit"
"""How a note ends that says so of a scenario."""

FORMAT = 1


@dataclass(frozen=True)
class Timed:
    """Device seconds per launch: median and 95 % interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class StepShare:
    """What one step of a winner is worth: ``factor`` is the time without it over the time with it, at the same knobs.
    None: it was not left out, and ``why`` says why not."""

    step: str
    factor: float | None
    why: str = ""

    def __str__(self) -> str:
        return self.why if self.factor is None else f"{self.factor:.2f}x as long"


@dataclass(frozen=True)
class ScenarioResult:
    """One scenario: the original and the winner, timed interleaved.

    ``ratio`` is original / winner with its 95 % interval. ``in_search``: seconds of the original and of the winner as
    the search measured them, each alone (0: it did not). ``bound`` is the least possible seconds (0: unknown) and
    ``limiter`` what sets it: memory, a unit of arithmetic, or the launch itself. ``script`` is '' when nothing verified
    beat the original; ``terms``: the least seconds that each unit of the device needs, ``amounts``: for which bytes or
    operations; ``shares`` are those of its steps (after ``raise``), in order. ``limited``: what limits it, and
    who says so, one sentence each.
    """

    name: str
    sizes: Mapping[str, int]
    heldout: bool
    before: Timed
    after: Timed
    ratio: tuple[float, float, float]
    script: str
    knobs: Mapping[str, int]
    verdict: str
    bytes: int = 0
    bound: float = 0.0
    limiter: str = ""
    file: str = ""
    shares: tuple[StepShare, ...] = ()
    limited: tuple[str, ...] = ()
    in_search: tuple[float, float] = (0.0, 0.0)
    terms: Mapping[str, float] = field(default_factory=dict)
    amounts: Mapping[str, float] = field(default_factory=dict)

    @property
    def of_bound(self) -> float:
        """Fraction of the bound reached (0: unknown); above 1 the time is suspect."""
        return self.bound / self.after.median if self.bound and self.after.median else 0.0


COVERAGE = "(coverage): "
"""How verdicts begin that say what no input showed."""


@dataclass(frozen=True)
class OptimizeReport:
    """The whole run. ``measured`` counts configurations timed now, ``recalled`` those that the ledger had the time of,
    ``failed`` those that were tried, now or then, and have none: ``failures`` says why, by cause.
    ``first_improvement``: seconds from the start to the first configuration that was both faster and verified (0: none
    was). ``guesses``: what the winner rests on of what a draft guessed, as conditions that its launcher tests."""

    kernel: str
    source: str
    variant: str
    device: Mapping[str, object]
    planner: str
    scenarios: tuple[ScenarioResult, ...]
    outcomes: tuple[Outcome, ...]
    best_script: str
    best_knobs: Mapping[str, int]
    measured: int = 0
    recalled: int = 0
    budget: int = 0
    seconds: float = 0.0
    first_improvement: float = 0.0
    notes: tuple[str, ...] = ()
    failed: int = 0
    failures: tuple[FailureGroup, ...] = ()
    rejected: tuple[Mapping[str, object], ...] = ()
    history: tuple[Mapping[str, object], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    workload: str = ""
    guesses: tuple[str, ...] = ()

    @property
    def speedup(self) -> float:
        """Geometric mean of the tuned scenarios' ratios."""
        logs = [math.log(s.ratio[0]) for s in self.scenarios if not s.heldout and s.ratio[0] > 0]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0

    @property
    def kept(self) -> str:
        """What is said where the original is the one kernel for all scenarios: those at which a script beat it."""
        won = [f"at {s.name} by {s.script}{_knobs(s.knobs)}" for s in self.scenarios if s.script and not s.heldout]
        if not won and not self.compared:
            return f"nothing was measured against the original, which is kept: {self._why_nothing}{self._untested}"
        if not won:
            return "nothing verified beat the original: the original is kept" + self._untested
        return f"no one kernel beat the original at all sizes: the original is kept. Beaten {'; '.join(won)}"

    @property
    def compared(self) -> int:
        """Scripts of which some configuration was verified on the device and timed."""
        return len({o.script for o in self.outcomes if o.status == "tuned" and o.script})

    @property
    def internal(self) -> int:
        """Configurations and scripts that ktc itself failed on."""
        return sum(g.count for g in self.failures if g.status == INTERNAL)

    @property
    def _why_nothing(self) -> str:
        """What became of all that was tried."""
        counts = Counter(
            status
            for script, status in {(o.script, o.status) for o in self.outcomes}
            if script and status != "duplicate"
        )
        scripts = [f"{n} script{'s' * (n != 1)} {status}" for status, n in counts.most_common()]
        configurations = [f"{self.failed} configuration{'s' * (self.failed != 1)} failed"] if self.failed else []
        if scripts or configurations:
            return ", ".join([*scripts, *configurations])
        late = any(n.endswith(STOPPED_LATE) for n in self.notes)
        return "the time limit was over before the first script (--time-limit)" if late else "no script was proposed"

    def trouble(self, most: int = 6) -> list[str]:
        """Lines about what failed: each cause with its count and an example, and what to send of our own faults."""
        lines = [f"failed: {group}" for group in self.failures[:most]]
        if len(self.failures) > most:
            rest = sum(g.count for g in self.failures[most:])
            lines.append(f"failed: {rest} of {len(self.failures) - most} other causes, which report.json lists")
        return lines + ([f"{self.internal} of these failed inside ktc: {WHAT_TO_SEND}"] if self.internal else [])

    @property
    def _untested(self) -> str:
        """What to do where candidates were no worse than untested: no input took some way through the kernel."""
        why = [str(r["verdict"]).partition(COVERAGE)[2] for r in self.rejected if COVERAGE in str(r.get("verdict", ""))]
        if not why:
            return ""
        return (
            f". {len(why)} of {len(self.rejected)} rejected for want of a test: {why[0]}. "
            "Inputs that show the other case (range, mark or init of an argument in the workload) would let them in"
        )

    def to_json(self) -> dict:
        return {"format": FORMAT, "speedup": self.speedup, **asdict(self)}

    def dumps(self) -> str:
        return json.dumps(self.to_json(), indent=1, default=str) + "\n"


def _knobs(values: Mapping[str, int]) -> str:
    return "".join(f" {k}={v}" for k, v in values.items())


def with_interval(t: Timed) -> str:
    """``12.3 µs ±0.4 %``: the median, and half the width of its interval."""
    return with_spread(t.median, t.low, t.high)


def table(report: OptimizeReport) -> list[tuple[str, ...]]:
    """Rows of text, header first: scenario, before, after, speed-up with its interval, share of the bound, verdict."""
    rows: list[tuple[str, ...]] = [("scenario", "before", "after", "speed-up", "of bound", "verdict")]
    for s in report.scenarios:
        mid, low, high = s.ratio
        rows.append(
            (
                s.name + (" (held out)" if s.heldout else ""),
                with_interval(s.before),
                with_interval(s.after),
                times(mid, low, high),
                f"{percent(s.of_bound)} ({s.limiter})" if s.bound else "-",
                s.verdict,
            )
        )
    return rows
