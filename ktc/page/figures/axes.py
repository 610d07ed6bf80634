"""Axes: the frame of a plot, grid lines at round values, their texts, and what is plotted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .marks import line, text
from .scales import Scale

WORDS = 6.6
"""Pixels that a character of the page's small type takes, at most."""


@dataclass(frozen=True)
class Frame:
    """The plotting area in pixels, within a drawing."""

    left: float
    top: float
    right: float
    bottom: float


def left_axis(frame: Frame, y: Scale, said: Callable[[float], str], title: str) -> Iterator[str]:
    """Grid lines across, their values left of the frame, the title above it."""
    for value in y.ticks(max(2, int((frame.bottom - frame.top) / 36))):
        yield line((frame.left, y(value)), (frame.right, y(value)), "grid")
        yield text((frame.left - 6, y(value) + 4), said(value), "end")
    yield text((4, frame.top - 10), title, kind="title")


def bottom_axis(frame: Frame, x: Scale, said: Callable[[float], str], title: str) -> Iterator[str]:
    """Values below the frame, and the title below them."""
    for value in x.ticks(max(2, int((frame.right - frame.left) / 80))):
        yield line((x(value), frame.top), (x(value), frame.bottom), "grid")
        yield text((x(value), frame.bottom + 16), said(value), "middle")
    yield line((frame.left, frame.bottom), (frame.right, frame.bottom), "axis")
    yield text((frame.right, frame.bottom + 34), title, "end", "title")


def rule(frame: Frame, at: float, words: str, kind: str = "rule") -> Iterator[str]:
    """A line across at height ``at`` in pixels, that says what it is at its right end, above it where there is room."""
    yield line((frame.left, at), (frame.right, at), kind)
    yield text((frame.right - 5, at - 5 if at - frame.top > 14 else at + 13), words, "end", kind="halo")


def fitting(words: str, width: float) -> str:
    """``words``, cut so that they take ``width`` pixels at most."""
    most = max(1, int(width / WORDS))
    return words if len(words) <= most else words[: most - 1] + "…"


__all__ = ["Frame", "bottom_axis", "fitting", "left_axis", "rule"]
