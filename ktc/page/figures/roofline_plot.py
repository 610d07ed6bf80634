"""The roofline: operations a second against operations per byte, under what the device attains.

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for multicore architectures,
CACM 52(4), 2009. Bytes are those that must move, each read and written once: a kernel that moves more would stand
further left by its own traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.support.quantities import percent, significant

from .axes import Frame, bottom_axis, left_axis
from .marks import dot, drawing, path, text
from .scales import Scale, over


@dataclass(frozen=True)
class Place:
    """A kernel on a scenario: operations per byte, operations a second, its name and its style class."""

    intensity: float
    rate: float
    name: str
    kind: str


@dataclass(frozen=True)
class Roof:
    """What a device attains: bytes a second, and operations a second of ``unit``."""

    bytes_a_second: float
    operations_a_second: float
    unit: str

    def at(self, intensity: float) -> float:
        """The most operations a second at an intensity."""
        return min(self.operations_a_second, self.bytes_a_second * intensity)

    @property
    def counted(self) -> str:
        """What an operation is."""
        return f"{_WORDS.get(self.unit, self.unit)} operations"

    @property
    def ridge(self) -> float:
        """The intensity from which on arithmetic decides."""
        return self.operations_a_second / self.bytes_a_second


HEIGHT = 340
_WORDS = {"matrix": "16-bit", "special": "special-function"}
"""Units of arithmetic (:mod:`ktc.search.bounds.speed_of_light`) whose names do not say what is counted: products of
narrow numbers, whether or not matrix units do them."""

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def roofline(roof: Roof, places: Sequence[Place], width: float) -> str:
    """Both axes are logarithmic; before and after of a scenario are joined."""
    frame = Frame(76, 28, width - 14, HEIGHT - 42)
    reach = [roof.ridge * 4, roof.ridge / 4, *(p.intensity for p in places)]
    x = over(reach, frame.left, frame.right, log=True, margin=0.04)
    rates = [roof.operations_a_second * 1.3, roof.at(x.low), *(p.rate for p in places)]
    y = over(rates, frame.bottom, frame.top, log=True)
    label = f"Roofline: {roof.counted} a second against operations per byte, for {len(places)} kernels"
    return drawing(width, HEIGHT, label, _marks(roof, places, frame, x, y))


def _marks(roof: Roof, places: Sequence[Place], frame: Frame, x: Scale, y: Scale) -> Iterator[str]:
    yield from left_axis(frame, y, rate, f"{roof.counted} a second")
    yield from bottom_axis(frame, x, lambda v: f"{v:g}", "operations per byte that must move")
    yield path([(x(i), y(roof.at(i))) for i in (x.low, roof.ridge, x.high)], "roof")
    yield text((x(x.high) - 4, y(roof.operations_a_second) - 6), f"{rate(roof.operations_a_second)}op/s", "end", "halo")
    low = (x.low * roof.ridge) ** 0.5
    yield text((x(low) - 6, y(roof.at(low)) - 8), f"{rate(roof.bytes_a_second)}B/s", "end", "halo")
    for before, after in zip(places[::2], places[1::2]):
        yield path([(x(before.intensity), y(before.rate)), (x(after.intensity), y(after.rate))], "joined")
    for p in places:
        share = p.rate / roof.at(p.intensity)
        hover = f"{p.name}: {rate(p.rate)}op/s, {percent(share)} of the roof at {p.intensity:.3g} op/byte"
        yield dot((x(p.intensity), y(p.rate)), 5.0, p.kind, hover)


def rate(value: float) -> str:
    """A rate with a prefix for thousands: ``1.50 T``."""
    scale, prefix = next(((s, p) for s, p in _PREFIXES if value >= s), (1.0, ""))
    return f"{significant(value / scale, 2 if value / scale >= 10 else 3).removesuffix('.00')} {prefix}"


__all__ = ["Place", "Roof", "rate", "roofline"]
