"""What limits a kernel: named limiters with their numbers, the same names whether counters or counts said so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ktc.ir.support.quantities import duration

KINDS: dict[str, str] = {
    "memory": "bandwidth of the memory",
    "cache": "bandwidth of the last-level cache",
    "load-store": "load-store units of the multiprocessors",
    "latency": "warps wait for loads, and too few are resident to hide it",
    "shared": "bandwidth of shared memory",
    "bank conflicts": "lanes that want different rows of one bank of shared memory, one after another",
    "issue": "the rate at which instructions are issued",
    "special": "the unit of special functions",
    "matrix": "tensor cores",
    "atomics": "updates of memory one after another",
    "barriers": "warps wait for others of their block",
    "divergence": "lanes that do nothing while others of their warp work",
    "spills": "variables in memory, for want of registers",
    "parallelism": "too few blocks for the device, or a last wave of few",
    "launch": "the launch itself",
    "unexplained": "time that the counts do not explain",
}
"""Every limiter, and what it means."""

TIMES = {"seconds": "measured", "expected seconds": "expected"}
"""Numbers that are seconds of a launch, and what they are."""

COUNTERS, ESTIMATE = "counters", "estimate"


@dataclass(frozen=True)
class Limiter:
    """One limiter. ``share``, 0 to 1: of the unit's peak, or of the time that it takes; ``what``: the numbers."""

    name: str
    share: float
    what: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.share:.0%}: {self.what or KINDS[self.name]}"


@dataclass(frozen=True)
class Profile:
    """Limiters, the strongest first. ``source``: ``counters`` of the hardware, or an ``estimate``; ``why``: why there
    are no counters. ``numbers``: what was counted, by name (bytes, seconds, shares, registers)."""

    source: str
    limiters: tuple[Limiter, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)
    why: str = ""

    @property
    def main(self) -> str:
        """The name of the strongest limiter; '' if there is none."""
        return self.limiters[0].name if self.limiters else ""

    def lines(self, most: int = 4) -> list[str]:
        """Sentences for people and prompts: the limiters, and where they come from."""
        from_ = "hardware counters" if self.source == COUNTERS else "an estimate from counts"
        times = [f"{duration(self.numbers[n])} {said}" for n, said in TIMES.items() if n in self.numbers]
        details = ", ".join([*times, *([self.why] if self.why else [])])
        return [*map(str, self.limiters[:most]), f"by {from_}" + (f" ({details})" if details else "")]


NOTED = 0.1
"""A share below this is no limiter."""


def strongest(found: Iterable[Limiter]) -> tuple[Limiter, ...]:
    """Those worth naming, in falling order of their shares."""
    return tuple(sorted((x for x in found if x.share >= NOTED), key=lambda x: -x.share))
