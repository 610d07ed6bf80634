"""Speed of light: which share of the least possible time's speed each kernel reaches, a group of bars a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.support.quantities import duration, percent

from .axes import Frame, fitting
from .marks import drawing, line, rect, text
from .scales import Scale


@dataclass(frozen=True)
class Bar:
    """One kernel: its name, seconds, the share of the bound (0 to 1), and the style class of its bar."""

    name: str
    seconds: float
    share: float
    kind: str


@dataclass(frozen=True)
class Group:
    """A scenario, the bound in words, and its kernels."""

    name: str
    bound: str
    bars: Sequence[Bar]


BAR, GAP = 16, 5


def bound_bars(groups: Sequence[Group], width: float) -> str:
    """Horizontal bars on an axis from 0 to 100 % (further where a time lies below the bound)."""
    heights = [34 + len(g.bars) * (BAR + GAP) for g in groups]
    names = max(len(b.name) for g in groups for b in g.bars)
    most = max([1.0, *(b.share for g in groups for b in g.bars)])
    frame = Frame(min(names * 7.0 + 12, width * 0.32), 8, width - (86 if width < 500 else 130), 8 + sum(heights))
    x = Scale(0, most, frame.left, frame.right)
    label = "Share of the speed of light that the original and the winner reach, by scenario"
    return drawing(width, frame.bottom + 26, label, _marks(groups, heights, frame, x))


def _marks(groups: Sequence[Group], heights: Sequence[int], frame: Frame, x: Scale) -> Iterator[str]:
    for share in (0, 0.25, 0.5, 0.75, 1.0):
        yield line((x(share), frame.top), (x(share), frame.bottom), "rule" if share == 1 else "grid")
        yield text((x(share), frame.bottom + 16), f"{share:.0%}".replace("%", " %"), "middle")
    top = frame.top
    for group, height in zip(groups, heights):
        words = f"{group.name}, least time {group.bound}"
        yield text((0, top + 18), fitting(words, frame.right + 80), kind="title halo")
        for i, bar in enumerate(group.bars):
            at = top + 26 + i * (BAR + GAP)
            said = f"{percent(bar.share)}, {duration(bar.seconds)}"
            yield text((frame.left - 6, at + BAR - 4), fitting(bar.name, frame.left), "end")
            yield rect((frame.left, at), x(bar.share) - frame.left, BAR, bar.kind, f"{group.name}, {bar.name}: {said}")
            yield text((x(bar.share) + 6, at + BAR - 4), said, kind="halo")
        top += height


__all__ = ["Bar", "Group", "bound_bars"]
