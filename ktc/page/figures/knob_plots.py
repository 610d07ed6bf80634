"""Knobs: what each is worth, and all configurations as lines across them (parallel coordinates)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.support.quantities import duration

from .axes import Frame, fitting
from .marks import dot, drawing, line, path, rect, text
from .scales import Scale, over


@dataclass(frozen=True)
class Setting:
    """A configuration of one template and its seconds (None: it failed)."""

    knobs: Mapping[str, int]
    seconds: float | None


@dataclass(frozen=True)
class Worth:
    """A knob: the best seconds that were reached at each of its values, and how many configurations had it."""

    knob: str
    best: Mapping[int, float]
    counts: Mapping[int, int]

    @property
    def loss(self) -> float:
        """How many times as long the kernel takes with the worst value, the others being the best for it."""
        return max(self.best.values()) / min(self.best.values())


def worths(settings: Sequence[Setting]) -> list[Worth]:
    """Each knob of which at least two values were timed, the one that matters most first."""
    timed = [s for s in settings if s.seconds]
    out = []
    for knob in dict.fromkeys(k for s in timed for k in s.knobs):
        best: dict[int, float] = {}
        counts: dict[int, int] = {}
        for s in timed:
            value = s.knobs[knob]
            best[value] = min(best.get(value, float("inf")), s.seconds or float("inf"))
            counts[value] = counts.get(value, 0) + 1
        if len(best) > 1:
            out.append(Worth(knob, dict(sorted(best.items())), counts))
    return sorted(out, key=lambda w: -w.loss)


ROW = 26


def knob_worths(found: Sequence[Worth], width: float) -> str:
    """A row a knob: bars as long as the kernel takes longer with that value than with the best one."""
    rows = [(w, v) for w in found for v in w.best]
    height = 16 + len(rows) * ROW + len(found) * 8
    label = "Time with each value of each knob, over the best, the other knobs being the best for it"
    return drawing(width, height, label, _bars(found, width))


def _bars(found: Sequence[Worth], width: float) -> Iterator[str]:
    names = max(len(f"{w.knob} = {v}") for w in found for v in w.best) * 7.5 + 8
    x = Scale(0.0, max(w.loss for w in found), names, width - 150)
    at = 8.0
    for w in found:
        least = min(w.best.values())
        for value, seconds in w.best.items():
            longer = seconds / least
            hover = f"{w.knob} = {value}: {duration(seconds)}, {longer:.2f}x the best"
            yield text((names - 8, at + 14), f"{w.knob} = {value}", "end")
            yield rect((names, at), x(longer) - names, ROW - 8, "after" if longer == 1 else "before", hover)
            tried = f"{w.counts[value]} tried"
            yield text((x(longer) + 6, at + 14), f"{longer:.2f}x, {tried}", kind="halo")
            at += ROW
        at += 8


HEIGHT = 300
MOST_LINES = 400
"""Configurations that are drawn, at most: the fastest."""


def parallel_coordinates(settings: Sequence[Setting], width: float) -> str:
    """An axis a knob with its values, the last axis is time; a line a configuration, the fastest in front."""
    timed = sorted((s for s in settings if s.seconds), key=lambda s: s.seconds or 0.0)[:MOST_LINES]
    frame = Frame(34, 34, width - 66, HEIGHT - 14)
    label = f"{len(timed)} configurations as lines across their knobs and their time"
    return drawing(width, HEIGHT, label, _lines(timed, frame))


def _lines(timed: Sequence[Setting], frame: Frame) -> Iterator[str]:
    knobs = list(timed[0].knobs)
    places = {k: frame.left + (frame.right - frame.left) * i / len(knobs) for i, k in enumerate(knobs)}
    levels = {k: sorted({s.knobs[k] for s in timed}) for k in knobs}
    y = over([s.seconds or 0.0 for s in timed], frame.bottom, frame.top, log=True, margin=0.02)

    def height(knob: str, value: int) -> float:
        found = levels[knob]
        if len(found) == 1:
            return (frame.top + frame.bottom) / 2
        return frame.bottom - (frame.bottom - frame.top) * found.index(value) / (len(found) - 1)

    for rank, s in reversed(list(enumerate(timed))):
        points = [(places[k], height(k, s.knobs[k])) for k in knobs] + [(frame.right, y(s.seconds or 1.0))]
        kind = "fastest" if rank == 0 else "fast" if rank < max(1, len(timed) // 10) else "slow"
        said = " ".join(f"{k}={v}" for k, v in s.knobs.items())
        yield path(points, f"across {kind}", f"{duration(s.seconds or 0.0)}: {said}")
    for knob, x in places.items():
        yield line((x, frame.top), (x, frame.bottom), "axis")
        yield text((x, frame.top - 14), fitting(knob, 90), "middle", "title")
        for value in levels[knob]:
            yield dot((x, height(knob, value)), 2.0, "tick")
            yield text((x + 5, height(knob, value) - 4), str(value), kind="halo")
    yield line((frame.right, frame.top), (frame.right, frame.bottom), "axis")
    yield text((frame.right, frame.top - 14), "time", "middle", "title")
    for seconds in y.ticks(6):
        yield text((frame.right + 5, y(seconds) + 4), duration(seconds), kind="halo")


__all__ = ["Setting", "Worth", "knob_worths", "parallel_coordinates", "worths"]
