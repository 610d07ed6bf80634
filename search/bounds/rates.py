"""What a device attains, whoever measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

PAST = 8
"""What is this many times as large as a cache leaves nothing of its beginning there."""


@dataclass(frozen=True)
class CacheRates:
    """Attained by launches that go through ``footprint`` bytes again and again: what one leaves in a cache, the next
    but one finds there. Bytes per second of a copy (read plus written) and of a read."""

    footprint: int
    copy_bytes: float
    read_bytes: float


@dataclass(frozen=True)
class Rates:
    """Attained rates, per second: bytes of a copy (read plus written), of a read and of a fill (written, nothing read),
    operations in 32-bit floats (a fused multiplication and addition being two). 0: not measured. ``near``: of data that
    caches hold, where that was measured, the smallest footprint first. ``launch_s``: seconds of the least launch, which
    only stores a number; ``trip_s``: of one that reads it first."""

    copy_bytes: float = 0.0
    read_bytes: float = 0.0
    f32_flops: float = 0.0
    near: tuple[CacheRates, ...] = ()
    launch_s: float = 0.0
    trip_s: float = 0.0
    fill_bytes: float = 0.0

    @staticmethod
    def of(data: Mapping[str, Any]) -> Rates:
        """From what ``dataclasses.asdict`` made of one.

        Raises:
            TypeError, ValueError, AttributeError: it is none.
        """
        near = tuple(CacheRates(int(x["footprint"]), float(x["copy_bytes"]), float(x["read_bytes"]))
                     for x in data.get("near", ()))  # fmt: skip
        return Rates(**{k: float(v) for k, v in data.items() if k != "near"}, near=near)

    def within(self, footprint: int) -> Rates:
        """The rates for launches that go through ``footprint`` bytes in turn: those measured at as many or fewer, which
        no launch beats, as caches hold no larger part of more. The last of them is twice the last cache."""
        if not self.near or 2 * footprint >= PAST * self.near[-1].footprint:
            return self
        fit = [x for x in self.near if x.footprint <= footprint]
        found = fit[-1] if fit else self.near[0]
        later = [x for x in self.near if x.footprint >= found.footprint]
        copy = max(self.copy_bytes, *(x.copy_bytes for x in later))
        return replace(self, copy_bytes=copy, read_bytes=max(self.read_bytes, *(x.read_bytes for x in later)))

    def better(self, other: Rates) -> Rates:
        """The higher of each rate, and the shorter launch: what was reached once can be reached."""
        mine = {x.footprint: x for x in self.near}
        near = tuple(
            CacheRates(x.footprint, max(x.copy_bytes, y.copy_bytes), max(x.read_bytes, y.read_bytes))
            for x in other.near
            for y in (mine.get(x.footprint, x),)
        )
        flops = max(self.f32_flops, other.f32_flops)
        launch, trip = (
            min((x for x in both if x), default=0.0)
            for both in ((self.launch_s, other.launch_s), (self.trip_s, other.trip_s))
        )
        return Rates(max(self.copy_bytes, other.copy_bytes), max(self.read_bytes, other.read_bytes), flops,
                     near or self.near, launch, trip, max(self.fill_bytes, other.fill_bytes))  # fmt: skip
