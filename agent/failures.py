"""Configurations that were tried and not timed, grouped by cause: what a run says instead of keeping silent.

A cause is a status and a message without what differs from one configuration to the next (numbers, places). Statuses
are those of :data:`ktc.search.records.outcome.STATUSES`; ``internal`` ones are faults of ktc, and the report says what
to send.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

INTERNAL = "internal"
WHAT_TO_SEND = "this is a bug in ktc: send this run's report.json, the kernel and its workload.toml"

_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")


@dataclass(frozen=True)
class Failed:
    """One configuration that was not timed. ``status`` and ``message`` as its outcome has them."""

    scenario: str
    script: str
    knobs: Mapping[str, int]
    status: str
    message: str

    @property
    def cause(self) -> tuple[str, str]:
        return self.status, _VARYING.sub("#", self.message)


@dataclass(frozen=True)
class FailureGroup:
    """``count`` configurations of one cause, the first of them as an example; ``scripts``: of how many templates."""

    status: str
    message: str
    count: int
    scripts: int
    script: str = ""
    knobs: Mapping[str, int] = field(default_factory=dict)
    scenario: str = ""

    def __str__(self) -> str:
        knobs = " ".join(f"{k}={v}" for k, v in self.knobs.items())
        example = f", for example {knobs}" if knobs and self.count > 1 else f" at {knobs}" if knobs else ""
        return f"{self.count} x {self.status}: {self.message or 'no message'}{example}"


def grouped(failed: Iterable[Failed]) -> tuple[FailureGroup, ...]:
    """The causes, most frequent first; those that are faults of ktc before all others."""
    found = list(failed)
    counts = Counter(f.cause for f in found)
    first = {f.cause: f for f in reversed(found)}
    groups = [
        FailureGroup(
            f.status, f.message, counts[cause], len({g.script for g in found if g.cause == cause}), f.script,
            dict(f.knobs), f.scenario,
        )
        for cause, f in first.items()
    ]  # fmt: skip
    return tuple(sorted(groups, key=lambda g: (g.status != INTERNAL, -g.count, g.message)))
