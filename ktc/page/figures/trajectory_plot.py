"""How a search went on one scenario: every measurement, and the best verified time so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.support.quantities import duration

from .axes import Frame, bottom_axis, left_axis, rule
from .marks import dot, drawing, path
from .scales import Scale, over


@dataclass(frozen=True)
class Measurement:
    """One configuration: its number in the search, seconds (None: it failed), and what it was."""

    number: int
    seconds: float | None
    label: str


@dataclass(frozen=True)
class Search:
    """The measurements on a scenario; ``verified``: (number of measurements, best verified seconds from then on), in
    order. ``original`` and ``bound`` in seconds (None: not known)."""

    measurements: Sequence[Measurement]
    verified: Sequence[tuple[int, float]]
    original: float | None = None
    bound: float | None = None


HEIGHT = 300


def trajectory(search: Search, width: float) -> str:
    """Dots for measurements (crosses at the bottom for failures), steps for what was verified, rules for the original
    and for the bound; time is logarithmic."""
    frame = Frame(64, 28, width - 12, HEIGHT - 42)
    timed = [m for m in search.measurements if m.seconds]
    marks = [m.seconds for m in timed if m.seconds] + [s for _, s in search.verified]
    marks += [v for v in (search.original, search.bound) if v]
    last = max([m.number for m in search.measurements] + [n for n, _ in search.verified] + [1])
    y = over(marks, frame.bottom, frame.top, log=True)
    x = Scale(0, last + 0.5, frame.left, frame.right, whole=True)
    label = f"Time of each of {len(search.measurements)} measurements, and the best verified time so far"
    return drawing(width, HEIGHT, label, _marks(search, frame, x, y))


def _marks(search: Search, frame: Frame, x: Scale, y: Scale) -> Iterator[str]:
    yield from left_axis(frame, y, duration, "time per launch")
    yield from bottom_axis(frame, x, lambda v: f"{v:.0f}", "measurements")
    for value, name in ((search.original, "original"), (search.bound, "bound")):
        if value:
            yield from rule(frame, y(value), f"{name} {duration(value)}")
    for m in search.measurements:
        hover = f"{m.number}: {duration(m.seconds) if m.seconds else 'failed'} {m.label}"
        at = (x(m.number), y(m.seconds) if m.seconds else frame.bottom)
        yield dot(at, 3.0, "seen" if m.seconds else "bad", hover)
    steps = _steps(search, x, y)
    if steps:
        yield path(steps, "best")
        yield dot(steps[-1], 4.0, "won", f"best verified: {duration(search.verified[-1][1])}")


def _steps(search: Search, x: Scale, y: Scale) -> list[tuple[float, float]]:
    """Nothing else was known between two verified times: a step, not a slope; the last holds to the end."""
    out: list[tuple[float, float]] = []
    height = y(search.original) if search.original else None
    for number, seconds in search.verified:
        out += [(x(number), height)] if height is not None else []
        height = y(seconds)
        out.append((x(number), height))
    return [*out, (x(x.high), height)] if out and height is not None else out


__all__ = ["Measurement", "Search", "trajectory"]
