"""Answers that are wanted by a moment: what takes long ends then, wherever it is.

    try:
        with until(time.monotonic() + 5.0):
            outcome = laborious()
    except OutOfTime:
        outcome = ...                     # what there is without it, and a word about it

Work asks at its :func:`checkpoint`: each statement of the interpreter is one, and so is each place of a kernel of which
integer facts are gathered. Outside of :func:`until` nothing ends early, so that what is found is the same on all
machines; who keeps results for later keeps none that were found with less than all the time they need
(:func:`is_over`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_until: ContextVar[float] = ContextVar("until", default=math.inf)


class OutOfTime(BaseException):
    """There was no time left. Like an interruption from outside it is no error, and says nothing of what was looked
    at: who tries things out, and takes an error for a no, must not take this for one."""


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Inside, work ends by :class:`OutOfTime` from ``moment`` on (of :func:`time.monotonic`), or from the moment of
    what is around it, if that comes first."""
    token = _until.set(min(moment, _until.get()))
    try:
        yield
    finally:
        _until.reset(token)


def checkpoint() -> None:
    """Go on.

    Raises:
        OutOfTime: there is no time for that.
    """
    if time.monotonic() >= _until.get():
        raise OutOfTime


def is_limited() -> bool:
    """Whether anybody waits for an answer by some moment."""
    return _until.get() < math.inf


def is_over() -> bool:
    """Whether that moment has come."""
    return time.monotonic() >= _until.get()


def left() -> float:
    """Seconds until then; infinitely many where nobody waits."""
    return max(0.0, _until.get() - time.monotonic())


def in_time(items: Iterator[T], moment: float) -> Iterator[T]:
    """``items`` as far as they come before ``moment``; whoever takes them has all the time for what they do."""
    while True:
        try:
            with until(moment):
                item = next(items)
        except (StopIteration, OutOfTime):
            return
        yield item


__all__ = ["OutOfTime", "checkpoint", "in_time", "is_limited", "is_over", "left", "until"]
