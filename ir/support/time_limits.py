"""Answers that are wanted by a moment: what takes long ends then, wherever it is.

    try:
        with until(time.monotonic() + 5.0):
            outcome = laborious()
    except OutOfTime:
        outcome = ...                     # what there is without it, and a word about it

Work asks at its :func:`checkpoint`: each statement of the interpreter is one, each statement of a source that the
front-end reads into a kernel, and each place of a kernel of which integer facts are gathered. Outside of :func:`until`
nothing ends early, so that what is found is the same on all machines; who keeps results for later keeps none that were
found with less than all the time they need (:func:`is_over`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass
class _Limit:
    """When work ends: at ``moment`` of :func:`time.monotonic`; or at ``processor`` of :func:`time.process_time`, where
    that is given, and ``moment`` is when that is next asked, as no process has more time than passes; and when what is
    ``around`` ends, if that comes first."""

    moment: float
    processor: float = math.inf
    around: _Limit | None = None

    def left(self) -> float:
        """Seconds until then."""
        if self.processor < math.inf:
            own = self.processor - time.process_time()
        else:
            own = self.moment - time.monotonic()
        return max(0.0, own if self.around is None else min(own, self.around.left()))

    def is_over(self) -> bool:
        """Whether that moment has come."""
        now = time.monotonic()
        limit: _Limit | None = self
        while limit is not None:
            if now >= limit.moment:
                own = limit.processor - time.process_time() if limit.processor < math.inf else 0.0
                if own <= 0.0:
                    return True
                limit.moment = now + own
            limit = limit.around
        return False

    def is_of_processor(self) -> bool:
        """Whether the time of this process is counted."""
        return self.processor < math.inf or (self.around is not None and self.around.is_of_processor())


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


class OutOfTime(BaseException):
    """There was no time left. Like an interruption from outside it is no error, and says nothing of what was looked
    at: who tries things out, and takes an error for a no, must not take this for one."""


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Inside, work ends by :class:`OutOfTime` from ``moment`` on (of :func:`time.monotonic`), or from the moment of
    what is around it, if that comes first."""
    yield from _within(_Limit(moment, around=_limit.get()))


@contextmanager
def of_processor(seconds: float) -> Iterator[None]:
    """Inside, work ends after so many seconds of this process's own time: whatever else the machine does, the same is
    found in it."""
    yield from _within(_Limit(time.monotonic() + seconds, time.process_time() + seconds, _limit.get()))


def _within(limit: _Limit) -> Iterator[None]:
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def checkpoint() -> None:
    """Go on.

    Raises:
        OutOfTime: there is no time for that.
    """
    limit = _limit.get()
    if limit is not None and limit.is_over():
        raise OutOfTime


def is_limited() -> bool:
    """Whether anybody waits for an answer by some moment."""
    return left() < math.inf


def is_over() -> bool:
    """Whether that moment has come."""
    limit = _limit.get()
    return limit is not None and limit.is_over()


def left() -> float:
    """Seconds until then; infinitely many where nobody waits."""
    limit = _limit.get()
    return math.inf if limit is None else limit.left()


def unless_late(share: float, work: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """What ``work`` gives, or, where it takes more than a ``share`` of the time that there is, what ``otherwise``
    does."""
    limit, seconds = _limit.get(), share * left()
    counted = limit is not None and limit.is_of_processor()
    try:
        with of_processor(seconds) if counted else until(time.monotonic() + seconds):
            return work()
    except OutOfTime:
        checkpoint()
        return otherwise()


def in_time(items: Iterator[T], moment: float) -> Iterator[T]:
    """``items`` as far as they come before ``moment``; whoever takes them has all the time for what they do."""
    while True:
        try:
            with until(moment):
                item = next(items)
        except (StopIteration, OutOfTime):
            return
        yield item


__all__ = [
    "OutOfTime", "checkpoint", "in_time", "is_limited", "is_over", "left", "of_processor", "unless_late", "until",
]  # fmt: skip
